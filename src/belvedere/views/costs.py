"""What a refresh will take, by each strategy: from the work of its plan and what earlier ones took.

    seconds = factor × (fixed + work ÷ 10 million rows a second)

The factor is what this view's refreshes really took beside what the formula says: those by the
same strategy and of about the same work if there are any, else by the same strategy, else all.
A view's creation counts as a rebuild, so there is always one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from belvedere.views.choice import Strategy

_ROWS_A_SECOND = 1e7
_FIXED = {Strategy.MERGE: 0.3, Strategy.REPLACE: 0.3, Strategy.REBUILD: 0.6}
_ALIKE = 4
_NEWEST = 5


@dataclass(frozen=True)
class Took:
    """An earlier refresh: how, how much work it was thought to be, and its seconds."""

    strategy: str
    work: float
    seconds: float


@dataclass(frozen=True)
class Candidate:
    """A strategy that could be taken, its work in rows, and the seconds that predicts."""

    strategy: Strategy
    work: float
    seconds: float

    def __str__(self) -> str:
        """
        >>> print(Candidate(Strategy.MERGE, 2e6, 0.512))
        merge 0.51 s
        """
        return f"{self.strategy.value} {self.seconds:.2f} s"


def candidate(strategy: Strategy, work: float, past: Sequence[Took]) -> Candidate:
    """A strategy with its prediction, from the earlier refreshes of the view, newest first.

    >>> candidate(Strategy.MERGE, 7e6, []).seconds
    1.0
    >>> candidate(Strategy.MERGE, 7e6, [Took("rebuild", 14e6, 4.0)]).seconds
    2.0
    """
    return Candidate(strategy, work, _formula(strategy.value, work) * _factor(strategy, work, past))


def cheapest(candidates: Iterable[Candidate]) -> Candidate:
    """The one with the fewest seconds; of equal ones the first."""
    return min(candidates, key=lambda c: c.seconds)


def _formula(strategy: str, work: float) -> float:
    return _FIXED[Strategy(strategy)] + work / _ROWS_A_SECOND


def _factor(strategy: Strategy, work: float, past: Sequence[Took]) -> float:
    own = [t for t in past if t.strategy == strategy.value]
    alike = [t for t in own if work / _ALIKE <= t.work <= work * _ALIKE]
    for told in (alike, own, past):
        if told:
            return median(t.seconds / _formula(t.strategy, t.work) for t in told[:_NEWEST])
    return 1.0
