"""What a refresh will take, by each strategy: from the work of its plan and what earlier ones took.

    seconds = factor × (fixed + work ÷ rows a second)

The factor is what refreshes really took beside what the formula says. Of this view's newest ten
those by the same strategy tell it, and of these the ones of about the same work if there are
any: the median of n counts n times as much as what is usual in this lake, the median over all
views, which is the machine's speed. A strategy that was not taken for long is thus tried again.
A view's creation is a rebuild and more, often the first thing that Spark does: until the view was
rebuilt, it tells what that takes at most. All are read from the ledger at once, and those of this
process are added as they end. Refreshes that ran no Spark job tell nothing of those that do.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite
from statistics import median
from weakref import WeakKeyDictionary

from belvedere.lake.shelf import Tables
from belvedere.views.choice import Strategy
from belvedere.views.ledger import Candidate, Record, records

WORTH_IT = 0.9
"""Everything is computed again only if that is predicted to take this part of the time, or less."""

_ROWS_A_SECOND = 7e6
_FIXED = {"merge": 0.4, "replace keys": 0.4, "rebuild": 0.6}
_ALIKE = 4
_NEWEST = 10


@dataclass(frozen=True)
class Took:
    """An earlier refresh: how, how much work it was thought to be, and its seconds."""

    strategy: str
    work: float
    seconds: float
    in_memory: bool = False
    created: bool = False


@dataclass(frozen=True)
class Past:
    """What is known of earlier refreshes: the view's own, newest first, and what is usual."""

    own: Sequence[Took] = ()
    usual: float = 1.0
    usual_on_spark: float = 1.0

    def on_spark(self) -> Past:
        """Only of the refreshes that ran Spark jobs."""
        own = [took for took in self.own if not took.in_memory]
        return Past(own, self.usual_on_spark, self.usual_on_spark)


_learned: WeakKeyDictionary[Tables, dict[str, list[Took]]] = WeakKeyDictionary()
_learning = threading.Lock()


def past(lake: Tables, view_id: str) -> Past:
    """The earlier refreshes that tell something about the next one of a view."""
    with _learning:
        known = _learned.setdefault(lake, {})
        if view_id not in known:
            recorded = [r for r in records(lake) if r.view_id not in known]
            for record in sorted(recorded, key=lambda r: r.started, reverse=True):
                known.setdefault(record.view_id, []).extend(_told(record))
        own = known.setdefault(view_id, [])
        every = [took for view in known.values() for took in view[:_NEWEST]]
        on_spark = [took for took in every if not took.in_memory]
        return Past(own[:_NEWEST], _usual(every), _usual(on_spark))


def learn(lake: Tables, record: Record | None) -> None:
    """Take note of a refresh that ended."""
    if record is not None:
        with _learning:
            known = _learned.setdefault(lake, {})
            if record.view_id in known:
                known[record.view_id][:0] = _told(record)


def candidate(strategy: Strategy, work: float, past: Past) -> Candidate:
    """A strategy with what is predicted of it; nothing where its work is not known.

    >>> candidate(Strategy.MERGE, 4.2e6, Past()).predicted_seconds
    1.0
    >>> candidate(Strategy.MERGE, 4.2e6, Past(usual=2.0)).predicted_seconds
    2.0
    """
    if not isfinite(work):
        return Candidate(strategy.value)
    seconds = _formula(strategy.value, work) * _factor(strategy.value, work, past)
    return Candidate(strategy.value, work, seconds)


def cheaper(one: Candidate, other: Candidate) -> bool:
    """Whether one is predicted to take so much less than the other that it is worth it."""
    known = one.predicted_seconds is not None and other.predicted_seconds is not None
    return known and (one.predicted_seconds or 0) < WORTH_IT * (other.predicted_seconds or 0)


def _formula(strategy: str, work: float) -> float:
    return _FIXED[strategy] + work / _ROWS_A_SECOND


def _factor(strategy: str, work: float, past: Past) -> float:
    own = [t for t in past.own if t.strategy == strategy]
    if own and all(t.created for t in own):
        return min(past.usual, *map(_ratio, own))
    own = [t for t in own if not t.created]
    alike = [t for t in own if work / _ALIKE <= t.work <= work * _ALIKE] or own
    if not alike:
        return past.usual
    told, count = median(map(_ratio, alike)), len(alike)
    return float((past.usual * told**count) ** (1 / (count + 1)))


def _usual(every: Sequence[Took]) -> float:
    return median(map(_ratio, every)) if every else 1.0


def _ratio(took: Took) -> float:
    return took.seconds / _formula(took.strategy, took.work)


def _told(record: Record) -> list[Took]:
    how = Strategy.REBUILD.value if record.strategy == "create" else record.strategy
    works = [c.work for c in record.candidates if c.strategy == how and c.work is not None]
    told = partial(Took, seconds=record.seconds, in_memory=record.jobs == 0)
    created = how != record.strategy
    return [told(how, work, created=created) for work in works if how in _FIXED]
