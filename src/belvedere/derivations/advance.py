"""Advance: the only way in which the state of a derivation moves.

    exclusive -> recover -> load -> target -> inner ones to that target -> what cannot be read?
      -> apply, or build with a reason -> commit, again on Conflict -> publish -> record

The target is pinned before anything is read; a table that does not move stays at its recorded
version. A state and its vector are committed together, so an advance that dies anywhere leaves
the old state with the old vector, or the new state with the new one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from belvedere.delta.stamps import Vector
from belvedere.derivations.ledger import Ledger, Record
from belvedere.derivations.meter import Committed, Meter
from belvedere.derivations.outcome import Outcome
from belvedere.derivations.protocol import (
    Advanceable,
    AdvanceStep,
    Inner,
    Loaded,
    Rebuild,
    StateWrite,
    Traits,
)
from belvedere.derivations.unreadable import OLD_STATE_GONE, first_problem, problems
from belvedere.errors import Internal, Unsupported
from belvedere.execution.strategies import Strategy
from belvedere.lake.offline import ReadableLake
from belvedere.lake.pins import Pins
from belvedere.lake.sessions.errors import Gone, StateMismatch, computing, reading
from belvedere.lake.spark_lake import SparkLake
from belvedere.reasons import REASONS
from belvedere.sql.statements.views import RefreshPolicy
from belvedere.storage.locks import Conflict

ATTEMPTS = 5


@dataclass(frozen=True)
class Call:
    """What one call shares between all derivations that it advances."""

    lake: ReadableLake
    pins: Pins
    ledger: Ledger | None = None
    """Where advances are recorded, if they are."""

    def record(self, outcome: Outcome) -> None:
        """Take note of an advance, and of those inside it."""
        if self.ledger is not None:
            for each in (*outcome.inner, outcome):
                self.ledger.add(each.record)


def advance(
    kind: Advanceable[Any, Any],
    name: str,
    call: Call,
    *,
    full: bool = False,
    only: Collection[str] | None = None,
) -> Outcome:
    """Move a derivation to the newest versions of its tables, or of only some of them."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with computing(f"{kind.label} {name!r}".strip()), kind.store.exclusive(name):
                kind.recover(name)
                outcome = _Advancing(kind, name, call, full, only).run()
                call.record(outcome)
                return outcome
        except Conflict:
            if attempt == ATTEMPTS:
                raise
    raise Internal("an advance ended without an outcome")


def create(kind: Advanceable[Any, Any], name: str, definition: Any, call: Call) -> Outcome:
    """Build a derivation for the first time, at the newest versions of its tables."""
    with computing(f"{kind.label} {name!r}".strip()), kind.store.exclusive(name):
        loaded: Loaded[Any, Any] = Loaded(definition, None, {}, reason="")
        outcome = _Advancing(kind, name, call).create(loaded)
        call.record(outcome)
        return outcome


@contextmanager
def call_of(lake: ReadableLake, reading: Collection[Any] = ()) -> Iterator[Call]:
    """A call of its own, whose advances are recorded when it ends.

    A change is read once, with the columns that any of `reading` uses.
    """
    with Pins(lake, reading) as pins, Ledger(lake.journal) as ledger:  # type: ignore[arg-type]
        yield Call(lake, pins, ledger)


@dataclass
class _Advancing:
    kind: Advanceable[Any, Any]
    name: str
    call: Call
    full: bool = False
    only: Collection[str] | None = None
    to: Vector | None = None
    """Of an inner derivation, where the outer one goes."""
    inner: list[Outcome] = field(default_factory=list)
    created: set[str] = field(default_factory=set)
    """The tables of inner states that this call has created."""
    waited: float = 0.0
    """Seconds that inner derivations took."""
    meter: Meter = field(default_factory=Meter)

    def run(self) -> Outcome:
        loaded = self.kind.store.load(self.name, self.call.pins)
        inner, traits = self.kind.inner(loaded), self.kind.traits(loaded.definition)
        self._look_again(loaded.vector)
        for part in inner:
            self._look_again(part.kind.store.load(part.name, self.call.pins).vector)
        reason = "REQUESTED" if self.full else loaded.reason
        target = self._target(loaded, everything=not loaded.vector)
        reads = loaded.definition.reads
        if not reason and all(target[t] == loaded.vector.get(t) for t in reads):
            return self._outcome(
                loaded, StateWrite(loaded.definition, None, Strategy.NOTHING, rows=0), loaded.vector
            )
        reason = reason or self._policy(loaded) or self._ahead(loaded, target)
        checked = loaded.vector and (traits.from_changes or inner)
        problem = self._unreadable(loaded, target, traits) if checked else ""
        if problem in OLD_STATE_GONE:
            target = self._newest(loaded, target)
        target = self._with_inner(inner, target)
        if not traits.from_changes:
            problem = ""
        elif loaded.vector:
            problem = problem or self._unreadable_inner(loaded, inner, target)
        try:
            return self._moved(loaded, inner, target, reason or problem)
        except BaseException:
            self.kind.store.forget(self.name)
            raise

    def create(self, loaded: Loaded[Any, Any]) -> Outcome:
        """The first state, committed and published, after those that it is made of."""
        target = self._target(loaded, everything=True)
        for part in self.kind.inner(loaded):
            # A part of several others is built once.
            if part.stored not in self.created:
                self.created.add(part.stored)
                advancing = _Advancing(
                    part.kind, part.name, self.call, to=target, created=self.created
                )
                outcome = advancing.create(Loaded(part.definition, None, {}))
                self.inner += [*outcome.inner, outcome]
            target = {**target, part.stored: self.call.pins.table(part.stored).position}
        self.meter = Meter()
        step = self._step(loaded, target)
        with self._counting(loaded):
            write = self.kind.build(loaded.definition, step, "")
            rows = self.kind.store.commit(self.name, write, step)
        return self._committed(loaded, write, step, rows)

    def _moved(
        self, loaded: Loaded[Any, Any], inner: Sequence[Inner], target: Vector, reason: str
    ) -> Outcome:
        """Apply or build, commit and publish."""
        step = self._step(loaded, target)
        with self._counting(loaded):
            write, rows = self._applied(loaded, step) if not reason else (Rebuild(reason), None)
            if isinstance(write, Rebuild):
                reason = write.reason
                if reason in OLD_STATE_GONE:
                    step = self._step(loaded, self._with_inner(inner, self._newest(loaded, target)))
                self._refuse_if_strict(loaded, reason)
                with reading(self.name):
                    write = self.kind.build(loaded.definition, step, reason)
                    rows = self.kind.store.commit(self.name, write, step)
        return self._committed(loaded, write, step, rows)

    def _committed(
        self,
        loaded: Loaded[Any, Any],
        write: StateWrite[Any, Any],
        step: AdvanceStep,
        rows: int | None,
    ) -> Outcome:
        self.kind.publish(self.name, write, step.target)
        write = replace(write, rows=write.rows if rows is None else rows)
        outcome = self._outcome(loaded, write, step.target, step)
        return replace(outcome, record=self._record(loaded, write, step))

    def _applied(
        self, loaded: Loaded[Any, Any], step: AdvanceStep
    ) -> tuple[StateWrite[Any, Any] | Rebuild, int | None]:
        """The state with the changes, committed; or why it is to be built."""
        try:
            with reading(self.name):
                write = self.kind.apply(loaded, step)
                if isinstance(write, Rebuild):
                    return write, None
                return write, self.kind.store.commit(self.name, write, step)
        except Gone:
            # It was removed after it had been looked for.
            return Rebuild("VERSION_GONE"), None
        except StateMismatch as mismatch:
            return Rebuild(mismatch.reason), None

    def _step(self, loaded: Loaded[Any, Any], target: Vector) -> AdvanceStep:
        own = {*loaded.definition.tables, *loaded.definition.reads}
        moving = tuple(t for t in target if t in own and target[t] != loaded.vector.get(t))
        return AdvanceStep(
            definition=loaded.definition,
            pins=self.call.pins,
            before=loaded.vector,
            target=target,
            moving=moving,
            meter=self.meter,
            number=loaded.number,
            holding=loaded.holding,
            inner=tuple(self.inner),
        )

    def _look_again(self, before: Vector) -> None:
        """Forget tables that were looked at before another process advanced to a newer version."""
        if self.to is not None:  # the outer derivation has looked
            return
        for name, recorded in before.items():
            pinned = self.call.pins.table(name)
            if pinned.id != recorded.id or pinned.version < recorded.version:
                self.call.pins.forget(name)

    def _target(self, loaded: Loaded[Any, Any], *, everything: bool) -> Vector:
        """Where each table goes: its pinned version, or where it is if it does not move."""
        reads, before = loaded.definition.reads, loaded.vector
        if self.to is not None:
            # It may read tables that the outer one does not.
            own = (t for t in reads if t not in self.to)
            pinned = {name: self.call.pins.table(name).position for name in own}
            return {name: pinned.get(name) or self.to[name] for name in reads}
        stays = {} if everything or self.only is None else before
        return {
            name: stays[name]
            if name in stays and name not in (self.only or ())
            else self.call.pins.table(name).position
            for name in reads
        }

    def _newest(self, loaded: Loaded[Any, Any], target: Vector) -> Vector:
        """All tables at their pinned versions, unless the outer derivation says where they go."""
        return target if self.to is not None else self._target(loaded, everything=True)

    def _with_inner(self, inner: Sequence[Inner], target: Vector) -> Vector:
        """The target with the positions of inner derivations, once they have been advanced to it."""
        for part in inner:
            outcome = _Advancing(part.kind, part.name, self.call, self.full, to=target).run()
            self.inner += [*outcome.inner, outcome]
            if part.stored:
                target = {**target, part.stored: self._position(part, target)}
        if inner:
            # The records of inner derivations have what they took.
            self.waited += self.meter.seconds
            self.meter = Meter()
        return target

    def _position(self, part: Inner, target: Vector) -> Any:
        """The position of an inner state, if it is at the target; another process may have moved it."""
        loaded, table = (
            part.kind.store.load(part.name, self.call.pins),
            self.call.pins.table(part.stored),
        )
        if any(
            loaded.vector.get(t) != at for t, at in target.items() if t in loaded.definition.reads
        ):
            self.call.pins.forget(part.stored)
            raise Conflict(
                f"another process refreshes {self.name!r}",
                detail=f"{part.name!r} was advanced meanwhile",
                hint="try again",
                reason="CONCURRENT_REFRESH",
            )
        return table.position

    def _ahead(self, loaded: Loaded[Any, Any], target: Vector) -> str:
        """Why an inner state cannot be advanced: it is further than the outer one needs it."""
        before = loaded.vector
        same = (t for t in loaded.definition.reads if t in before and before[t].id == target[t].id)
        ahead = any(before[t].version > target[t].version for t in same)
        return "PART_AHEAD" if self.to is not None and ahead else ""

    def _policy(self, loaded: Loaded[Any, Any]) -> str:
        return "POLICY_FULL" if loaded.definition.policy is RefreshPolicy.FULL else ""

    def _unreadable(self, loaded: Loaded[Any, Any], target: Vector, traits: Traits) -> str:
        found = problems(
            self.call.lake, self.call.pins, loaded.vector, target, loaded.definition.reads,
            reads_old=traits.reads_old,
        )  # fmt: skip
        return first_problem(found, loaded.definition.tables)

    def _unreadable_inner(
        self, loaded: Loaded[Any, Any], inner: Sequence[Inner], target: Vector
    ) -> str:
        """Why the changes of inner states cannot be read."""
        stored = {p.stored: loaded.definition.columns_of(p.stored) for p in inner if p.stored}
        found = problems(
            self.call.lake, self.call.pins, loaded.vector, target, stored, reads_old=True
        )
        return first_problem(found, stored)

    def _refuse_if_strict(self, loaded: Loaded[Any, Any], reason: str) -> None:
        definition = loaded.definition
        if definition.policy is not RefreshPolicy.STRICT or self.full or reason == "PART_AHEAD":
            return
        raise Unsupported(
            f"{definition.name!r} cannot be refreshed from its changes: {REASONS[reason].sentence}",
            detail=f"reason {reason}; its policy is INCREMENTAL STRICT",
            hint=f"REFRESH {self.kind.noun} {definition.owner} FULL",
            reason=reason,
        )

    def _counting(self, loaded: Loaded[Any, Any]) -> AbstractContextManager[None]:
        lake = self.call.lake
        if self.kind.traits(loaded.definition).counts_jobs and isinstance(lake, SparkLake):
            return self.meter.counting(lake, self.name)
        return nullcontext()

    def _record(
        self, loaded: Loaded[Any, Any], write: StateWrite[Any, Any], step: AdvanceStep
    ) -> Record | None:
        reads = loaded.definition.reads
        done = Committed(
            kind=self.kind.noun,
            name=loaded.definition.name,
            id=write.definition.id,
            refresh=step.number,
            strategy=write.how,
            reason=write.reason,
            before={t: p for t, p in step.before.items() if t in reads},
            after={t: p for t, p in step.target.items() if t in reads},
            rows=write.rows,
        )
        return self.meter.record(
            done, self.call.pins.table, lambda: self.kind.store.event(write, step)
        )

    def _outcome(
        self,
        loaded: Loaded[Any, Any],
        write: StateWrite[Any, Any],
        after: Vector,
        step: AdvanceStep | None = None,
    ) -> Outcome:
        reads = loaded.definition.reads
        return Outcome(
            name=loaded.definition.name,
            strategy=write.how,
            reason=write.reason,
            rows_changed=write.rows,
            seconds=self.meter.seconds + self.waited,
            vector_before={t: p.version for t, p in loaded.vector.items() if t in reads},
            vector_after={t: p.version for t, p in after.items() if t in reads},
            notes=tuple(step.notes) if step else (),
            details=write.details,
            ran=tuple(step.ran) if step else (),
            inner=tuple(self.inner),
        )
