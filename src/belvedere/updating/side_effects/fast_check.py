"""FAST: what the tables' own rules, and then the summary, say of one view row to insert."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from belvedere.updating.request.fillings import Order, fillings, known_with
from belvedere.updating.request.view_rows import Coder, Normal, ViewRow
from belvedere.updating.side_effects.in_memory import Changes
from belvedere.updating.summary.domains import plain
from belvedere.updating.summary.estimate import Estimate
from belvedere.updating.summary.filter import Filter
from belvedere.updating.translate.base_rows import Broken, allowed, completed
from belvedere.updating.translate.constraints import BaseRow
from belvedere.updating.translate.new_rows import Choice, Put, merged
from belvedere.updating.translate.options import options_of
from belvedere.updating.translate.translator import Request

Known = Sequence[Mapping[str, Normal]]
"""What is known of each segment of a view row."""
MOST_TRIED = 5_000
"""Fillings of what is hidden that are looked at, the impossible ones among them."""


@dataclass
class Quick:
    """Estimates of insertions that the tables allow."""

    filter: Filter
    request: Request
    theta: float
    most: int
    """How many feasible fillings of what is hidden are estimated."""
    order: Order
    broken: Broken = field(init=False)
    """What forbade the filling that was forbidden last."""

    def answer(self, row: ViewRow) -> Estimate | Broken:
        """The estimate of an insertion, of several fillings the best; or what forbids them all."""
        best: Estimate | None = None
        self.broken = Broken("no base rows make it so", [], "NO_ROWS", certain=False)
        most = None if self.order is Order.ALL else self.most
        for known in islice(self._feasible(row), most):
            found = self.filter.estimate(self.filter.segments_known(known, self.request.coder))
            best = found if best is None or found.rows < best.rows else best
            if not best.declares(self.theta):
                break
        if best is not None:
            return best
        self.broken.certain &= not hides(self.request.coder)
        return self.broken

    def _feasible(self, row: ViewRow) -> Iterator[Known]:
        """The fillings that the tables' rules allow."""
        rules = Rules(self.request)
        for known in self._known(row):
            broken = rules.refused(known)
            if broken is None:
                yield known
            else:
                self.broken = broken

    def _known(self, row: ViewRow) -> Iterator[Known]:
        coder = self.request.coder
        if not hides(coder):
            yield [coder.known(p, row) for p in range(len(coder.shape.positions))]
            return
        (options,), _ = options_of(coder, [row], self.request.rules, self.request.source)
        most = None if self.order is Order.ALL else MOST_TRIED
        for filling in islice(fillings(coder, options, self.order), most):
            yield known_with(coder, options, filling)


def hides(coder: Coder) -> bool:
    """Whether a view uses columns that it does not show."""
    return any(coder.hidden(p) for p in range(len(coder.shape.positions)))


class Rules:
    """What the tables declare, asked of the segments of one view row with what it hides filled in."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._alone: dict[tuple[Any, ...], Put | Broken | None] = {}

    def refused(self, known: Known) -> Broken | None:
        """Why the segments of a view row cannot all be base rows; None if they can."""
        new = []
        for p, of in enumerate(known):
            put = self._put(p, of)
            if isinstance(put, Broken):
                return put
            if put is not None:
                new.append(Put(put.table, put.known, [], {p: []}))
        return self._broken(new) if new else None

    def _put(self, p: int, known: Mapping[str, Normal]) -> Put | Broken | None:
        """The row to put in at a position, what forbids it whatever comes with it, or None if it is there."""
        key = p, *known.values()
        if key not in self._alone:
            self._alone[key] = self._looked_at(p, known)
        return self._alone[key]

    def _looked_at(self, p: int, known: Mapping[str, Normal]) -> Put | Broken | None:
        request, position = self._request, self._request.base.shape.positions[p]
        types = request.base.shape.used[position.table]
        row: BaseRow = {c: plain(v, types[c]) for c, v in known.items()}
        if p not in request.coder.coded(position.table, row).members:
            message = f"a row of {position.table!r} would not meet the view's WHERE"
            return Broken(message, [], "FAILS_WHERE")
        if request.source.where(position.table, row):
            return None
        put = Put(position.table, row, [], {p: []})
        if len(request.base.shape.at(position.table)) == 1:
            broken = self._broken([put])
            # A foreign key may refer to a row that comes with it.
            if broken is not None and broken.reason != "FOREIGN_KEY":
                return broken
        return put

    def _broken(self, new: Sequence[Put]) -> Broken | None:
        """What rows to put in break together."""
        request = self._request
        puts = merged(new, request.rules)
        choice = Choice(frozenset(), {}, puts, (), request.coder)
        try:
            full = completed(request, choice)
            coded = {t: tuple(request.coder.coded(t, r) for r in rows) for t, rows in full.items()}
            allowed(request, Changes({}, coded), choice, full)
        except Broken as broken:
            return broken
        return None
