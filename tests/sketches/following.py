"""A sketch kept by the engine through changes of tables, beside the one that capture would find."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

import pyarrow as pa

from belvedere.algebra.relations import At, Change, Empty, Rel, Scan
from belvedere.algebra.walks import tables
from belvedere.analyses.types import types
from belvedere.joins.partitions import Partition
from belvedere.memory.plans import Memory
from belvedere.rules.annotate import Cut, sketch
from belvedere.rules.delta import delta
from belvedere.sketches.capture.blocks import sketch_block
from belvedere.sketches.capture.queries import capture_state
from belvedere.sketches.engine.bloom_filters import (
    Bloom,
    drop_unmatched,
    filtered_joins,
    update_filters,
)
from belvedere.sketches.engine.engine import ROOM, SketchEngine
from tests.reference.engine import Engine as DuckDB
from tests.reference.interpreter import Bag, Database
from tests.reference.laws import ask, held


def engine_of(
    q: Rel, partitions: Sequence[Partition], room: int = ROOM, *, loose: bool = False
) -> SketchEngine:
    """An engine without rows."""
    found = sketch_block(q, partitions)
    kinds: dict[str, str] = {}
    for feed in found.feeds:
        kinds |= types(feed.plan, ask)
    return SketchEngine(found, partitions, kinds, room, loose=loose)


def advance(engine: SketchEngine, db: Database, moving: Collection[str]) -> None:
    """One batch: the changes of some tables, those that meet something by the filters of keys."""
    db = db.moving(moving)
    changes = {t: held(db, Change(t, ())) for t in moving}
    for number, feed in enumerate(engine.block.feeds):
        own = drop_unmatched(feed.plan, changes, blooms_of(feed.plan, db, changes))
        some = [t for t in moving if own[t].num_rows]
        change = delta(feed.plan, some)
        if isinstance(change, Empty):
            continue

        def rows(leaf: Scan | Change, own: dict[str, pa.Table] = own) -> pa.Table:
            return own[leaf.table] if isinstance(leaf, Change) else held(db, leaf)

        engine.take(number, Memory(rows, most=100_000).rows(change))
    engine.finish()


def blooms_of(
    feed: Rel, db: Database, changes: dict[str, pa.Table]
) -> dict[tuple[str, str], Bloom]:
    """The filters of a feed's keys: of the old state, and what came since."""
    found = {}
    for join in filtered_joins(feed):
        before = held(db, Scan(join.other, (), At.OLD))
        found[join.other, join.key] = Bloom.of(before[join.key].combine_chunks())
    update_filters(found, changes, changes.keys())
    return found


def begun(engine: SketchEngine, q: Rel, db: Database) -> None:
    """Everything that the tables hold before the first change, as one batch."""
    nothing: dict[str, Bag] = {t: Counter() for t in db.columns}
    advance(engine, Database(db.columns, nothing, db.old), tables(q))


def captured(q: Rel, partition: Partition, db: Database) -> list[int]:
    """The fragments that the rules find in the new state."""
    cut = Cut(partition.table, partition.column, partition.kind, partition.fragment_scalar)
    return sorted(f for (f,) in db.bag(sketch(q, cut)))


def kept(engine: SketchEngine, place: int) -> list[int]:
    """The fragments that the engine has."""
    return [int(f) for f in engine.sketch(place).nonzero()[0]]


def loaded(engine: SketchEngine, db: Database) -> None:
    """What a capture of the old state loads: its plans, as DuckDB computes them."""
    before = DuckDB(Database(db.columns, db.old, db.old))

    def run(plan: Rel) -> pa.Table:
        rows = before.rows(before.query(plan))
        columns = [pa.array([r[i] for r in rows], pa.int64()) for i in range(len(plan.columns))]
        return pa.table(columns, names=list(plan.columns))

    capture_state(engine, run)
