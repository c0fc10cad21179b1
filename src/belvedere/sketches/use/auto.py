"""AUTO: queries are watched; sketches are created where they pay and dropped where they do not.

What a query would read is known, what it takes is not before it has run, so seconds are taken from
captures: a capture is the query and its instruments. A query through a sketch takes the share of
fragments that are kept. A sketch pays when

    uses · plain · (1 - share)  >  what captures and maintenance took          (IMP §12)

One is tried when a shape was asked so often that as many times again would pay for it, if the
answer comes from a tenth of the table; one that keeps more than half is given up at once.
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
from belvedere.sketches.use.rewrite import MOST_KEPT, SketchAnswer, share
from belvedere.sql.binder.bind import bind
from belvedere.sql.statements.sketches import CreateSketch
from belvedere.views.catalog import Names

if TYPE_CHECKING:
    from belvedere.sketches.service import Service

ASKED = 3
"""How often a shape is asked before a sketch of it is tried."""
LATER = 20
"""How many queries a sketch has to show that it pays."""
LEAST_ROWS = 100_000
"""A table of fewer rows is read whole in no time."""
_INSTRUMENTS = 1.5
"""How much longer a capture takes than its query."""


class Watcher:
    """What was asked, and what was made of it."""

    def __init__(self, service: Service, least_rows: int = LEAST_ROWS) -> None:
        self._service = service
        self._least_rows = least_rows
        self._asked: Counter[str] = Counter()
        self._since: Counter[str] = Counter()
        self._in_vain: set[str] = set()

    def saw(self, text: str, answer: SketchAnswer) -> None:
        """A query was asked; a sketch may come of it, or go."""
        for name in self._automatic():
            self._since[name] += 1
            if name != answer.sketch and self._since[name] >= LATER and not self._pays(name):
                self._service.drop(name)
        if answer.sketch is not None:
            self._used(answer)
            return
        signature = self._signature(text)
        if signature is None or signature in self._in_vain:
            return
        self._asked[signature] += 1
        if self._asked[signature] >= ASKED:
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
        """The query without its constants; None for one whose shape is not understood."""
        try:
            found = query_shape(bind(text, Names(self._service.door)).plan)
        except BelvedereError:
            return None
        return None if found.text else _without_constants(found)

    def _try(self, text: str, signature: str) -> None:
        self._in_vain.add(signature)
        found = bind(text, Names(self._service.door)).plan
        rows = self._service.rows(found)
        if rows < self._least_rows:
            return
        name = "auto_" + hashlib.sha256(signature.encode()).hexdigest()[:10]
        try:
            live = self._service.create(CreateSketch(name, text, replace=True), automatic=True)
        except BelvedereError:
            return
        if live is not None and not _worth_it(live):
            self._service.drop(name)


def _worth_it(live: Live) -> bool:
    both = zip(live.definition.partitions, live.bitmaps, strict=True)
    return any(share(p, b) <= MOST_KEPT for p, b in both)


def _without_constants(found: QueryShape) -> str:
    def plain(conditions: Iterable[Scalar]) -> list[str]:
        return sorted(str(r.value if (r := range_of(c)) else c) for c in conditions)

    parts = (found.tables, plain(found.rows), sorted(found.keys or ()), plain(found.groups))
    return repr((*parts, found.order))
