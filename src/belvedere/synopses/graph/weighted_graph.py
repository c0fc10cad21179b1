"""The weighted join graph in flat arrays: one vertex per distinct join key of a node.

A vertex of a node with d edges has d + 1 weights: towards edge e, the number of its rows times what they
meet over every *other* edge (equation 1 of the paper), and, for drawing from everything, over all edges. A
batch of one node's rows is applied at once: its rows are grouped by vertex, and each change of a key's
total crosses an edge once, however many rows caused it. Changes end at leaves.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from belvedere.kernels.hashes.interning import Interner, grown
from belvedere.kernels.join_graph.groups import Groups
from belvedere.kernels.join_graph.orders import Orders
from belvedere.kernels.join_graph.segments import Segments
from belvedere.kernels.join_graph.weights import MOST, distinct, product, sum_of_products
from belvedere.synopses.plan.query_tree import QueryTree

Parts = list[tuple[Any, Any]]
"""For each edge of a node: the number of each row's key, and its value in the band if there is one."""


@dataclass
class WeighedBatch:
    """A batch of a node's rows before it is applied: their vertices, and what each row meets."""

    vids: Any
    vs: Any
    times: Any
    index: Any
    met: list[Any]
    """For each edge, what each distinct vertex meets across it."""
    each: Any
    """For each distinct vertex, the join results of one row of it."""
    total: int
    """The join results of all the rows."""


class EdgeSide:
    """One node's end of an edge."""

    def __init__(self, node: int, edge: int, held: Groups | Orders) -> None:
        self.node = node
        self.edge = edge
        self.held = held
        self.other: EdgeSide
        self.cached: Any = None
        """What each vertex meets, kept where changes pass through the node; elsewhere it is looked up."""

    def met(self, vs: Any) -> Any:
        """What vertices meet across the edge."""
        if isinstance(self.held, Groups):
            assert isinstance(self.other.held, Groups)
            return self.other.held.total[self.held.key_of[vs]]
        return self.cached[vs] if self.cached is not None else self.look_up(vs)

    def look_up(self, vs: Any) -> Any:
        """What vertices meet across a band edge, from the other side's sums."""
        assert isinstance(self.held, Orders)
        assert isinstance(self.other.held, Orders)
        return self.other.held.totals(self.held.key_of[vs], self.held.value_of[vs])

    def weight(self, vs: Any) -> Any:
        """The weights of vertices towards the edge."""
        if isinstance(self.held, Groups):
            return self.held.weight[self.held.place[vs]]
        return self.held.weight[vs]

    def pick(self, theirs: Any, numbers: Any) -> tuple[Any, Any]:
        """The vertices on this side that numbers fall to, among those that vertices of the other side meet."""
        other = self.other.held
        if isinstance(self.held, Groups):
            return self.held.pick(other.key_of[theirs], numbers)
        assert isinstance(other, Orders)
        return self.held.pick(other.key_of[theirs], other.value_of[theirs], numbers)


class GraphNode:
    """The vertices of a node."""

    def __init__(self, width: int) -> None:
        self.names = Interner(width)
        self.rows = Segments()
        self.mark = np.zeros(64, dtype=np.int64)
        self.sides: list[EdgeSide] = []


class WeightedGraph:
    """Weights up to 2^62; beyond, an `OverflowError`, and `PlainGraph` must take over."""

    def __init__(self, tree: QueryTree) -> None:
        self.tree = tree
        self.size = 0
        """The number of join results."""
        widths = [sum(2 if tree.edges[e].band else 1 for e in edges) or 1 for edges in tree.around]
        self.nodes = [GraphNode(width) for width in widths]
        for number, edge in enumerate(tree.edges):
            ends = [
                self._end(edge.left, number, left=True),
                self._end(edge.right, number, left=False),
            ]
            ends[0].other, ends[1].other = ends[1], ends[0]
        self.everything: Groups | None = None
        """The root's vertices with the weight over all edges; built at the first draw."""

    def _end(self, node: int, edge: int, *, left: bool) -> EdgeSide:
        band = self.tree.edges[edge].band
        held: Groups | Orders = (
            Groups() if band is None else Orders(band.low, band.high, left=left, kind=band.kind)
        )
        side = EdgeSide(node, edge, held)
        if band is not None and (len(self.tree.around[node]) > 1 or node == self.tree.root):
            side.cached = np.zeros(64, dtype=np.int64)
        self.nodes[node].sides.append(side)
        return side

    @property
    def vertices(self) -> list[tuple[int, int]]:
        """For each node the number of vertices with rows, and without."""
        counts = [n.rows.count[: n.names.size] for n in self.nodes]
        return [(int((c > 0).sum()), int((c == 0).sum())) for c in counts]

    def holds(self, node: int, rows: Any) -> Any:
        """Which rows are in the graph."""
        held = self.nodes[node].rows
        if len(rows):
            held.reserve(0, int(rows.max()) + 1)
        return held.vertex[rows] > 0

    def weigh(self, node: int, rows: Any, parts: Parts, bound: int) -> WeighedBatch:
        """The weights of a batch before it is added; `bound` is above every row number of the node."""
        here = self.nodes[node]
        vids = self._place(node, len(rows), parts)
        here.rows.reserve(here.names.size, bound)
        here.mark = grown(here.mark, here.names.size)
        weighed = self._weighed(node, vids)
        if self.size + weighed.total >= MOST:
            raise OverflowError("a join beyond 64 bits")
        return weighed

    def _weighed(self, node: int, vids: Any) -> WeighedBatch:
        here = self.nodes[node]
        vs, times, index = distinct(vids, here.mark)
        for side in here.sides:
            if side.cached is not None:
                # Changes do not reach vertices without rows, so what these meet is looked up again.
                empty = vs[here.rows.count[vs] == 0]
                if len(empty):
                    side.cached[empty] = side.look_up(empty)
        met = [side.met(vs) for side in here.sides]
        each = reduce(product, met) if met else np.ones(len(vs), dtype=np.int64)
        return WeighedBatch(vids, vs, times, index, met, each, sum_of_products(each, times))

    def _place(self, node: int, count: int, parts: Parts) -> Any:
        """The vertices of rows; new vertices are created."""
        here = self.nodes[node]
        columns = [c for key, value in parts for c in (key, value) if c is not None]
        codes = np.zeros((count, here.names.width), dtype=np.int64)
        for n, column in enumerate(columns):
            codes[:, n] = column.view(np.int64) if column.dtype == np.float64 else column
        for side, (key, _) in zip(here.sides, parts, strict=True):
            if isinstance(side.held, Groups) and len(key):
                most = int(key.max()) + 1
                side.held.reserve_keys(most)
                assert isinstance(side.other.held, Groups)
                side.other.held.reserve_keys(most)
        before = here.names.size
        vids = here.names.ids(codes)
        if here.names.size > before:
            self._enroll(node, before)
        return vids

    def _enroll(self, node: int, before: int) -> None:
        """Enter the vertices from a number on into the groups and orders of their node."""
        here = self.nodes[node]
        size = here.names.size
        here.rows.reserve(size, 0)
        new = np.arange(before, size, dtype=np.int32)
        codes = here.names.keys[before:size]
        at = 0
        for side in here.sides:
            keys = codes[:, at].astype(np.int32)
            if isinstance(side.held, Groups):
                side.held.enroll(new, keys, size)
                at += 1
            else:
                side.held.enroll(
                    new, keys, codes[:, at + 1].copy().view(side.held.value.dtype), size
                )
                at += 2
            if side.cached is not None:
                side.cached = grown(side.cached, size)
        if node == self.tree.root and self.everything is not None:
            self.everything.enroll(new, np.zeros(len(new), dtype=np.int32), size)

    def add(self, node: int, rows: Any, weighed: WeighedBatch) -> None:
        """Add a weighed batch."""
        self.nodes[node].rows.append(weighed.vids, rows)
        self._change(node, weighed, weighed.times)
        self.size += weighed.total

    def remove(self, node: int, rows: Any) -> int:
        """Remove rows; the number of join results that this removes."""
        here = self.nodes[node]
        weighed = self._weighed(node, here.rows.vertex[rows] - 1)
        here.rows.remove(rows)
        self._change(node, weighed, -weighed.times)
        self.size -= weighed.total
        return weighed.total

    def _change(self, node: int, batch: WeighedBatch, times: Any) -> None:
        """Change the weights of a batch's vertices, and all that depends on them."""
        here = self.nodes[node]
        for n, side in enumerate(here.sides):
            others = [w for m, w in enumerate(batch.met) if m != n]
            self._change_side(side, batch.vs, reduce(product, others, times))
        if node == self.tree.root and self.everything is not None:
            self.everything.apply(batch.vs, product(batch.each, times))

    def _change_side(self, side: EdgeSide, vs: Any, changes: Any) -> None:
        """Change the weights of vertices towards an edge, and what depends on them across it."""
        there, far = self.nodes[side.other.node], side.other
        is_end = len(there.sides) == 1 and (far.node != self.tree.root or self.everything is None)
        if isinstance(side.held, Groups):
            keys, moved = side.held.apply(vs, changes)
            if is_end and far.cached is None:
                return
            assert isinstance(far.held, Groups)
            reached, by = far.held.members(keys, moved, there.rows.count)
        else:
            side.held.apply(vs, changes)
            if is_end and far.cached is None:
                return
            assert isinstance(far.held, Orders)
            reached, by = far.held.spread(
                side.held.key_of[vs], side.held.value_of[vs], changes, there.rows.count
            )
            if far.cached is not None:
                far.cached[reached] += by
        if len(reached):
            self._pass_on(far, reached, product(there.rows.count[reached], by))

    def _pass_on(self, came: EdgeSide, vs: Any, changes: Any) -> None:
        """Change the weights of vertices towards all edges but the one over which they meet something else now."""
        there = self.nodes[came.node]
        onward = [s for s in there.sides if s is not came]
        met = [s.met(vs) for s in onward]
        for n, side in enumerate(onward):
            others = [w for m, w in enumerate(met) if m != n]
            self._change_side(side, vs, reduce(product, others, changes))
        if came.node == self.tree.root and self.everything is not None:
            self.everything.apply(vs, reduce(product, met, changes))

    def rows_of(self, node: int, rows: Any, vids: Any, numbers: Any) -> Any:
        """Join results: rows of a node, and the rows of the other nodes that numbers stand for."""
        results = np.empty((len(rows), self.tree.nodes), dtype=np.int32)
        results[:, node] = rows
        self._descend(node, None, vids, numbers, results)
        return results

    def _descend(
        self, node: int, came: EdgeSide | None, vids: Any, numbers: Any, results: Any
    ) -> None:
        for side in self.nodes[node].sides:
            if side is came:
                continue
            met = side.met(vids)
            far = side.other
            vs, rest = far.pick(vids, numbers % met)
            numbers = numbers // met
            held = self.nodes[far.node].rows
            each = far.weight(vs) // held.count[vs]
            results[:, far.node] = held.arena[held.start[vs] + rest // each]
            self._descend(far.node, far, vs, rest % each, results)

    def draw(self, numbers: Any) -> Any:
        """The join results with some numbers below the size."""
        if self.everything is None:
            self._weigh_everything()
        assert self.everything is not None
        root = self.nodes[self.tree.root]
        vs, rest = self.everything.pick(np.zeros(len(numbers), dtype=np.int32), numbers)
        each = self.everything.weight[self.everything.place[vs]] // root.rows.count[vs]
        rows = root.rows.arena[root.rows.start[vs] + rest // each]
        return self.rows_of(self.tree.root, rows, vs, rest % each)

    def _weigh_everything(self) -> None:
        root = self.nodes[self.tree.root]
        vs = np.arange(root.names.size, dtype=np.int32)
        self.everything = Groups()
        self.everything.reserve_keys(1)
        self.everything.enroll(vs, np.zeros(len(vs), dtype=np.int32), len(vs))
        alive = vs[root.rows.count[vs] > 0]
        met = [side.met(alive) for side in root.sides]
        self.everything.apply(alive, reduce(product, met, root.rows.count[alive]))
