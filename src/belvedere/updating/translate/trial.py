"""Base changes tried out: what they do to the view besides what was asked.

Of several that do what was asked and more, the one with the fewest side effects is remembered.
They are counted as far as that takes few steps; beyond, a count says `at least`.
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
"""Steps for counting side effects."""


@dataclass(frozen=True)
class Translation:
    """Base changes with exactly the asked effect."""

    changes: BaseChanges
    new: Mapping[str, list[BaseRow]]
    """The rows to put in, with all their columns."""

    @property
    def touched(self) -> int:
        """How many base rows are changed, copies not counted."""
        gone = sum(map(len, self.changes.gone.values()))
        return gone + sum(map(len, self.new.values()))


@dataclass(frozen=True)
class JudgedAttempt:
    """Base changes and what they do."""

    attempt: Translation
    effect: ViewEffect
    """Side effects are the first few."""
    does: bool
    """Whether they do what was asked."""
    extra: int
    """How many view rows change besides."""
    at_least: bool
    """Whether there may be more than that."""
    asked: int
    """How many view rows change as asked."""

    @property
    def harm(self) -> tuple[bool, bool, int, int]:
        """By what the least harmful is chosen."""
        return not self.does, self.at_least, self.extra, self.attempt.touched


@dataclass
class Trial:
    """View rows that are to go and to come, on tables as they are."""

    base: BaseTables
    engine: JoinEngine | None
    """Who joins what is too much for memory."""
    steps: int
    deleted: Sequence[Signature]
    inserted: Sequence[Signature]

    def __post_init__(self) -> None:
        self.old = TableState(self.base, BaseChanges(), [self.steps])
        self.counting = True

    def wanted(self) -> set[Signature]:
        """The view rows that must come; those that are there already and stay are not among them."""
        return {s for s in self.inserted if self.old.embedding_of(s) is None}

    def unwanted(self) -> set[Signature]:
        """The view rows that must go."""
        return set(self.deleted) - set(self.inserted)

    def extra(self, effect: ViewEffect) -> set[Signature]:
        """The view rows that change besides."""
        added = effect.added.keys() - set(self.inserted)
        return added | (effect.removed.keys() - self.unwanted())

    def does_exactly(self, effect: ViewEffect) -> bool:
        """Whether an effect is what was asked, no more and no less."""
        if self.extra(effect):
            return False
        return effect.added.keys() >= self.wanted() and effect.removed.keys() >= self.unwanted()

    def effect(self, attempt: Translation) -> ViewEffect:
        """What base changes do: in memory, or where that is too much by an engine that has the tables."""
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
        # Rows that the engine found may have been taken in.
        self.old = TableState(base, BaseChanges(), [self.steps])
        return effect

    def _is_open(self, changes: BaseChanges) -> bool:
        """Whether rows that the changes join with are not all in memory."""
        return bool(self.base.truncated & {*changes.gone, *changes.new})

    def judged(
        self, attempt: Translation, effect: ViewEffect, least: JudgedAttempt | None
    ) -> JudgedAttempt:
        """How much base changes do besides what was asked, as far as that matters beside others."""
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
        """How many side effects there are, and whether these are all."""
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
