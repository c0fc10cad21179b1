"""The join cardinality summary: classes of extended rows as supernodes, joins as weighted edges.

Rows of a position are in one class if their join cardinality is the same and they have partners in
the same child positions (Def. 5.5); where the view projects, also if what they show is the same
(Sec. 8.2). A candidate is a class of its own. With each class stand

    size      |c|, its rows
    means     for each child position, the expected partners, weighted by theirs: Σ est·|E|/|c|
    est       the product of the means: the expected join cardinality (Fig. 7)
    reach     by how much the number of view rows grows when est does by one, all else the same

`reach` lets an estimate stop where a change is spread over a class: what lies above a class need
not be gone through again. The joins of classes are kept by key as well, for the segments of an
update, which are joined with their neighbours exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from belvedere.updating.base import Base
from belvedere.updating.domains import Codes
from belvedere.updating.graph import MOST, Counts, Graph

NONE = -1
_NOTHING: Codes = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class ByKey:
    """How many rows of each class of a position have each key of an edge."""

    starts: Codes
    classes: Codes
    counts: Codes

    def at(self, key: int | None) -> tuple[Codes, Codes]:
        """The classes that have rows with a key, and how many."""
        if key is None or not 0 <= key < len(self.starts) - 1:
            return _NOTHING, _NOTHING
        some = slice(self.starts[key], self.starts[key + 1])
        return self.classes[some], self.counts[some]


@dataclass(frozen=True)
class Links:
    """The joins on one edge of the tree between classes above and classes below, by the latter."""

    above: Codes
    below: Codes
    weights: Codes
    starts: Codes
    """Where the links of each class below begin, in their order."""

    def over(self, below: Codes) -> tuple[Codes, Codes, Codes]:
        """The links above some classes: which of these each is of, its upper end, its weight."""
        fan = self.starts[below + 1] - self.starts[below]
        of = np.repeat(np.arange(len(below)), fan)
        offsets = np.arange(len(of)) - np.repeat(np.cumsum(fan) - fan, fan)
        places = self.starts[below][of] + offsets
        return of, self.above[places], self.weights[places]


@dataclass
class Summary:
    """The classes of every position, numbered through within it."""

    of_row: list[Codes]
    """The class of each row; -1 if it is not an extended row."""
    sizes: list[Codes]
    by_key: dict[tuple[int, int], ByKey]
    links: dict[int, Links]
    means: dict[int, Counts]
    """For each edge to a child, the mean of each class above."""
    est: list[Counts]
    reach: list[Counts]

    @property
    def bytes(self) -> int:
        """Of the supernodes (size, est) and the edges (two ends, weight), 4 bytes a number."""
        nodes = sum(len(s) for s in self.sizes)
        edges = sum(len(links.weights) for links in self.links.values())
        return nodes * 8 + edges * 12


Values = npt.NDArray[np.int64] | None
Candidates = list[npt.NDArray[np.int64]]
"""The rows of each position that are classes of their own."""


def summarized(
    base: Base, graph: Graph, candidates: Candidates, values: list[Values] | None = None
) -> Summary:
    """The summary of a database graph; `values` tell what the rows of a position show."""
    positions = range(len(base.shape.positions))
    shown = values or [None for _ in positions]
    of_row, sizes = [], []
    for p in positions:
        found, size = _classes(graph, p, candidates[p], shown[p])
        of_row.append(found)
        sizes.append(size)
    tree = base.tree
    by_key = {(p, e): _by_key(base, p, e, of_row[p]) for p in positions for e in tree.around[p]}
    links = {e: _links(base, e, by_key, len(sizes[tree.child(e)])) for e in range(len(tree.edges))}
    summary = Summary(of_row, sizes, by_key, links, {}, [], [])
    propagate(base, summary)
    return summary


def _classes(graph: Graph, p: int, candidates: Codes, values: Values) -> tuple[Codes, Codes]:
    """The classes of a position's rows and their sizes."""
    rows = np.flatnonzero(graph.extended[p])
    signature = graph.jcard[p][rows].astype(np.int64) << 8 | graph.joined[p][rows]
    if values is not None:
        _, small = np.unique(signature, return_inverse=True)
        signature = small.astype(np.int64) << 32 | values[rows]
    _, classes, sizes = np.unique(signature, return_inverse=True, return_counts=True)
    of_row = np.full(len(graph.extended[p]), NONE, dtype=np.int64)
    of_row[rows] = classes
    own = candidates[graph.extended[p][candidates]]
    sizes = sizes.astype(np.int64) - np.bincount(of_row[own], minlength=len(sizes))
    of_row[own] = len(sizes) + np.arange(len(own))
    return of_row, np.concatenate([sizes, np.ones(len(own), dtype=np.int64)])


def _by_key(base: Base, p: int, e: int, of_row: Codes) -> ByKey:
    keys = base.keys(p, e)
    rows = np.flatnonzero((of_row >= 0) & (keys >= 0))
    span = int(of_row.max(initial=0)) + 1
    both, counts = np.unique(keys[rows] * span + of_row[rows], return_counts=True)
    starts = np.searchsorted(both // span, np.arange(base.width(e) + 1))
    return ByKey(starts.astype(np.int64), both % span, counts.astype(np.int64))


def _links(base: Base, e: int, by_key: dict[tuple[int, int], ByKey], below: int) -> Links:
    """Class pairs that meet in a key, with the number of row pairs."""
    tree = base.tree
    up, low = by_key[tree.parent(e), e], by_key[tree.child(e), e]
    widths = np.diff(up.starts)
    keys_low = np.repeat(np.arange(len(low.starts) - 1), np.diff(low.starts))
    fan = widths[keys_low]
    from_low = np.repeat(np.arange(len(keys_low)), fan)
    offsets = np.arange(len(from_low)) - np.repeat(np.cumsum(fan) - fan, fan)
    from_up = up.starts[keys_low[from_low]] + offsets
    span = int(up.classes.max(initial=0)) + 1
    pairs = low.classes[from_low] * span + up.classes[from_up]
    both, places = np.unique(pairs, return_inverse=True)
    weights = np.bincount(places, low.counts[from_low] * up.counts[from_up], len(both))
    starts = np.searchsorted(both // span, np.arange(below + 1))
    return Links(both % span, both // span, weights.astype(np.int64), starts.astype(np.int64))


def propagate(base: Base, summary: Summary) -> None:
    """The means, `est` and `reach` of all classes: Fig. 7 bottom-up, its derivative top-down."""
    tree, sizes = base.tree, summary.sizes
    whole = [np.maximum(s, 1).astype(float) for s in sizes]
    est: list[Counts] = [np.ones(len(s)) for s in sizes]
    for p in reversed(tree.down):
        for e in tree.child_edges[p]:
            links = summary.links[e]
            weighted = est[tree.child(e)][links.below] * links.weights
            sums = np.bincount(links.above, weighted, len(sizes[p])).astype(float)
            summary.means[e] = np.minimum(sums, MOST) / whole[p]
            est[p] = np.minimum(est[p] * summary.means[e], MOST)
    reach: list[Counts] = [np.zeros(len(s)) for s in sizes]
    reach[tree.root] = sizes[tree.root].astype(float)
    for p in tree.down:
        for e in tree.child_edges[p]:
            others = np.ones(len(sizes[p]))
            for f in tree.child_edges[p]:
                others = others if f == e else np.minimum(others * summary.means[f], MOST)
            links, child = summary.links[e], tree.child(e)
            rate = reach[p] * others / whole[p]
            weighted = rate[links.above] * links.weights
            reach[child] = np.bincount(links.below, weighted, len(sizes[child])).astype(float)
    summary.est, summary.reach = est, reach
