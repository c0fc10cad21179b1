"""The shape of a query tree: nodes in a row, edges between them, what an edge compares."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Band:
    """Rows of the left and right node meet when low <= p - q <= high."""

    low: int | float
    high: int | float

    @property
    def kind(self) -> str:
        """The type of the values that are compared."""
        return "float64" if isinstance(self.low, float) else "int64"


@dataclass(frozen=True)
class Edge:
    """Two nodes that meet: on equal keys, and within a band if there is one."""

    left: int
    right: int
    band: Band | None = None


@dataclass(frozen=True)
class Shape:
    """A tree of nodes."""

    nodes: int
    edges: tuple[Edge, ...]

    @cached_property
    def sides(self) -> tuple[tuple[int, ...], ...]:
        """For each node the edges it has, in order.

        >>> Shape(3, (Edge(0, 1), Edge(1, 2))).sides
        ((0,), (0, 1), (1,))
        """
        return tuple(
            tuple(n for n, e in enumerate(self.edges) if node in (e.left, e.right))
            for node in range(self.nodes)
        )

    @cached_property
    def root(self) -> int:
        """The node that samples are drawn from: one with the most edges, so that few lie beyond it."""
        return max(range(self.nodes), key=lambda node: len(self.sides[node]))

    def across(self, node: int, edge: int) -> int:
        """The other node of an edge."""
        e = self.edges[edge]
        return e.right if e.left == node else e.left
