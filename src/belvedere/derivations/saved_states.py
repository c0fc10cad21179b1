"""The store of derivations whose states live in memory and are saved beside the lake."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Generic, Protocol

from belvedere.delta.history import Event
from belvedere.derivations.protocol import AdvanceStep, D, Loaded, S, StateWrite
from belvedere.derivations.registry import the_saves
from belvedere.lake.offline import ReadableLake
from belvedere.lake.records.saved_state import Arrays, Corrupt, Head, Saved, Saves
from belvedere.sql.statements.views import RefreshPolicy

if TYPE_CHECKING:
    from belvedere.lake.pins import Pins


class Undivided:
    """A definition of a derivation that has no parts and always lets changes be applied."""

    name: Any
    reads: Any

    @property
    def owner(self) -> str:
        """Its own name."""
        return str(self.name)

    @property
    def policy(self) -> RefreshPolicy:
        """Changes are applied wherever they can be."""
        return RefreshPolicy.AUTO

    @property
    def tables(self) -> Collection[str]:
        """All tables that it reads."""
        return tuple(self.reads)

    def columns_of(self, table: str) -> Mapping[str, str]:
        """The columns of a table that it uses, with their types."""
        columns: Mapping[str, str] = self.reads[table]
        return columns


class Codec(Protocol[D, S]):
    """How a kind's definitions and states are written as JSON and arrays, and read back."""

    def definition_of(self, record: Mapping[str, Any]) -> D:
        """The definition that was saved."""

    def encode(self, definition: D, state: S) -> tuple[Mapping[str, Any], Arrays]:
        """What is saved of a definition and its state."""

    def decode(self, lake: ReadableLake, definition: D, saved: Saved) -> S:
        """The state that was saved; `Corrupt` if it cannot be used."""


class SavedStates(Generic[D, S]):
    """One file for each derivation of a kind, with its vector; the newest states stay in memory."""

    def __init__(self, lake: ReadableLake, key: str, codec: Codec[D, S]) -> None:
        self._lake = lake
        self._key = key
        self._codec = codec
        self._held: dict[str, Loaded[D, S]] = {}

    @property
    def saves(self) -> Saves:
        """Where states are saved; `Invalid` if the lake has no place for them."""
        return the_saves(self._lake)

    def names(self) -> Sequence[str]:
        """The names that have a state; none where the lake has no place for them."""
        return () if self._lake.saves is None else self._lake.saves.names(self._key)

    def head(self, name: str) -> Head:
        """What is saved of a derivation, without its state."""
        return self.saves.head(self._key, name)

    def exclusive(self, name: str) -> AbstractContextManager[None]:
        """Hold the lock of a state, from load to commit."""
        return self.saves.locked(self._key, name)

    def load(self, name: str, pins: Pins | None = None) -> Loaded[D, S]:  # noqa: ARG002
        """The state in memory if it is the one that was saved last, otherwise the saved one.

        A damaged state has a reason and is not there.
        """
        head = self.head(name)
        held = self._held.get(name)
        if held is None or held.vector != head.vector:
            self._held[name] = held = self._saved(name)
        return held

    def commit(self, name: str, write: StateWrite[D, S], step: AdvanceStep) -> None:
        """Save a state with the step's target as its vector, in the place of the one before."""
        record, arrays = self._codec.encode(write.definition, write.state)
        self.saves.save(self._key, name, record, step.target, arrays)
        self._held[name] = Loaded(write.definition, write.state, dict(step.target))

    def forget(self, name: str) -> None:
        """Let go of a state in memory, which may be ahead of its vector."""
        self._held.pop(name, None)

    def drop(self, name: str) -> None:
        """Take a state away."""
        self.forget(name)
        self.saves.drop(self._key, name)

    def close(self) -> None:
        """Let go of all states in memory."""
        self._held.clear()

    def event(self, write: StateWrite[D, S], step: AdvanceStep) -> Event | None:  # noqa: ARG002
        """Saved states have no commits of their own."""
        return None

    def _saved(self, name: str) -> Loaded[D, S]:
        try:
            saved = self.saves.load(self._key, name)
            definition = self._codec.definition_of(saved.head.definition)
            state = self._codec.decode(self._lake, definition, saved)
            return Loaded(definition, state, dict(saved.head.vector))
        except Corrupt as corrupt:
            head = self.head(name)
            definition = self._codec.definition_of(head.definition)
            return Loaded(definition, None, dict(head.vector), reason=corrupt.reason)
