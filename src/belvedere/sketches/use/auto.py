"""AUTO: watches queries, creates sketches that save time, and drops those that do not.

The seconds of a query are estimated from captures: a capture is the query and its instruments. A query
through a sketch takes the share of them that is the share of kept fragments. A sketch pays when

    uses · plain · (1 - share)  >  seconds of captures and maintenance         (IMP §12)

A sketch is tried when a shape has been queried so often that as many queries again would pay for it, if
the answer comes from a tenth of the table. A sketch with more than half of the fragments is dropped at once.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from belvedere.algebra.scalars import Scalar
from belvedere.errors import BelvedereError
from belvedere.sketches.costs import Costs
from belvedere.sketches.live import Live
from belvedere.sketches.use.implied_conditions import range_of
from belvedere.sketches.use.query_shapes import QueryShape, query_shape
from belvedere.sketches.use.rewrite import MOST_KEPT, SketchAnswer, fragment_share
from belvedere.sql.binder.bind import bind
from belvedere.sql.statements.sketches import CreateSketch
from belvedere.views.catalog import Names

if TYPE_CHECKING:
    from belvedere.sketches.service import Service

ASKED = 3
"""A sketch is tried after so many queries of one shape."""
LATER = 20
"""A sketch that does not pay after so many queries is dropped."""
LEAST_ROWS = 100_000
"""Smaller tables need no sketch."""
_INSTRUMENTS = 1.5
"""A capture takes so many times the seconds of its query."""


class Watcher:
    """Counts queries by shape; creates and drops automatic sketches."""

    def __init__(self, service: Service, least_rows: int = LEAST_ROWS) -> None:
        self._service = service
        self._least_rows = least_rows
        self._queries: Counter[str] = Counter()
        self._since: Counter[str] = Counter()
        self._tried: set[str] = set()

    def observe(self, text: str, answer: SketchAnswer) -> None:
        """Count a query, and create or drop a sketch where that pays."""
        for name in self._automatic():
            self._since[name] += 1
            if name != answer.sketch and self._since[name] >= LATER and not self._pays(name):
                self._service.drop(name)
        if answer.sketch is not None:
            self._used(answer)
            return
        signature = self._signature(text)
        if signature is None or signature in self._tried:
            return
        self._queries[signature] += 1
        if self._queries[signature] >= ASKED:
            self._try(text, signature)

    def _automatic(self) -> list[str]:
        return [n for n in self._service.names() if self._service.definition(n).automatic]

    def _used(self, answer: SketchAnswer) -> None:
        assert answer.sketch is not None
        live = self._service.live(answer.sketch)
        costs = Costs.of(live.definition.costs)
        plain = costs.capture / _INSTRUMENTS
        through = plain * answer.kept / max(answer.fragments, 1)
        self._service.noted(answer.sketch, costs.unused(plain).used(through).to_json())

    def _pays(self, name: str) -> bool:
        saved = Costs.of(self._service.live(name).definition.costs).saved
        return saved is not None and saved > 0

    def _signature(self, text: str) -> str | None:
        """The query's shape without its constants; None for a query of another form."""
        try:
            shape = query_shape(bind(text, Names(self._service.door)).plan)
        except BelvedereError:
            return None
        return None if shape.text else _without_constants(shape)

    def _try(self, text: str, signature: str) -> None:
        self._tried.add(signature)
        q = bind(text, Names(self._service.door)).plan
        rows = self._service.rows(q)
        if rows < self._least_rows:
            return
        name = "auto_" + hashlib.sha256(signature.encode()).hexdigest()[:10]
        try:
            live = self._service.create(CreateSketch(name, text, replace=True), automatic=True)
        except BelvedereError:
            return
        if live is not None and not _skips_enough(live):
            self._service.drop(name)


def _skips_enough(live: Live) -> bool:
    both = zip(live.definition.partitions, live.bitmaps, strict=True)
    return any(fragment_share(p, b) <= MOST_KEPT for p, b in both)


def _without_constants(shape: QueryShape) -> str:
    def plain(conditions: Iterable[Scalar]) -> list[str]:
        return sorted(str(r.value if (r := range_of(c)) else c) for c in conditions)

    parts = (shape.tables, plain(shape.rows), sorted(shape.keys or ()), plain(shape.groups))
    return repr((*parts, shape.order))
