"""What a refresh will take, by each strategy: from the work of its plan and what earlier ones took.

    seconds = factor × (fixed + work ÷ rows a second)

The factor is what refreshes really took beside what the formula says. The newest three of this
view by the same strategy and of about the same work tell it, or of any work if there are none:
the median of n counts n times as much as what is usual in this lake, the median over all views of
rebuilds, or of refreshes from changes, which is the machine's speed at them: at work of about the
same size if there was any, for rows are handled faster where they are few, or slower. What a much
smaller refresh took too long is added, not multiplied: it was not its rows.

A view's creation is a rebuild before anything is warm: a part of what it took, or all but some
seconds, counts as one refresh of a view that was never rebuilt. What is not tried is not learned,
so of what this view did not do in its newest ten refreshes half is expected: it is tried again
where it would not take twice as long, at most every eleventh time.

The newest are read from the ledger at once, of the lake and of the view, and those of this process
are added as they end. Refreshes that ran no Spark job tell nothing of those that do.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite
from statistics import median
from weakref import WeakKeyDictionary

from belvedere.derivations.ledger import Candidate, Record, newest
from belvedere.execution.strategies import Strategy
from belvedere.lake.offline import ReadableLake

WORTH_IT = 0.9
"""Everything is computed again only if that is predicted to take this part of the time, or less."""

_ROWS_A_SECOND = 7e6
_FIXED = {"merge": 0.4, "replace keys": 0.4, "rebuild": 0.6}
_ALIKE = 4
_TELLING = 3
_LATELY = 10
_OF_LAKE, _OF_VIEW = 1000, 100
"""Refreshes that are read from the ledger: it is kept for ever."""
_COLD, _COLD_SECONDS = 2.5, 5.0
"""How many times as long a creation takes as a rebuild does later, and by how much at most: two to
three times on TPC-H at scale 1, as long at scale 10."""
_STALE = 2.0
"""By what is divided what was not tried lately."""
_UNTRIED = 2.0
"""How many times the work a refresh from changes is thought to be on Spark where none is known, only
rebuilds: two to three times on TPC-H, for the changes are read twice and netted."""


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
    """What is known of earlier refreshes, newest first: the view's own, and those of all views."""

    own: Sequence[Took] = ()
    every: Sequence[Took] = ()
    of_spark: bool = False
    surely: bool = False

    def on_spark(self, *, surely: bool = True) -> Past:
        """To be told by the refreshes that ran Spark jobs alone.

        Unless that is sure, those of the view itself and of the same work tell, too: Spark may
        have been expected of them as well, and had nothing to do.
        """
        return replace(self, of_spark=True, surely=surely)

    def telling(self, some: Sequence[Took]) -> list[Took]:
        """Those of some refreshes that tell something."""
        return [t for t in some if not (self.of_spark and t.in_memory)]

    def alike(self, some: Sequence[Took], work: float) -> list[Took]:
        """Those of the view's own refreshes that tell most: of about the same work, if there are any."""
        near = _near(some, work)
        return (self.telling(near) if self.surely else near) or self.telling(some)

    def knows(self, strategy: str) -> bool:
        """Whether there is more to go by than rebuilds, if Spark is to refresh from changes."""
        again = Strategy.REBUILD.value
        told = strategy == again or any(t.strategy != again for t in self.telling(self.every))
        return told or not self.of_spark

    def lately(self, strategy: str) -> bool:
        """Whether the view did so in one of its newest refreshes."""
        return any(t.strategy == strategy for t in self.own[:_LATELY])


_learned: WeakKeyDictionary[ReadableLake, dict[str, list[Took]]] = WeakKeyDictionary()
_learning = threading.Lock()


def past(lake: ReadableLake, view_id: str) -> Past:
    """The earlier refreshes that tell something about the next one of a view."""
    with _learning:
        known = _learned.setdefault(lake, {})
        if view_id not in known:
            some = (*newest(lake, _OF_LAKE), *newest(lake, _OF_VIEW, view_id))
            recorded = {(r.view_id, r.refresh): r for r in some if r.view_id not in known}
            for record in sorted(recorded.values(), key=lambda r: r.started, reverse=True):
                known.setdefault(record.view_id, []).extend(_told(record))
            known.update({view: _kept(took) for view, took in known.items()})
        every = [took for view in known.values() for took in view[:_LATELY]]
        return Past(known.setdefault(view_id, []), every)


def learn(lake: ReadableLake, record: Record | None) -> None:
    """Take note of a refresh that ended."""
    if record is not None:
        with _learning:
            known = _learned.setdefault(lake, {})
            if record.view_id in known:
                known[record.view_id] = _kept([*_told(record), *known[record.view_id]])


def candidate(strategy: Strategy, work: float, past: Past) -> Candidate:
    """A strategy with what is predicted of it; nothing where its work is not known.

    >>> candidate(Strategy.MERGE, 4.2e6, Past()).predicted_seconds
    1.0
    >>> elsewhere = Took("merge", 4.2e6, 2.0)
    >>> candidate(Strategy.MERGE, 4.2e6, Past(every=[elsewhere])).predicted_seconds
    2.0
    """
    if not isfinite(work):
        return Candidate(strategy.value)
    expected = work if past.knows(strategy.value) else work * _UNTRIED
    seconds = _formula(strategy.value, expected) * _factor(strategy.value, work, past)
    return Candidate(strategy.value, work, seconds)


def cheaper(one: Candidate, other: Candidate) -> bool:
    """Whether one is predicted to take so much less than the other that it is worth it."""
    known = one.predicted_seconds is not None and other.predicted_seconds is not None
    return known and (one.predicted_seconds or 0) < WORTH_IT * (other.predicted_seconds or 0)


def _formula(strategy: str, work: float) -> float:
    return _FIXED[strategy] + work / _ROWS_A_SECOND


def _factor(strategy: str, work: float, past: Past) -> float:
    ours = [t for t in past.own if t.strategy == strategy]
    usual = _usual(strategy, work, past.telling(past.every))
    alike = past.alike([t for t in ours if not t.created], work) or past.telling(ours)
    if not alike:
        return usual
    told, count = median(_ratio(t, work) for t in alike[:_TELLING]), len(alike[:_TELLING])
    factor = float((usual * told**count) ** (1 / (count + 1)))
    return factor if past.lately(strategy) else factor / _STALE


def _usual(strategy: str, work: float, every: Sequence[Took]) -> float:
    again = Strategy.REBUILD.value
    alike = [t for t in every if (t.strategy == again) is (strategy == again)]
    done = [t for t in alike if not t.created]
    some = _near(done, work) or _near(alike, work) or done or alike or every
    return median(_ratio(t, work) for t in some) if some else 1.0


def _near(some: Sequence[Took], work: float) -> list[Took]:
    """Those of about the same work."""
    return [t for t in some if work / _ALIKE <= t.work <= work * _ALIKE]


def _ratio(took: Took, work: float) -> float:
    """What an earlier refresh says of one of some work, beside the formula."""
    seconds, formula = _warm(took), _formula(took.strategy, took.work)
    if seconds > formula and took.work * _ALIKE < work:
        return 1 + (seconds - formula) / _formula(took.strategy, work)
    return seconds / formula


def _warm(took: Took) -> float:
    """Seconds, of a creation what a rebuild will take."""
    cold = max(took.seconds / _COLD, took.seconds - _COLD_SECONDS)
    return cold if took.created else took.seconds


def _kept(view: Sequence[Took]) -> list[Took]:
    """A view's newest refreshes, and the newest by each strategy in memory and on Spark."""
    seen: Counter[tuple[str, bool]] = Counter()
    kept = []
    for place, took in enumerate(view):
        seen[took.strategy, took.in_memory] += 1
        if place < _LATELY or seen[took.strategy, took.in_memory] <= _LATELY:
            kept.append(took)
    return kept


def _told(record: Record) -> list[Took]:
    how = Strategy.REBUILD.value if record.strategy == "create" else record.strategy
    works = [c.work for c in record.candidates if c.strategy == how and c.work is not None]
    told = partial(Took, seconds=record.seconds, in_memory=record.jobs == 0)
    created = how != record.strategy
    return [told(how, work, created=created) for work in works if how in _FIXED]
