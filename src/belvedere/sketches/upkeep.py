"""Upkeep: a sketch is captured, or brought from its vector to another by the changes between."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import inf
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.algebra.relations import Change, Empty, Rel, Scan
from belvedere.algebra.walks import nodes, tables
from belvedere.delta.change_sizes import changed_at_most
from belvedere.delta.small_changes import ROWS_AT_MOST
from belvedere.delta.stamps import Vector
from belvedere.derivations.protocol import AdvanceStep
from belvedere.errors import Internal
from belvedere.execution.change_plan import ChangePlan
from belvedere.execution.context import ExecutionContext, new_context
from belvedere.execution.records import RanStep
from belvedere.execution.rows import rows_of
from belvedere.execution.sources import Versions
from belvedere.joins.partitions import Bitmap
from belvedere.lake.pins import Pins
from belvedere.lake.sessions.workspace import Workspace
from belvedere.lake.spark_lake import SparkLake
from belvedere.lake.tables.change_feed import Changes
from belvedere.memory.declined import Declined
from belvedere.memory.kinds import is_exact
from belvedere.memory.plans import Memory, Rows
from belvedere.rules.delta import delta
from belvedere.sketches.capture.queries import Run, capture_bitmap, capture_state
from belvedere.sketches.costs import Costs, weighed
from belvedere.sketches.definition import SketchDefinition, Watched
from belvedere.sketches.engine.bloom_filters import (
    Bloom,
    drop_unmatched,
    filtered_joins,
    update_filters,
)
from belvedere.sketches.engine.engine import SketchEngine
from belvedere.sketches.engine.measures import Recapture
from belvedere.sketches.live import Live, engine_of, plan_of
from belvedere.sketches.safety.evidence import end_of
from belvedere.sketches.safety.planning import prove_again, with_engine
from belvedere.sketches.use.selections import Selections
from belvedere.sql.names import quote
from belvedere.sql.render import SIGN, render

BLOOM_FROM = 200_000
"""Rows of a table from which on its join keys have a filter: a smaller one is read whole."""
_TIMES = 50
"""How many times larger a change than one of a view is read into memory: the engine takes it in
faster than Spark would read it, and all of it comes here in any case.
"""
_MANY = 1e8
"""Rows of a change that was not counted."""


@dataclass
class Upkeep:
    """One call that brings sketches to a vector; each change is read once for all of them."""

    door: SparkLake
    pins: Pins
    others: Collection[SketchDefinition] = ()
    """Sketches of the same call: a change is read with the columns that any of them uses."""
    selections: Selections | None = None
    ran: list[RanStep] = field(default_factory=list)

    def capture(self, definition: SketchDefinition, vector: Vector) -> Live:
        """The sketch at a vector, from the tables alone."""
        start = time.perf_counter()
        work = self.pins.work(definition.settings)
        new = {t: p.version for t, p in vector.items()}
        source = Versions(self.pins, work, {}, new)

        def run(plan: Rel) -> pa.Table:
            text = render(plan, source).sql(dialect="spark")
            self.ran.append(RanStep("query", sql=text))
            found = work.all(text)
            if found is None:
                raise Recapture("the state is not for Arrow to hold", reason="SKETCH_NOT_KEPT")
            return found.table

        plan, before = plan_of(self.door, definition.query), definition.types
        definition = prove_again(plan, definition, self.pins)
        if definition.types != before:
            plain = replace(definition, kept="", kinds={})
            definition = with_engine(self.door, plan, plain, work)
        if definition.retired:
            everything = tuple(np.ones(p.count, dtype=np.bool_) for p in definition.partitions)
            return Live(definition, vector, everything, None, owed=inf)
        engine = engine_of(self.door, definition)
        try:
            if engine is not None:
                capture_state(engine, run)
        except Recapture as why:
            # What the engine cannot hold is captured anew each time.
            definition, engine = replace(definition, kept=why.reason), None
        bitmaps = self._bitmaps(definition, engine, run)
        blooms = {} if engine is None else self._blooms(engine, work, {}, vector)
        costs = Costs.of(definition.costs).captured(time.perf_counter() - start)
        definition = replace(definition, costs=costs.to_json())
        return Live(definition, vector, bitmaps, engine, owed=inf, blooms=blooms)

    def _blooms(
        self,
        engine: SketchEngine,
        work: Workspace,
        held: Mapping[tuple[str, str], Bloom],
        vector: Vector,
    ) -> dict[tuple[str, str], Bloom]:
        """A filter for each key of a large table that others are joined with; worn ones anew."""
        found: dict[tuple[str, str], Bloom] = {}
        for join in (j for feed in engine.block.feeds for j in filtered_joins(feed.plan)):
            name = join.other, join.key
            measured = self.pins.measured(join.other)
            if measured is not None and measured.rows < BLOOM_FROM:
                continue
            if name in held and not held[name].worn:
                found[name] = held[name]
            elif name not in found:
                table, key = self.pins.table(join.other), quote(join.key)
                rows = work.all(
                    f"SELECT DISTINCT {key} AS k FROM {table.at(vector[join.other].version)}"
                )
                if rows is not None:
                    found[name] = Bloom.of(rows.table["k"].combine_chunks())
        return found

    def _bitmaps(
        self, definition: SketchDefinition, engine: SketchEngine | None, run: Run
    ) -> tuple[Bitmap, ...]:
        if engine is not None:
            return tuple(engine.sketch(i) for i in range(len(definition.partitions)))
        plan = plan_of(self.door, definition.query)
        return tuple(capture_bitmap(plan, p, run) for p in definition.partitions)

    def capture_pays(self, live: Live, step: AdvanceStep) -> bool:
        """Whether capturing the sketch again is predicted to take less time than the changes."""
        rows = 0
        for name in step.moving:
            changed = changed_at_most(self.pins.table(name), *step.versions(name)) or 0
            rows += weighed(changed, by_spark=changed > _TIMES * ROWS_AT_MOST)
        return Costs.of(live.definition.costs).capture_pays(rows)

    def apply(self, live: Live, step: AdvanceStep) -> tuple[Live, int, float]:
        """The sketch with the changes of a step, how many rows these were, and the engine's seconds.

        The engine's state changes in place.
        """
        start, target = time.perf_counter(), dict(step.target)
        definition, engine = live.definition, live.engine
        assert engine is not None
        work = self.pins.work({**definition.settings, "spark.sql.adaptive.enabled": "false"})
        moving = [t for t in target if target[t] != live.vector[t]]
        found = {t: self._changes(work, definition, live, target, t) for t in moving}
        moving = [t for t in moving if found[t].rows != 0]
        _watch(definition.watched, found, work)
        batches = self._batches(work, live, target, moving, found)
        began = time.perf_counter()
        for number, rows in batches:
            engine.take(number, rows)
        engine.finish()
        spent = time.perf_counter() - began
        counts = {t: self._count(live, target, t, found[t]) for t in moving}
        changed = sum(counts.values())
        took = time.perf_counter() - start
        weight = sum(weighed(n, by_spark=found[t].rows is None) for t, n in counts.items())
        costs = Costs.of(definition.costs).maintained(weight, took)
        bitmaps = tuple(engine.sketch(i) for i in range(len(definition.partitions)))
        noted = replace(definition, costs=costs.to_json()).remembering(live.version)
        blooms = self._blooms(engine, work, live.blooms, target)
        after = Live(noted, target, bitmaps, engine, owed=live.owed + took, blooms=blooms)
        return after, changed, spent

    def _count(self, live: Live, target: Vector, table: str, found: Changes) -> int:
        """How many rows changed; of a change that Spark reads, what the log says."""
        if found.rows is not None:
            return found.rows
        old, new = live.vector[table].version, target[table].version
        return changed_at_most(self.pins.table(table), old, new) or 0

    def _changes(
        self, work: Workspace, definition: SketchDefinition, live: Live, target: Vector, table: str
    ) -> Changes:
        used = (c for d in (definition, *self.others) for c in d.reads.get(table, ()))
        there = self.pins.table(table).types
        columns = tuple(dict.fromkeys(c for c in used if is_exact(there.get(c.lower(), ""))))
        old, new = live.vector[table].version, target[table].version
        where = self.selections.of((definition, *self.others), table) if self.selections else None
        return self.pins.changes(work, table, old, new, columns, where, _TIMES)

    def _batches(
        self,
        work: Workspace,
        live: Live,
        new: Vector,
        moving: Collection[str],
        found: Mapping[str, Changes],
    ) -> list[tuple[int, Rows]]:
        """The change of each feed's rows, in memory where it can be had there."""
        assert live.engine is not None
        changes = {t: rows for t in moving if (rows := found[t].held) is not None}
        update_filters(live.blooms, changes, moving)
        batches = []
        for number, feed in enumerate(live.engine.block.feeds):
            own = drop_unmatched(feed.plan, changes, live.blooms)
            some = [t for t in moving if t not in own or own[t].num_rows]
            plan = delta(feed.plan, some)
            if isinstance(plan, Empty):
                continue
            alone = _of_changes_alone(plan, own) if work.usual_decimals else None
            if alone is not None:
                batches.append((number, alone))
                continue
            versions = self._versions(work, live.vector, new, found, some)
            sizes = {t: float(own[t].num_rows if t in own else _MANY) for t in some}
            known = self.pins.statistics(tables(feed.plan), sizes, {t: found[t] for t in some})
            rows = self._rows(ChangePlan(plan, known), new_context(versions, own, {}, self.ran))
            if rows is not None:
                batches.append((number, rows))
        return batches

    def _versions(
        self,
        work: Workspace,
        old: Vector,
        new: Vector,
        found: Mapping[str, Changes],
        moving: Collection[str],
    ) -> Versions:
        return Versions(
            self.pins,
            work,
            {t: p.version for t, p in old.items()},
            {t: p.version for t, p in new.items()},
            {t: found[t].view for t in moving},
        )

    def _rows(self, change: ChangePlan, context: ExecutionContext) -> Rows | None:
        """The rows of a change, by Spark where memory does not suffice; None if there are none."""
        found = rows_of(change, context)
        if found.is_empty or found.in_memory is not None:
            return found.in_memory
        text = found.query().sql(dialect="spark")
        self.ran.append(RanStep("query", sql=text))
        rows = context.workspace.all(text)
        if rows is None:
            raise Recapture("the change is not for Arrow to hold", reason="SKETCH_NOT_KEPT")
        return rows


def _of_changes_alone(plan: Rel, changes: Mapping[str, pa.Table]) -> Rows | None:
    """The rows of a plan that reads nothing but changes in memory; None for another."""
    leaves = [n for n in nodes(plan) if isinstance(n, Scan | Change)]
    if not all(isinstance(n, Change) and n.table in changes for n in leaves):
        return None
    try:
        return Memory(lambda leaf: changes[leaf.table], most=1 << 40).rows(plan)
    except Declined:
        return None


def _watch(watched: Collection[Watched], found: Mapping[str, Changes], work: Workspace) -> None:
    """Recapture, which proves safety anew, if what safety relies on no longer holds."""
    for each in watched:
        changes = found.get(each.table)
        if changes is None or changes.rows == 0:
            continue
        low, high = _ends(changes, each, work)
        if low is not None and not (
            end_of(each.low) <= Fraction(low) and Fraction(high) <= end_of(each.high)
        ):
            raise Recapture(
                f"{each.column} of {each.table} left the range that safety relies on",
                reason="SKETCH_BOUND_BROKEN",
            )


def _ends(changes: Changes, each: Watched, work: Workspace) -> tuple[Any, Any]:
    """The least and the greatest value that came."""
    if changes.held is not None:
        some = changes.held.filter(pc.greater(changes.held[SIGN], 0))
        ends = pc.min_max(some[each.column])
        return ends["min"].as_py(), ends["max"].as_py()
    column = quote(each.column)
    text = f"SELECT min({column}) AS a, max({column}) AS b FROM {quote(changes.view())} WHERE {SIGN} > 0"
    rows = work.few(text, 1)
    if rows is None:
        raise Internal("one row is too many")
    return rows.table["a"][0].as_py(), rows.table["b"][0].as_py()
