"""The database graph after base changes: from the changed rows to the rows that they affect.

A changed row changes the messages that it sends. The rows beyond receive a new message only if the
first row with their key sends yes, or the last one stops; all others are unaffected.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from belvedere.updating.summary.base_tables import BaseTables, Mask
from belvedere.updating.summary.database_graph import (
    MOST_JOINS,
    Bits,
    DatabaseGraph,
    Messages,
    counts_by_key,
    join_cardinality,
    on_all,
)
from belvedere.updating.summary.domains import Codes

_NO_ROWS: Codes = np.zeros(0, dtype=np.int64)


class _ReachedRows:
    """Affected rows of a position, each once, with their previous messages."""

    def __init__(self, size: int) -> None:
        self.known = np.zeros(size, dtype=bool)
        self.rows = _NO_ROWS
        self.present: Mask = np.zeros(0, dtype=bool)
        self.heard: Bits = np.zeros(0, dtype=np.int32)

    def add(self, rows: Codes, present: Mask, heard: Bits) -> None:
        """Add rows with their previous messages; rows added before keep theirs."""
        new = ~self.known[rows]
        self.known[rows] = True
        self.rows = np.concatenate([self.rows, rows[new]])
        self.present = np.concatenate([self.present, present[new]])
        self.heard = np.concatenate([self.heard, heard[new]])


RowsBefore = Mapping[int, tuple[Codes, Mask]]
"""For some positions, the rows that may have changed, and which of them were present."""


def update_graph(base: BaseTables, graph: DatabaseGraph, before: RowsBefore) -> list[Codes]:
    """Update a graph to the present rows; return the rows of each position that changed."""
    return _GraphUpdate(base, graph).moved(before)


class _GraphUpdate:
    def __init__(self, base: BaseTables, graph: DatabaseGraph) -> None:
        self.base, self.graph, self.tree = base, graph, base.tree
        self.positions = range(len(base.shape.positions))

    def moved(self, before: RowsBefore) -> list[Codes]:
        completes, dangles = self.graph.completes, self.graph.dangles
        reached = self._nowhere()
        for p, (rows, present) in before.items():
            reached[p].add(rows, present, completes.heard[p][rows])
        self._tell(completes, reached)
        others = self._nowhere()
        for p in self.positions:
            self._whole(p, reached[p], others[p])
        self._tell(dangles, others)
        moved = self._cardinalities([self._extended(p, others[p]) for p in self.positions])
        return [np.union1d(rows, self._complete(p, reached[p])) for p, rows in enumerate(moved)]

    def _nowhere(self) -> list[_ReachedRows]:
        return [_ReachedRows(self.base.rows_at(p).size) for p in self.positions]

    def _tell(self, messages: Messages, reached: list[_ReachedRows]) -> None:
        """Send changed messages along all edges, in both directions."""
        for p, e in self.tree.directed_edges:
            rows_reached, bit, every = reached[p], self.tree.bit(p, e), self._every(p)
            before = rows_reached.present & messages.says_yes(rows_reached.heard, bit, every)
            after = self.base.are_present(p, rows_reached.rows)
            after &= messages.says_yes(messages.heard[p][rows_reached.rows], bit, every)
            moved = before != after
            if not moved.any():
                continue
            keys = self.base.keys(p, e)[rows_reached.rows[moved]]
            counts = counts_by_key(messages.counts, (p, e), self.base.width(e))
            told_keys, old, new = add_by_key(
                counts, keys, after[moved].astype(np.int64) - before[moved]
            )
            turned = (old > 0) != (new > 0)
            self._hear(messages, reached, p, e, told_keys[turned], new[turned] > 0)

    def _hear(
        self,
        messages: Messages,
        reached: list[_ReachedRows],
        p: int,
        e: int,
        keys: Codes,
        yes: Mask,
    ) -> None:
        """Deliver changed messages to the rows with some keys at the other end of an edge."""
        q = self.tree.edges[e].across(p)
        rows, entry = self.base.index(q, e).under(keys)
        heard, bit = messages.heard[q], self.tree.bit(q, e)
        reached[q].add(rows, self.base.are_present(q, rows), heard[rows])
        heard[rows] = np.where(yes[entry], heard[rows] | bit, heard[rows] & ~bit)

    def _every(self, p: int) -> int:
        return (1 << len(self.tree.around[p])) - 1

    def _whole(self, p: int, reached: _ReachedRows, others: _ReachedRows) -> None:
        """Recompute which affected rows are whole; record rows that begin or cease to dangle."""
        rows, every = reached.rows, self._every(p)
        present, heard = self.base.are_present(p, rows), self.graph.dangles.heard[p]
        before = self.graph.whole[p][rows]
        after = present & on_all(self.graph.completes.heard[p][rows], 0, every)
        self.graph.whole[p][rows] = after
        moved = before != after
        for e in self.tree.around[p]:
            counts = counts_by_key(self.graph.whole_by, (p, e), self.base.width(e))
            add_by_key(
                counts,
                self.base.keys(p, e)[rows[moved]],
                after[moved].astype(np.int64) - before[moved],
            )
        moved |= reached.present != present
        others.add(rows[moved], reached.present[moved], heard[rows[moved]])
        own = np.where(present & ~after, every + 1, 0).astype(np.int32)
        heard[rows] = (heard[rows] & every) | own

    def _extended(self, p: int, others: _ReachedRows) -> Codes:
        """The rows that became extended, or ceased to be."""
        rows, heard = others.rows, self.graph.dangles.heard[p]
        before = self.graph.extended[p][rows]
        after = self.base.are_present(p, rows) & (heard[rows] != 0)
        self.graph.extended[p][rows] = after
        turned: Codes = rows[before != after]
        return turned

    def _complete(self, p: int, reached: _ReachedRows) -> Codes:
        """The extended rows whose complete edges changed."""
        rows = reached.rows
        heard = self.graph.completes.heard[p][rows] != reached.heard
        completed: Codes = rows[heard & self.graph.extended[p][rows]]
        return completed

    def _cardinalities(self, turned: list[Codes]) -> list[Codes]:
        """Update join cardinalities from the leaves up; return the rows that changed."""
        graph, below = self.graph, [[rows] for rows in turned]
        for edge in graph.sums:
            counts_by_key(graph.sums, edge, self.base.width(edge))
            counts_by_key(graph.partners, edge, self.base.width(edge))
        found = list(turned)
        for p in reversed(self.tree.down):
            rows = np.unique(np.concatenate(below[p]))
            was = graph.jcard[p][rows]
            jcard, joined = join_cardinality(self.base, graph, p, rows)
            different = (was != jcard) | (graph.joined[p][rows] != joined)
            different |= np.isin(rows, turned[p])
            rows, found[p] = rows[different], rows[different]
            graph.jcard[p][rows], graph.joined[p][rows] = jcard[different], joined[different]
            e = self.tree.parent_edge[p]
            if e >= 0 and len(rows):
                turns = self._turns(p, rows, turned[p])
                keys = self._summed(
                    e, self.base.keys(p, e)[rows], jcard[different] - was[different], turns
                )
                above = self.tree.parent(e)
                beyond, _ = self.base.index(above, e).under(keys)
                below[above].append(beyond[graph.extended[above][beyond]])
        return found

    def _turns(self, p: int, rows: Codes, turned: Codes) -> Codes:
        """For each row, by how much the number of extended rows changes."""
        turns = np.where(self.graph.extended[p][rows], 1, -1)
        return np.where(np.isin(rows, turned), turns, 0)

    def _summed(self, e: int, keys: Codes, more: Codes, turns: Codes) -> Codes:
        """Add to an edge's sums; return the keys whose rows above get other cardinalities."""
        summed_keys, old, new = add_by_key(self.graph.sums[e], keys, more)
        _, before, after = add_by_key(self.graph.partners[e], keys, turns)
        different = np.minimum(old, MOST_JOINS) != np.minimum(new, MOST_JOINS)
        changed_keys: Codes = summed_keys[different | ((before > 0) != (after > 0))]
        return changed_keys


def add_by_key(counts: Codes, keys: Codes, amounts: Any) -> tuple[Codes, Codes, Codes]:
    """Add amounts to counts by key, except NULL: the distinct keys, and their counts before and after."""
    joins = keys >= 0
    distinct_keys = np.unique(keys[joins])
    old = counts[distinct_keys]
    np.add.at(counts, keys[joins], amounts[joins])
    return distinct_keys, old, counts[distinct_keys]
