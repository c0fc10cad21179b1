"""Candidates: the rows that random insertions are most likely to complete to a view row.

A partial embedding is ranked by the number of segments that it misses, then by the probability that
these have the right keys, with all keys equally likely. One pass up and one down the join tree find
the best partial embedding of every row:

    cost = 1000 · missing + Σ log(keys) over the joins where something is missing
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from belvedere.updating.summary.base_tables import BaseTables
from belvedere.updating.summary.classes import CandidateRows
from belvedere.updating.summary.database_graph import Counts, DatabaseGraph

MISSING_COST = 1000.0


def best_candidates(base: BaseTables, graph: DatabaseGraph, share: float) -> CandidateRows:
    """The best-ranked share of the extended rows of all positions."""
    costs = embedding_costs(base, graph)
    rows = [np.flatnonzero(e) for e in graph.extended]
    all_costs = np.concatenate([c[r] for c, r in zip(costs, rows, strict=True)])
    count = round(share * len(all_costs))
    # Ties are broken by row number, so that the same data gives the same candidates.
    order = np.argsort(all_costs, kind="stable")[:count]
    chosen = np.zeros(len(all_costs), dtype=bool)
    chosen[order] = True
    by_position = np.split(chosen, np.cumsum([len(r) for r in rows])[:-1])
    return [r[c].astype(np.int64) for r, c in zip(rows, by_position, strict=True)]


def counted_candidates(base: BaseTables, graph: DatabaseGraph, count: int) -> CandidateRows:
    """The rows of the best partial embeddings, each begun from a row not chosen before."""
    costs = embedding_costs(base, graph)
    rows = [np.flatnonzero(x & ~w) for x, w in zip(graph.extended, graph.whole, strict=True)]
    all_costs = np.concatenate([c[r] for c, r in zip(costs, rows, strict=True)])
    positions = np.repeat(np.arange(len(rows)), [len(r) for r in rows])
    numbers = np.concatenate(rows)
    chosen: list[dict[int, None]] = [{} for _ in costs]
    for place in np.argsort(all_costs, kind="stable"):
        p, number = int(positions[place]), int(numbers[place])
        if count == 0:
            break
        if number not in chosen[p]:
            count -= 1
            for q, other in partial_embedding(base, graph, costs, p, number):
                chosen[q][other] = None
    return [np.array(sorted(t), dtype=np.int64) for t in chosen]


def partial_embedding(
    base: BaseTables, graph: DatabaseGraph, costs: list[Counts], p: int, number: int
) -> list[tuple[int, int]]:
    """A partial embedding from a row outwards, with the best partner at each step."""
    embedding, todo = [(p, number)], [(p, number, -1)]
    while todo:
        position, row, arrived_by = todo.pop()
        for e in base.tree.around[position]:
            q = base.tree.edges[e].across(position)
            partners = [
                n
                for n in base.matching(q, e, int(base.keys(position, e)[row]))
                if graph.extended[q][n]
            ]
            if e != arrived_by and partners:
                best = min(partners, key=lambda n: (float(costs[q][n]), n))
                embedding.append((q, best))
                todo.append((q, best, e))
    return embedding


def embedding_costs(base: BaseTables, graph: DatabaseGraph) -> list[Counts]:
    """For every extended row the cost of its best partial embedding; infinite for other rows."""
    tree = base.tree
    n = len(graph.extended)
    below: list[dict[int, Counts]] = [{} for _ in range(n)]
    for p in reversed(tree.down):
        if p != tree.root:
            e = tree.parent_edge[p]
            cost = sum(below[p].values(), np.zeros(len(graph.extended[p])))
            below[tree.parent(e)][e] = _cost_across(base, graph, p, e, cost, len(tree.side(e, p)))
    costs = [sum(below[p].values(), np.zeros(len(graph.extended[p]))) for p in range(n)]
    for p in tree.down:
        for e in tree.child_edges[p]:
            child = tree.child(e)
            cost_elsewhere = costs[p] - below[p][e]
            costs[child] = costs[child] + _cost_across(
                base, graph, p, e, cost_elsewhere, len(tree.side(e, p))
            )
    return _costs_of_whole_rows(base, graph, costs)


def _cost_across(
    base: BaseTables, graph: DatabaseGraph, p: int, e: int, costs: Counts, missing: int
) -> Counts:
    """For each row at the other end of an edge, the cost of this side: of the best partner, or of all missing."""
    q = base.tree.edges[e].across(p)
    nothing = missing_cost(missing, base.width(e))
    return np.where(
        np.isinf(best := _least_cost_by_key(base, p, e, costs, graph.extended[p])[base.keys(q, e)]),
        nothing,
        best,
    )


def missing_cost(segments: int, keys: int) -> float:
    """The cost of missing some segments beyond a join with so many keys."""
    return segments * MISSING_COST + math.log(max(keys, 1))


def _least_cost_by_key(
    base: BaseTables, p: int, e: int, costs: Counts, mask: npt.NDArray[np.bool_]
) -> Counts:
    """For each key the least cost among some rows of a position; the last entry, for NULL, is infinite."""
    keys = base.keys(p, e)
    least = np.full(base.width(e) + 1, np.inf)
    rows = np.flatnonzero(mask & (keys >= 0))
    np.minimum.at(least, keys[rows], costs[rows])
    return least


def _costs_of_whole_rows(
    base: BaseTables, graph: DatabaseGraph, costs: list[Counts]
) -> list[Counts]:
    """Costs with those of whole rows: the least cost of the dangling rows that they join with."""
    tree = base.tree
    costs = [
        np.where(e & ~w, c, np.inf)
        for c, e, w in zip(costs, graph.extended, graph.whole, strict=True)
    ]
    for upwards in (True, False):
        for p in reversed(tree.down) if upwards else tree.down:
            for e in [tree.parent_edge[p]] if upwards else tree.child_edges[p]:
                if e >= 0:
                    q = tree.edges[e].across(p)
                    seen = _least_cost_by_key(base, p, e, costs[p], graph.extended[p])[
                        base.keys(q, e)
                    ]
                    better = graph.extended[q] & graph.whole[q]
                    costs[q] = np.where(better, np.minimum(costs[q], seen), costs[q])
    return costs
