"""What a refresh will take, by each strategy: from the work of its plan and what earlier ones took.

    seconds = factor × (fixed + work ÷ rows a second)

The factor is what this view's refreshes really took beside what the formula says: those by the
same strategy and of about the same work if there are any, else by the same strategy, else all;
of the newest five the fastest, for what runs beside a refresh can only slow it down.
A view's creation counts as a rebuild, so there is always one. All are read from the
ledger at once, and those of this process are added as they end.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from weakref import WeakKeyDictionary

from belvedere.lake.shelf import Tables
from belvedere.views.choice import Strategy
from belvedere.views.ledger import Candidate, Record, records

WORTH_IT = 0.9
"""Everything is computed again only if that is predicted to take this part of the time, or less."""

_ROWS_A_SECOND = 7e6
_FIXED = {"merge": 0.4, "replace keys": 0.4, "rebuild": 0.8}
_ALIKE = 4
_NEWEST = 5


@dataclass(frozen=True)
class Took:
    """An earlier refresh: how, how much work it was thought to be, and its seconds."""

    strategy: str
    work: float
    seconds: float


_learned: WeakKeyDictionary[Tables, dict[str, list[Took]]] = WeakKeyDictionary()
_learning = threading.Lock()


def past(lake: Tables, view_id: str) -> Sequence[Took]:
    """The earlier refreshes of a view that tell something, newest first."""
    with _learning:
        known = _learned.setdefault(lake, {})
        if view_id not in known:
            recorded = [r for r in records(lake) if r.view_id not in known]
            for record in sorted(recorded, key=lambda r: r.started, reverse=True):
                known.setdefault(record.view_id, []).extend(_told(record))
        return list(known.setdefault(view_id, []))


def learn(lake: Tables, record: Record | None) -> None:
    """Take note of a refresh that ended."""
    if record is not None:
        with _learning:
            known = _learned.setdefault(lake, {})
            if record.view_id in known:
                known[record.view_id][:0] = _told(record)


def candidate(strategy: Strategy, work: float, earlier: Sequence[Took]) -> Candidate:
    """A strategy with what is predicted of it; nothing where its work is not known.

    >>> candidate(Strategy.MERGE, 4.2e6, []).predicted_seconds
    1.0
    >>> candidate(Strategy.MERGE, 4.2e6, [Took("rebuild", 8.4e6, 4.0)]).predicted_seconds
    2.0
    """
    if not isfinite(work):
        return Candidate(strategy.value)
    seconds = _formula(strategy.value, work) * _factor(strategy.value, work, earlier)
    return Candidate(strategy.value, work, seconds)


def cheaper(one: Candidate, other: Candidate) -> bool:
    """Whether one is predicted to take so much less than the other that it is worth it."""
    known = one.predicted_seconds is not None and other.predicted_seconds is not None
    return known and (one.predicted_seconds or 0) < WORTH_IT * (other.predicted_seconds or 0)


def _formula(strategy: str, work: float) -> float:
    return _FIXED[strategy] + work / _ROWS_A_SECOND


def _factor(strategy: str, work: float, earlier: Sequence[Took]) -> float:
    own = [t for t in earlier if t.strategy == strategy]
    alike = [t for t in own if work / _ALIKE <= t.work <= work * _ALIKE]
    for told in (alike, own, earlier):
        if told:
            return min(t.seconds / _formula(t.strategy, t.work) for t in told[:_NEWEST])
    return 1.0


def _told(record: Record) -> list[Took]:
    how = Strategy.REBUILD.value if record.strategy == "create" else record.strategy
    works = [c.work for c in record.candidates if c.strategy == how and c.work is not None]
    return [Took(how, work, record.seconds) for work in works if how in _FIXED]
