"""Candidates by maximum flow (Fig. 11): the reference on small graphs.

Taken literally the procedure cannot be run: it adds every pair of rows that do not join, and gives
it the logarithm of a probability for a capacity, which is negative. Here capacities are shifted to
be positive, which keeps their order; joins that exist have one that none reaches.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from belvedere.updating.summary.base_tables import BaseTables
from belvedere.updating.summary.candidates import embedding_costs, partial_embedding
from belvedere.updating.summary.database_graph import DatabaseGraph

Node = tuple[int, int]
_ENDLESS = 10**6
_UNIT = 100


def flow_candidates(base: BaseTables, graph: DatabaseGraph, count: int) -> list[set[Node]]:
    """So many sets of rows, each the partial embedding around the path of greatest flow."""
    left = {(p, int(n)) for p, e in enumerate(graph.extended) for n in np.flatnonzero(e)}
    found: list[set[Node]] = []
    costs = embedding_costs(base, graph)
    while left and len(found) < count:
        path = _greatest(base, left)
        dangling = [n for n in path if not graph.whole[n[0]][n[1]]] or path[:1]
        chosen = set(
            partial_embedding(
                base, graph, costs, *max(dangling, key=lambda n: _degree(base, n, left))
            )
        )
        found.append(chosen)
        left -= chosen
    return found


def _degree(base: BaseTables, node: Node, left: set[Node]) -> int:
    return sum(_joined(base, node, other) for other in left)


def _joined(base: BaseTables, one: Node, other: Node) -> bool:
    (p, n), (q, m) = one, other
    for e in base.tree.around[p]:
        if base.tree.edges[e].across(p) == q:
            a, b = int(base.keys(p, e)[n]), int(base.keys(q, e)[m])
            return a >= 0 and a == b
    return False


def _greatest(base: BaseTables, left: set[Node]) -> list[Node]:
    """The rows on the path from source to sink through which most flows."""
    tree, nodes = base.tree, sorted(left)
    at = {node: i + 2 for i, node in enumerate(nodes)}
    ends = {p for p in range(len(tree.around)) if not tree.child_edges[p]}
    capacity = np.zeros((len(nodes) + 2, len(nodes) + 2), dtype=np.int32)
    worst = (
        max(math.log(max(base.width(e), 2)) for e in range(len(tree.edges))) if tree.edges else 1
    )
    for one in nodes:
        p = one[0]
        if tree.parent_edge[p] < 0 or not _has(left, tree.parent(tree.parent_edge[p])):
            capacity[0, at[one]] = _ENDLESS
        if p in ends or not any(_has(left, tree.child(e)) for e in tree.child_edges[p]):
            capacity[at[one], 1] = _ENDLESS
        for other in nodes:
            e = tree.parent_edge[other[0]]
            if e >= 0 and tree.parent(e) == p:
                missing = _UNIT * (1 + worst - math.log(max(base.width(e), 2)))
                capacity[at[one], at[other]] = (
                    _ENDLESS if _joined(base, one, other) else round(missing)
                )
    flow = maximum_flow(csr_array(capacity), 0, 1).flow.toarray()
    path, here = [], 0
    while here != 1:
        here = int(np.argmax(flow[here]))
        if here != 1:
            path.append(nodes[here - 2])
    return path


def _has(left: set[Node], p: int) -> bool:
    return any(q == p for q, _ in left)
