"""The protocol of derivations: what a kind does, and what a store of states does.

A derivation is a definition, a state, and the vector of table versions that the state is of.
`advance.py` moves it; a kind says how its state is built from tables and how changes are applied
to it, and a store keeps states, so that a state and its vector always agree.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from belvedere.delta.history import Event
from belvedere.delta.stamps import Vector
from belvedere.derivations.meter import Meter
from belvedere.execution.records import RanStep
from belvedere.execution.strategies import Strategy
from belvedere.sql.statements.views import RefreshPolicy

if TYPE_CHECKING:
    from belvedere.derivations.outcome import Outcome
    from belvedere.lake.pins import Pins

D = TypeVar("D", bound="Definition")
S = TypeVar("S")


class Definition(Protocol):
    """What a derivation is, apart from its state; needs no Spark."""

    @property
    def id(self) -> str:
        """What tells it from others that had its name."""

    @property
    def name(self) -> str:
        """Its name as a user writes it."""

    @property
    def policy(self) -> RefreshPolicy:
        """Whether changes must, may or must not be applied."""

    @property
    def reads(self) -> Mapping[str, Mapping[str, str]]:
        """The tables that it is computed from, with the columns it uses and their types."""

    @property
    def owner(self) -> str:
        """The name of the derivation that it is a part of, or its own."""

    def columns_of(self, table: str) -> Mapping[str, str]:
        """The columns that are read of a table, or of the table that holds an inner state."""

    @property
    def tables(self) -> Collection[str]:
        """The tables whose changes are applied to its own state, not to that of an inner one."""


@dataclass(frozen=True)
class Traits:
    """How derivations differ, as far as `advance` has to know."""

    from_changes: bool = True
    """Whether changes are applied to the state itself. If not, only the vector moves, and the inner
    derivations.
    """
    reads_old: bool = True
    """Whether tables that do not move must stay readable at their recorded versions."""
    counts_jobs: bool = False
    """Whether Spark's jobs are counted, so that costs can be learned from them."""


@dataclass
class Loaded(Generic[D, S]):
    """A derivation as its store has it."""

    definition: D
    state: S | None
    vector: Vector
    """Empty if it is not known."""
    number: int = 1
    """The number of the next advance."""
    holding: frozenset[str] = frozenset()
    """The foreign keys that hold in the state's versions."""
    reason: str = ""
    """Why changes cannot be applied to it, such as CORRUPT_STATE; empty if they can."""


@dataclass
class AdvanceStep:
    """One advance of one derivation: from where to where, and what it shares with its call."""

    definition: Any
    """The definition that was loaded."""
    pins: Pins
    before: Vector
    target: Vector
    moving: tuple[str, ...]
    """The tables whose versions change."""
    meter: Meter
    number: int = 1
    holding: frozenset[str] = frozenset()
    inner: Sequence[Outcome] = ()
    """What the advances of inner derivations did."""
    notes: list[str] = field(default_factory=list)
    ran: list[RanStep] = field(default_factory=list)

    def versions(self, table: str) -> tuple[int, int]:
        """The versions of a table between which it moves."""
        return self.before[table].version, self.target[table].version


@dataclass(frozen=True)
class StateWrite(Generic[D, S]):
    """A new state, not durable before the store has committed it.

    `state` is what the store takes: for a stored table the rows or SQL of the commit.
    """

    definition: D
    state: S
    strategy: Strategy
    reason: str = ""
    rows: int | None = None
    holding: frozenset[str] = frozenset()
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def how(self) -> str:
        """The strategy by name; a state that is built without a reason is built for the first time."""
        first = self.strategy is Strategy.REBUILD and not self.reason
        return "create" if first else self.strategy.value


@dataclass(frozen=True)
class Rebuild:
    """Changes are not applied: the state is built from the tables, and why."""

    reason: str


class StateStore(Protocol[D, S]):
    """Where the states of a kind are kept, each with its vector."""

    def exclusive(self, name: str) -> AbstractContextManager[None]:
        """Keep other writers of the state away while the block runs, where that is needed."""

    def load(self, name: str, pins: Pins) -> Loaded[D, S]:
        """The state that was committed last. Whoever loads it to change it owns it from then on."""

    def commit(self, name: str, write: StateWrite[D, S], step: AdvanceStep) -> int | None:
        """Put a state and the step's target in the place of the state before, all at once.

        Returns the number of changed rows if only the commit knows it.
        """

    def forget(self, name: str) -> None:
        """Let go of a state in memory: an advance failed, and it may be ahead of its vector."""

    def event(self, write: StateWrite[D, S], step: AdvanceStep) -> Event | None:
        """What the log says of the commit of a step; None where that would cost a statement."""

    def drop(self, name: str) -> None:
        """Take a state away."""


class Advanceable(Protocol[D, S]):
    """The part of a kind that `advance` uses."""

    @property
    def noun(self) -> str:
        """What one of them is called in statements, such as SKETCH."""

    def traits(self, definition: D) -> Traits:
        """How a derivation differs from others, as far as `advance` has to know."""

    @property
    def store(self) -> StateStore[D, S]:
        """Where its states are kept."""

    @property
    def label(self) -> str:
        """What one of them is called in errors, before its name."""

    def inner(self, loaded: Loaded[D, S]) -> Sequence[Inner]:
        """The derivations that a state is made of: they are advanced first, to its target."""

    def build(self, definition: D, step: AdvanceStep, reason: str) -> StateWrite[D, S]:
        """A state from the tables at the step's target."""

    def apply(self, loaded: Loaded[D, S], step: AdvanceStep) -> StateWrite[D, S] | Rebuild:
        """The state with the changes of the step. It may change the loaded state in place."""

    def recover(self, name: str) -> None:
        """Finish or undo what a killed process left."""

    def publish(self, name: str, write: StateWrite[D, S], vector: Vector) -> None:
        """Let readers see a state that was committed."""


@dataclass(frozen=True)
class Inner:
    """A derivation inside another."""

    kind: Advanceable[Any, Any]
    name: str
    stored: str
    """The table that holds its state, whose changes are those of the outer one's input."""
    definition: Any
