"""Try base changes out: their side effects, beside the requested changes.

Of changes that do the request with side effects, those with the fewest are remembered. Side effects
are counted within a limit of steps; beyond it the count is a lower bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from belvedere.updating.side_effects.in_memory import (
    BaseChanges,
    Signature,
    TableState,
    TooManyJoins,
    ViewEffect,
    view_effect,
)
from belvedere.updating.side_effects.on_spark import CompleteChanges, JoinEngine, view_effect_by
from belvedere.updating.summary.base_tables import BaseTables
from belvedere.updating.translate.constraints import BaseRow

MOST_SHOWN = 5
MOST_STEPS_COUNTING = 200_000
"""The limit of steps for counting side effects."""


@dataclass(frozen=True)
class Translation:
    """Base changes with exactly the requested effect."""

    changes: BaseChanges
    new: Mapping[str, list[BaseRow]]
    """The inserted rows, with all their columns."""

    @property
    def touched(self) -> int:
        """The number of base rows that change, not counting copies."""
        gone = sum(map(len, self.changes.gone.values()))
        return gone + sum(map(len, self.new.values()))


@dataclass(frozen=True)
class JudgedAttempt:
    """Base changes with side effects, and their count."""

    attempt: Translation
    effect: ViewEffect
    """The effect, with the first few side effects."""
    does: bool
    """Whether the request is done."""
    extra: int
    """The number of side effects."""
    at_least: bool
    """Whether the number is a lower bound."""
    asked: int
    """The number of view rows that change as requested."""

    @property
    def harm(self) -> tuple[bool, bool, int, int]:
        """The key by which the least harmful attempt is chosen."""
        return not self.does, self.at_least, self.extra, self.attempt.touched


@dataclass
class Trial:
    """Compares the effect of base changes with a request."""

    base: BaseTables
    engine: JoinEngine | None
    """Joins what is too large for memory."""
    steps: int
    deleted: Sequence[Signature]
    inserted: Sequence[Signature]

    def __post_init__(self) -> None:
        self.old = TableState(self.base, BaseChanges(), [self.steps])
        self.counting = True

    def wanted(self) -> set[Signature]:
        """The view rows that must be added: requested ones that the view does not have."""
        return {s for s in self.inserted if self.old.embedding_of(s) is None}

    def unwanted(self) -> set[Signature]:
        """The view rows that must be removed."""
        return set(self.deleted) - set(self.inserted)

    def extra(self, effect: ViewEffect) -> set[Signature]:
        """The side effects of an effect."""
        added = effect.added.keys() - set(self.inserted)
        return added | (effect.removed.keys() - self.unwanted())

    def does_exactly(self, effect: ViewEffect) -> bool:
        """Whether an effect is exactly the request."""
        if self.extra(effect):
            return False
        return effect.added.keys() >= self.wanted() and effect.removed.keys() >= self.unwanted()

    def effect(self, attempt: Translation) -> ViewEffect:
        """The effect of base changes: computed in memory, or by the engine if it is too large."""
        base, changes = self.base, attempt.changes
        expected = [*self.deleted, *self.inserted]
        try:
            effect = view_effect(
                base, changes, expected=expected, most=MOST_SHOWN, steps=self.steps
            )
            if self._is_open(changes) and not self.extra(effect):
                raise TooManyJoins(
                    "this update joins too many rows to be found in the tables", reason="TOO_MUCH"
                )
            return effect
        except TooManyJoins:
            if self.engine is None:
                raise
        effect = view_effect_by(
            self.engine, base, CompleteChanges(changes, attempt.new), expected, MOST_SHOWN
        )
        # The engine may have added rows to memory.
        self.old = TableState(base, BaseChanges(), [self.steps])
        return effect

    def _is_open(self, changes: BaseChanges) -> bool:
        """Whether some rows that the changes join with are not in memory."""
        return bool(self.base.truncated & {*changes.gone, *changes.new})

    def judged(
        self, attempt: Translation, effect: ViewEffect, least: JudgedAttempt | None
    ) -> JudgedAttempt:
        """An attempt with its side effects counted, as far as needed to compare it with the least one."""
        does = self._does(attempt.changes)
        extra, at_least = len(self.extra(effect)), self._is_open(attempt.changes)
        if not effect.complete and does:
            extra, is_exact = self._counted(attempt.changes, extra, least)
            at_least |= not is_exact
        elif not effect.complete:
            at_least = True
        asked_count = len(self.wanted()) + len(self.unwanted())
        return JudgedAttempt(attempt, effect, does, extra, at_least, asked_count)

    def _does(self, changes: BaseChanges) -> bool:
        after = TableState(self.base, changes, [self.steps])
        try:
            comes = all(after.embedding_of(s) is not None for s in self.inserted)
            return comes and all(after.embedding_of(s) is None for s in self.unwanted())
        except TooManyJoins:
            return False

    def _counted(
        self, changes: BaseChanges, first: int, least: JudgedAttempt | None
    ) -> tuple[int, bool]:
        """The number of side effects, and whether it is exact."""
        if not self.counting:
            return first, False
        most = least.extra if least is not None and least.does and not least.at_least else None
        expected = [*self.deleted, *self.inserted]
        try:
            effect = view_effect(
                self.base,
                changes,
                expected=expected,
                most=most,
                steps=min(self.steps, MOST_STEPS_COUNTING),
            )
        except TooManyJoins:
            self.counting = False
            return first, False
        return len(self.extra(effect)), effect.complete
