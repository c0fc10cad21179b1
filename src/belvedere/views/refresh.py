"""Refresh: bring a view's stored rows from the vector they have to the one that is pinned.

The target is pinned before anything is read; a table that is not advanced stays at its recorded
version. What is written carries the new vector in the same commit, so a refresh that dies
anywhere leaves the old rows with the old vector, or the new rows with the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from math import inf

import pyarrow as pa
from sqlglot import exp

from belvedere.algebra.relations import Empty
from belvedere.analyses.sizes import Statistics
from belvedere.delta.change_sizes import change_passes, changed_at_most
from belvedere.delta.stamps import Position, Stamp, Vector
from belvedere.derivations.history import BEHIND, note
from belvedere.derivations.ledger import Record
from belvedere.derivations.meter import Meter
from belvedere.errors import Internal, Invalid, Unsupported
from belvedere.execution.costs import Past, candidate, cheaper, past
from belvedere.execution.foreign_keys import checked, verified
from belvedere.execution.in_memory import WHOLE, Held
from belvedere.execution.lookups import LookUps
from belvedere.execution.sources import Versions
from belvedere.execution.steps import Steps
from belvedere.execution.strategies import REASONS, Choice, Strategy, choose
from belvedere.lake.pins import Pins
from belvedere.lake.sessions.errors import Gone, StateMismatch, computing, reading
from belvedere.lake.sessions.workspace import Workspace
from belvedere.lake.spark_lake import SparkLake
from belvedere.lake.tables.change_feed import Changes
from belvedere.lake.writes import commits
from belvedere.rules.outward import SMALL
from belvedere.sql.binder.char_columns import char_length
from belvedere.sql.statements.views import Policy
from belvedere.storage.locks import Conflict
from belvedere.views.catalog import the_view
from belvedere.views.copies import copies_to_write
from belvedere.views.create import recorded, show
from belvedere.views.definition import View
from belvedere.views.extrema import Next, kept, values_that_move
from belvedere.views.maintenance import Move, fill, move, overwriting, rebuilding
from belvedere.views.parts import whole
from belvedere.views.references import references
from belvedere.views.retype import retyped
from belvedere.views.state import ROW, Grouped, physical

ATTEMPTS = 5


@dataclass(frozen=True)
class Refreshed:
    """What a refresh did."""

    view: str
    strategy: str
    reason: str
    rows_changed: int | None
    seconds: float
    vector_before: Mapping[str, int]
    vector_after: Mapping[str, int]
    notes: tuple[str, ...] = ()
    """What else there is to say of it."""
    sql: tuple[str, ...] = field(default=(), repr=False)
    record: Record | None = field(default=None, repr=False)
    """What the ledger says of it; None if there was nothing to do."""
    parts: tuple[Refreshed, ...] = field(default=(), repr=False)
    """The refreshes of its parts, before its own."""

    def __str__(self) -> str:
        why = f" ({self.reason}: {REASONS[self.reason]})" if self.reason else ""
        rows = "" if self.rows_changed is None else f", {self.rows_changed} rows changed"
        notes = "".join(f"\n  {note}" for note in self.notes)
        return f"{self.view}: {self.strategy}{why}{rows}, {self.seconds:.2f} s{notes}"


def refresh(
    door: SparkLake,
    name: str,
    *,
    full: bool = False,
    only: Collection[str] | None = None,
    pins: Pins | None = None,
) -> Refreshed:
    """Bring a view to the newest version of its tables, or of only some of them."""
    if pins is None:
        with Pins(door) as own:
            return refresh(door, name, full=full, only=only, pins=own)
    for attempt in range(1, ATTEMPTS + 1):
        view = the_view(door, name)
        try:
            with computing(f"view {view.name!r}"):
                return _Refresh(door, view, pins, full, only).run()
        except Conflict:
            if attempt == ATTEMPTS:
                raise
    raise Internal("a refresh ended without a result")


@dataclass
class _Refresh:
    door: SparkLake
    view: View
    pins: Pins
    full: bool
    only: Collection[str] | None = None
    to: Vector | None = None
    """Of a part, where its view goes."""
    parts: list[Refreshed] = field(default_factory=list)
    waited: float = 0.0
    meter: Meter = field(default_factory=Meter)
    ran: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def run(self) -> Refreshed:
        self.pins.forget(self.view.stored)
        found = commits.read_stamp(self.door, self.view.stored)
        before = found.stamp.vector if found.stamp else {}
        self._look_again(before)
        for part in self.view.parts:
            self._look_again(self._vector_of(part))
        reason = "REQUESTED" if self.full else found.reason or self._redefined(found.stamp)
        target = self._target(before, everything=not found.stamp)
        if not reason and all(target[t] == before.get(t) for t in self.view.inputs):
            return self._done(Choice(Strategy.NOTHING), 0, before, before)
        reason = reason or self._policy() or self._put_back(before, target)
        problem = self._unreadable(before, target, self.view.inputs) if found.stamp else ""
        if problem in _OLD_STATE_GONE and self.to is None:
            target = self._target({}, everything=True)
        target = self._with_parts(target)
        if found.stamp:
            own = [part.stored for part in self.view.parts]
            problem = problem or self._unreadable(before, target, own)
        reason = reason or problem
        moving = [t for t in self.view.tables if target[t] != before.get(t)]
        holding = found.stamp.holding if found.stamp else frozenset[str]()
        stamp = Stamp(self.view.definition.id, found.next, target, holding=holding)
        choice, rows = Choice(Strategy.REBUILD, reason), None
        with self.meter.counting(self.door, self.view.name):
            if not reason:
                choice, rows = self._advance_or_not(before, stamp, moving)
            if choice.strategy is Strategy.REBUILD:
                if choice.reason in _OLD_STATE_GONE and self.to is None:
                    newest = self._with_parts(self._target({}, everything=True))
                    stamp = replace(stamp, vector=newest)
                self._refuse_if_strict(choice.reason)
                self._rebuild(self._noted(stamp, choice))
        done = self._done(choice, rows, before, stamp.vector)
        return replace(done, record=self._record(self._noted(stamp, choice), before, rows))

    def _with_parts(self, target: Vector) -> Vector:
        """The target with where the view's parts are, once they have gone there too."""
        for part in self.view.parts:
            done = _Refresh(self.door, part, self.pins, self.full, to=target).run()
            self.parts += [*done.parts, done]
            self.ran += done.sql
            target = {**target, part.stored: self._position(part, target)}
        # What the parts took is in their records.
        self.waited += self.meter.seconds
        self.meter = Meter()
        return target

    def _vector_of(self, part: View) -> Vector:
        """Where a part is now, which may be further than its view."""
        if not self.door.exists(part.stored):
            raise Invalid(
                f"a part of {self.view.name!r} is gone: table {part.stored}",
                hint=f"CREATE OR REPLACE MATERIALIZED VIEW {self.view.name}",
                reason="PART_GONE",
            )
        stamp = commits.read_stamp(self.door, part.stored).stamp
        return stamp.vector if stamp else {}

    def _position(self, part: View, target: Vector) -> Position:
        """Where a part is, if it is there by itself; someone else may have moved it since."""
        found, table = commits.read_stamp(self.door, part.stored), self.pins.table(part.stored)
        there = found.stamp.vector if found.stamp and found.version == table.version else {}
        if any(there.get(t) != target[t] for t in part.inputs):
            self.pins.forget(part.stored)
            self._look_again(there)
            raise Conflict(
                f"another process refreshes {self.view.name!r}",
                detail=f"{part.name!r} went on meanwhile",
                hint="try again",
                reason="CONCURRENT_REFRESH",
            )
        return table.position

    def _put_back(self, before: Vector, target: Vector) -> str:
        """Why a part cannot go on: it went further than its view, which now needs it elsewhere."""
        same = (t for t in self.view.inputs if t in before and before[t].id == target[t].id)
        ahead = any(before[t].version > target[t].version for t in same)
        return "PART_AHEAD" if self.to is not None and ahead else ""

    def _look_again(self, before: Vector) -> None:
        """Forget tables that were looked at before someone else's refresh saw a newer version."""
        if self.to is not None:  # the view itself has looked
            return
        for name, known in before.items():
            pinned = self.pins.table(name)
            if pinned.id != known.id or pinned.version < known.version:
                self.pins.forget(name)

    def _policy(self) -> str:
        return "POLICY_FULL" if Policy(self.view.definition.policy) is Policy.FULL else ""

    def _target(self, before: Vector, *, everything: bool) -> Vector:
        """Where each table goes: its pinned version, or where it is if it is not advanced."""
        if self.to is not None:
            return {name: self.to[name] for name in self.view.inputs}
        target = {}
        for name in self.view.inputs:
            advances = everything or self.only is None or name in self.only
            if advances or name not in before:
                target[name] = self.pins.table(name).position
            else:
                target[name] = before[name]
        return target

    def _unreadable(self, before: Vector, target: Vector, names: Collection[str]) -> str:
        """Why the changes of a table, or a state it keeps, cannot be read; empty if all can."""
        problems = []
        for name in names:
            table, old, used = self.pins.table(name), before[name], self.view.needs(name)
            if table.id == old.id and self.door.put_back(table, old):
                problem: str | None = "VERSION_BEHIND"
            elif target[name] != old:
                new = target[name].version
                problem = self.door.feed_problem(table, old, new, used)
            else:
                problem = self.door.state_problem(table, old, used)
            if name in self.view.tables or problem in _OLD_STATE_GONE:  # else a part's problem
                problems.append(problem or "")
        # Where an old state is gone every table must move: that comes before other reasons.
        gone = (p for p in problems if p in _OLD_STATE_GONE)
        return next(gone, next(filter(None, problems), ""))

    def _redefined(self, stamp: Stamp | None) -> str:
        """Whether the stored rows are those of an earlier definition, or keep CHAR unpadded."""
        other = stamp and stamp.view_id != self.view.definition.id
        declared = self.pins.table(self.view.stored).declared.values()
        return "REDEFINED" if other or any(map(char_length, declared)) else ""

    def _refuse_if_strict(self, reason: str) -> None:
        strict = Policy(self.view.definition.policy) is Policy.STRICT
        if strict and not self.full and reason != "PART_AHEAD":
            raise Unsupported(
                f"{self.view.name!r} cannot be refreshed from its changes: {REASONS[reason]}",
                detail=f"reason {reason}; its policy is INCREMENTAL STRICT",
                hint=f"REFRESH MATERIALIZED VIEW {whole(self.view.definition).name} FULL",
                reason=reason,
            )

    def _rebuild(self, stamp: Stamp) -> None:
        view = retyped(self.door, self.view)
        known = self.pins.statistics(view.tables, {}, {})
        again = candidate(Strategy.REBUILD, rebuilding(view.state, known), Past())
        self.meter.candidates = self.meter.candidates or (again,)
        work = self.pins.work(view.definition.settings)
        with reading(view.name):
            versions = self._versions(work, {}, stamp.vector)
            declared = {t: self.pins.table(t).declared for t in view.tables}
            query = fill(view.state, versions, declared).sql(dialect="spark")
            self.ran.append(query)
            # What is computed again because that is cheaper is not to wait for more.
            cheaper_so = stamp.note.get("reason") == "CHEAPER"
            holding = frozenset() if cheaper_so else verified(work, self.pins, view, versions.new)
            stamp = replace(stamp, holding=holding)
            if view is self.view and self._has_its_columns():
                commits.overwrite(work, view.stored, query, stamp)
                return
            commits.replace(work, view.stored, query, stamp, view.properties)
            if not view.definition.part:
                show(self.door, view)

    def _has_its_columns(self) -> bool:
        """Whether the stored table is of the view's shape, not of one that a replacement began."""
        stored = self.pins.table(self.view.stored)
        if stored.declared:  # Its texts were VARCHAR(n) or CHAR(n) once: now they are STRING.
            return False
        there = {c.lower() for c, _ in stored.columns}
        return there - {ROW} == {c.lower() for c in physical(self.view.state).values()}

    def _advance_or_not(
        self, before: Vector, stamp: Stamp, moving: list[str]
    ) -> tuple[Choice, int | None]:
        try:
            with reading(self.view.name):
                return self._advance(before, stamp, moving)
        except Gone:
            # Cleaned away since it was looked for.
            return Choice(Strategy.REBUILD, "VERSION_GONE"), None
        except StateMismatch as mismatch:
            return Choice(Strategy.REBUILD, mismatch.reason), None

    def _advance(
        self, before: Vector, stamp: Stamp, moving: list[str]
    ) -> tuple[Choice, int | None]:
        changed = {t: self._amount(t, before[t], stamp.vector[t]) for t in moving}
        few = all(rows <= SMALL for rows in changed.values())
        how = _OF_FEW if few else {}
        work = self.pins.work({**self.view.definition.settings, **how})
        held = self.pins.table(self.view.stored).version
        found = {t: self._changes(work, t, before[t], stamp.vector[t]) for t in moving}
        # Rows that are the same in both states are read from the new one, which is there.
        before = {**before, **{t: stamp.vector[t] for t in moving if found[t].rows == 0}}
        moving = [t for t in moving if found[t].rows != 0]
        inserts_only = all(found[t].inserts_only is True for t in moving)
        state, types = self.view.state, self.view.definition.types
        choice = choose(state, types, moving, inserts_only=inserts_only)
        if choice.strategy is Strategy.REBUILD:
            return choice, None
        if choice.strategy is Strategy.NOTHING:
            commits.move(work, self.view.stored, self._noted(stamp, choice))
            return choice, 0
        changed = {t: changed[t] if (n := found[t].rows) is None else n for t in moving}
        known = self.pins.statistics(self.view.tables, changed, {t: found[t] for t in moving})
        far = [t for t in moving if found[t].rows is None and t in known.rows]
        passes = {t: self._passes(t, before[t], stamp.vector[t]) for t in far}
        known = replace(known, passed={t: n * known.rows[t] for t, n in passes.items()})
        way = move(state, choice.strategy, moving, types, known)
        views = {t: found[t].view for t in moving}
        versions = self._versions(work, before, stamp.vector, views)
        changes = {t: rows for t in moving if (rows := found[t].held) is not None}
        in_memory = Held(versions, changes, types)
        look_ups = LookUps(work, in_memory, self.ran)
        if choice.reason == "LOST_EXTREMUM" and not way.merge.keys:
            done = self._kept(stamp, moving, known, look_ups, held)
            if done is not None:
                return Choice(Strategy.MERGE), done
        effort, on_spark = look_ups.effort(way)
        effort += way.writing(self._stored_rows()) if known.passed else 0.0
        if self._costs_more(choice.strategy, effort, known, on_spark=on_spark):
            return Choice(Strategy.REBUILD, "CHEAPER"), None
        stamp = self._relied(self._noted(stamp, choice), moving, look_ups)
        way = Steps(work, in_memory, look_ups, self.ran).taken(way)
        if isinstance(way.plan, Empty):
            commits.move(work, self.view.stored, stamp)
            return choice, 0
        stored = self.view.stored
        rows = self._rows(way, in_memory, held)
        if rows is not None:
            self.ran.append(f"-- {rows.num_rows} rows to write, computed in memory")
            done = commits.merge_few(work, stored, rows, way.merge, stamp)
            if done is not None:
                return choice, done
        if way.numbered:
            stored = self.pins.opened(work, stored, held)
        query = way.query(in_memory.source, exp.to_table(stored, dialect="spark"))
        text = query.sql(dialect="spark")
        self.ran.append(text)
        return choice, commits.merge(work, self.view.stored, text, way.merge, stamp)

    def _relied(self, stamp: Stamp, moving: list[str], look_ups: LookUps) -> Stamp:
        """The stamp with the foreign keys that still hold, which look-ups may then rely on."""
        possible = references(self.door, self.view, self.pins.table)
        changes = look_ups.held.changes
        relied = checked(stamp.holding, possible, moving, changes, look_ups.values_after)
        look_ups.relied = relied
        self.notes += [n for n in relied.notes if n not in self.notes]
        return replace(stamp, holding=relied.holding)

    def _kept(
        self, stamp: Stamp, moving: list[str], known: Statistics, look_ups: LookUps, version: int
    ) -> int | None:
        """Merge a change that took no extremum away, if memory can tell; the rows that changed."""
        state, tables = self.view.state, look_ups.held.tables
        types = self.view.definition.types
        in_memory = Held(tables, look_ups.held.changes, types)
        look_ups = LookUps(look_ups.work, in_memory, self.ran)
        if not isinstance(state, Grouped) or any(t not in in_memory.changes for t in moving):
            return None
        way = values_that_move(state, moving, types, known)
        effort, on_spark = look_ups.effort(way)
        if self._costs_more(Strategy.MERGE, effort, known, on_spark=on_spark):
            return None
        stamp = self._relied(self._noted(stamp, Choice(Strategy.MERGE)), moving, look_ups)
        plan = look_ups.made(way).plan
        if isinstance(plan, Empty):
            commits.move(tables.work, self.view.stored, stamp)
            return 0
        found = in_memory.result(plan)
        names = tuple(physical(state).values())
        stored = self.pins.whole(self.view.stored, version, names, WHOLE) if found else None
        if found is None or stored is None:
            return None
        row = kept(state, found, stored, Next(state, moving, types, way, look_ups))
        if row is None:
            return None
        how = "the next extremum was found" if row.anew else "no extremum was lost"
        self.ran.append(f"-- 1 row to write, computed in memory: {how}")
        merge = overwriting(way.merge, row.anew)
        return commits.merge_few(tables.work, self.view.stored, row.row, merge, stamp)

    def _rows(self, way: Move, in_memory: Held, version: int) -> pa.Table | None:
        """The rows to write, if they are in memory by now."""
        found = in_memory.result(way.plan)
        if found is None or not way.numbered:
            return None if found is None else found.table
        if not in_memory.tables.work.near:
            return None
        return copies_to_write(found, self.pins, self.view.stored, version)

    def _passes(self, name: str, old: Position, new: Position) -> float:
        """How many times a table's size Spark goes through to read its change; 0 if unknown."""
        return change_passes(self.pins.table(name), old.version, new.version) or 0

    def _amount(self, name: str, old: Position, new: Position) -> float:
        """At most how many rows of a table changed, as its log counts them."""
        rows = changed_at_most(self.pins.table(name), old.version, new.version)
        return inf if rows is None else rows

    def _stored_rows(self) -> float:
        """How many rows the view has, as its log counts them; none if it does not."""
        measured = self.pins.measured(self.view.stored)
        return 0.0 if measured is None else measured.rows

    def _costs_more(
        self, strategy: Strategy, effort: float, known: Statistics, *, on_spark: bool
    ) -> bool:
        """Whether a view that leaves the choice to us is better computed again; notes why."""
        earlier = past(self.door, self.view.definition.id)
        # A change that Spark must read is not computed in memory; other large tables may turn
        # out not to be wanted.
        surely = bool(known.passed)
        like_it = earlier.on_spark(surely=surely) if surely or on_spark else earlier
        ours = candidate(strategy, effort, like_it)
        again = rebuilding(self.view.state, known)
        rebuild = candidate(Strategy.REBUILD, again, earlier.on_spark())
        self.meter.candidates = (ours, rebuild)
        free = Policy(self.view.definition.policy) is Policy.AUTO
        return free and cheaper(rebuild, ours)

    def _noted(self, stamp: Stamp, choice: Choice) -> Stamp:
        how = note(choice.strategy.value, choice.reason, self.meter.began)
        newest = {t: self.pins.table(t) for t in self.view.inputs}
        at = {t: (p.id, p.version) for t, p in stamp.vector.items()}
        behind = [t for t, table in newest.items() if at[t] != (table.id, table.version)]
        more = {BEHIND: ", ".join(behind)} if behind else {}
        return replace(stamp, note={**how, **more})

    def _changes(self, work: Workspace, name: str, old: Position, new: Position) -> Changes:
        columns = list(self.view.used(name))
        return self.pins.changes(work, name, old.version, new.version, columns)

    def _versions(
        self,
        work: Workspace,
        before: Vector,
        after: Vector,
        views: Mapping[str, Callable[[], str]] | None = None,
    ) -> Versions:
        return Versions(
            self.pins,
            work,
            {t: p.version for t, p in before.items()},
            {t: p.version for t, p in after.items()},
            views or {},
            self.meter.opened,
        )

    def _record(self, stamp: Stamp, before: Vector, rows: int | None) -> Record | None:
        old, new = ({t: v[t] for t in self.view.inputs if t in v} for v in (before, stamp.vector))
        return recorded(
            self.meter, self.door, self.view, replace(stamp, vector=new), old, rows, self.pins
        )

    def _done(self, choice: Choice, rows: int | None, before: Vector, after: Vector) -> Refreshed:
        self.pins.forget(self.view.stored)
        return Refreshed(
            view=self.view.name,
            strategy=choice.strategy.value,
            reason=choice.reason,
            rows_changed=rows,
            seconds=self.meter.seconds + self.waited,
            vector_before=self._shown(before),
            vector_after=self._shown(after),
            notes=tuple(self.notes),
            sql=tuple(self.ran),
            parts=tuple(self.parts),
        )

    def _shown(self, vector: Vector) -> dict[str, int]:
        return {t: p.version for t, p in vector.items() if t in self.view.inputs}


# An old version of a table cannot be read, or is not what the view was computed from.
_OLD_STATE_GONE = frozenset(("VERSION_GONE", "TABLE_REPLACED", "SCHEMA_CHANGED", "VERSION_BEHIND"))

# Sizes are known before such a query runs; adapting to them would list every file once more
# for each of its stages.
_OF_FEW = {"spark.sql.adaptive.enabled": "false"}
