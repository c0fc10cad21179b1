"""Sketches as `advance` moves them: captured, or kept by the engine, and saved some time later.

A saved state need not be the newest: the changes since are read again. What is in memory is
committed when it has the new vector; `Service` saves it when enough work would be lost with it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from belvedere.delta.history import Event
from belvedere.delta.stamps import Vector
from belvedere.derivations.protocol import (
    AdvanceStep,
    Inner,
    Loaded,
    Rebuild,
    StateWrite,
    Traits,
)
from belvedere.derivations.saved_states import Undivided
from belvedere.execution.strategies import Strategy
from belvedere.sketches.definition import SketchDefinition
from belvedere.sketches.engine.measures import Recapture
from belvedere.sketches.live import Live
from belvedere.sketches.upkeep import Upkeep

if TYPE_CHECKING:
    from belvedere.lake.pins import Pins
    from belvedere.sketches.service import Service


@dataclass(frozen=True)
class AdvancedSketch(Undivided):
    """The definition of a sketch, with the tables that it reads."""

    definition: SketchDefinition

    @property
    def id(self) -> str:
        return self.definition.id

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def reads(self) -> Mapping[str, Mapping[str, str]]:
        """The columns that it uses, with the types that they had when it was captured."""
        return {
            t: {c: self.definition.types.get(t, {}).get(c, "") for c in columns}
            for t, columns in self.definition.reads.items()
        }


class SketchesOfCall:
    """The sketches that one call advances: a change is read once, with the columns all of them use."""

    noun, label = "SKETCH", ""

    def __init__(self, service: Service, others: Collection[SketchDefinition] = ()) -> None:
        self._service = service
        self._others = others
        self._before: Live | None = None
        """The state that was loaded."""
        self.store = self

    def traits(self, _: AdvancedSketch) -> Traits:
        """Joins read the old versions of tables that do not move."""
        return Traits()

    def inner(self, _: Loaded[Any, Any]) -> Sequence[Inner]:
        """A sketch has none."""
        return ()

    def build(
        self, definition: AdvancedSketch, step: AdvanceStep, reason: str
    ) -> StateWrite[AdvancedSketch, Live]:
        """The sketch captured by queries over its tables, with what it was before remembered."""
        own = definition.definition
        if self._before is not None:
            own = own.remembering(self._before.version)
        live = self._upkeep(step).capture(own, dict(step.target))
        return self._write(live, Strategy.REBUILD, reason)

    def apply(
        self, loaded: Loaded[AdvancedSketch, Live], step: AdvanceStep
    ) -> StateWrite[AdvancedSketch, Live] | Rebuild:
        """The sketch with the changes, by its engine."""
        assert loaded.state is not None
        upkeep = self._upkeep(step)
        if upkeep.capture_pays(loaded.state, step):
            return Rebuild("CHEAPER")
        try:
            live, rows, seconds = upkeep.apply(loaded.state, step)
        except Recapture as why:
            return Rebuild(why.reason)
        write = self._write(live, Strategy.MERGE, "", rows)
        return replace(write, details={**write.details, "engine_seconds": round(seconds, 6)})

    def recover(self, name: str) -> None:
        """A state is saved whole or not at all."""

    def publish(self, name: str, write: StateWrite[Any, Any], vector: Vector) -> None:
        """Queries ask for the state in memory."""

    def exclusive(self, name: str) -> AbstractContextManager[Any]:  # noqa: ARG002
        """One call at a time uses the states in memory; a saved state is replaced whole."""
        return self._service.busy

    def load(self, name: str, pins: Pins) -> Loaded[AdvancedSketch, Live]:  # noqa: ARG002
        """The state in memory or the saved one, and why changes do not keep it, if they do not."""
        loaded = self._service.load(name)
        self._before = loaded.state
        return loaded

    def commit(
        self,
        name: str,
        write: StateWrite[AdvancedSketch, Live],
        step: AdvanceStep,  # noqa: ARG002
    ) -> None:
        """Hold the state from now on."""
        self._service.hold(name, write.state)

    def event(
        self,
        write: StateWrite[AdvancedSketch, Live],  # noqa: ARG002
        step: AdvanceStep,  # noqa: ARG002
    ) -> Event | None:
        """Saved states have no commits of their own."""
        return None

    def forget(self, name: str) -> None:
        """Let go of a state in memory, which may be ahead of its vector."""
        self._service.forget(name)

    def drop(self, name: str) -> None:
        """Take a sketch away."""
        self._service.drop(name)

    def _upkeep(self, step: AdvanceStep) -> Upkeep:
        service = self._service
        return Upkeep(service.door, step.pins, self._others, service.selections, step.ran)

    @staticmethod
    def _write(
        live: Live, strategy: Strategy, reason: str, rows: int | None = None
    ) -> StateWrite[AdvancedSketch, Live]:
        details = {"fragments": f"{live.fragment_count} of {live.fragments}"}
        definition = AdvancedSketch(live.definition)
        return StateWrite(definition, live, strategy, reason, rows, details=details)
