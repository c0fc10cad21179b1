"""The cost history of a lake: read from the ledger once, then extended as refreshes end.

The newest records are read, of the whole lake and of the view. Refreshes of this process are added
when they end.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from weakref import WeakKeyDictionary

from belvedere.derivations.ledger import VIEW, Record, newest
from belvedere.execution.costs import FIXED_SECONDS, RECENT, CostHistory, MeasuredRefresh
from belvedere.execution.strategies import Strategy
from belvedere.lake.offline import ReadableLake

_OF_LAKE, _OF_VIEW = 1000, 100
"""How many records are read from the ledger, which is never cleaned up."""

_histories: WeakKeyDictionary[ReadableLake, dict[str, list[MeasuredRefresh]]] = WeakKeyDictionary()
_busy = threading.Lock()


def cost_history(lake: ReadableLake, view_id: str) -> CostHistory:
    """The past refreshes from which the costs of a view's next refresh are predicted."""
    with _busy:
        by_view = _histories.setdefault(lake, {})
        if view_id not in by_view:
            _read(lake, view_id, by_view)
        every = [past for refreshes in by_view.values() for past in refreshes[:RECENT]]
        return CostHistory(by_view.setdefault(view_id, []), every)


def learn(lake: ReadableLake, record: Record | None) -> None:
    """Add a refresh that ended; those of other kinds than views predict nothing."""
    if record is not None and record.kind == VIEW:
        with _busy:
            by_view = _histories.setdefault(lake, {})
            if record.view_id in by_view:
                by_view[record.view_id] = _newest([*_measured(record), *by_view[record.view_id]])


def _read(lake: ReadableLake, view_id: str, by_view: dict[str, list[MeasuredRefresh]]) -> None:
    read = (*newest(lake, _OF_LAKE), *newest(lake, _OF_VIEW, view_id))
    records = {
        (r.view_id, r.refresh): r for r in read if r.kind == VIEW and r.view_id not in by_view
    }
    for record in sorted(records.values(), key=lambda r: r.started, reverse=True):
        by_view.setdefault(record.view_id, []).extend(_measured(record))
    by_view.update({view: _newest(refreshes) for view, refreshes in by_view.items()})


def _newest(refreshes: Sequence[MeasuredRefresh]) -> list[MeasuredRefresh]:
    """A view's newest refreshes, and its newest by each strategy, in memory and on Spark."""
    seen: Counter[tuple[str, bool]] = Counter()
    kept = []
    for place, past in enumerate(refreshes):
        seen[past.strategy, past.in_memory] += 1
        if place < RECENT or seen[past.strategy, past.in_memory] <= RECENT:
            kept.append(past)
    return kept


def _measured(record: Record) -> list[MeasuredRefresh]:
    """What a record says of costs: nothing if its strategy has none."""
    created = record.strategy == "create"
    strategy = Strategy.REBUILD.value if created else record.strategy
    works = [c.work for c in record.candidates if c.strategy == strategy and c.work is not None]
    return [
        MeasuredRefresh(strategy, work, record.seconds, record.jobs == 0, created)
        for work in works
        if strategy in FIXED_SECONDS
    ]
