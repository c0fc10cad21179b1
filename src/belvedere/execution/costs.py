"""Predicted cost of a refresh by each strategy: from the work of its plan and from past refreshes.

    seconds = factor × (fixed + work ÷ rows a second)

The factor is the ratio of measured seconds to the formula without a factor. Two medians give it:

    own     the newest three refreshes of this view by the same strategy, of similar work if there
            are any, of any work otherwise
    usual   the refreshes of all views in this lake: of rebuilds, or of refreshes from changes; of
            similar work if there are any

The median of n own refreshes counts n times as much as the usual one. Work within a factor of four
is similar. A much smaller refresh that took too long adds its excess seconds instead of scaling
them: its rows were not the cause.

A creation counts as a rebuild on a cold machine: its seconds are reduced before they are used. A
strategy that this view did not use in its newest ten refreshes is predicted at half its cost, so
that it is tried again now and then, at most every eleventh time. Refreshes that ran no Spark job
say nothing about refreshes that do.

`derivations/cost_history.py` collects the past refreshes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from statistics import median

from belvedere.execution.strategies import Strategy

WORTH_IT = 0.9
"""A rebuild replaces a refresh from changes if it is predicted to take less than this part of it."""

RECENT = 10
"""The newest refreshes of a view, among which a strategy counts as used recently."""
FIXED_SECONDS = {"merge": 0.4, "replace keys": 0.4, "rebuild": 0.6}
"""Of each strategy that has a cost."""

_ROWS_A_SECOND = 7e6
_SIMILAR = 4
_OWN_REFRESHES = 3
_COLD, _COLD_SECONDS = 2.5, 5.0
"""A creation takes this many times as long as a later rebuild, but at most so many seconds longer:
two to three times on TPC-H at scale 1, the same at scale 10."""
_STALE = 2.0
"""Divides the prediction for a strategy that was not used recently."""
_UNTRIED = 2.0
"""Multiplies the work of a refresh from changes on Spark where only rebuilds are known: two to three
times on TPC-H, because changes are read twice and netted."""


@dataclass(frozen=True)
class Candidate:
    """A strategy that a refresh could take: its work in rows, and the predicted seconds."""

    strategy: str
    work: float | None = None
    predicted_seconds: float | None = None
    why: str = ""


@dataclass(frozen=True)
class MeasuredRefresh:
    """A past refresh: its strategy, its predicted work in rows, and its measured seconds."""

    strategy: str
    work: float
    seconds: float
    in_memory: bool = False
    created: bool = False


@dataclass(frozen=True)
class CostHistory:
    """Past refreshes, newest first: the view's own, and those of all views."""

    own: Sequence[MeasuredRefresh] = ()
    every: Sequence[MeasuredRefresh] = ()
    of_spark: bool = False
    surely: bool = False

    def on_spark(self, *, surely: bool = True) -> CostHistory:
        """The history for a refresh that runs Spark jobs: refreshes in memory do not count.

        Unless `surely`, the view's own refreshes of similar work count wherever they ran: Spark
        may have been expected then, too, and had nothing to do.
        """
        return replace(self, of_spark=True, surely=surely)

    def relevant(self, refreshes: Sequence[MeasuredRefresh]) -> list[MeasuredRefresh]:
        """Those that ran where the next refresh will run."""
        return [r for r in refreshes if not (self.of_spark and r.in_memory)]

    def most_similar(
        self, refreshes: Sequence[MeasuredRefresh], work: float
    ) -> list[MeasuredRefresh]:
        """The view's refreshes of similar work, or of any work if there are none."""
        similar = _similar(refreshes, work)
        return (self.relevant(similar) if self.surely else similar) or self.relevant(refreshes)

    def covers(self, strategy: str) -> bool:
        """Whether a prediction for Spark can rely on more than rebuilds."""
        rebuild = Strategy.REBUILD.value
        if strategy == rebuild or not self.of_spark:
            return True
        return any(r.strategy != rebuild for r in self.relevant(self.every))

    def used_recently(self, strategy: str) -> bool:
        """Whether one of the view's newest refreshes used a strategy."""
        return any(r.strategy == strategy for r in self.own[:RECENT])


def candidate(strategy: Strategy, work: float, history: CostHistory) -> Candidate:
    """A strategy with its predicted seconds; without a prediction if its work is not known.

    >>> candidate(Strategy.MERGE, 4.2e6, CostHistory()).predicted_seconds
    1.0
    >>> elsewhere = MeasuredRefresh("merge", 4.2e6, 2.0)
    >>> candidate(Strategy.MERGE, 4.2e6, CostHistory(every=[elsewhere])).predicted_seconds
    2.0
    """
    if not isfinite(work):
        return Candidate(strategy.value)
    expected = work if history.covers(strategy.value) else work * _UNTRIED
    seconds = _formula(strategy.value, expected) * _factor(strategy.value, work, history)
    return Candidate(strategy.value, work, seconds)


def cheaper(one: Candidate, other: Candidate) -> bool:
    """Whether the first is predicted to take less than `WORTH_IT` of the seconds of the second."""
    if one.predicted_seconds is None or other.predicted_seconds is None:
        return False
    return one.predicted_seconds < WORTH_IT * other.predicted_seconds


def _formula(strategy: str, work: float) -> float:
    return FIXED_SECONDS[strategy] + work / _ROWS_A_SECOND


def _factor(strategy: str, work: float, history: CostHistory) -> float:
    own = [r for r in history.own if r.strategy == strategy]
    usual = _usual_ratio(strategy, work, history.relevant(history.every))
    similar = history.most_similar([r for r in own if not r.created], work)
    newest = (similar or history.relevant(own))[:_OWN_REFRESHES]
    if not newest:
        return usual
    count = len(newest)
    ratio = median(_ratio(r, work) for r in newest)
    factor = float((usual * ratio**count) ** (1 / (count + 1)))
    return factor if history.used_recently(strategy) else factor / _STALE


def _usual_ratio(strategy: str, work: float, every: Sequence[MeasuredRefresh]) -> float:
    rebuild = Strategy.REBUILD.value
    same_way = [r for r in every if (r.strategy == rebuild) is (strategy == rebuild)]
    warm = [r for r in same_way if not r.created]
    best = _similar(warm, work) or _similar(same_way, work) or warm or same_way or every
    return median(_ratio(r, work) for r in best) if best else 1.0


def _similar(refreshes: Sequence[MeasuredRefresh], work: float) -> list[MeasuredRefresh]:
    return [r for r in refreshes if work / _SIMILAR <= r.work <= work * _SIMILAR]


def _ratio(past: MeasuredRefresh, work: float) -> float:
    """The factor that a past refresh suggests for a refresh of some work."""
    seconds, formula = _warm_seconds(past), _formula(past.strategy, past.work)
    if seconds > formula and past.work * _SIMILAR < work:
        return 1 + (seconds - formula) / _formula(past.strategy, work)
    return seconds / formula


def _warm_seconds(past: MeasuredRefresh) -> float:
    """The seconds of a refresh; of a creation, those that a later rebuild would take."""
    warm = max(past.seconds / _COLD, past.seconds - _COLD_SECONDS)
    return warm if past.created else past.seconds
