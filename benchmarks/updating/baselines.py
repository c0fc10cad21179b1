"""Two detectors to compare with: every row its own class, and none but the rows of the view.

The paper's exact detector is its summary with nothing summarized: the join cardinalities of all
extended rows are propagated from the leaves to the root for every insertion. EDS looks whether the
attributes of an insertion show in the view once; where they do not, which is the rule in
relational views, it analyses the update on all rows, with and without the insertion.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from belvedere.updating.summary.base_tables import Mask
from belvedere.updating.summary.database_graph import Counts
from belvedere.updating.summary.estimate import InsertionEstimate, Segment, joins_with_whole_rows
from belvedere.updating.summary.filter import UpdateFilter


class FullPropagation:
    """Join cardinalities of some rows, propagated in full."""

    def __init__(self, made: UpdateFilter, rows: Sequence[Mask] | None = None) -> None:
        self.made, self.tree = made, made.base.tree
        self.rows = [np.flatnonzero(m) for m in rows or made.graph.extended]
        self.keys = {
            (p, e): made.base.keys(p, e)[self.rows[p]]
            for p in range(len(self.rows))
            for e in self.tree.around[p]
        }
        self.without = self._total(None)

    def estimate(self, segments: Sequence[Segment]) -> InsertionEstimate:
        """How many view rows the segments make: exact but for what only Step 1 sees."""
        beyond = joins_with_whole_rows(self.made.base.tree, self.made.graph, segments)
        inside = self._total(segments) - self.without
        return InsertionEstimate(inside + sum(n for *_, n in beyond))

    def _total(self, segments: Sequence[Segment] | None) -> float:
        tree, values = self.tree, dict[int, Counts]()
        own: dict[int, float] = {}
        for p in reversed(tree.down):
            found = np.ones(len(self.rows[p]))
            mine = 1.0
            for e in tree.child_edges[p]:
                child = tree.child(e)
                sums = self._sums(child, e, values[child], segments, own)
                found = found * sums[self.keys[p, e]]
                if segments is not None:
                    mine *= self._of_segment(segments, p, e, sums, own)
            values[p] = found
            own[p] = mine if self._is_new(segments, p) else 0.0
        return float(values[tree.root].sum()) + own[tree.root]

    def _sums(
        self,
        child: int,
        e: int,
        values: Counts,
        segments: Sequence[Segment] | None,
        own: dict[int, float],
    ) -> Counts:
        keys = self.keys[child, e]
        joins = keys >= 0
        sums = np.bincount(keys[joins], values[joins], self.made.base.width(e) + 1).astype(float)
        if segments is not None and self._is_new(segments, child):
            key = segments[child].keys[e]
            if key is not None and key >= 0:
                sums[key] += own[child]
        return sums

    def _of_segment(
        self, segments: Sequence[Segment], p: int, e: int, sums: Counts, own: dict[int, float]
    ) -> float:
        """The partners of a segment: those of its key, or its own neighbour's alone."""
        key = segments[p].keys[e]
        if key is not None and key >= 0:
            return float(sums[key])
        return own[self.tree.child(e)]

    def _is_new(self, segments: Sequence[Segment] | None, p: int) -> bool:
        """Whether a segment is not among the rows that are propagated."""
        if segments is None:
            return False
        number = segments[p].number
        if number is None:
            return True
        at = int(np.searchsorted(self.rows[p], number))
        return at == len(self.rows[p]) or int(self.rows[p][at]) != number


def everything(made: UpdateFilter) -> FullPropagation:
    """The analysis of an update on all rows, as EDS does it where no attribute shows once."""
    present = [made.base.present(p) for p in range(len(made.shape.positions))]
    return FullPropagation(made, present)
