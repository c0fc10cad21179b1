"""FAST: what the tables' own rules, and then the summary, say of one view row to insert."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from belvedere.updating.asked import Coder, Normal, ViewRow, options_of
from belvedere.updating.domains import plain
from belvedere.updating.estimate import Estimate
from belvedere.updating.exact import Changes
from belvedere.updating.fillings import Order, fillings, known_with
from belvedere.updating.filter import Filter
from belvedere.updating.puts import Choice, Put, merged
from belvedere.updating.search import Request
from belvedere.updating.writing import Broken, allowed, completed

Known = Sequence[Mapping[str, Normal]]
"""What is known of each segment of a view row."""


@dataclass(frozen=True)
class Quick:
    """Estimates of insertions that the tables allow."""

    filter: Filter
    request: Request
    theta: float
    most: int
    """How many fillings of what is hidden are tried."""
    order: Order

    def answer(self, row: ViewRow) -> Estimate | Broken:
        """The estimate of an insertion, of several fillings the best; or what forbids them all."""
        best: Estimate | None = None
        broken = Broken("no base rows make it so", [], "NO_ROWS", certain=False)
        for known in self._known(row):
            found = self.filter.estimate(self.filter.segments_known(known, self.request.coder))
            if best is not None and best.rows <= found.rows:
                continue
            forbidden = refused(self.request, known)
            if forbidden is not None:
                broken = forbidden
                continue
            best = found
            if not best.declares(self.theta):
                break
        if best is not None:
            return best
        broken.certain &= not hides(self.request.coder)
        return broken

    def _known(self, row: ViewRow) -> Iterator[Known]:
        coder = self.request.coder
        if not hides(coder):
            yield [coder.known(p, row) for p in range(len(coder.shape.positions))]
            return
        options, _ = options_of(coder, row, self.request.rules, self.request.source, 1)
        for filling in fillings(coder, options, self.order, self.most):
            yield known_with(coder, options, filling)


def hides(coder: Coder) -> bool:
    """Whether a view uses columns that it does not show."""
    return any(coder.hidden(p) for p in range(len(coder.shape.positions)))


def refused(request: Request, known: Known) -> Broken | None:
    """Why the segments of a view row cannot all be base rows; None if they can."""
    coder, shape = request.coder, request.base.shape
    new = []
    for p, position in enumerate(shape.positions):
        types = shape.used[position.table]
        row = {c: plain(v, types[c]) for c, v in known[p].items()}
        if p not in coder.coded(position.table, row).members:
            message = f"a row of {position.table!r} would not meet the view's WHERE"
            return Broken(message, [], "FAILS_WHERE")
        if not request.source.where(position.table, row):
            new.append(Put(position.table, row, [], {p: []}))
    puts = merged(new, request.rules)
    choice = Choice(frozenset(), {}, puts, (), coder)
    try:
        full = completed(request, choice)
        coded = {t: tuple(coder.coded(t, row) for row in rows) for t, rows in full.items()}
        allowed(request, Changes({}, coded), choice, full)
    except Broken as broken:
        return broken
    return None
