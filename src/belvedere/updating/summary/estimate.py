"""How many view rows an insertion would make, estimated from the summary (Fig. 6 and 7).

Step 1 uses G⁺. A whole row that a segment joins with, other than the segment's own partner, makes
another view row if any segment on this side is new. The inserted view row itself is not counted here.

Step 2 uses G⁻. Each segment becomes a class of its own, joined with its neighbours' classes by key, and
the change of `est` is propagated to the root. Candidates are propagated one by one; if a change is
spread over a larger class, its `reach` gives the effect at the root. If every row is a candidate, the
count is exact. Without candidates, the presence of side effects is exact if one segment is new: the
rows of a class are complete on the same edges, so the segment completes all of them that have its key,
or none.

A join on several columns may contain other joins of the same position. The rows that share a segment's
key on such a join, its *kin*, meet the segment's partners on all these joins at once. An average over
their class would miss that, so they are propagated separately.

An estimate of at least 1 + θ declares side effects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from belvedere.joins.equijoin_tree import EquijoinTree
from belvedere.updating.summary.base_tables import BaseTables, Mask, RowCodes
from belvedere.updating.summary.classes import NO_CLASS, Summary
from belvedere.updating.summary.database_graph import MOST_JOINS, Counts
from belvedere.updating.summary.domains import Codes

THETA = 0.4


@dataclass(frozen=True)
class Segment:
    """The part of a view row at one position: its row number if the row exists, its key on each edge."""

    number: int | None
    keys: dict[int, int | None]


@dataclass(frozen=True)
class InsertionEstimate:
    """The estimated number of view rows that an insertion makes, the requested one included."""

    rows: float

    def declares(self, theta: float = THETA) -> bool:
        """Whether the estimate declares side effects."""
        return self.rows >= 1 + theta


def segments_of(
    base: BaseTables, rows: Sequence[RowCodes | None], numbers: Sequence[int | None]
) -> list[Segment]:
    """The segments of a view row; None stands for a row with values that no table has."""
    segments = []
    for p, (row, number) in enumerate(zip(rows, numbers, strict=True)):
        keys = {e: None if row is None else base.key(p, e, row) for e in base.tree.around[p]}
        segments.append(Segment(number, keys))
    return segments


class WholeRowCounts(Protocol):
    """The whole rows that step 1 needs."""

    @property
    def whole(self) -> Sequence[Mask]:
        """For each position, which rows are whole."""

    @property
    def whole_by(self) -> Mapping[tuple[int, int], Codes]:
        """How many whole rows of a position have each key of an edge."""


def estimate_side_effects(
    tree: EquijoinTree, graph: WholeRowCounts, summary: Summary, segments: Sequence[Segment]
) -> InsertionEstimate:
    """The number of view rows that inserting the segments would make."""
    beyond = joins_with_whole_rows(tree, graph, segments)
    inside = _Propagation(tree, summary, segments).rows()
    return InsertionEstimate(inside + sum(n for *_, n in beyond))


def joins_with_whole_rows(
    tree: EquijoinTree, graph: WholeRowCounts, segments: Sequence[Segment]
) -> list[tuple[int, int, int]]:
    """The whole rows that segments join with, other than their own partners: where, and how many."""
    new = frozenset(p for p, s in enumerate(segments) if s.number is None)
    joins = []
    for e, edge in enumerate(tree.edges):
        for p in edge.ends:
            key = segments[p].keys[e]
            q = edge.across(p)
            counts = graph.whole_by[q, e]
            if key is None or not 0 <= key < len(counts) or not new & tree.side(e, p):
                continue
            number = segments[q].number
            is_own = number is not None and number < len(graph.whole[q]) and graph.whole[q][number]
            others = int(counts[key]) - int(is_own)
            if others > 0:
                joins.append((e, p, others))
    return joins


@dataclass(frozen=True)
class _ChangedClasses:
    """The classes of a position whose `est` changes, sorted, with the new values."""

    classes: Codes
    est: Counts

    def of(self, classes: Codes, est: Counts) -> Counts:
        """The `est` of some classes, with the changes."""
        values = est[classes]
        if len(self.classes) and len(classes):
            place = np.minimum(np.searchsorted(self.classes, classes), len(self.classes) - 1)
            values = np.where(self.classes[place] == classes, self.est[place], values)
        return values


_NO_CLASSES = np.zeros(0, dtype=np.int64)
_UNCHANGED = _ChangedClasses(_NO_CLASSES, np.zeros(0))


@dataclass(frozen=True)
class _RowsSharingKeys:
    """Kin of a segment: rows of its position that share its key on some edges, counted by class."""

    edges: tuple[int, ...]
    classes: Codes
    counts: Codes

    def among(self, classes: Codes) -> Codes:
        """How many of these rows are in each of some classes."""
        return _counts_of(self.classes, self.counts, classes)


_NONE_SHARING = _RowsSharingKeys((), _NO_CLASSES, _NO_CLASSES)


class _Propagation:
    """Propagates changes of `est` from the leaves to the root, for affected classes only."""

    def __init__(self, tree: EquijoinTree, summary: Summary, segments: Sequence[Segment]) -> None:
        self.tree, self.summary, self.segments = tree, summary, segments
        n = len(segments)
        self.own = [self._class_of(p) for p in range(n)]
        self.before = [0.0] * n
        self.after = [0.0] * n
        self.touched = [_UNCHANGED] * n
        self.kin = [self._kin_of(p) for p in range(n)]
        self.beside = [0.0] * n
        """The growth of the kin of segments beyond the other rows of their classes."""
        self.partners: list[dict[int, tuple[float, float]]] = [{} for _ in segments]
        """For each edge, the `est` below a segment before and after the insertion."""
        self.spread = 0.0

    def _class_of(self, p: int) -> int:
        number = self.segments[p].number
        classes = self.summary.of_row[p]
        return NO_CLASS if number is None or number >= len(classes) else int(classes[number])

    def _kin_of(self, p: int) -> _RowsSharingKeys:
        """The rows that share more than one key with a segment; candidates are separate anyway."""
        edges = self.tree.shared[p]
        if len(edges) < 2 or not set(edges) & set(self.tree.child_edges[p]):
            return _NONE_SHARING
        classes, counts = self.summary.by_key[p, edges[0]].at(self.segments[p].keys[edges[0]])
        counts = counts - (classes == self.own[p])
        shared = (counts > 0) & (self.summary.sizes[p][classes] > 1)
        return _RowsSharingKeys(edges, classes[shared], counts[shared])

    def rows(self) -> float:
        """The number of new view rows."""
        tree = self.tree
        for p in reversed(tree.down):
            self._segment(p)
            self._classes(p)
        root = tree.root
        changed, summary = self.touched[root], self.summary
        growth = changed.est - summary.est[root][changed.classes]
        grown = float((summary.sizes[root][changed.classes] * growth).sum())
        return min(grown + self.spread + self._change(root), MOST_JOINS)

    def _change(self, p: int) -> float:
        """The growth of `est` at the key of a position's segment, through the segment and its kin."""
        return self.after[p] + self.beside[p] - self.before[p]

    def _segment(self, p: int) -> None:
        """Compute the `est` of a position's segment before and after the insertion."""
        before, after = 1.0, 1.0
        for e in self.tree.child_edges[p]:
            child = self.tree.child(e)
            classes, counts = self.summary.by_key[child, e].at(self.segments[p].keys[e])
            other_counts = counts - (classes == self.own[child])
            sum_before = (
                float((other_counts * self.summary.est[child][classes]).sum()) + self.before[child]
            )
            est = self.touched[child].of(classes, self.summary.est[child])
            sum_after = float((other_counts * est).sum()) + self.after[child] + self.beside[child]
            self.partners[p][e] = (sum_before, sum_after)
            before *= sum_before
            after *= sum_after
        self.after[p] = min(after, MOST_JOINS)
        self.before[p] = 0.0 if self.segments[p].number is None else min(before, MOST_JOINS)

    def _classes(self, p: int) -> None:
        """Find the classes of a position that changes of its children affect, and their new `est`."""
        kin = self.kin[p]
        grown = {e: self._grown(p, e) for e in self.tree.child_edges[p]}
        every = [classes for classes, _ in grown.values() if len(classes)]
        if any(was != now for e, (was, now) in self.partners[p].items() if e in kin.edges):
            every.append(kin.classes)
        if not every:
            return
        classes = np.unique(np.concatenate(every))
        sizes = self.summary.sizes[p][classes].astype(float)
        was, (value, more) = self.summary.est[p][classes], self._moved(p, classes, grown)
        gained = kin.among(classes) * (more - (value - was))
        if p == self.tree.root or self.tree.parent_edge[p] in kin.edges:
            self.beside[p] = float(gained.sum())
        else:
            value = value + gained / sizes
        moved = value != was
        self.touched[p] = _ChangedClasses(classes[moved], value[moved])
        if p != self.tree.root:
            wide = moved & (sizes > 1)
            reach = self._reach(p, classes[wide])
            self.spread += float((reach * (value - was)[wide]).sum())

    def _moved(
        self, p: int, classes: Codes, grown: Mapping[int, tuple[Codes, Counts]]
    ) -> tuple[Counts, Counts]:
        """The new `est` of some classes, and the further growth of a segment's kin in them."""
        sizes, kin = self.summary.sizes[p][classes].astype(float), self.kin[p]
        value, ahead, behind = (np.ones(len(classes)) for _ in range(3))
        for e, (touched, amounts) in grown.items():
            more = np.zeros(len(classes))
            np.add.at(more, np.searchsorted(classes, touched), amounts)
            means = self.summary.means[e][classes]
            now = means + more / sizes
            was, own = self.partners[p][e] if e in kin.edges else (means, now)
            value = np.minimum(value * now, MOST_JOINS)
            behind, ahead = (
                np.minimum(behind * was, MOST_JOINS),
                np.minimum(ahead * own, MOST_JOINS),
            )
        return value, ahead - behind

    def _grown(self, p: int, e: int) -> tuple[Codes, Counts]:
        """The growth of the partners of classes on one edge, summed over the rows of a class."""
        child, found = self.tree.child(e), self.touched[self.tree.child(e)]
        alone = self.summary.sizes[child][found.classes] == 1
        below = found.classes[alone]
        delta = (found.est - self.summary.est[child][found.classes])[alone]
        of, above, weights = self.summary.links[e].under(below)
        # The joins of the segment and of its kin are counted separately.
        apart = self._apart(p, e, above)
        mine = apart * self._joins(p, e, below)[of] if apart.any() else 0
        more = (weights - mine) * delta[of]
        classes, counts = self.summary.by_key[p, e].at(self.segments[child].keys[e])
        others = (counts - self._apart(p, e, classes)) * self._change(child)
        both, values = np.concatenate([above, classes]), np.concatenate([more, others])
        some = values != 0
        return both[some], values[some]

    def _apart(self, p: int, e: int, classes: Codes) -> Codes:
        """How many rows of some classes are the segment of a position, or its kin on an edge."""
        own: Codes = (classes == self.own[p]).astype(np.int64)
        return own + self.kin[p].among(classes) if e in self.kin[p].edges else own

    def _joins(self, p: int, e: int, below: Codes) -> Codes:
        """How many rows of classes below it a position's segment joins with."""
        classes, counts = self.summary.by_key[self.tree.child(e), e].at(self.segments[p].keys[e])
        return _counts_of(classes, counts, below)

    def _reach(self, p: int, classes: Codes) -> Counts:
        """The effect of changed classes at the root, except through a segment above and its kin."""
        e = self.tree.parent_edge[p]
        above = self.tree.parent(e)
        reach, kin = self.summary.reach[p][classes], self.kin[above]
        apart = kin.classes if e in kin.edges else _NO_CLASSES
        if self.own[above] != NO_CLASS:
            apart = np.union1d(apart, [self.own[above]])
        if not len(apart) or not len(classes):
            return reach
        rates = self.summary.reach[above][apart] / self.summary.sizes[above][apart]
        for f in self.tree.child_edges[above]:
            rates = rates if f == e else rates * self.summary.means[f][apart]
        rate = float((rates * self._apart(above, e, apart)).sum())
        return np.maximum(reach - self._joins(above, e, classes) * rate, 0.0)


def _counts_of(classes: Codes, counts: Codes, wanted: Codes) -> Codes:
    """The counts of some classes, from sorted classes with counts; zero for others."""
    if not len(classes):
        return np.zeros(len(wanted), dtype=np.int64)
    place = np.minimum(np.searchsorted(classes, wanted), len(classes) - 1)
    return np.where(classes[place] == wanted, counts[place], 0)
