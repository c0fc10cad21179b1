"""The summary as the paper defines it, row by row: what the flat arrays are tested against."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from belvedere.updating.side_effects.in_memory import BaseChanges, TableState
from belvedere.updating.summary.base_tables import BaseTables
from belvedere.updating.summary.database_graph import MOST_JOINS

Node = tuple[int, int]
"""A position and the number of a row."""


@dataclass(frozen=True)
class Defined:
    """G⁺, G⁻, join cardinalities, classes and weighted edges."""

    whole: frozenset[Node]
    extended: frozenset[Node]
    jcard: dict[Node, float]
    joined: dict[Node, frozenset[int]]
    """The child positions in which a row has extended partners."""
    complete: dict[Node, frozenset[int]]
    """The edges on which a row has a partner from which rows lead to all positions beyond."""

    def classes(self, candidates: frozenset[Node]) -> dict[Node, object]:
        """The class of each extended row: the same for rows of the same class."""
        return {
            n: n if n in candidates else (n[0], self.jcard[n], self.joined[n], self.complete[n])
            for n in self.extended
        }


def defined(base: BaseTables) -> Defined:
    """The definitions of Sec. 5, applied to every row and every join of two rows."""
    state = TableState(base, BaseChanges(), [10**9])
    shape, tree = base.shape, base.tree
    nodes = [
        (p, n)
        for p in range(len(shape.positions))
        for n in range(base.rows_at(p).size)
        if base.is_present(p, n)
    ]
    plain = TableState(base, BaseChanges(), [10**9])
    plain.checks = []  # G knows the joins of the tree only
    whole = {n for n in nodes if next(plain.embeddings_through(*n), None) is not None}
    dangling = set(nodes) - whole

    def leads(p: int, number: int, came: int) -> bool:
        """Whether joins lead from a row to a dangling one, not back where we came from."""
        if (p, number) in dangling:
            return True
        return any(
            leads(tree.edges[e].across(p), other, e)
            for e in tree.around[p]
            if e != came
            for other in state.partners(p, number, e)
        )

    def completes(p: int, number: int, e: int) -> bool:
        """Whether a row has a partner on an edge that completes all beyond it."""
        q = tree.edges[e].across(p)
        return any(
            all(completes(q, other, f) for f in tree.around[q] if f != e)
            for other in state.partners(p, number, e)
        )

    extended = frozenset(n for n in nodes if leads(*n, -1))
    complete = {
        (p, n): frozenset(e for e in tree.around[p] if completes(p, n, e)) for p, n in extended
    }
    jcard: dict[Node, float] = {}
    joined: dict[Node, frozenset[int]] = {}
    for p in reversed(tree.down):
        for node in (n for n in extended if n[0] == p):
            below = {
                tree.child(e): [
                    (tree.child(e), other)
                    for other in state.partners(p, node[1], e)
                    if (tree.child(e), other) in extended
                ]
                for e in tree.child_edges[p]
            }
            jcard[node] = min(
                prod(sum(jcard[b] for b in some) for some in below.values()), MOST_JOINS
            )
            joined[node] = frozenset(q for q, some in below.items() if some)
    return Defined(frozenset(whole), extended, jcard, joined, complete)


def weights(
    base: BaseTables, found: Defined, classes: dict[Node, object]
) -> Counter[tuple[object, object]]:
    """How many pairs of rows join between two classes, the upper one first."""
    return Counter((classes[a], classes[b]) for a, b in _joins(base, found))


def _joins(base: BaseTables, found: Defined) -> Iterator[tuple[Node, Node]]:
    state = TableState(base, BaseChanges(), [10**9])
    for p, number in found.extended:
        for e in base.tree.child_edges[p]:
            child = base.tree.child(e)
            for other in state.partners(p, number, e):
                if (child, other) in found.extended:
                    yield (p, number), (child, other)
