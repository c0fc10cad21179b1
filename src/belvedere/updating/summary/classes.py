"""The join cardinality summary (JCard): classes of extended dangling rows as supernodes, joins as edges.

Rows of a position are in one class if they have the same join cardinality, have partners in the same
child positions (Def. 5.5) and are complete on the same edges, that is, have partners from which joins
lead to every position beyond. If the view projects, they also show the same values (Sec. 8.2). A
candidate is a class of its own. Each class has

    size      |c|, the number of its rows
    means     for each child position, the mean number of partners, weighted by theirs: Σ est·|E|/|c|
    est       the product of the means: the expected join cardinality (Fig. 7)
    reach     the derivative of the number of view rows with respect to est

Def. 5.5 looks down the tree only. It puts rows that lack a partner above, or on several sides, in one
class with rows that lack just one, so that an insertion that completes some of them is averaged over
all. Classes by complete edges separate rows that one new segment completes from those that it does
not. So the presence of side effects is known without candidates.

With `reach`, an estimate need not follow a change upwards once it is spread over a class. The rows of
classes are also counted by key, because the segments of an update join with their neighbours by key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from belvedere.joins.equijoin_tree import EquijoinTree
from belvedere.updating.summary.base_tables import BaseTables, with_spare_room
from belvedere.updating.summary.database_graph import MOST_JOINS, Counts, DatabaseGraph
from belvedere.updating.summary.domains import Codes, Domain
from belvedere.updating.summary.shown_columns import ShownContents

if TYPE_CHECKING:
    from belvedere.kernels.lists import Lists

NO_CLASS = -1
FEW_CLASSES = 1000
"""So many new classes are too few to number all classes again."""
_SHIFT = 32
CLASS_BITS = 26
"""Bits of a class code beside the join cardinality, which takes 37."""

CandidateRows = list[npt.NDArray[np.int64]]
"""For each position, the rows that are classes of their own."""


class ClassNumbers:
    """The numbers of a position's classes: first by signature, then candidates, then classes added later."""

    def __init__(
        self,
        tree: EquijoinTree,
        graph: DatabaseGraph,
        p: int,
        candidates: Codes,
        shown: ShownContents | None,
        rows: Codes,
    ) -> None:
        self.position, self.candidates, self.shown = p, np.unique(candidates), shown
        self.children = len(tree.child_edges[p])
        self.cardinalities = Domain.of_integers(self._in_common(graph, rows))
        self.signatures = self.cardinalities
        if shown is not None:
            self.signatures = Domain.of_integers(self._signatures(graph, rows))
        self.first = len(self.signatures)

    def __len__(self) -> int:
        return len(self.signatures) + len(self.candidates)

    @property
    def later(self) -> int:
        """The number of classes added later."""
        return len(self.signatures) - self.first

    def _in_common(self, graph: DatabaseGraph, rows: Codes) -> Codes:
        """What the rows of a class share, apart from the values that they show."""
        p = self.position
        complete = graph.completes.heard[p][rows].astype(np.int64)
        bits = graph.joined[p][rows] | complete << self.children
        return cardinality_codes(graph.jcard[p][rows], bits)

    def _signatures(self, graph: DatabaseGraph, rows: Codes) -> Codes:
        codes = self._in_common(graph, rows)
        if self.shown is None:
            return codes
        return self.cardinalities.codes_of(codes) << _SHIFT | self.shown.of(rows)

    def of(self, graph: DatabaseGraph, rows: Codes) -> Codes:
        """The class of each of some rows; -1 if a row is not extended."""
        classes = np.full(len(rows), NO_CLASS, dtype=np.int64)
        extended = graph.extended[self.position][rows]
        codes = self.signatures.codes_of(self._signatures(graph, rows[extended]))
        classes[extended] = np.where(codes < self.first, codes, codes + len(self.candidates))
        if len(self.candidates):
            place = np.minimum(np.searchsorted(self.candidates, rows), len(self.candidates) - 1)
            is_candidate = extended & (self.candidates[place] == rows)
            classes[is_candidate] = self.first + place[is_candidate]
        return classes


def class_bits(tree: EquijoinTree, p: int) -> tuple[dict[int, int], dict[int, int]]:
    """The bits of a class: one for each edge to a child with partners, one for each complete edge.

    Edges beyond the number of bits have none; classes do not distinguish them.
    """
    children, around = tree.child_edges[p], tree.around[p]
    bits = [1 << bit if bit < CLASS_BITS else 0 for bit in range(len(children) + len(around))]
    first = len(children)
    return dict(zip(children, bits, strict=False)), dict(zip(around, bits[first:], strict=True))


def cardinality_codes(jcard: Codes, bits: Codes) -> Codes:
    """Join cardinality and bits as one number."""
    codes: Codes = jcard << CLASS_BITS | bits & ((1 << CLASS_BITS) - 1)
    return codes


@dataclass
class Summary:
    """The classes of every position, numbered within the position."""

    names: list[ClassNumbers]
    of_row: list[Codes]
    """The class of each row; -1 if it is not extended."""
    sizes: list[Codes]
    by_key: dict[tuple[int, int], Lists]
    """For a position and an edge, the number of rows of each class with each key."""
    links: dict[int, Lists]
    """For an edge, the number of joins between each class below and each class above."""
    means: dict[int, Counts]
    """For each edge to a child, the mean of each class above."""
    est: list[Counts]
    reach: list[Counts]

    @property
    def bytes(self) -> int:
        """The size of supernodes (size, est) and edges (two ends, weight), at 4 bytes a number."""
        nodes = sum(int((s > 0).sum()) for s in self.sizes)
        edges = sum(len(links) for links in self.links.values())
        return nodes * 8 + edges * 12

    @property
    def is_fragmented(self) -> bool:
        """Whether so many classes were added that most may be empty."""
        later = sum(names.later for names in self.names)
        return later > FEW_CLASSES + sum(names.first for names in self.names)


def summarize(
    base: BaseTables,
    graph: DatabaseGraph,
    candidates: CandidateRows,
    shown: list[ShownContents] | None = None,
) -> Summary:
    """The summary of a database graph; `shown` numbers what the rows of each position show."""
    positions = range(len(base.shape.positions))
    names, of_row, sizes = [], [], []
    for p in positions:
        rows = np.flatnonzero(graph.extended[p])
        names.append(
            ClassNumbers(base.tree, graph, p, candidates[p], shown[p] if shown else None, rows)
        )
        classes = np.full(len(graph.extended[p]), NO_CLASS, dtype=np.int64)
        classes[rows] = names[p].of(graph, rows)
        of_row.append(with_spare_room(classes))
        sizes.append(np.bincount(classes[rows], minlength=len(names[p])).astype(np.int64))
    tree = base.tree
    by_key = {
        (p, e): _classes_by_key(base, p, e, of_row[p]) for p in positions for e in tree.around[p]
    }
    links = {e: _links(base, e, by_key, len(sizes[tree.child(e)])) for e in range(len(tree.edges))}
    summary = Summary(names, of_row, sizes, by_key, links, {}, [], [])
    propagate(tree, summary)
    return summary


def _classes_by_key(base: BaseTables, p: int, e: int, of_row: Codes) -> Lists:
    from belvedere.kernels.lists import Lists

    keys = base.keys(p, e)
    rows = np.flatnonzero((of_row >= 0) & (keys >= 0))
    span = int(of_row.max(initial=0)) + 1
    both, counts = np.unique(keys[rows] * span + of_row[rows], return_counts=True)
    return Lists(base.width(e), both // span, both % span, counts)


def _links(base: BaseTables, e: int, by_key: dict[tuple[int, int], Lists], below: int) -> Lists:
    """Pairs of classes that share a key, with the number of row pairs."""
    from belvedere.kernels.lists import Lists

    tree = base.tree
    keys, classes, counts = by_key[tree.child(e), e].entries()
    entry, above, above_counts = by_key[tree.parent(e), e].under(keys)
    span = int(above.max(initial=0)) + 1
    both, pair = np.unique(classes[entry] * span + above, return_inverse=True)
    weights = np.zeros(len(both), dtype=np.int64)
    np.add.at(weights, pair, counts[entry] * above_counts)
    return Lists(below, both // span, both % span, weights)


def propagate(tree: EquijoinTree, summary: Summary) -> None:
    """The means, `est` and `reach` of all classes: Fig. 7 bottom-up, its derivative top-down."""
    sizes = summary.sizes
    class_sizes = [np.maximum(s, 1).astype(float) for s in sizes]
    est: list[Counts] = [np.ones(len(s)) for s in sizes]
    for p in reversed(tree.down):
        for e in tree.child_edges[p]:
            sums = summary.links[e].up(est[tree.child(e)], len(sizes[p]))
            summary.means[e] = np.minimum(sums, MOST_JOINS) / class_sizes[p]
            est[p] = np.minimum(est[p] * summary.means[e], MOST_JOINS)
    reach: list[Counts] = [np.zeros(len(s)) for s in sizes]
    reach[tree.root] = sizes[tree.root].astype(float)
    for p in tree.down:
        for e in tree.child_edges[p]:
            other_means = np.ones(len(sizes[p]))
            for f in tree.child_edges[p]:
                other_means = (
                    other_means
                    if f == e
                    else np.minimum(other_means * summary.means[f], MOST_JOINS)
                )
            rate = reach[p] * other_means / class_sizes[p]
            child = tree.child(e)
            reach[child] = summary.links[e].down(rate, len(sizes[child]))
    summary.est, summary.reach = est, reach
