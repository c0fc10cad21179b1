"""Join trees: which positions hang together, seen from any root.

Of all spanning trees of the positions one that shares the most join classes is taken: if any tree
implies every equality of the view, such a one does (the view is acyclic). Otherwise the join is
cyclic, and the classes that the tree does not hold together are `dropped`: the estimate does
without them, the exact check does not. Among trees that share as much, joins on a key come first:
what is dropped is then the join that says least.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from belvedere.errors import Invalid
from belvedere.joins.normal_form import Shape


@dataclass(frozen=True)
class Edge:
    """Two positions and the join classes on which they meet."""

    one: int
    other: int
    classes: tuple[int, ...]

    def across(self, position: int) -> int:
        """The other end."""
        return self.other if position == self.one else self.one


@dataclass(frozen=True)
class Tree:
    """A join tree with a root."""

    shape: Shape
    edges: tuple[Edge, ...]
    root: int
    dropped: tuple[int, ...]
    """Join classes that the tree does not hold together."""

    @cached_property
    def around(self) -> tuple[tuple[int, ...], ...]:
        """The numbers of the edges at each position."""
        n = len(self.shape.positions)
        return tuple(
            tuple(e for e, edge in enumerate(self.edges) if p in (edge.one, edge.other))
            for p in range(n)
        )

    @cached_property
    def down(self) -> tuple[int, ...]:
        """All positions, each after its parent."""
        order, above = [self.root], {self.root: -1}
        for p in order:
            for e in self.around[p]:
                child = self.edges[e].across(p)
                if child != above[p]:
                    above[child] = p
                    order.append(child)
        return tuple(order)

    @cached_property
    def parent_edge(self) -> tuple[int, ...]:
        """The edge from each position to its parent; -1 at the root."""
        found = [-1] * len(self.shape.positions)
        seen = {self.root}
        for p in self.down:
            for e in self.around[p]:
                child = self.edges[e].across(p)
                if child not in seen:
                    seen.add(child)
                    found[child] = e
        return tuple(found)

    @cached_property
    def child_edges(self) -> tuple[tuple[int, ...], ...]:
        """The edges from each position to its children."""
        return tuple(
            tuple(e for e in self.around[p] if e != self.parent_edge[p])
            for p in range(len(self.shape.positions))
        )

    @cached_property
    def ways(self) -> tuple[tuple[int, int], ...]:
        """Every edge both ways, from the position it leaves: each after those that lead to it."""
        up = [(p, self.parent_edge[p]) for p in reversed(self.down) if p != self.root]
        return (*up, *((p, e) for p in self.down for e in self.child_edges[p]))

    @cached_property
    def shared(self) -> tuple[tuple[int, ...], ...]:
        """Of each position the widest edge, and those that it contains: its key tells theirs."""
        return tuple(
            max(((e, *self._contained(p, e)) for e in edges), key=len, default=())
            for p, edges in enumerate(self.around)
        )

    def _contained(self, position: int, edge: int) -> list[int]:
        wide = set(self.edges[edge].classes)
        return [
            f for f in self.around[position] if f != edge and wide.issuperset(self.edges[f].classes)
        ]

    def bit(self, position: int, edge: int) -> int:
        """The bit that stands for an edge at one of its ends."""
        return 1 << self.around[position].index(edge)

    def child(self, edge: int) -> int:
        """The lower end of an edge."""
        one = self.edges[edge].one
        return one if self.parent_edge[one] == edge else self.edges[edge].other

    def parent(self, edge: int) -> int:
        """The upper end of an edge."""
        return self.edges[edge].across(self.child(edge))

    def columns(self, position: int, edge: int) -> tuple[str, ...]:
        """The columns of a position on which it meets the other end of an edge."""
        return self._columns[position, edge]

    @cached_property
    def _columns(self) -> dict[tuple[int, int], tuple[str, ...]]:
        return {
            (p, e): tuple(next(c for q, c in self.shape.classes[k] if q == p) for k in edge.classes)
            for e, edge in enumerate(self.edges)
            for p in (edge.one, edge.other)
        }

    def rooted(self, root: int) -> Tree:
        """The same tree with another root."""
        return Tree(self.shape, self.edges, root, self.dropped)

    def side(self, edge: int, position: int) -> frozenset[int]:
        """The positions on one end's side of an edge."""
        found, todo = {position}, [position]
        while todo:
            p = todo.pop()
            for e in self.around[p]:
                q = self.edges[e].across(p)
                if e != edge and q not in found:
                    found.add(q)
                    todo.append(q)
        return frozenset(found)


Keys = Mapping[str, tuple[str, ...]]
"""The declared key of each table that has one."""


def join_tree(shape: Shape, root: int | str = 0, keys: Keys = MappingProxyType({})) -> Tree:
    """The join tree of a view from a root: a position, or the table of one."""
    edges = _spanning(shape, keys)
    held = tuple(
        k
        for k, members in enumerate(shape.classes)
        if not _holds(edges, k, {p for p, _ in members})
    )
    number = _root(shape, root)
    return Tree(shape, edges, number, held)


def _root(shape: Shape, root: int | str) -> int:
    if isinstance(root, int):
        return root
    at = shape.at(root)
    if not at:
        raise Invalid(
            f"the view does not read {root!r}",
            hint=f"its tables: {', '.join(shape.tables)}",
            reason="NOT_IN_QUERY",
        )
    return at[0]


def _spanning(shape: Shape, keys: Keys) -> tuple[Edge, ...]:
    """A spanning tree of greatest weight: Kruskal's, on numbers of shared classes."""
    shared: dict[tuple[int, int], list[int]] = {}
    for k, members in enumerate(shape.classes):
        at = sorted({p for p, _ in members})
        for i, p in enumerate(at):
            for q in at[i + 1 :]:
                shared.setdefault((p, q), []).append(k)
    component = list(range(len(shape.positions)))
    chosen = []
    edges = [Edge(p, q, tuple(classes)) for (p, q), classes in sorted(shared.items())]
    edges.sort(key=lambda e: (-len(e.classes), not _on_key(shape, e, keys)))
    for edge in edges:
        p, q = edge.one, edge.other
        if component[p] != component[q]:
            chosen.append(edge)
            component = [component[p] if c == component[q] else c for c in component]
    return tuple(chosen)


def _on_key(shape: Shape, edge: Edge, keys: Keys) -> bool:
    """Whether one end of an edge is the key of its table."""
    for p in (edge.one, edge.other):
        columns = {c for k in edge.classes for q, c in shape.classes[k] if q == p}
        key = keys.get(shape.positions[p].table)
        if key is not None and set(key) <= columns:
            return True
    return False


def _holds(edges: tuple[Edge, ...], k: int, positions: set[int]) -> bool:
    """Whether edges with a class connect all its positions."""
    todo, seen = [min(positions)], {min(positions)}
    while todo:
        p = todo.pop()
        for edge in edges:
            if k in edge.classes and p in (edge.one, edge.other):
                q = edge.across(p)
                if q not in seen:
                    seen.add(q)
                    todo.append(q)
    return seen >= positions
