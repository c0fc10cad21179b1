"""The baseline: a symmetric join that enumerates every new result of every new row.

Each position has a hash index per join condition. A new row is joined with the others, position by position,
through these indexes, and each result counts as one step of reservoir sampling: what is skipped is still
enumerated. Loops are compiled, keys are numbers already, and nothing is copied.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit

from belvedere.kernels.hashes.interning import Interner, grown
from belvedere.kernels.sampling.random_numbers import seeded
from belvedere.kernels.sampling.skips import without
from belvedere.synopses.graph.encoded_position import EncodedBatch, EncodedPosition
from belvedere.synopses.plan.synopsis_plan import SynopsisPlan


@njit(cache=True)
def _enumerate(row, order, came, mine, theirs, heads, nexts, keys, state, m, results, due):  # type: ignore[no-untyped-def]
    """All results of a row, one by one; how many, how many entered, and when the next one is due.

    Position order[d] is reached from position order[came[d]] over the condition whose keys are
    keys[mine[d]] there and whose index is theirs[d] here.
    """
    depth = len(order)
    at = np.empty(depth, dtype=np.int64)
    at[0] = row
    d = 1
    at[1] = heads[theirs[1], keys[mine[1], at[came[1]]]]
    found, entered = np.int64(0), 0
    while d > 0:
        if at[d] < 0:
            d -= 1
            if d > 0:
                at[d] = nexts[theirs[d], at[d]]
            continue
        if d < depth - 1:
            d += 1
            at[d] = heads[theirs[d], keys[mine[d], at[came[d]]]]
            continue
        found += 1
        if results + found > due:
            entered += 1
            due = (
                results
                + found
                + (without(state, m, results + found) if results + found >= m else 0)
            )
        at[d] = nexts[theirs[d], at[d]]
    return found, entered, due


@njit(cache=True)
def _enumerate_all(rows, order, came, mine, theirs, heads, nexts, keys, state, m, results, due):  # type: ignore[no-untyped-def]
    """The results of several rows, one row after the other."""
    total = np.int64(0)
    for row in rows:
        found, _, due = _enumerate(
            row, order, came, mine, theirs, heads, nexts, keys, state, m, results + total, due
        )
        total += found
    return total, due


class SymmetricJoin:
    """The join of a plan that collapses nothing, by enumeration."""

    def __init__(self, plan: SynopsisPlan, size: int, seed: int = 1) -> None:
        self.plan = plan
        self.places = [EncodedPosition(plan, n) for n in range(len(plan.block.positions))]
        self.names = [Interner(sum(t.code.words for t, _ in m.equal)) for m in plan.edge_terms]  # type: ignore[union-attr]
        self.sides = [(e, end) for e in range(len(plan.edge_terms)) for end in (0, 1)]
        self.heads = np.full((len(self.sides), 1024), -1, dtype=np.int32)
        self.nexts = np.full((len(self.sides), 1024), -1, dtype=np.int32)
        self.keys = np.zeros((len(self.sides), 1024), dtype=np.int32)
        self.counts = [0] * len(self.places)
        self.orders = [self._order(n) for n in range(len(self.places))]
        self.state, self.size, self.results, self.due = seeded(seed), size, 0, 0

    def _order(self, start: int) -> tuple[Any, Any, Any, Any]:
        """Positions in the order they are joined from one on, and over which conditions."""
        order, came, mine, theirs = [start], [0], [0], [0]
        while len(order) < len(self.places):
            for edge, meeting in enumerate(self.plan.edge_terms):
                pair = [t.position for t in meeting.equal[0]]
                for end in (0, 1):
                    if pair[end] in order and pair[1 - end] not in order:
                        came.append(order.index(pair[end]))
                        order.append(pair[1 - end])
                        mine.append(2 * edge + end)
                        theirs.append(2 * edge + 1 - end)
        return np.array(order), np.array(came), np.array(mine), np.array(theirs)

    def load(self, table: str, rows: pa.Table) -> dict[int, Any]:
        """Rows into the indexes, not joined yet: for each position of the table their numbers there."""
        return {
            number: self._index(number, place.code(rows))
            for number, place in enumerate(self.places)
            if place.position.table == table
        }

    def join(self, number: int, rows: Any) -> int:
        """Enumerate the results of rows of a position with all that is indexed; how many."""
        order, came, mine, theirs = self.orders[number]
        found, self.due = _enumerate_all(
            rows, order, came, mine, theirs, self.heads, self.nexts, self.keys,
            self.state, self.size, self.results, self.due,
        )  # fmt: skip
        self.results += found
        return int(found)

    def _index(self, number: int, coded: EncodedBatch) -> Any:
        count = int(coded.take.sum())
        ids = np.arange(self.counts[number], self.counts[number] + count)
        self.counts[number] += count
        for side, (edge, end) in enumerate(self.sides):
            terms = tuple(pair[end] for pair in self.plan.edge_terms[edge].equal)
            if terms[0].position != number:
                continue
            found = self.names[edge].ids(coded.matrix(terms))
            self._room(int(found.max(initial=0)) + 1, self.counts[number])
            self.keys[side, ids] = found
            _link(ids, found, self.heads[side], self.nexts[side])
        return ids

    def _room(self, keys: int, rows: int) -> None:
        if keys > self.heads.shape[1]:
            self.heads = np.ascontiguousarray(grown(self.heads.T, keys, -1).T)
        if rows > self.nexts.shape[1]:
            self.nexts = np.ascontiguousarray(grown(self.nexts.T, rows, -1).T)
            self.keys = np.ascontiguousarray(grown(self.keys.T, rows).T)


@njit(cache=True)
def _link(rows, keys, head, after):  # type: ignore[no-untyped-def]
    for i in range(len(rows)):
        after[rows[i]] = head[keys[i]]
        head[keys[i]] = rows[i]
