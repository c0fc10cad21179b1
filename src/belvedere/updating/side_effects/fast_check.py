"""FAST: one insertion checked by the rules of the tables, then estimated from the summary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from belvedere.updating.request.fillings import FillingOrder, filled_segments, fillings
from belvedere.updating.request.view_rows import Coder, ViewRow
from belvedere.updating.side_effects.in_memory import BaseChanges
from belvedere.updating.summary.domains import NormalValue, denormalize
from belvedere.updating.summary.estimate import InsertionEstimate
from belvedere.updating.summary.filter import UpdateFilter
from belvedere.updating.translate.base_rows import (
    BrokenConstraint,
    check_constraints,
    complete_rows,
)
from belvedere.updating.translate.constraints import BaseRow
from belvedere.updating.translate.new_rows import NewBaseRow, SolverChoice, merge_rows
from belvedere.updating.translate.options import segment_options
from belvedere.updating.translate.translation_request import TranslationRequest

SegmentValues = Sequence[Mapping[str, NormalValue]]
"""The values of each segment of a view row."""
MOST_TRIED = 5_000
"""How many fillings of hidden values are considered, feasible or not."""


@dataclass
class FastCheck:
    """Estimates one insertion if the tables allow it."""

    filter: UpdateFilter
    request: TranslationRequest
    theta: float
    most: int
    """How many feasible fillings are estimated."""
    order: FillingOrder
    broken: BrokenConstraint = field(init=False)
    """The constraint that the last refused filling breaks."""

    def answer(self, row: ViewRow) -> InsertionEstimate | BrokenConstraint:
        """The lowest estimate over the feasible fillings, or the constraint that excludes them."""
        best: InsertionEstimate | None = None
        self.broken = BrokenConstraint("no base rows make it so", [], "NO_ROWS", certain=False)
        most = None if self.order is FillingOrder.ALL else self.most
        for segments in islice(self._feasible(row), most):
            estimate = self.filter.estimate(
                self.filter.segments_known(segments, self.request.coder)
            )
            best = estimate if best is None or estimate.rows < best.rows else best
            if not best.declares(self.theta):
                break
        if best is not None:
            return best
        self.broken.certain &= not has_hidden_values(self.request.coder)
        return self.broken

    def _feasible(self, row: ViewRow) -> Iterator[SegmentValues]:
        """The fillings that the rules of the tables allow."""
        rules = SegmentRules(self.request)
        for segments in self._known(row):
            broken = rules.refused(segments)
            if broken is None:
                yield segments
            else:
                self.broken = broken

    def _known(self, row: ViewRow) -> Iterator[SegmentValues]:
        coder = self.request.coder
        if not has_hidden_values(coder):
            yield [coder.shown_values(p, row) for p in range(len(coder.shape.positions))]
            return
        (options,), _ = segment_options(coder, [row], self.request.rules, self.request.source)
        most = None if self.order is FillingOrder.ALL else MOST_TRIED
        for filling in islice(fillings(coder, options, self.order), most):
            yield filled_segments(coder, options, filling)


def has_hidden_values(coder: Coder) -> bool:
    """Whether the view uses columns that it does not show."""
    return any(coder.hidden_values(p) for p in range(len(coder.shape.positions)))


class SegmentRules:
    """Checks the segments of one view row, hidden values filled in, against the rules of their tables."""

    def __init__(self, request: TranslationRequest) -> None:
        self._request = request
        self._alone: dict[tuple[Any, ...], NewBaseRow | BrokenConstraint | None] = {}

    def refused(self, segments: SegmentValues) -> BrokenConstraint | None:
        """The constraint that keeps the segments from being base rows; None if there is none."""
        new_rows = []
        for p, values in enumerate(segments):
            row = self._put(p, values)
            if isinstance(row, BrokenConstraint):
                return row
            if row is not None:
                new_rows.append(NewBaseRow(row.table, row.values, [], {p: []}))
        return self._broken(new_rows) if new_rows else None

    def _put(
        self, p: int, values: Mapping[str, NormalValue]
    ) -> NewBaseRow | BrokenConstraint | None:
        """The new row at a position; None if it exists; the constraint if it is broken in any case."""
        key = p, *values.values()
        if key not in self._alone:
            self._alone[key] = self._looked_at(p, values)
        return self._alone[key]

    def _looked_at(
        self, p: int, values: Mapping[str, NormalValue]
    ) -> NewBaseRow | BrokenConstraint | None:
        request, position = self._request, self._request.base.shape.positions[p]
        types = request.base.shape.used[position.table]
        base_row: BaseRow = {c: denormalize(v, types[c]) for c, v in values.items()}
        if p not in request.coder.encode(position.table, base_row).members:
            message = f"a row of {position.table!r} would not meet the view's WHERE"
            return BrokenConstraint(message, [], "FAILS_WHERE")
        if request.source.where(position.table, base_row):
            return None
        new_row = NewBaseRow(position.table, base_row, [], {p: []})
        if len(request.base.shape.at(position.table)) == 1:
            broken = self._broken([new_row])
            # A foreign key may refer to another new row.
            if broken is not None and broken.reason != "FOREIGN_KEY":
                return broken
        return new_row

    def _broken(self, new_rows: Sequence[NewBaseRow]) -> BrokenConstraint | None:
        """The constraint that new rows break together."""
        request = self._request
        by_table = merge_rows(new_rows, request.rules)
        choice = SolverChoice(frozenset(), {}, by_table, (), request.coder)
        try:
            full = complete_rows(request, choice)
            coded = {t: tuple(request.coder.encode(t, r) for r in rows) for t, rows in full.items()}
            check_constraints(request, BaseChanges({}, coded), choice, full)
        except BrokenConstraint as broken:
            return broken
        return None
