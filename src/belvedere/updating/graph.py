"""The database graph of a view: which rows make view rows, which dangle, which dangle with them.

    whole        in an embedding: a choice of one row at every position that forms a view row
    dangling     in none
    extended     dangling, or joined with a dangling row through other positions (Def. 5.2)
    jcard        the sub-embeddings below a row in the join tree, among extended rows (Def. 5.4)

G⁺ has the whole rows, G⁻ the extended ones. All are found in passes up and down the join tree,
each a count by key. Join cardinalities stop at `MOST`: sums and products below it are exact in
floating point, and whatever is above is a side effect many times over.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt

from belvedere.updating.base import Base, Mask
from belvedere.updating.domains import Codes
from belvedere.updating.trees import Tree

MOST = float(2**40)
Counts = npt.NDArray[np.float64]


@dataclass
class Graph:
    """What the passes find, for each position a value of every row."""

    whole: list[Mask]
    extended: list[Mask]
    jcard: list[Counts]
    joined: list[Codes]
    """Bits for the child positions in which a row has extended partners."""
    whole_by: dict[tuple[int, int], Codes]
    """How many whole rows of a position have each key of an edge."""


def graph_of(base: Base) -> Graph:
    """The database graph, from the rows alone."""
    passes = _Passes(base)
    whole = passes.whole_rows()
    dangling = [p & ~w for p, w in zip(passes.present, whole, strict=True)]
    extended = passes.extended_rows(dangling)
    jcard, joined = passes.cardinalities(extended)
    tree = base.tree
    whole_by = {
        (p, e): passes.count(p, e, whole[p]) for p in range(len(whole)) for e in tree.around[p]
    }
    return Graph(whole, extended, jcard, joined, whole_by)


class _Passes:
    def __init__(self, base: Base) -> None:
        self.base, self.tree = base, base.tree
        positions = range(len(base.shape.positions))
        self.present = [base.present(p) for p in positions]

    def count(self, position: int, edge: int, which: Mask) -> Codes:
        """How many of some rows of a position have each key of an edge; last, for NULL, none."""
        keys = self.base.keys(position, edge)[which]
        found = np.bincount(keys[keys >= 0], minlength=self.base.width(edge) + 1)
        return found.astype(np.int64)

    def total(self, position: int, edge: int, which: Mask, weights: Counts) -> Counts:
        """The sum of some rows' weights by key."""
        keys = self.base.keys(position, edge)[which]
        joins = keys >= 0
        width = self.base.width(edge) + 1
        return np.minimum(np.bincount(keys[joins], weights[which][joins], width), MOST)

    def seen(self, position: int, edge: int, counts: npt.NDArray[np.generic]) -> Mask:
        """Which rows of a position have a key that occurs at the other end."""
        found: Mask = counts[self.base.keys(position, edge)] > 0  # type: ignore[operator]
        return found

    def whole_rows(self) -> list[Mask]:
        """The rows in embeddings: partners in every direction that have theirs in turn."""
        below, above = self._both_ways(list(self.present), np.logical_and)
        return [
            reduce(np.logical_and, [self.present[p], *below[p].values(), *above[p].values()])
            for p in range(len(self.present))
        ]

    def extended_rows(self, dangling: list[Mask]) -> list[Mask]:
        """The rows from which joins lead to a dangling row."""
        below, above = self._both_ways(dangling, np.logical_or)
        return [
            self.present[p]
            & reduce(np.logical_or, [dangling[p], *below[p].values(), *above[p].values()])
            for p in range(len(self.present))
        ]

    def _both_ways(
        self, own: list[Mask], joined: np.ufunc
    ) -> tuple[list[dict[int, Mask]], list[dict[int, Mask]]]:
        """For each row and each direction, whether a partner there has what is asked for.

        What is asked of a partner is its own value and what it sees in the other directions,
        joined by AND or OR.
        """
        tree = self.tree
        below: list[dict[int, Mask]] = [{} for _ in own]
        above: list[dict[int, Mask]] = [{} for _ in own]
        for p in reversed(tree.down):
            value = self.present[p] & reduce(joined, [own[p], *below[p].values()])
            if p != tree.root:
                e = tree.parent_edge[p]
                below[tree.parent(e)][e] = self.seen(tree.parent(e), e, self.count(p, e, value))
        for p in tree.down:
            for e in tree.child_edges[p]:
                others = [mask for f, mask in below[p].items() if f != e]
                value = self.present[p] & reduce(joined, [own[p], *others, *above[p].values()])
                child = tree.child(e)
                above[child][e] = self.seen(child, e, self.count(p, e, value))
        return below, above

    def cardinalities(self, extended: list[Mask]) -> tuple[list[Counts], list[Codes]]:
        """The join cardinality of extended rows, and where they have extended partners."""
        tree = self.tree
        jcard: list[Counts] = [np.zeros(len(x)) for x in extended]
        joined: list[Codes] = [np.zeros(len(x), dtype=np.int64) for x in extended]
        for p in reversed(tree.down):
            value = np.ones(len(extended[p]))
            for bit, e in enumerate(tree.child_edges[p]):
                child = tree.child(e)
                keys = self.base.keys(p, e)
                sums = self.total(child, e, extended[child], jcard[child])
                value = np.minimum(value * sums[keys], MOST)
                partners = self.count(child, e, extended[child])[keys] > 0
                joined[p] |= partners.astype(np.int64) << bit
            jcard[p] = np.where(extended[p], value, 0.0)
            joined[p] = np.where(extended[p], joined[p], 0)
        return jcard, joined


def children_of(tree: Tree, position: int, bits: int) -> list[int]:
    """The child positions that bits stand for."""
    return [tree.child(e) for bit, e in enumerate(tree.child_edges[position]) if bits >> bit & 1]
