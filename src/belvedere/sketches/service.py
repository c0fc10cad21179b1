"""The sketches of a lake at work: created, held in memory, brought up to date, asked."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace

from belvedere.algebra.relations import Rel
from belvedere.algebra.walks import tables
from belvedere.delta.stamps import Vector
from belvedere.derivations.advance import Call, advance, create
from belvedere.derivations.ledger import Ledger
from belvedere.derivations.outcome import Outcome
from belvedere.derivations.protocol import Loaded
from belvedere.derivations.registry import the_saves
from belvedere.errors import BelvedereError, Invalid
from belvedere.lake.pins import Pins
from belvedere.lake.records.saved_state import Corrupt
from belvedere.lake.spark_lake import SparkLake
from belvedere.sketches.advancing import AdvancedSketch, SketchesOfCall
from belvedere.sketches.capture.clustering import Clustered, cluster
from belvedere.sketches.definition import KIND, SketchDefinition
from belvedere.sketches.live import Live, load, plan_of, save
from belvedere.sketches.safety.planning import SketchPlanner
from belvedere.sketches.use.auto import Watcher
from belvedere.sketches.use.explain import explain_sketch, sketch_facts
from belvedere.sketches.use.queries import QueryRouter, RoutedQuery
from belvedere.sketches.use.query_shapes import QueryShape, query_shape
from belvedere.sketches.use.rewrite import SketchAnswer
from belvedere.sketches.use.selections import Selections
from belvedere.sql.statements.sketches import CreateSketch
from belvedere.views.catalog import canonical_name

_A_NOTE = 0.001
"""What it is worth, in seconds of upkeep, not to forget what a query took."""
LATER = 3.0
"""How many times longer than saving it the upkeep of a sketch took before it is saved again."""


class Service:
    """The sketches of a lake with Spark.

    What is saved need not be the newest: from there the changes since are read again. So a state
    is saved only when more upkeep than it is worth would be lost with the process, and at the end.
    """

    def __init__(self, door: SparkLake) -> None:
        self.door = door
        self._saves = the_saves(door)
        self._held: dict[str, Live] = {}
        self._seen: dict[str, tuple[int, ...] | None] = {}
        """Which saved states are those that are held, or were."""
        self._saving: dict[str, float] = {}
        """Seconds that saving each took."""
        self._shapes: dict[str, QueryShape] = {}
        self.selections = Selections(door)
        self._defined: dict[str, tuple[tuple[int, ...] | None, SketchDefinition]] = {}
        self.busy = threading.RLock()
        self._ledger = Ledger(door.journal)
        self._watcher: Watcher | None = None

    def names(self) -> Collection[str]:
        """The canonical names of all there are."""
        return self._saves.names(KIND)

    def definition(self, name: str) -> SketchDefinition:
        """A sketch without its state; needs no Spark."""
        now = self._saves.fingerprint(KIND, name)
        if now is None:
            self.refuse_unknown(name)
        held = self._held.get(name)
        if held is not None and self._seen.get(name) == now:
            return held.definition
        known = self._defined.get(name)
        if known is None or known[0] != now:
            known = now, SketchDefinition.from_json(self._saves.head(KIND, name).definition)
            self._defined[name] = known
        return known[1]

    def explain(self, name: str) -> object:
        """How one is kept, as text."""
        with self.busy:
            return explain_sketch(self.door, self.live(name))

    def watch(self, on: bool) -> None:
        """AUTO: from now on, or no longer."""
        self._watcher = Watcher(self) if on else None

    def rows(self, q: Rel) -> int:
        """The rows of the largest table of a plan, as far as its log says."""
        with Pins(self.door) as pins:
            found = (pins.measured(t) for t in tables(q))
            return max((m.rows for m in found if m is not None), default=0)

    def describe(self, name: str) -> list[tuple[str, str]]:
        """The facts about one."""
        with self.busy, Pins(self.door) as pins:
            return sketch_facts(self.live(name), pins.table)

    def vector(self, name: str) -> Vector | None:
        """Where one that is held stands."""
        held = self._held.get(name)
        return None if held is None else held.vector

    def close(self) -> None:
        """Save what was brought up to date since it was saved, and let go of it."""
        with self.busy:
            for name, live in self._held.items():
                if (live.owed and name in self.names()) or self._saves.is_damaged(KIND, name):
                    save(self._saves, name, live)
            self._held.clear()
            self._ledger.flush()

    def route(self, text: str, versions: Mapping[str, int] | None = None) -> RoutedQuery:
        """How a query is to be answered, and what it then reads."""
        with self.busy:
            routed = QueryRouter(self).find(text, versions or {})
            if self._watcher is not None and not versions:
                # What is made of a query must not get in its way.
                with suppress(Exception):
                    self._watcher.observe(text, routed.answer)
            return routed

    def answer(self, text: str, versions: Mapping[str, int] | None = None) -> SketchAnswer:
        """How a query is to be answered, with what that skips."""
        routed = self.route(text, versions)
        if routed.reading is None:
            return routed.answer
        return replace(routed.answer, skipped=routed.reading.skipped)

    def shape(self, definition: SketchDefinition) -> QueryShape:
        """The shape of a sketch's query, which does not change while its columns' types do not."""
        if definition.id not in self._shapes:
            self._shapes[definition.id] = query_shape(plan_of(self.door, definition.query))
        return self._shapes[definition.id]

    def create(self, statement: CreateSketch, *, automatic: bool = False) -> Live | None:
        """Plan and capture a sketch, then save it; None if it exists and that was allowed."""
        name = canonical_name(self.door, statement.name)
        if statement.if_not_exists and name in self.names():
            return None
        with self.busy, Pins(self.door) as pins:
            definition = SketchPlanner(self.door, pins, statement).plan()
            definition = replace(definition, automatic=automatic)
            call = Call(self.door, pins, self._ledger)
            create(SketchesOfCall(self), name, AdvancedSketch(definition), call)
            self.save(name, self._held[name])
            return self._held[name]

    def drop(self, name: str) -> None:
        """Take a sketch away."""
        with self.busy:
            self._saves.drop(KIND, name)
            self._held.pop(name, None)

    def live(self, name: str) -> Live:
        """A sketch with its state; one that is damaged is captured again."""
        self.refuse_unknown(name)
        state = self.load(name).state
        if state is None:
            with Pins(self.door) as pins:
                state, _ = self.refresh_in_call(name, pins)
            self.save(name, state)
        return state

    def load(self, name: str) -> Loaded[AdvancedSketch, Live]:
        """The state in memory or the saved one; a reason if changes cannot be applied to it."""
        self.refuse_unknown(name)
        held, now = self._held.get(name), self._saves.fingerprint(KIND, name)
        same = held is not None and (
            self._seen.get(name) == now
            or self._saves.head(KIND, name).definition["id"] == held.definition.id
        )
        if held is None or not same:
            try:
                held = self._held[name] = load(self.door, self._saves, name)
                self._seen[name] = now
            except Corrupt as corrupt:
                head = self._saves.head(KIND, name)
                lost = AdvancedSketch(SketchDefinition.from_json(head.definition))
                return Loaded(lost, None, head.vector, reason=corrupt.reason)
        reason = held.definition.kept or ("" if held.engine is not None else "SKETCH_STATE_LOST")
        return Loaded(AdvancedSketch(held.definition), held, held.vector, reason=reason)

    def hold(self, name: str, live: Live) -> None:
        """Hold a state from now on; it is saved later."""
        before = self._held.get(name)
        if before is not None and before.definition.types != live.definition.types:
            self._shapes.pop(live.definition.id, None)
            self.selections.forget(live.definition)
        self._held[name] = live

    def forget(self, name: str) -> None:
        """Let go of a state."""
        self._held.pop(name, None)

    def refresh_in_call(
        self,
        name: str,
        pins: Pins,
        *,
        full: bool = False,
        only: Collection[str] | None = None,
        others: Collection[SketchDefinition] = (),
    ) -> tuple[Live, Outcome]:
        """A sketch brought up to date in memory; if that fails midway, its state is let go of.

        `others` are brought in the same call, by the same changes.
        """
        call = Call(self.door, pins, self._ledger)
        outcome = advance(SketchesOfCall(self, others), name, call, full=full, only=only)
        return self._held[name], outcome

    def _definitions(self) -> list[SketchDefinition]:
        """All that can be read."""
        found = []
        for name in self.names():
            with suppress(BelvedereError, OSError):
                found.append(self.definition(name))
        return found

    def keep(self, name: str) -> None:
        """Save what is held, if enough would be lost with it."""
        live = self._held[name]
        if live.owed > LATER * self._saving.get(name, 0.0):
            self.save(name, live)

    def save(self, name: str, live: Live) -> None:
        """Hold a sketch from now on, and save it."""
        start = time.perf_counter()
        self._ledger.flush()
        self._held[name] = save(self._saves, name, live)
        self._seen[name] = self._saves.fingerprint(KIND, name)
        self._saving[name] = time.perf_counter() - start

    def noted(self, name: str, costs: Mapping[str, float]) -> None:
        """Remember what a query through a sketch took."""
        live = self._held.get(name)
        if live is not None:
            noted = replace(live.definition, costs=dict(costs))
            self._held[name] = replace(live, definition=noted, owed=live.owed + _A_NOTE)

    def refresh(
        self, name: str, *, full: bool = False, only: Collection[str] | None = None
    ) -> Outcome:
        """Bring one to the newest versions, or some of its tables."""
        with self.busy, Pins(self.door) as pins:
            _, done = self.refresh_in_call(name, pins, full=full, only=only)
            self.keep(name)
            return done

    def cluster(self, name: str) -> list[Clustered]:
        """Put the tables that a sketch cuts into the order of its columns."""
        self.refuse_unknown(name)
        with self.busy, self.door.one_call(), Pins(self.door) as pins:
            live, _ = self.refresh_in_call(name, pins)
            if live.definition.retired:
                raise Invalid(
                    f"sketch {name!r} is retired: {live.definition.retired}",
                    reason="SKETCH_RETIRED",
                )
            done = cluster(pins, live)
            self.refresh_in_call(name, pins)
            self.keep(name)
            return done

    def refresh_all(self, *, full: bool = False) -> list[Outcome]:
        """Bring all to the newest versions; a change is read once for those that need it (IMP §7)."""
        done = []
        with self.busy, Pins(self.door) as pins:
            others = self._definitions()
            for name in self.names():
                done.append(self.refresh_in_call(name, pins, full=full, others=others)[1])
                self.keep(name)
        return done

    def refuse_unknown(self, name: str) -> None:
        if name not in self.names():
            known = ", ".join(self.names()) or "none"
            hint = self._saves.mending(KIND, name) or f"sketches here: {known}"
            raise Invalid(f"no sketch {name!r}", hint=hint, reason="UNKNOWN_SKETCH")
