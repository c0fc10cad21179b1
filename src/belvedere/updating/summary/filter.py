"""The update filter of a view: its tables in memory, the database graph and the summary.

Candidates are chosen once, when the filter is built. Changes of the tables move rows between classes
but never change candidates. After any changes, the filter equals one built anew with the same root and
candidates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from belvedere.joins.equijoin_tree import Keys, equijoin_tree
from belvedere.joins.normal_form import JoinBlock
from belvedere.updating.request.view_rows import Coder, ViewRow
from belvedere.updating.summary.base_tables import BaseTables, held_columns
from belvedere.updating.summary.candidates import best_candidates
from belvedere.updating.summary.classes import CandidateRows, Summary, summarize
from belvedere.updating.summary.database_graph import DatabaseGraph, build_graph, graph_from_root
from belvedere.updating.summary.estimate import (
    InsertionEstimate,
    Segment,
    estimate_side_effects,
    segments_of,
)
from belvedere.updating.summary.incremental.class_changes import move_rows
from belvedere.updating.summary.incremental.graph_changes import RowsBefore, update_graph
from belvedere.updating.summary.loading import encode_rows, load_base, selected_rows
from belvedere.updating.summary.shown_columns import ShownContents


class RowLookups:
    """Rows of a view's tables in memory, found by value: all rows, or those beside a request."""

    def __init__(self, base: BaseTables, keys: Keys) -> None:
        self.base, self.keys = base, keys

    @property
    def shape(self) -> JoinBlock:
        """The normal form of the view."""
        return self.base.shape

    @property
    def identifies_rows(self) -> bool:
        """Whether every position uses all columns that are held of its table.

        If a view lists a table twice, a position may use fewer; then its segment does not identify a row.
        """
        return all(
            c in position.types
            for position in self.shape.positions
            for c in self.base.held[position.table]
        )

    def segments(self, row: Mapping[str, Any], coder: Coder | None = None) -> list[Segment]:
        """The segments of a view row that shows all held columns."""
        coder = coder or Coder(self.base)
        view_row = ViewRow(row)
        segment_values = [coder.shown_values(p, view_row) for p in range(len(self.shape.positions))]
        return self.segments_known(segment_values, coder)

    def segments_known(
        self, segment_values: Sequence[Mapping[str, Any]], coder: Coder
    ) -> list[Segment]:
        """The segments of which all held columns are known."""
        rows, numbers = [], []
        for p, position in enumerate(self.shape.positions):
            table = position.table
            row = tuple(coder.code(table, c, segment_values[p][c]) for c in self.base.held[table])
            number = self.base.find(table, row)
            rows.append(row)
            is_present = number is not None and self.base.is_present(p, number)
            numbers.append(number if is_present else None)
        return segments_of(self.base, rows, numbers)


class UpdateFilter(RowLookups):
    """All rows of a view's tables, and estimates of updates."""

    def __init__(
        self,
        base: BaseTables,
        keys: Keys,
        candidates: CandidateRows,
        graph: DatabaseGraph | None = None,
    ) -> None:
        super().__init__(base, keys)
        self.graph: DatabaseGraph = graph or build_graph(base)
        self.candidates = candidates
        self.summary: Summary = self._summarized()

    @property
    def preserves_keys(self) -> bool:
        """Whether a view row identifies its base rows: then every embedding is a view row."""
        shape = self.shape
        return all(
            (p, c) in shape.output_of
            for p, position in enumerate(shape.positions)
            for c in self.keys.get(position.table, tuple(self.base.held[position.table]))
        )

    def with_root(self, root: int, share: float = 0.0) -> UpdateFilter:
        """The filter for another root. Both share their rows, so only one of them may be kept."""
        base = self.base.with_root(root)
        graph = graph_from_root(base, self.graph)
        return UpdateFilter(base, self.keys, best_candidates(base, graph, share), graph)

    def choose_candidates(self, share: float) -> None:
        """Choose candidates again."""
        self.candidates = best_candidates(self.base, self.graph, share)
        self.summary = self._summarized()

    def _summarized(self) -> Summary:
        """The summary of the rows as they are."""
        shown = None
        if not self.preserves_keys:
            shown = [ShownContents(self.base, p) for p in range(len(self.shape.positions))]
        return summarize(self.base, self.graph, self.candidates, shown)

    def summarize(self) -> None:
        """Compute the summary again."""
        self.summary = self._summarized()

    def advance(self, changes: Mapping[str, pa.Table], signs: Mapping[str, Sequence[int]]) -> None:
        """Apply signed rows of some tables, with the columns that the view uses."""
        base, shape = self.base, self.shape
        numbers = {
            t: base.number_rows(t, encode_rows(base, t, rows)) for t, rows in changes.items()
        }
        before: RowsBefore = {
            p: (some := np.unique(of), base.are_present(p, some))
            for t, of in numbers.items()
            for p in shape.at(t)
        }
        for p in before:
            self.graph.lengthen(base, p)
        for t, rows in changes.items():
            members = {p: selected_rows(shape, p, rows) for p in shape.at(t)}
            base.change_counts(t, numbers[t], np.asarray(signs[t], dtype=np.int64), members)
        move_rows(base, self.graph, self.summary, update_graph(base, self.graph, before))
        if self.summary.is_fragmented:
            self.summarize()

    def estimate(self, segments: Sequence[Segment]) -> InsertionEstimate:
        """The number of view rows that inserting the segments would make."""
        return estimate_side_effects(self.base.tree, self.graph, self.summary, segments)


def build_filter(
    shape: JoinBlock,
    tables: Mapping[str, pa.Table],
    keys: Keys,
    *,
    root: int | str = 0,
    share: float = 0.0,
) -> UpdateFilter:
    """The filter of a view over Arrow tables with the columns that the view uses."""
    tree = equijoin_tree(shape, root, keys)
    base = load_base(tree, held_columns(shape, keys), tables)
    update_filter = UpdateFilter(base, keys, [np.zeros(0, dtype=np.int64) for _ in shape.positions])
    update_filter.choose_candidates(share)
    return update_filter
