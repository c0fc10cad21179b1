"""Refresh: bring a view's stored rows from the vector they have to the one that is pinned.

The target is pinned before anything is read; a table that is not advanced stays at its recorded
version. What is written carries the new vector in the same commit, so a refresh that dies
anywhere leaves the old rows with the old vector, or the new rows with the new one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from belvedere.delta.stamps import Position, Stamp, Vector
from belvedere.derivations.history import BEHIND, note
from belvedere.derivations.ledger import Record
from belvedere.derivations.meter import Meter
from belvedere.errors import Internal, Invalid, Unsupported
from belvedere.execution.costs import CostHistory, candidate
from belvedere.execution.sources import Versions
from belvedere.execution.strategies import REASONS, Strategy, StrategyChoice
from belvedere.lake.pins import Pins
from belvedere.lake.sessions.errors import Gone, StateMismatch, computing, reading
from belvedere.lake.spark_lake import SparkLake
from belvedere.lake.writes import commits
from belvedere.sql.binder.char_columns import char_length
from belvedere.sql.statements.views import Policy
from belvedere.storage.locks import Conflict
from belvedere.views.catalog import the_view
from belvedere.views.create import show
from belvedere.views.definition import View
from belvedere.views.incremental import apply
from belvedere.views.maintenance import fill, rebuild_work
from belvedere.views.parts import whole
from belvedere.views.pending_changes import ViewStep
from belvedere.views.references import holding_references
from belvedere.views.retype import retyped
from belvedere.views.state import ROW, physical
from belvedere.views.writes import Rebuild

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
            return self._done(StrategyChoice(Strategy.NOTHING), 0, before, before)
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
        choice, rows = StrategyChoice(Strategy.REBUILD, reason), None
        with self.meter.counting(self.door, self.view):
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
        again = candidate(Strategy.REBUILD, rebuild_work(view.state, known), CostHistory())
        self.meter.candidates = self.meter.candidates or (again,)
        work = self.pins.work(view.definition.settings)
        with reading(view.name):
            new = {t: p.version for t, p in stamp.vector.items()}
            versions = Versions(self.pins, work, {}, new, opened=self.meter.opened)
            declared = {t: self.pins.table(t).declared for t in view.tables}
            query = fill(view.state, versions, declared).sql(dialect="spark")
            self.ran.append(query)
            # What is computed again because that is cheaper is not to wait for more.
            cheaper_so = stamp.note.get("reason") == "CHEAPER"
            holding = frozenset() if cheaper_so else holding_references(work, self.pins, view, new)
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
    ) -> tuple[StrategyChoice, int | None]:
        step = ViewStep(
            self.door,
            self.pins,
            self.view,
            before,
            stamp.vector,
            tuple(moving),
            stamp.holding,
            self.meter,
            notes=self.notes,
        )
        try:
            with reading(self.view.name):
                write = apply(step)
                if isinstance(write, Rebuild):
                    return StrategyChoice(Strategy.REBUILD, write.reason), None
                stamp = replace(self._noted(stamp, write.choice), holding=write.holding)
                return write.choice, write.commit(stamp)
        except Gone:
            # Cleaned away since it was looked for.
            return StrategyChoice(Strategy.REBUILD, "VERSION_GONE"), None
        except StateMismatch as mismatch:
            return StrategyChoice(Strategy.REBUILD, mismatch.reason), None
        finally:
            self.ran += map(str, step.ran)

    def _noted(self, stamp: Stamp, choice: StrategyChoice) -> Stamp:
        how = note(choice.strategy.value, choice.reason, self.meter.began)
        newest = {t: self.pins.table(t) for t in self.view.inputs}
        at = {t: (p.id, p.version) for t, p in stamp.vector.items()}
        behind = [t for t, table in newest.items() if at[t] != (table.id, table.version)]
        more = {BEHIND: ", ".join(behind)} if behind else {}
        return replace(stamp, note={**how, **more})

    def _record(self, stamp: Stamp, before: Vector, rows: int | None) -> Record | None:
        old, new = ({t: v[t] for t in self.view.inputs if t in v} for v in (before, stamp.vector))
        stamp = replace(stamp, vector=new)
        return self.meter.record(self.door, self.view, stamp, old, rows, self.pins.table)

    def _done(
        self, choice: StrategyChoice, rows: int | None, before: Vector, after: Vector
    ) -> Refreshed:
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
