"""The unrooted query tree (SJoin §4.1): nodes, edges between them, and what rows meet on over an edge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from belvedere.joins.join_tree import JoinTree, TreeEdge


@dataclass(frozen=True)
class Band:
    """Rows of the left and right node meet when low <= p - q <= high."""

    low: int | float
    high: int | float

    @property
    def kind(self) -> str:
        """The type of the compared values."""
        return "float64" if isinstance(self.low, float) else "int64"


@dataclass(frozen=True)
class QueryEdge(TreeEdge):
    """Two nodes whose rows meet on equal keys, and within a band if there is one."""

    band: Band | None = None


QueryTree: TypeAlias = JoinTree[QueryEdge]


def query_tree(nodes: int, edges: Sequence[QueryEdge]) -> QueryTree:
    """The tree from the node with the most edges, from which samples are drawn: few nodes lie beyond it.

    >>> query_tree(3, [QueryEdge(0, 1), QueryEdge(1, 2)]).root
    1
    """
    root = max(range(nodes), key=lambda node: sum(node in edge.ends for edge in edges))
    return QueryTree(nodes, tuple(edges), root)
