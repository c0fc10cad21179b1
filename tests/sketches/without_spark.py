"""Sketches of a lake written by delta-rs, kept where there is no Spark to ask."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from belvedere.algebra.relations import Change, Scan
from belvedere.algebra.walks import tables
from belvedere.analyses.types import types
from belvedere.joins.partitions import Bitmap, Partition
from belvedere.lake.pins import Pins
from belvedere.lake.sessions.workspace import PRECISION
from belvedere.lake.spark_lake import SparkLake
from belvedere.memory.plans import Memory
from belvedere.rules.delta import delta
from belvedere.sketches.capture.blocks import sketch_block
from belvedere.sketches.definition import SketchDefinition
from belvedere.sketches.engine.engine import ROOM, SketchEngine
from belvedere.sketches.live import Live, plan_of
from belvedere.sketches.safety.planning import reads_of, types_read
from belvedere.sketches.service import Service
from belvedere.sql.render import SIGN
from belvedere.views.create import SETTINGS
from tests.reference.laws import ask

USUAL = {**dict.fromkeys(SETTINGS, "false"), PRECISION: "true"}


class NoSpark:
    """Spark that is there and must not be asked anything but where it is."""

    class conf:
        """Its settings."""

        @staticmethod
        def get(key: str, default: str = "") -> str:
            """The master, and what a session means by the same words."""
            return {**USUAL, "spark.master": "local[2]"}[key]

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"Spark was asked to {name}")


def write(home: Path, table: str, **columns: Sequence[Any]) -> None:
    """One commit of rows, appended."""
    feed = None if (home / table).exists() else {"delta.enableChangeDataFeed": "true"}
    rows = pa.table({n: pa.array(v, pa.int64()) for n, v in columns.items()})
    write_deltalake(str(home / table), rows, mode="append", configuration=feed)


def door_to(home: Path) -> SparkLake:
    """A lake that must do without Spark."""
    door: SparkLake = SparkLake(NoSpark(), home)  # type: ignore[arg-type]
    door.registered |= {p.name for p in home.iterdir() if p.is_dir()}
    return door


def engine_at(door: SparkLake, text: str, cut: Partition) -> SketchEngine:
    """The engine of a query with all rows that its tables hold now."""
    q = plan_of(door, text)
    found = sketch_block(q, [cut])
    kinds: dict[str, str] = {}
    for feed in found.feeds:
        kinds |= types(feed.plan, ask)
    engine = SketchEngine(found, [cut], kinds, ROOM)
    assert door.directory is not None
    rows = {}
    for name in tables(q):
        held = DeltaTable(str(door.directory / name)).to_pyarrow_table()
        rows[name] = held.append_column(SIGN, pa.array([1] * held.num_rows, pa.int64()))
    for number, feed in enumerate(found.feeds):
        change = delta(feed.plan, tables(feed.plan)[:1])

        def held(leaf: Scan | Change) -> pa.Table:
            found = rows[leaf.table]
            return found if isinstance(leaf, Change) else found.drop_columns([SIGN])

        engine.take(number, Memory(held, most=1 << 30).rows(change))
    engine.finish()
    return engine


def made(door: SparkLake, name: str, text: str, cut: Partition, **more: Any) -> SketchDefinition:
    """A sketch's definition over the tables as they are."""
    with Pins(door) as pins:
        reads = reads_of(plan_of(door, text), [cut])
        kinds = engine_at(door, text, cut).kinds
        types_now = types_read(pins, reads)
        given = {"room": ROOM, **more}
        return SketchDefinition(
            str(uuid.uuid4()), name, text, USUAL, (cut,), kinds, reads, types_now, **given
        )


def service_with(door: SparkLake, **sketches: tuple[str, Partition]) -> Service:
    """A service that holds sketches captured now, and has saved them."""
    service = Service(door)
    for name, (text, cut) in sketches.items():
        engine = engine_at(door, text, cut)
        definition = made(door, name, text, cut)
        vector = {t: door.table(t).position for t in definition.reads}
        service.save(name, Live(definition, vector, (engine.sketch(),), engine))
    return service


def sketch_now(door: SparkLake, text: str, cut: Partition) -> Bitmap:
    """The sketch that a capture would find."""
    return engine_at(door, text, cut).sketch()
