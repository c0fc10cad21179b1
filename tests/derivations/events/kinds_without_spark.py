"""Sketches, synopses and updatable views over `log` and `video`, where there is no Spark."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable

from belvedere.algebra.relations import Change, Scan
from belvedere.algebra.walks import tables
from belvedere.analyses.types import types
from belvedere.delta.stamps import Vector
from belvedere.derivations.advance import call_of, create
from belvedere.joins.partitions import Partition
from belvedere.lake.offline import OfflineLake
from belvedere.lake.pins import Pins
from belvedere.memory.plans import Memory
from belvedere.rules.delta import delta
from belvedere.sketches.capture.blocks import sketch_block
from belvedere.sketches.definition import SketchDefinition
from belvedere.sketches.engine.engine import ROOM, SketchEngine
from belvedere.sketches.live import Live, plan_of
from belvedere.sketches.safety.planning import prove_again, reads_of, types_read
from belvedere.sketches.service import Service
from belvedere.sketches.upkeep import Upkeep
from belvedere.sql.render import SIGN
from belvedere.synopses.definition import define
from belvedere.synopses.kind import Synopses
from belvedere.synopses.sample.reservoir import SampleKind as Sample
from belvedere.updating.build import build_updatable
from belvedere.updating.kind import UpdatableViews
from belvedere.updating.state import UpdatableDefinition, UpdatableState
from tests.derivations.events.table_events import Row
from tests.reference.laws import ask
from tests.sketches.without_spark import USUAL, door_to
from tests.updating.summary.kept import described, owners

JOIN = "FROM log l JOIN video v ON l.video_id = v.video_id"
HOT = f"SELECT l.video_id, sum(l.bytes) AS s {JOIN} GROUP BY l.video_id HAVING sum(l.bytes) > 300"
PAIRS = f"SELECT l.id, l.bytes, v.owner {JOIN} WHERE l.bytes > 10"
CONTACTS = f"SELECT l.id, l.bytes, v.video_id, v.owner {JOIN}"
CUT = Partition("log", "video_id", "int", (2, 3, 4))

TablesRows = Mapping[str, Sequence[Row]]


class Derived(Protocol):
    """Something derived from `log` and `video`, as the test of events uses it."""

    def refresh(self) -> tuple[str, str]:
        """Refresh it; the strategy and the reason."""

    def advance(self, table: str) -> tuple[str, str]:
        """Apply the changes of one table."""

    def vector(self) -> Vector:
        """The positions it is at."""

    def assert_matches(self, rows: TablesRows) -> None:
        """Check its content against recomputation from rows of its tables."""


def join(rows: TablesRows) -> Counter[tuple[int, int, int, str]]:
    """Pairs of a row of `log` and one of `video`: id, bytes, video_id, owner."""
    return Counter(
        (a["id"], a["bytes"], b["video_id"], b["owner"])
        for a in map(_lower, rows["log"])
        for b in rows["video"]
        if a["video_id"] == b["video_id"]
    )


def _lower(row: Row) -> Row:
    return {name.lower(): value for name, value in row.items()}


def hot_rows(rows: TablesRows, fragments: Collection[int] | None = None) -> dict[int, int]:
    """The answer of the sketch's query over all rows of `log`, or over those of some fragments."""
    sums: Counter[int] = Counter()
    for (_, bytes_, video, _), count in join(rows).items():
        if fragments is None or CUT.fragment(video) in fragments:
            sums[video] += count * bytes_
    return {video: s for video, s in sums.items() if s > 300}


def assert_sample(sample: pa.Table, size: int, rows: TablesRows) -> None:
    """The sample is larger than the join, so it is the join."""
    found = Counter(zip(*(c.to_pylist() for c in sample.columns), strict=True))
    expected: Counter[Any] = Counter()
    for (id_, bytes_, _, owner), count in join(rows).items():
        if bytes_ > 10:
            expected[id_, bytes_, owner] += count
    assert found == expected
    assert size == sum(expected.values())


class SketchWithoutSpark:
    """A sketch whose capture reads the tables into memory."""

    def __init__(self, directory: Path) -> None:
        self._service = Service(door_to(directory))
        if not self._service.names():
            door = self._service.door
            with Pins(door) as pins:
                plan = plan_of(door, HOT)
                reads = reads_of(plan, [CUT])
                definition = SketchDefinition(
                    str(uuid.uuid4()), "hot", HOT, USUAL, (CUT,), {}, reads, {}, ROOM
                )
                vector = {t: pins.table(t).position for t in reads}
                self._service.save("hot", captured(Upkeep(door, pins), definition, vector))

    def refresh(self) -> tuple[str, str]:
        done = self._service.refresh("hot")
        return done.strategy, done.reason

    def advance(self, table: str) -> tuple[str, str]:
        done = self._service.refresh("hot", only=[table])
        return done.strategy, done.reason

    def vector(self) -> Vector:
        return self._service.live("hot").vector

    def assert_matches(self, rows: TablesRows) -> None:
        assert_kept_fragments(self._service.live("hot"), rows)


def assert_kept_fragments(live: Live, rows: TablesRows) -> None:
    """The fragments hold all rows that the answer needs."""
    kept = {int(f) for f in np.flatnonzero(live.bitmaps[0])}
    assert kept >= {CUT.fragment(video) for video in hot_rows(rows)}
    assert hot_rows(rows, kept) == hot_rows(rows)


def captured(upkeep: Upkeep, definition: SketchDefinition, vector: Vector) -> Live:
    """The sketch at a vector, without Spark: in place of `Upkeep.capture`."""
    plan = plan_of(upkeep.door, definition.query)
    if definition.types:
        definition = prove_again(plan, definition, upkeep.pins)
    if definition.retired:
        everything = tuple(np.ones(p.count, dtype=np.bool_) for p in definition.partitions)
        return Live(definition, vector, everything, None, owed=inf)
    blocks = sketch_block(plan, definition.partitions)
    kinds: dict[str, str] = {}
    for feed in blocks.feeds:
        kinds |= types(feed.plan, ask)
    engine = SketchEngine(blocks, definition.partitions, kinds, definition.room)
    rows = {}
    for name in tables(plan):
        uri = upkeep.pins.table(name).store.uri
        read = DeltaTable(uri, version=vector[name].version).to_pyarrow_table()
        rows[name] = read.append_column(SIGN, pa.array([1] * read.num_rows, pa.int64()))
    for number, feed in enumerate(blocks.feeds):
        change = delta(feed.plan, tables(feed.plan)[:1])
        engine.take(number, Memory(lambda leaf: leaf_rows(rows, leaf), most=1 << 30).rows(change))
    engine.finish()
    read_types = types_read(upkeep.pins, definition.reads)
    known = SketchDefinition(**{**definition.__dict__, "kinds": kinds, "types": read_types})
    return Live(known, vector, (engine.sketch(),), engine, owed=inf)


def leaf_rows(rows: Mapping[str, pa.Table], leaf: Scan | Change) -> pa.Table:
    """The rows of a table, with a sign where they count as its change."""
    there = rows[leaf.table]
    spelled = {name.lower(): name for name in there.column_names}
    columns = {f.source: there[spelled[f.source.lower()]] for f in leaf.fields}
    return pa.table(columns | ({SIGN: there[SIGN]} if isinstance(leaf, Change) else {}))


class SynopsisWithoutSpark:
    """A synopsis; where its tables are plain, nothing of it needs Spark."""

    def __init__(self, directory: Path) -> None:
        door = door_to(directory)
        self._kept = Synopses(door)
        if not self._kept.names():
            definition, _ = define(door, "pairs", PAIRS, Sample(100_000, None, False), "")
            with call_of(door) as call:
                create(self._kept, "pairs", definition, call)

    def refresh(self) -> tuple[str, str]:
        done = self._kept.refresh("pairs")
        return done.strategy, done.reason

    def advance(self, table: str) -> tuple[str, str]:
        done = self._kept.advance("pairs", [table])
        return done.strategy, done.reason

    def vector(self) -> Vector:
        return self._kept.loaded("pairs").vector

    def assert_matches(self, rows: TablesRows) -> None:
        handle = self._kept.handle("pairs")
        assert isinstance(handle.join_size, int)
        assert_sample(handle.arrow(), handle.join_size, rows)


class UpdatableWithoutSpark:
    """An updatable view with its rows in memory, or in its tables."""

    def __init__(self, directory: Path, lookups: str = "MEMORY") -> None:
        self._lake = OfflineLake(directory)
        self._kept, self._name = UpdatableViews(self._lake), f"contacts_{lookups.lower()}"
        if self._name not in self._kept.names():
            definition = {
                "name": self._name, "query": CONTACTS, "root": "log", "percent": 10.0,
                "lookups": lookups,
            }  # fmt: skip
            reads = {"log": dict.fromkeys(("id", "bytes", "video_id"), "int")}
            reads["video"] = dict.fromkeys(("video_id", "owner"), "int")
            with call_of(self._lake) as call:
                create(self._kept, self._name, UpdatableDefinition(definition, reads), call)

    def refresh(self) -> tuple[str, str]:
        done = self._kept.refresh(self._name)
        return done.strategy, done.reason

    def advance(self, table: str) -> tuple[str, str]:
        done = self._kept.advance(self._name, [table])
        return done.strategy, done.reason

    def vector(self) -> Vector:
        return self._kept.store.load(self._name).vector

    def assert_matches(self, rows: TablesRows) -> None:
        held = self._kept.state(self._name)
        if held.rows is not None:
            assert_held(held, rows)
        if all(self._lake.table(t).position == at for t, at in held.vector.items()):
            if held.rows is not None:
                assert_counts(held, build_updatable(self._lake, held.definition))
            assert_checks(self._kept, self._name, rows)


def assert_held(held: UpdatableState, rows: TablesRows) -> None:
    """What is held of a view's tables is their rows."""
    base = held.filter.base
    for table, kept in base.tables.items():
        found: Counter[Any] = Counter()
        for n in range(kept.size):
            found[tuple(base.values(table, kept.row(n)).values())] += int(kept.counts[n])
        columns = [c.lower() for c in kept.columns]
        expected = Counter(tuple(_lower(r)[c] for c in columns) for r in rows[table])
        assert +found == expected, table


def assert_counts(held: UpdatableState, anew: UpdatableState) -> None:
    """The exact counts of a summary are those of one built anew."""
    one, other = (described(h.filter, owners(h.filter)) for h in (held, anew))
    for fact in ("whole", "extended", "jcard", "joined"):
        assert one[fact] == other[fact], fact


def assert_checks(kept: Any, name: str, rows: TablesRows) -> None:
    """A row of the view can be deleted; one that it does not have cannot."""
    row = next(iter(join(rows)), (0, 0, 0, ""))
    named = dict(zip(("id", "bytes", "video_id", "owner"), row, strict=True))
    found = kept.check(name, delete=named)
    assert found.possible == ("yes" if join(rows) else "no"), found
