"""The update filter of a view: its tables in memory, the graph, the summary; kept current.

Candidates are chosen once, when the filter is made; a change of the tables moves rows between
classes (split, merge) but never makes or unmakes a candidate, so that the filter after any
changes is the filter of the tables as they are then, with the same root and candidates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from belvedere.updating.asked import Coder, ViewRow
from belvedere.updating.base import Base, held_columns, load, members_of
from belvedere.updating.candidates import best_candidates
from belvedere.updating.classes import Candidates, Summary, Values, summarized
from belvedere.updating.domains import normal_column
from belvedere.updating.estimate import Estimate, Segment, estimate_side_effects, segments_of
from belvedere.updating.graph import Graph, graph_of
from belvedere.updating.normal import Shape
from belvedere.updating.trees import Keys, join_tree

SHARE = 0.1


class Filter:
    """What can be asked about updates of a view."""

    def __init__(self, base: Base, keys: Keys, candidates: Candidates | None = None) -> None:
        self.base, self.keys = base, keys
        self.graph: Graph = graph_of(base)
        self.candidates = candidates or best_candidates(base, self.graph, SHARE)
        self.summary: Summary = self._summarized()

    @property
    def shape(self) -> Shape:
        """The view."""
        return self.base.shape

    @property
    def preserves_keys(self) -> bool:
        """Whether a view row tells its base rows: then an embedding is a view row."""
        shape = self.shape
        return all(
            (p, c) in shape.shown
            for p, position in enumerate(shape.positions)
            for c in self.keys.get(position.table, tuple(self.base.held[position.table]))
        )

    def rooted(self, root: int, share: float = SHARE) -> Filter:
        """The filter of the same rows from another root; they share the rows, so only one is kept."""
        other = Filter(self.base.rooted(root), self.keys, self.candidates)
        other.candidates_of(share)
        return other

    def candidates_of(self, share: float) -> None:
        """Choose candidates anew."""
        self.candidates = best_candidates(self.base, self.graph, share)
        self.summary = self._summarized()

    def _summarized(self) -> Summary:
        return summarized(self.base, self.graph, self.candidates, self._shown_values())

    def _shown_values(self) -> list[Values] | None:
        """What the rows of each position show, where the view projects (Sec. 8.2)."""
        if self.preserves_keys:
            return None
        shape = self.shape
        found: list[Values] = []
        for p, position in enumerate(shape.positions):
            rows = self.base.tables[position.table]
            shown = [c for _, (q, c) in shape.outputs if q == p and c in rows.columns]
            whole = np.zeros(rows.size, dtype=np.int64)
            for c in dict.fromkeys(shown):
                both = whole * (len(self.base.domains[position.table, c]) + 1) + rows.column(c) + 1
                whole = np.unique(both, return_inverse=True)[1].astype(np.int64)
            found.append(whole)
        return found

    def advance(self, changes: Mapping[str, pa.Table], signs: Mapping[str, Sequence[int]]) -> None:
        """Apply signed base rows of some tables, the columns that the view uses."""
        for table, rows in changes.items():
            self._apply(table, rows, signs[table])
        self.graph = graph_of(self.base)
        self.summary = self._summarized()

    def _apply(self, table: str, rows: pa.Table, signs: Sequence[int]) -> None:
        shape, base = self.shape, self.base
        members = {p: members_of(shape, p, rows) for p in shape.at(table)}
        columns = {c: normal_column(rows[c], shape.used[table][c]) for c in base.held[table]}
        for i, sign in enumerate(signs):
            values = {
                c: None if nulls[i] else (int(v[i]) if v.dtype != object else v[i])
                for c, (v, nulls) in columns.items()
            }
            row = base.encoded(table, values, new=True)
            assert row is not None
            base.add(table, row, int(sign), {p: bool(m[i]) for p, m in members.items()})

    def segments(self, row: Mapping[str, Any], coder: Coder | None = None) -> list[Segment]:
        """The segments of a view row that shows all that is held."""
        coder = coder or Coder(self.base)
        whole = ViewRow(row)
        known = [coder.known(p, whole) for p in range(len(self.shape.positions))]
        return self.segments_known(known, coder)

    def segments_known(self, known: Sequence[Mapping[str, Any]], coder: Coder) -> list[Segment]:
        """The segments of which all held columns are known."""
        rows, numbers = [], []
        for p, position in enumerate(self.shape.positions):
            table = position.table
            row = tuple(coder.code(table, c, known[p][c]) for c in self.base.held[table])
            number = self.base.find(table, row)
            rows.append(row)
            there = number is not None and self.base.is_present(p, number)
            numbers.append(number if there else None)
        return segments_of(self.base, rows, numbers)

    def estimate(self, segments: Sequence[Segment]) -> Estimate:
        """How many view rows the segments would make."""
        return estimate_side_effects(self.base, self.graph, self.summary, segments)


def make_filter(
    shape: Shape,
    tables: Mapping[str, pa.Table],
    keys: Keys,
    *,
    root: int | str = 0,
    share: float = SHARE,
) -> Filter:
    """The filter of a view over tables in Arrow, the columns that it uses."""
    tree = join_tree(shape, root, keys)
    base = load(tree, held_columns(shape, keys), tables)
    made = Filter(base, keys, [np.zeros(0, dtype=np.int64) for _ in shape.positions])
    made.candidates_of(share)
    return made
