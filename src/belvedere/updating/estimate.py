"""How many view rows an insertion would make, from the summary (Fig. 6 and 7).

Step 1 looks in G⁺: every whole row reaches out to a view row in every direction, so a whole row
that a segment joins with, other than its own, makes another view row as soon as something new
lies on the segment's side. The row to be inserted itself is not counted here.

Step 2 looks in G⁻: the segments become classes of their own, joined with their neighbours' classes
by their keys, and the change of `est` is propagated to the root. Candidates, which are rows, are
propagated one by one; where a change spreads over a larger class, its `reach` tells what becomes
of it further up. With every row a candidate the count is exact.

`estimate ≥ 1 + θ` declares side effects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from belvedere.updating.base import Base, Row
from belvedere.updating.classes import NONE, Summary
from belvedere.updating.graph import MOST, Graph

THETA = 0.4


@dataclass(frozen=True)
class Segment:
    """The part of a view row at one position: its number if it is there, its key on each edge."""

    number: int | None
    keys: dict[int, int | None]


@dataclass(frozen=True)
class Estimate:
    """The view rows that an insertion would make, the asked one among them."""

    rows: float
    through: tuple[tuple[int, int, int], ...] = ()
    """Edges, the position of a segment, and the whole rows beyond that it joins with."""

    def declares(self, theta: float = THETA) -> bool:
        """Whether side effects are declared."""
        return self.rows >= 1 + theta


def segments_of(
    base: Base, rows: Sequence[Row | None], numbers: Sequence[int | None]
) -> list[Segment]:
    """The segments of a view row; a row of None has values that no table has."""
    found = []
    for p, (row, number) in enumerate(zip(rows, numbers, strict=True)):
        keys = {e: None if row is None else base.key(p, e, row) for e in base.tree.around[p]}
        found.append(Segment(number, keys))
    return found


def estimate_side_effects(
    base: Base, graph: Graph, summary: Summary, segments: Sequence[Segment]
) -> Estimate:
    """How many view rows inserting the segments would make."""
    beyond = _step_one(base, graph, segments)
    inside = _Propagation(base, summary, segments).rows()
    return Estimate(inside + sum(n for *_, n in beyond), tuple(beyond))


def _step_one(base: Base, graph: Graph, segments: Sequence[Segment]) -> list[tuple[int, int, int]]:
    tree = base.tree
    new = frozenset(p for p, s in enumerate(segments) if s.number is None)
    found = []
    for e, edge in enumerate(tree.edges):
        for p in (edge.one, edge.other):
            key = segments[p].keys[e]
            q = edge.across(p)
            counts = graph.whole_by[q, e]
            if key is None or not 0 <= key < len(counts) or not new & tree.side(e, p):
                continue
            number = segments[q].number
            own = number is not None and number < len(graph.whole[q]) and graph.whole[q][number]
            others = int(counts[key]) - int(own)
            if others > 0:
                found.append((e, p, others))
    return found


class _Propagation:
    """Changes of `est`, from the leaves to the root, of the classes that are touched."""

    def __init__(self, base: Base, summary: Summary, segments: Sequence[Segment]) -> None:
        self.tree, self.summary, self.segments = base.tree, summary, segments
        n = len(segments)
        self.own = [self._class_of(p) for p in range(n)]
        self.before = [0.0] * n
        self.after = [0.0] * n
        self.changed: list[dict[int, float]] = [{} for _ in range(n)]
        """By class, the new `est` of those that are touched."""
        self.spread = 0.0

    def _class_of(self, p: int) -> int:
        number = self.segments[p].number
        known = self.summary.of_row[p]
        return NONE if number is None or number >= len(known) else int(known[number])

    def rows(self) -> float:
        """The new view rows."""
        tree = self.tree
        for p in reversed(tree.down):
            self._segment(p)
            self._classes(p)
        root = tree.root
        sizes, est = self.summary.sizes[root], self.summary.est[root]
        grown = sum(float(sizes[c]) * (v - float(est[c])) for c, v in self.changed[root].items())
        return min(grown + self.spread + self.after[root] - self.before[root], MOST)

    def _segment(self, p: int) -> None:
        """The `est` of a position's segment without and with the insertion."""
        before, after = 1.0, 1.0
        for e in self.tree.child_edges[p]:
            child = self.tree.child(e)
            est, changed = self.summary.est[child], self.changed[child]
            was = now = 0.0
            for c, count in self.summary.by_key[child, e].at(self.segments[p].keys[e]):
                others = count - (c == self.own[child])
                was += others * float(est[c])
                now += others * changed.get(c, float(est[c]))
            if self.segments[child].number is not None:
                was += self.before[child]
            now += self.after[child]
            before, after = before * was, after * now
        self.after[p] = min(after, MOST)
        self.before[p] = 0.0 if self.segments[p].number is None else min(before, MOST)

    def _classes(self, p: int) -> None:
        """The classes of a position that children's changes touch, and their new `est`."""
        more: dict[int, dict[int, float]] = {}
        for e in self.tree.child_edges[p]:
            for c, grown in self._grown(p, e):
                edges = more.setdefault(c, {})
                edges[e] = edges.get(e, 0.0) + grown
        sizes, summary = self.summary.sizes[p], self.summary
        for c, edges in more.items():
            value = 1.0
            for e in self.tree.child_edges[p]:
                value *= float(summary.means[e][c]) + edges.get(e, 0.0) / float(sizes[c])
            was = float(summary.est[p][c])
            if value == was:
                continue
            self.changed[p][c] = min(value, MOST)
            if p != self.tree.root and sizes[c] > 1:
                self.spread += self._reach(p, c) * (min(value, MOST) - was)

    def _grown(self, p: int, e: int) -> list[tuple[int, float]]:
        """By how much the partners of classes on one edge grew, all rows of the class together."""
        child, found = self.tree.child(e), []
        sizes, est = self.summary.sizes[child], self.summary.est[child]
        links = self.summary.links[e]
        for c, value in self.changed[child].items():
            if sizes[c] == 1:
                key_owner = self.own[p]
                delta = value - float(est[c])
                for above, weight in links.over(c):
                    if above != key_owner or self.summary.sizes[p][above] > 1:
                        mine = self._joins(p, e, c) if above == key_owner else 0
                        found.append((above, (weight - mine) * delta))
        delta = self.after[child] - (
            self.before[child] if self.segments[child].number is not None else 0.0
        )
        if delta:
            for above, count in self.summary.by_key[p, e].at(self.segments[child].keys[e]):
                others = count - (above == self.own[p])
                if others:
                    found.append((above, others * delta))
        return found

    def _joins(self, p: int, e: int, c: int) -> int:
        """How many rows of a class below a position's segment joins with."""
        at = self.summary.by_key[self.tree.child(e), e].at(self.segments[p].keys[e])
        return next((count for found, count in at if found == c), 0)

    def _reach(self, p: int, c: int) -> float:
        """What a change of a class does at the root, without what goes through a segment above."""
        e = self.tree.parent_edge[p]
        above = self.tree.parent(e)
        reach, own = float(self.summary.reach[p][c]), self.own[above]
        if own == NONE:
            return reach
        mine = self._joins(above, e, c)
        rate = float(self.summary.reach[above][own]) / float(self.summary.sizes[above][own])
        for f in self.tree.child_edges[above]:
            rate *= 1.0 if f == e else float(self.summary.means[f][own])
        return max(reach - mine * rate, 0.0)
