"""The weighted join graph as the paper defines it, in plain Python.

It is the definition that `WeightedGraph` is tested against, and it takes over when a join exceeds 64 bits.
It keeps only rows by vertex; a weight is computed from its definition, once per state, in integers of any
size.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from belvedere.errors import Internal
from belvedere.synopses.plan.query_tree import QueryTree

Key = tuple[tuple[int, Any], ...]
"""A vertex: for each edge of its node the key's number and the value in the band."""


@dataclass
class PlainWeighedBatch:
    """A batch before it is applied: for each row its vertex and its join results."""

    keys: list[Key]
    weights: list[int]
    total: int


class PlainGraph:
    """The weighted join graph without a bound on weights, and slow."""

    def __init__(self, tree: QueryTree) -> None:
        self.tree = tree
        self.size = 0
        self.rows: list[dict[Key, list[int]]] = [{} for _ in range(tree.nodes)]
        self.where: list[dict[int, Key]] = [{} for _ in range(tree.nodes)]
        self._weights: dict[tuple[int, int], dict[Any, Any]] = {}

    def holds(self, node: int, rows: Any) -> Any:
        """Which rows are in the graph."""
        return np.array([int(r) in self.where[node] for r in rows], dtype=bool)

    def weigh(
        self, node: int, rows: Any, parts: list[tuple[Any, Any]], bound: int
    ) -> PlainWeighedBatch:
        """The vertices and join results of a batch, before it is added."""
        del bound
        columns = [
            list(zip(k.tolist(), v.tolist() if v is not None else [None] * len(k), strict=True))
            for k, v in parts
        ]
        keys: list[Key] = list(zip(*columns, strict=True)) if columns else [()] * len(rows)
        weights = [self._met(node, key) for key in keys]
        return PlainWeighedBatch(keys, weights, sum(weights))

    def add(self, node: int, rows: Any, weighed: PlainWeighedBatch) -> None:
        """Add a weighed batch."""
        for row, key in zip(rows.tolist(), weighed.keys, strict=True):
            self.rows[node].setdefault(key, []).append(row)
            self.where[node][row] = key
        self.size += weighed.total
        self._weights.clear()

    def remove(self, node: int, rows: Any) -> int:
        """Remove rows; the number of join results that this removes."""
        removed = sum(self._met(node, self.where[node][row]) for row in rows.tolist())
        for row in rows.tolist():
            key = self.where[node].pop(row)
            self.rows[node][key].remove(row)
            if not self.rows[node][key]:
                del self.rows[node][key]
        self.size -= removed
        self._weights.clear()
        return removed

    def _met(self, node: int, key: Key, but: int | None = None) -> int:
        """The number of results that a vertex meets over all edges but one."""
        edges = self.tree.around[node]
        return prod(self.across(node, e, key[n]) for n, e in enumerate(edges) if e != but)

    def across(self, node: int, edge: int, key: tuple[int, Any]) -> int:
        """The weight of the vertices across an edge that a key and band value meet: W of the paper."""
        return sum(weight for _, weight in self._meeting(node, edge, key))

    def _meeting(self, node: int, edge: int, met_by: tuple[int, Any]) -> list[tuple[Key, int]]:
        there = self.tree.across(node, edge)
        band = self.tree.edges[edge].band
        left = self.tree.edges[edge].left == node
        same_key = self._towards(there, edge)[met_by[0]]
        if band is None:
            return list(same_key)
        at = self.tree.around[there].index(edge)
        value = met_by[1]
        return [
            (key, weight)
            for key, weight in same_key
            if band.low <= (value - key[at][1] if left else key[at][1] - value) <= band.high
        ]

    def _towards(self, node: int, edge: int) -> dict[int, list[tuple[Key, int]]]:
        """The vertices of a node by their key on an edge, with their weights towards it."""
        if (node, edge) not in self._weights:
            at = self.tree.around[node].index(edge)
            vertices: dict[int, list[tuple[Key, int]]] = defaultdict(list)
            for key, rows in self.rows[node].items():
                vertices[key[at][0]].append((key, len(rows) * self._met(node, key, but=edge)))
            self._weights[node, edge] = vertices
        return self._weights[node, edge]

    def rows_of(self, node: int, row: int, key: Key, number: int) -> list[int]:
        """A join result: a row of a node, and the rows of the other nodes that a number stands for."""
        result = [0] * self.tree.nodes
        result[node] = row
        self._descend(node, None, key, number, result)
        return result

    def _descend(
        self, node: int, came: int | None, key: Key, number: int, result: list[int]
    ) -> None:
        for n, edge in enumerate(self.tree.around[node]):
            if edge == came:
                continue
            number, rest = divmod(number, self.across(node, edge, key[n]))
            there = self.tree.across(node, edge)
            vertex, weight, rest = _vertex_of(self._meeting(node, edge, key[n]), rest)
            rows = self.rows[there][vertex]
            slot, rest = divmod(rest, weight // len(rows))
            result[there] = rows[slot]
            self._descend(there, edge, vertex, rest, result)

    def draw(self, numbers: list[int]) -> Any:
        """The join results with some numbers below the size."""
        root = self.tree.root
        vertices = [
            (key, len(rows) * self._met(root, key)) for key, rows in self.rows[root].items()
        ]
        results = []
        for number in numbers:
            key, weight, rest = _vertex_of(vertices, number)
            rows = self.rows[root][key]
            slot, rest = divmod(rest, weight // len(rows))
            results.append(self.rows_of(root, rows[slot], key, rest))
        return np.array(results, dtype=np.int32).reshape(len(numbers), self.tree.nodes)


def _vertex_of(weighted: list[tuple[Key, int]], number: int) -> tuple[Key, int, int]:
    """The vertex that a number falls to, its weight, and the number within the vertex."""
    for key, weight in weighted:
        if number < weight:
            return key, weight, number
        number -= weight
    raise Internal(f"a join number that is {number} too large")
