"""The state of a synopsis and its one move: a batch of one table's changes, all or nothing.

Netted, then deletes at every position of the table, purge, one replenish, then inserts position by
position: ΔC₁ ⋈ C₂ as it was, C₁ with its change ⋈ ΔC₂. What may be refused is refused before anything changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from belvedere.algebra.scalars import every
from belvedere.errors import Invalid
from belvedere.kernels.hashes.interning import grown
from belvedere.kernels.rows import follow, mark
from belvedere.kernels.sampling.samples import gone
from belvedere.synopses.estimate.values import true
from belvedere.synopses.graph.encoded_position import (
    EdgeKeys,
    EncodedBatch,
    EncodedPosition,
    edge_keys_of,
    keep_edge_terms,
    reference_indexes,
)
from belvedere.synopses.graph.plain_graph import PlainGraph
from belvedere.synopses.graph.references import not_unique
from belvedere.synopses.graph.row_store import RowStore
from belvedere.synopses.graph.weighted_graph import WeightedGraph
from belvedere.synopses.plan.synopsis_plan import SynopsisPlan
from belvedere.synopses.plan.value_codes import EqualityCode
from belvedere.synopses.sample.reservoir import Bernoulli, SampleKind, reservoir

MOST_ROWS = 50_000_000
"""Rows of a Bernoulli sample that fit, unless said otherwise."""

TIDY = 4096
"""Vertices without rows, and deletions between looks at them, that are no trouble yet."""


class SynopsisState:
    """Tables, references, graph and sample of one query."""

    def __init__(
        self, plan: SynopsisPlan, kind: SampleKind, *, seed: int, most: int = MOST_ROWS
    ) -> None:
        self.plan = plan
        self.kind = kind
        self.stores = _stores(plan)
        self.places = [EncodedPosition(plan, n) for n in range(len(plan.block.positions))]
        self.references = reference_indexes(plan)
        self.edges = [EdgeKeys(plan, n) for n in range(len(plan.tree.edges))]
        self.graph: WeightedGraph | PlainGraph = WeightedGraph(plan.tree)
        self.sample = reservoir(kind, plan.tree.nodes, seed, most)
        self.waits = [np.zeros(64, dtype=np.int8) for _ in plan.roots]
        """For each node and row of its root one more than the reference that it waits for, or 0."""
        self.changes = 0
        self._positions: dict[str, list[int]] = {}
        for number, position in enumerate(plan.block.positions):
            self._positions.setdefault(position.table, []).append(number)
        self._order = [self._downward(node) for node in range(plan.tree.nodes)]
        """For each node its references, each after the one that leads to its child."""
        self._entered = np.empty(0, dtype=np.int32)
        self._refused: Invalid | None = None
        self._forgotten = 0
        self._accepting: dict[str, bool] = {}

    @property
    def size(self) -> int:
        """The number of join results before the filters that come after the graph."""
        return self.graph.size

    def positions(self, table: str) -> list[int]:
        """Where a table stands in the query."""
        return self._positions.get(table, [])

    def never_refuses(self, table: str) -> bool:
        """Whether nothing can be wrong with rows of a table that have its schema."""
        if table not in self._accepting:
            self._accepting[table] = table in self.stores and not (
                isinstance(self.sample, Bernoulli)
                or self.plan.sample_filters
                or any(self.plan.node_filters)
                or any(
                    self.plan.block.positions[r.parent].table == table for r in self.plan.references
                )
                or any(
                    self.places[n].filter is not None
                    or not all(
                        t.scalar.column and isinstance(t.code, EqualityCode)
                        for t in self.places[n].terms
                    )
                    for n in self.positions(table)
                )
            )
        return self._accepting[table]

    def store(self, table: str) -> RowStore:
        """The rows of a table; an error that lists the tables if it is none of them."""
        if table not in self.stores:
            raise Invalid(
                f"the synopsis does not read {table!r}",
                hint=f"it reads {', '.join(self.stores)}",
                reason="NOT_IN_QUERY",
            )
        return self.stores[table]

    def change(self, table: str, deletes: Any, inserts: Any) -> None:
        """Apply a batch of a table's changes."""
        store = self.store(table)
        gone, new = (
            store.nothing if rows is None else store.conform(rows) for rows in (deletes, inserts)
        )
        if gone.num_rows and new.num_rows:
            gone, new = _netted(store, gone, new)
        coded = {p: self.places[p].code(new) for p in self.positions(table)}
        ids = store.find(gone) if gone.num_rows else np.empty(0, dtype=np.int32)
        try:
            keys = self._check_unique(table, coded, ids, new)
        except BaseException:
            if len(ids):
                store.unfind(ids)
            raise
        if len(ids):
            self._delete(table, store, ids)
        if new.num_rows:
            self._insert(table, store, new, coded, keys)
        if self._refused is not None:
            self._undo(table, store, gone)
        self.changes += gone.num_rows + new.num_rows

    def _check_unique(
        self, table: str, coded: dict[int, EncodedBatch], gone: Any, new: pa.Table
    ) -> dict[int, Any]:
        """For each reference to the table the keys of its new rows; refused if two rows had one."""
        found = {}
        for number, reference in enumerate(self.plan.references):
            if reference.parent not in coded:
                continue
            at, work = coded[reference.parent], self.references[number]
            freed = gone[self.places[reference.parent].part[gone]] if len(gone) else gone
            found[number], clash = work.parent_keys(at.matrix(reference.key), freed)
            if clash is not None:
                one, other = (int(c) for c in clash)
                taking = np.flatnonzero(at.take)
                store = self.stores[table]
                rows = new if one >= 0 else store.take(np.array([-one - 1]))
                first = rows.slice(int(taking[one]) if one >= 0 else 0, 1).to_pylist()[0]
                second = new.slice(int(taking[other]), 1).to_pylist()[0]
                source = {f.name: f.source for f in self.places[reference.parent].position.fields}
                columns = [source[t.scalar.column or ""] for t in reference.key]
                raise not_unique(table, columns, first, second)
        return found

    def _delete(self, table: str, store: RowStore, ids: Any) -> None:
        for number in self.positions(table):
            place = self.places[number]
            rows = ids[place.part[ids]]
            if number in self.plan.roots:
                self._leave(self.plan.roots.index(number), rows)
            for n, reference in enumerate(self.plan.references):
                if reference.parent == number:
                    self._orphan(n, rows)
            for n, reference in enumerate(self.plan.references):
                if reference.child == number:
                    self.references[n].remove_children(rows)
            place.part[rows] = False
        store.remove(ids)
        self._forgotten += len(ids)
        if self._forgotten > TIDY:
            self._forgotten = 0
            self._tidy()
        nodes = {self.plan.node_of[n] for n in self.positions(table)}
        self.sample.settle(self.graph, lambda results: self.lost(results, nodes))

    def _leave(self, node: int, rows: Any) -> None:
        """Rows of a node's root out of the graph, or out of where they wait."""
        inside = self.graph.holds(node, rows)
        self._remove(node, rows[inside])
        waiting = rows[~inside]
        if len(waiting):
            waits = self.waits[node][waiting]
            for n in self._order[node]:
                self.references[n].waiting.unlink(waiting[waits == n + 1])
            self.waits[node][waiting] = 0

    def _remove(self, node: int, rows: Any) -> None:
        if len(rows):
            try:
                self.graph.remove(node, rows)
            except OverflowError:
                self._widen(node, rows)

    def _orphan(self, number: int, rows: Any) -> None:
        """The parent rows of a reference go: what depends on them leaves the graph and waits."""
        reference, work = self.plan.references[number], self.references[number]
        node = self.plan.node_of[reference.parent]
        keys = work.remove_parents(rows)
        at, under = reference.child, keys
        while True:
            child = self.places[at]
            above = self.references[number]
            found = above.children_by_key(np.flatnonzero(child.part).astype(np.int32)).under(under)
            if at == self.plan.roots[node]:
                break
            number = next(n for n, r in enumerate(self.plan.references) if r.parent == at)
            under = self.references[number].key[found]
            at = self.plan.references[number].child
        inside = self.graph.holds(node, found)
        self._remove(node, found[inside])
        # Rows that a condition of the node kept out wait too: their next parent may suit them.
        self._enter(node, found[inside | (self.waits[node][found] == 0)])

    def _insert(
        self,
        table: str,
        store: RowStore,
        new: pa.Table,
        coded: dict[int, EncodedBatch],
        keys: dict[int, Any],
    ) -> None:
        self._entered = ids = store.insert(new)
        for number in self.positions(table):
            at, place = coded[number], self.places[number]
            rows = at.of(ids)
            place.admit(rows, store.bound)
            node = self.plan.node_of[number]
            for n in self.plan.tree.around[node]:
                keep_edge_terms(place, self.edges[n], node, rows, at, store.bound)
            for n, reference in enumerate(self.plan.references):
                if reference.child == number:
                    self.references[n].add_children(rows, at.matrix(reference.own), store.bound)
            for n, reference in enumerate(self.plan.references):
                if reference.parent == number:
                    released = self.references[n].add_parents(rows, keys[n], store.bound)
                    self._enter(node, released)
            if number in self.plan.roots:
                self._enter(node, rows)

    def _enter(self, node: int, rows: Any) -> None:
        """Rows of a node's root into the graph, as far as all that they refer to is there."""
        if not len(rows):
            return
        at = {self.plan.roots[node]: rows}
        bound = self.stores[self.plan.block.positions[self.plan.roots[node]].table].bound
        self.waits[node] = grown(self.waits[node], bound)
        for number in self._order[node]:
            reference, work = self.plan.references[number], self.references[number]
            parents, missing = follow(work.own, work.owner, at[reference.child])
            if missing:
                there = parents >= 0
                absent = at[self.plan.roots[node]][~there]
                work.wait(absent, work.own[at[reference.child][~there]], bound)
                self.waits[node][absent] = number + 1
                at = {p: r[there] for p, r in at.items()}
                parents = parents[there]
            at[reference.parent] = parents
        mark(self.waits[node], at[self.plan.roots[node]], 0)
        if self.plan.node_filters[node]:
            at = self._agreeing(node, at)
        rows = at[self.plan.roots[node]]
        if len(rows):
            parts = [
                edge_keys_of(self.places, self.edges[n], node, at)
                for n in self.plan.tree.around[node]
            ]
            self._add(node, rows, parts, bound)

    def _agreeing(self, node: int, at: dict[int, Any]) -> dict[int, Any]:
        """The rows of a node that fulfil the conditions between its positions."""
        predicate = every(self.plan.node_filters[node])
        keep = true(predicate, self.gather(at, predicate.columns), self.plan.block.types)
        return {p: rows[keep] for p, rows in at.items()}

    def gather(self, at: Mapping[int, Any], columns: Collection[str] | None = None) -> pa.Table:
        """Rows of positions, side by side, under the plan's names of their columns."""
        found: dict[str, Any] = {}
        for number, rows in at.items():
            position = self.plan.block.positions[number]
            fields = [f for f in position.fields if columns is None or f.name in columns]
            if fields:
                taken = self.stores[position.table].take(rows, [f.source for f in fields])
                found |= {f.name: c for f, c in zip(fields, taken.columns, strict=True)}
        return pa.table(found)

    def _downward(self, node: int) -> list[int]:
        """The references of a node, each after the one that leads to its child."""
        order, reached = [], {self.plan.roots[node]}
        pending = [
            n for n, r in enumerate(self.plan.references) if self.plan.node_of[r.child] == node
        ]
        while pending:
            ready = next(n for n in pending if self.plan.references[n].child in reached)
            pending.remove(ready)
            order.append(ready)
            reached.add(self.plan.references[ready].parent)
        return order

    def _add(self, node: int, rows: Any, parts: Any, bound: int) -> None:
        try:
            weighed: Any = self.graph.weigh(node, rows, parts, bound)
            self._sampled(node, rows, weighed)
        except OverflowError:
            self._widen(node, rows)
            weighed = self.graph.weigh(node, rows, parts, bound)
            self._sampled(node, rows, weighed)
        try:
            self.graph.add(node, rows, weighed)
        except OverflowError:
            self._widen(node, rows)
            self.graph.add(node, rows, self.graph.weigh(node, rows, parts, bound))  # type: ignore[arg-type]

    def _sampled(self, node: int, rows: Any, weighed: Any) -> None:
        """New results into the sample; once it refuses, the batch is applied without it, and undone."""
        if self._refused is None:
            try:
                self.sample.enter(self.graph, node, rows, weighed)
            except Invalid as refused:
                self._refused = refused

    def _undo(self, table: str, store: RowStore, gone: pa.Table) -> None:
        """A batch that the sample refused is taken back."""
        refused, self._refused = self._refused, None
        assert refused is not None
        self._delete(table, store, store.find(store.take(self._entered)))
        if gone.num_rows:
            self.change(table, gone.slice(0, 0), gone)
        raise refused

    def _widen(self, node: int, without: Any) -> None:
        """Weights have outgrown 64 bits: the graph again, without some rows, in Python's integers."""
        inside = [self._inside(n) for n in range(self.plan.tree.nodes)]
        inside[node] = np.setdiff1d(inside[node], without)
        self.graph = self._filled(PlainGraph(self.plan.tree), inside)

    def recount(self) -> None:
        """The graph in Python's integers, of all rows that do not wait."""
        inside = []
        for node, root in enumerate(self.plan.roots):
            rows = np.flatnonzero(self.places[root].part).astype(np.int32)
            inside.append(rows[self.waits[node][rows] == 0])
        self.graph = self._filled(PlainGraph(self.plan.tree), inside)

    def _inside(self, node: int) -> Any:
        """The rows of a node's root that are in the graph."""
        rows = np.flatnonzero(self.places[self.plan.roots[node]].part).astype(np.int32)
        return rows[self.graph.holds(node, rows)]

    def _filled(self, graph: Any, inside: list[Any]) -> Any:
        """A new graph of some rows of each node."""
        for node, rows in enumerate(inside):
            if not len(rows):
                continue
            at = self.rows_at(node, rows)
            bound = self.stores[self.plan.block.positions[self.plan.roots[node]].table].bound
            sides = self.plan.tree.around[node]
            parts = [edge_keys_of(self.places, self.edges[e], node, at) for e in sides]
            graph.add(node, rows, graph.weigh(node, rows, parts, bound))
        return graph

    def _tidy(self) -> None:
        """Make the graph anew when most of its vertices have lost their rows."""
        if isinstance(self.graph, WeightedGraph) and any(
            empty > TIDY and empty > 2 * held for held, empty in self.graph.vertices
        ):
            inside = [self._inside(n) for n in range(self.plan.tree.nodes)]
            self.graph = self._filled(WeightedGraph(self.plan.tree), inside)

    def rows_at(self, node: int, rows: Any) -> dict[int, Any]:
        """For rows of a node that are in the graph, their rows at each position."""
        at = {self.plan.roots[node]: rows}
        for number in self._order[node]:
            reference, work = self.plan.references[number], self.references[number]
            at[reference.parent] = work.owner[work.own[at[reference.child]]]
        return at

    def span(self, column: str) -> tuple[float, float] | None:
        """The least and greatest value of a column of the plan; None if it has no numbers."""
        for position in self.plan.block.positions:
            for field in position.fields:
                if field.name == column:
                    return self.stores[position.table].span(field.source)
        return None

    def lost(self, results: Any, nodes: Iterable[int] | None = None) -> Any:
        """Which join results have a row, of some nodes or of any, that is not in the graph any more."""
        found = np.zeros(len(results), dtype=bool)
        for node in range(self.plan.tree.nodes) if nodes is None else nodes:
            if isinstance(self.graph, WeightedGraph):
                gone(results[:, node], self.graph.nodes[node].rows.vertex, found)
            else:
                found |= ~self.graph.holds(node, results[:, node])
        return found


def _stores(plan: SynopsisPlan) -> dict[str, RowStore]:
    """One store per table, of the columns that any of its positions reads."""
    types: dict[str, dict[str, str]] = {}
    for position in plan.block.positions:
        types.setdefault(position.table, {}).update({f.source: f.type for f in position.fields})
    return {table: RowStore(table, columns) for table, columns in types.items()}


def _netted(store: RowStore, gone: pa.Table, new: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Deletes and inserts without the rows that are in both."""
    a, b = store.hashes(gone), store.hashes(new)
    if not np.isin(a, b).any():
        return gone, new
    keep_a, keep_b = np.ones(len(a), dtype=bool), np.ones(len(b), dtype=bool)
    order_a, order_b = np.argsort(a, kind="stable"), np.argsort(b, kind="stable")
    # Equal rows cancel one by one: the n-th of one side against the n-th of the other.
    nth_a, nth_b = _nth(a[order_a]), _nth(b[order_b])
    pair = [("h", np.uint64), ("n", np.int64)]
    one, other = np.empty(len(a), dtype=pair), np.empty(len(b), dtype=pair)
    one["h"], one["n"] = a[order_a], nth_a
    other["h"], other["n"] = b[order_b], nth_b
    keep_a[order_a[np.isin(one, other)]] = False
    keep_b[order_b[np.isin(other, one)]] = False
    return gone.filter(pa.array(keep_a)), new.filter(pa.array(keep_b))


def _nth(ordered: Any) -> Any:
    """For each of some sorted values which of its equals it is."""
    starts = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] ^ np.uint64(1)) != 0)
    return np.arange(len(ordered)) - np.repeat(starts, np.diff([*starts, len(ordered)]))
