"""The database graph of a view: which rows are in view rows, which dangle, which join with dangling rows.

    whole        in an embedding: one row for every position that together form a view row
    dangling     in no embedding
    extended     dangling, or joined with a dangling row through other positions (Def. 5.2)
    jcard        join cardinality: sub-embeddings below a row, among extended rows (Def. 5.4)

G⁺ has the whole rows, G⁻ the extended ones. They are found by messages along every edge, in both
directions: for each key, how many rows send yes. A row sends yes along an edge

    completes    if it receives yes on all its other edges
    dangles      if it dangles, or receives yes on one of its other edges

Join cardinalities are cut off at `MOST_JOINS`: products below it are exact in floating point, and sums
over a hundred million rows fit 64 bits. A larger cardinality is a side effect in any case.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from belvedere.updating.summary.base_tables import BaseTables, Mask, resized, with_spare_room
from belvedere.updating.summary.domains import Codes

MOST_JOINS = float(2**36)
Counts = npt.NDArray[np.float64]
Bits = npt.NDArray[np.int32]
SaysYes = Callable[[Bits, int, int], Mask]
"""Whether rows send yes along an edge, from what they receive, the edge's bit and all bits."""


def on_all(heard: Bits, edge: int, all_bits: int) -> Mask:
    """Whether rows receive yes on all edges except one."""
    yes: Mask = ((heard | edge) & all_bits) == all_bits
    return yes


def on_any(heard: Bits, edge: int, all_bits: int) -> Mask:
    """Whether rows dangle, or receive yes on some edge except one."""
    del all_bits
    yes: Mask = (heard & ~edge) != 0
    return yes


@dataclass
class Messages:
    """The messages of rows: who receives yes on which edges, and how many rows send it."""

    says_yes: SaysYes
    heard: list[Bits]
    """For each row of a position, a bit for every edge with yes, then one bit if the row dangles."""
    counts: dict[tuple[int, int], Codes]
    """How many rows of a position send yes along an edge, by key; the last entry is for NULL."""


@dataclass
class DatabaseGraph:
    """What is known of the rows of each position."""

    whole: list[Mask]
    extended: list[Mask]
    jcard: list[Codes]
    joined: list[Codes]
    """A bit for each child position in which a row has extended partners."""
    whole_by: dict[tuple[int, int], Codes]
    """How many whole rows of a position have each key of an edge."""
    completes: Messages
    dangles: Messages
    partners: dict[int, Codes]
    """For each edge, how many extended rows of its lower end have each key."""
    sums: dict[int, Codes]
    """The sums of their join cardinalities."""

    def lengthen(self, base: BaseTables, p: int) -> None:
        """Make room for new rows of a position: they are not present yet, but receive messages."""
        first, size = len(self.whole[p]), base.rows_at(p).size
        if first == size:
            return
        for by_position in (self.whole, self.extended, self.jcard, self.joined):
            by_position[p] = extended_to(by_position[p], size)
        for messages in (self.completes, self.dangles):
            heard = messages.heard[p] = extended_to(messages.heard[p], size)
            heard[first:] = 0
            for e in base.tree.around[p]:
                q = base.tree.edges[e].across(p)
                counts = counts_by_key(messages.counts, (q, e), base.width(e))
                yes = counts[base.keys(p, e)[first:]] > 0
                heard[first:] |= np.where(yes, base.tree.bit(p, e), 0).astype(np.int32)


def counts_by_key(counts: dict[Any, Codes], end: Any, width: int) -> Codes:
    """Counts by key, resized to all keys and NULL."""
    counts[end] = resized(counts[end], width + 1)
    return counts[end]


def extended_to(view: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    """The array, extended with zeros to a size; in place if its allocation has room."""
    room = view.base if isinstance(view.base, np.ndarray) else view
    if len(room) < size or room.dtype != view.dtype or room.ndim != 1:
        room = resized(view, size)
    extended = room[:size]
    extended[len(view) :] = 0
    return extended


def build_graph(base: BaseTables) -> DatabaseGraph:
    """The database graph of the rows."""
    passes = _GraphPasses(base)
    completes = Messages(on_all, [np.zeros(len(x), np.int32) for x in passes.present], {})
    passes.tell(completes)
    whole = [
        x & on_all(heard, 0, passes.every(p))
        for p, (x, heard) in enumerate(zip(passes.present, completes.heard, strict=True))
    ]
    heard = [
        np.where(x & ~w, passes.every(p) + 1, 0).astype(np.int32)
        for p, (x, w) in enumerate(zip(passes.present, whole, strict=True))
    ]
    dangles = Messages(on_any, heard, {})
    passes.tell(dangles)
    extended = [x & (h != 0) for x, h in zip(passes.present, dangles.heard, strict=True)]
    whole_by = {
        (p, e): passes.count(p, e, whole[p]) for p in range(len(whole)) for e in base.tree.around[p]
    }
    graph = DatabaseGraph(whole, extended, [], [], whole_by, completes, dangles, {}, {})
    passes.cardinalities(graph)
    for by_position in (graph.whole, graph.extended, completes.heard, dangles.heard):
        by_position[:] = map(with_spare_room, by_position)
    return graph


def graph_from_root(base: BaseTables, graph: DatabaseGraph) -> DatabaseGraph:
    """The same graph for another root; only join cardinalities depend on it."""
    graph_seen = replace(graph, partners={}, sums={})
    graph_seen.whole, graph_seen.extended = list(graph.whole), list(graph.extended)
    _GraphPasses(base).cardinalities(graph_seen)
    return graph_seen


class _GraphPasses:
    def __init__(self, base: BaseTables) -> None:
        self.base, self.tree = base, base.tree
        positions = range(len(base.shape.positions))
        self.present = [base.present(p) for p in positions]

    def every(self, p: int) -> int:
        """The bits of all edges of a position."""
        return (1 << len(self.tree.around[p])) - 1

    def count(self, position: int, edge: int, mask: Mask) -> Codes:
        """How many rows of a position have each key of an edge; the last entry is for NULL."""
        keys = self.base.keys(position, edge)[mask]
        counts = np.bincount(keys[keys >= 0], minlength=self.base.width(edge) + 1)
        return resized(counts.astype(np.int64), len(counts) + 1)

    def tell(self, messages: Messages) -> None:
        """Send messages along all edges, in both directions."""
        tree, heard = self.tree, messages.heard
        for p, e in tree.directed_edges:
            yes = self.present[p] & messages.says_yes(heard[p], tree.bit(p, e), self.every(p))
            counts = messages.counts[p, e] = self.count(p, e, yes)
            q = tree.edges[e].across(p)
            told_yes = counts[self.base.keys(q, e)] > 0
            heard[q] |= np.where(told_yes, tree.bit(q, e), 0).astype(np.int32)

    def cardinalities(self, graph: DatabaseGraph) -> None:
        """Compute the join cardinality of extended rows, and where they have extended partners."""
        tree = self.tree
        graph.jcard = [np.zeros(0, np.int64) for _ in graph.extended]
        graph.joined = list(graph.jcard)
        for p in reversed(tree.down):
            rows = np.arange(len(graph.extended[p]))
            jcard, joined = join_cardinality(self.base, graph, p, rows)
            graph.jcard[p], graph.joined[p] = with_spare_room(jcard), with_spare_room(joined)
            e = tree.parent_edge[p]
            if e >= 0:
                graph.partners[e] = self.count(p, e, graph.extended[p])
                sums = graph.sums[e] = np.zeros(len(graph.partners[e]), dtype=np.int64)
                keys = self.base.keys(p, e)
                np.add.at(sums, keys[keys >= 0], jcard[keys >= 0])


def join_cardinality(
    base: BaseTables, graph: DatabaseGraph, p: int, rows: Codes
) -> tuple[Codes, Codes]:
    """The join cardinalities of some rows of a position, and bits for children with extended partners."""
    value, joined = np.ones(len(rows)), np.zeros(len(rows), dtype=np.int64)
    for bit, e in enumerate(base.tree.child_edges[p]):
        keys = base.keys(p, e)[rows]
        value = np.minimum(value * np.minimum(graph.sums[e][keys], MOST_JOINS), MOST_JOINS)
        joined |= (graph.partners[e][keys] > 0).astype(np.int64) << bit
    extended = graph.extended[p][rows]
    return np.where(extended, value, 0.0).astype(np.int64), np.where(extended, joined, 0)
