"""Join trees: nodes that joins connect without a cycle, seen from any root.

The nodes are positions of a join block, or groups of positions that are joined already. Every tree of
the library is made here: `spanning_edges` cuts the cycles of a join graph, and keeps the edges that its
caller gives first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic, Self, TypeVar


@dataclass(frozen=True)
class TreeEdge:
    """Two nodes that a join connects; a kind of tree adds the conditions."""

    left: int
    right: int

    @property
    def ends(self) -> tuple[int, int]:
        """Both nodes."""
        return self.left, self.right

    def across(self, node: int) -> int:
        """The other end."""
        return self.right if node == self.left else self.left


EdgeT = TypeVar("EdgeT", bound=TreeEdge)


@dataclass(frozen=True)
class JoinTree(Generic[EdgeT]):
    """A tree of nodes with a root; edges are named by their numbers."""

    nodes: int
    edges: tuple[EdgeT, ...]
    root: int

    @cached_property
    def around(self) -> tuple[tuple[int, ...], ...]:
        """The edges at each node, in order.

        >>> JoinTree(3, (TreeEdge(0, 1), TreeEdge(1, 2)), 0).around
        ((0,), (0, 1), (1,))
        """
        return tuple(
            tuple(e for e, edge in enumerate(self.edges) if node in edge.ends)
            for node in range(self.nodes)
        )

    @cached_property
    def down(self) -> tuple[int, ...]:
        """All nodes, each after its parent.

        >>> JoinTree(3, (TreeEdge(0, 1), TreeEdge(1, 2)), 2).down
        (2, 1, 0)
        """
        order, parent = [self.root], {self.root: -1}
        for node in order:
            for e in self.around[node]:
                child = self.edges[e].across(node)
                if child != parent[node]:
                    parent[child] = node
                    order.append(child)
        return tuple(order)

    @cached_property
    def parent_edge(self) -> tuple[int, ...]:
        """The edge from each node to its parent; -1 at the root."""
        edges = [-1] * self.nodes
        seen = {self.root}
        for node in self.down:
            for e in self.around[node]:
                child = self.edges[e].across(node)
                if child not in seen:
                    seen.add(child)
                    edges[child] = e
        return tuple(edges)

    @cached_property
    def child_edges(self) -> tuple[tuple[int, ...], ...]:
        """The edges from each node to its children."""
        return tuple(
            tuple(e for e in self.around[node] if e != self.parent_edge[node])
            for node in range(self.nodes)
        )

    @cached_property
    def directed_edges(self) -> tuple[tuple[int, int], ...]:
        """Every edge in both directions, as (node it leaves, edge), each after those that lead to it."""
        up = [(n, self.parent_edge[n]) for n in reversed(self.down) if n != self.root]
        return (*up, *((n, e) for n in self.down for e in self.child_edges[n]))

    def across(self, node: int, edge: int) -> int:
        """The other end of an edge."""
        return self.edges[edge].across(node)

    def child(self, edge: int) -> int:
        """The lower end of an edge."""
        left = self.edges[edge].left
        return left if self.parent_edge[left] == edge else self.edges[edge].right

    def parent(self, edge: int) -> int:
        """The upper end of an edge."""
        return self.edges[edge].across(self.child(edge))

    def bit(self, node: int, edge: int) -> int:
        """The bit that stands for an edge at one of its ends."""
        return 1 << self.around[node].index(edge)

    def side(self, edge: int, node: int) -> frozenset[int]:
        """The nodes on one end's side of an edge."""
        return reached(node, (e for n, e in enumerate(self.edges) if n != edge))

    def rooted(self, root: int) -> Self:
        """The same tree with another root."""
        return replace(self, root=root)


def spanning_edges(nodes: int, edges: Iterable[EdgeT]) -> tuple[list[EdgeT], list[EdgeT]]:
    """The edges that connect what the edges before them do not, and the edges that are cut (Kruskal).

    >>> kept, cut = spanning_edges(3, [TreeEdge(0, 1), TreeEdge(1, 2), TreeEdge(0, 2)])
    >>> [e.ends for e in kept], [e.ends for e in cut]
    ([(0, 1), (1, 2)], [(0, 2)])
    """
    group = list(range(nodes))
    kept, cut = list[EdgeT](), list[EdgeT]()
    for edge in edges:
        one, other = group[edge.left], group[edge.right]
        if one == other:
            cut.append(edge)
        else:
            kept.append(edge)
            group = [one if g == other else g for g in group]
    return kept, cut


def reached(node: int, edges: Iterable[TreeEdge]) -> frozenset[int]:
    """The nodes that edges connect with a node, itself included.

    >>> sorted(reached(0, [TreeEdge(1, 2), TreeEdge(0, 2), TreeEdge(3, 4)]))
    [0, 1, 2]
    """
    around: dict[int, set[int]] = {}
    for edge in edges:
        around.setdefault(edge.left, set()).add(edge.right)
        around.setdefault(edge.right, set()).add(edge.left)
    nodes, pending = {node}, [node]
    while pending:
        new = around.get(pending.pop(), set()) - nodes
        nodes |= new
        pending += new
    return frozenset(nodes)
