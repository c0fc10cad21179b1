"""The summary by SQL aggregations and joins, for an engine that has the tables: Spark, or DuckDB in tests.

The passes of `database_graph.py` and `classes.py` as queries, each over the tables and earlier queries,
for every end (p, e) of an edge of the join tree and for every position and edge:

    c_p_e    by key, rows of p that have partners on all their other edges
    d_p_e    by key, rows of p that dangle, or join with a dangling row on another edge
    k_p      the candidates of p, numbered; chosen once (`candidate_queries.py`)
    b_p_e    by key, extended rows of p by class: join cardinality, bits, number of the candidate
    z_p      extended rows of p by class: the sizes of classes
    l_e      links: pairs of classes that meet on an edge, with the number of row pairs
    n_p      the number of rows of p, and of whole rows; for EXPLAIN

The number of whole rows of p with a key is that of c_p_e, if the other end has the key too.

`run` materializes each query under a name: as a cached frame for EXPLAIN, or as a maintained view. Only
classes and links are fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from belvedere.algebra.scalars import col, condition
from belvedere.joins.equijoin_tree import EquijoinTree, Keys
from belvedere.updating.summary.classes import cardinality_codes, class_bits
from belvedere.updating.summary.database_graph import MOST_JOINS
from belvedere.updating.summary.domains import Codes

CreateTable = Callable[[str, exp.Query], str]
"""Materializes a query under a name; returns how SQL names the result."""
ReadTable = Callable[[str], pa.Table]
"""Fetches the rows of such a table."""
ChooseCandidates = Callable[["SummaryQueries"], Mapping[int, str]]
"""Creates the tables of candidates of some positions, after whole and dangling rows are known."""


@dataclass(frozen=True)
class BuiltSummary:
    """Supernodes with sizes, links with weights, and row counts of each position."""

    names: tuple[Codes, ...]
    """The codes of each position's classes, sorted; see `class_codes`."""
    sizes: tuple[Codes, ...]
    links: tuple[tuple[Codes, Codes, Codes], ...]
    """For each edge, the indexes of the classes below and above that meet, sorted, and their weights."""
    rows: list[tuple[int, int]]
    """For each position the number of rows and of rows in view rows; empty if not counted."""

    @property
    def bytes(self) -> int:
        """See `Summary.bytes`."""
        return 8 * sum(map(len, self.sizes)) + 12 * sum(len(w) for *_, w in self.links)


@dataclass(frozen=True)
class SummaryTables:
    """The names of a summary's tables."""

    sizes: tuple[str, ...]
    """For each position."""
    links: tuple[str, ...]
    """For each edge."""
    rows: tuple[str, ...] = ()
    """For each position, if rows were counted."""


def at_key(kind: str, p: int, e: int) -> str:
    """The name of a table by key, for a position and an edge."""
    return f"{kind}_{p}_{e}"


def key_columns(tree: EquijoinTree, e: int) -> list[str]:
    """The key columns of a table by key."""
    return [f"k{i}" for i in range(len(tree.edges[e].classes))]


def held_column_names(held: Sequence[Any]) -> list[str]:
    """The names of held columns in queries; they clash with no other column."""
    return [f"v{i}" for i in range(len(held))]


def class_codes(jcard: Codes, bits: Codes, own: Codes) -> Codes:
    """The code of a class: minus the number of a candidate, otherwise what its rows share."""
    codes: Codes = np.where(own > 0, -own, cardinality_codes(jcard, bits))
    return codes


def class_codes_of(rows: pa.Table, columns: Iterable[str]) -> Codes:
    """The class codes of rows with join cardinality, bits and number of the candidate in some columns."""
    return class_codes(*(whole_numbers(rows[c]) for c in columns))


def whole_numbers(column: pa.ChunkedArray) -> Codes:
    """A column as integers."""
    numbers: Codes = pc.cast(column, pa.int64()).to_numpy()
    return numbers


def read_summary(
    tree: EquijoinTree, summary_tables: SummaryTables, read: ReadTable
) -> BuiltSummary:
    """The summary in the tables."""
    names, sizes, links = [], [], []
    for table in map(read, summary_tables.sizes):
        codes = class_codes_of(table, CLASS_COLUMNS)
        order = np.argsort(codes)
        names.append(codes[order])
        sizes.append(whole_numbers(table["n"])[order])
    for e, table in enumerate(map(read, summary_tables.links)):
        above = np.searchsorted(names[tree.parent(e)], class_codes_of(table, _ABOVE))
        below = np.searchsorted(names[tree.child(e)], class_codes_of(table, _BELOW))
        order = np.lexsort((above, below))
        links.append((below[order], above[order], whole_numbers(table["w"])[order]))
    counts = pa.concat_tables(map(read, summary_tables.rows)) if summary_tables.rows else None
    rows = [] if counts is None else [(c["n"], c["w"]) for c in counts.to_pylist()]
    return BuiltSummary(tuple(names), tuple(sizes), tuple(links), rows)


CLASS_COLUMNS = ("jcard", "bits", "own")
"""The columns that identify a class."""
_ABOVE, _BELOW = ("j", "f", "o"), ("k", "g", "q")


class SummaryQueries:
    """The queries of a view's summary, each run once."""

    def __init__(
        self,
        tree: EquijoinTree,
        held: Mapping[str, tuple[str, ...]],
        keys: Keys,
        table: Callable[[str], exp.Table],
        run: CreateTable,
    ) -> None:
        self.tree, self.held, self.run = tree, held, run
        self.made: dict[str, str] = {}
        self.candidates: Mapping[int, str] = {}
        self.rows = [self._rows(p, keys, table) for p in range(len(tree.block.positions))]

    def run_all(self, choose: ChooseCandidates | None = None) -> SummaryTables:
        """Run all queries of the summary; without candidates if `choose` is None."""
        self._run_graph()
        self.candidates = {} if choose is None else choose(self)
        return self._run_classes()

    def _run_graph(self) -> None:
        tree = self.tree
        for p, e in tree.directed_edges:
            other_edges = [f for f in tree.around[p] if f != e]
            self._keep(at_key("c", p, e), self._counted(p, e, self.heard(p, "c", other_edges, "")))
        for p, e in tree.directed_edges:
            other_edges = [f for f in tree.around[p] if f != e]
            query = self.heard(p, "c", tree.around[p], "left")
            query = self.heard(p, "d", other_edges, "left", query)
            self._keep(
                at_key("d", p, e), self._counted(p, e, query.where(self._dangles(p, other_edges)))
            )

    def _run_classes(self) -> SummaryTables:
        tree = self.tree
        for p in reversed(tree.down):
            for e in tree.around[p]:
                self._keep(at_key("b", p, e), self._grouped(p, e))
        return SummaryTables(
            tuple(self._keep(f"z_{p}", self._sizes(p)) for p in range(len(self.rows))),
            tuple(self._keep(f"l_{e}", self._links(e)) for e in range(len(tree.edges))),
        )

    def run_all_counted(self) -> SummaryTables:
        """Run all queries without candidates, and count rows."""
        tables = self.run_all()
        counts = (self._keep(f"n_{p}", self._counts(p)) for p in range(len(self.rows)))
        return replace(tables, rows=tuple(counts))

    def _keep(self, name: str, query: exp.Select) -> str:
        self.made[name] = self.run(name, query)
        return self.made[name]

    def named(self, name: str, alias: str) -> exp.Expr:
        """A materialized query under an alias."""
        return exp.alias_(exp.to_table(self.made[name], dialect="spark"), alias, table=True)

    def _rows(self, p: int, keys: Keys, table: Callable[[str], exp.Table]) -> exp.Expr:
        """The held columns of a position's rows that satisfy its selection, each row once."""
        position, held = self.tree.block.positions[p], self.held_at(p)
        named = zip(held, held_column_names(held), strict=True)
        query = exp.select(*(exp.alias_(col(c).expr, v) for c, v in named))
        query = query.from_(table(position.table))
        if position.selection.conjuncts:
            query = query.where(condition(position.selection.expr))
        if set(keys.get(position.table, ("",))) <= set(held):
            return query.subquery("r")
        self._keep(f"r_{p}", query.distinct())
        return self.named(f"r_{p}", "r")

    def held_at(self, p: int) -> tuple[str, ...]:
        """The held columns of a position's table."""
        return self.held[self.tree.block.positions[p].table]

    def keys(self, p: int, e: int, rows: str = "r") -> list[str]:
        """The columns with the key on an edge, of a position's rows."""
        held = self.held_at(p)
        return [f"{rows}.v{held.index(c)}" for c in self.tree.columns(p, e)]

    def heard(
        self, p: int, kind: str, edges: Iterable[int], join: str, query: exp.Select | None = None
    ) -> exp.Select:
        """Rows of a position joined with the messages on some edges."""
        joined = query or exp.Select().from_(self.rows[p].copy())
        for f in edges:
            q = self.tree.edges[f].across(p)
            message = self.named(at_key(kind, q, f), f"{kind}{f}")
            joined = joined.join(message, on=self.on(p, f, message.alias), join_type=join)
        return joined

    def on(self, p: int, e: int, other: str, rows: str = "r") -> str:
        """The condition that rows of a position have the key of another relation on an edge."""
        mine = zip(self.keys(p, e, rows), key_columns(self.tree, e), strict=True)
        return " AND ".join(f"{own} = {other}.{key}" for own, key in mine)

    def shown_keys(self, p: int, e: int) -> list[str]:
        """The key on an edge of a position's rows, named as in a table by key."""
        pairs = zip(self.keys(p, e), key_columns(self.tree, e), strict=True)
        return [f"{own} AS {key}" for own, key in pairs]

    def _counted(self, p: int, e: int, query: exp.Select) -> exp.Select:
        return query.select(*self.shown_keys(p, e), "count(*) AS n").group_by(*self.keys(p, e))

    def whole(self, p: int) -> str:
        """The condition that a row is whole."""
        return " AND ".join(f"c{f}.k0 IS NOT NULL" for f in self.tree.around[p]) or "TRUE"

    def _dangles(self, p: int, edges: Iterable[int]) -> str:
        """The condition that a row dangles or joins with a dangling row.

        It tests for the key, not the count: a count that changes from 3 to 4 then leaves dependent views
        unchanged.
        """
        alone = [f"c{f}.k0 IS NULL" for f in self.tree.around[p]]
        return " OR ".join([*alone, *(f"d{f}.k0 IS NOT NULL" for f in edges)]) or "FALSE"

    def _counts(self, p: int) -> exp.Select:
        heard = self.heard(p, "c", self.tree.around[p], "left")
        return heard.select("count(*) AS n", f"count(CASE WHEN {self.whole(p)} THEN 1 END) AS w")

    def extended(self, p: int) -> exp.Select:
        """Extended rows of a position with their messages."""
        edges = self.tree.around[p]
        query = self.heard(p, "d", edges, "left", self.heard(p, "c", edges, "left"))
        return query.where(self._dangles(p, edges))

    def _named(self, p: int, shown: Iterable[str]) -> exp.Subquery:
        """Extended rows of a position with their classes."""
        tree, query = self.tree, self.extended(p)
        joined, complete = class_bits(tree, p)
        jcard = f"CAST(1 AS {_CARDINALITY})"
        bits = [f"CASE WHEN c{e}.k0 IS NULL THEN 0 ELSE {bit} END" for e, bit in complete.items()]
        for number, e in enumerate(tree.child_edges[p]):
            query = query.join(self._sums(e), on=self.on(p, e, f"s{e}"), join_type="left")
            # A decimal holds three factors: cut a product off before the next factor.
            jcard = _at_most(jcard) if number and number % 2 == 0 else jcard
            jcard = f"{jcard} * {_at_most(f'coalesce(s{e}.s, CAST(0 AS DECIMAL(38, 0)))')}"
            bits.append(f"CASE WHEN s{e}.s IS NULL THEN 0 ELSE {joined[e]} END")
        query, own = self._owned(p, query)
        return query.select(
            *shown,
            f"{_at_most(jcard)} AS jcard",
            f"{' + '.join(bits) or '0'} AS bits",
            f"{own} AS own",
        ).subquery("f")

    def _owned(self, p: int, query: exp.Select) -> tuple[exp.Select, str]:
        """Rows of a position joined with its candidates, and the number of each as a candidate."""
        none = "CAST(0 AS BIGINT)"
        if p not in self.candidates:
            return query, none
        candidate_table = exp.alias_(
            exp.to_table(self.candidates[p], dialect="spark"), "k", table=True
        )
        same = (f"r.{v} = k.{v}" for v in held_column_names(self.held_at(p)))
        return query.join(
            candidate_table, on=" AND ".join(same), join_type="left"
        ), f"coalesce(k.own, {none})"

    def _sums(self, e: int) -> exp.Subquery:
        """The sum of join cardinalities of the extended rows below an edge, by key."""
        below, keys = self.named(at_key("b", self.tree.child(e), e), "b"), key_columns(self.tree, e)
        total = "sum(CAST(n AS DECIMAL(20, 0)) * jcard) AS s"
        query = exp.select(*keys, total, dialect="spark").from_(below)
        return query.group_by(*keys).subquery(f"s{e}")

    def _grouped(self, p: int, e: int | None) -> exp.Select:
        """Extended rows of a position by key on an edge and by class."""
        keys = [] if e is None else key_columns(self.tree, e)
        rows = self._named(p, [] if e is None else self.shown_keys(p, e))
        by = [*keys, *CLASS_COLUMNS]
        return exp.select(*by, "count(*) AS n").from_(rows).group_by(*by)

    def _sizes(self, p: int) -> exp.Select:
        if not self.tree.around[p]:
            return self._grouped(p, None)
        first = self.named(at_key("b", p, self.tree.around[p][0]), "b")
        return exp.select(*CLASS_COLUMNS, "sum(n) AS n").from_(first).group_by(*CLASS_COLUMNS)

    def _links(self, e: int) -> exp.Select:
        above = self.named(at_key("b", self.tree.parent(e), e), "a")
        below = self.named(at_key("b", self.tree.child(e), e), "b")
        on = " AND ".join(f"a.{k} = b.{k}" for k in key_columns(self.tree, e))
        by = [f"{end}.{c}" for end in "ab" for c in CLASS_COLUMNS]
        named = [f"{c} AS {n}" for c, n in zip(by, (*_ABOVE, *_BELOW), strict=True)]
        joined = exp.select(*named, "sum(a.n * b.n) AS w").from_(above).join(below, on=on)
        return joined.group_by(*by)


_CARDINALITY = "DECIMAL(12, 0)"


def _at_most(value: str) -> str:
    """A number cut off at the greatest join cardinality."""
    most = f"CAST({MOST_JOINS:.0f} AS {_CARDINALITY})"
    return f"CASE WHEN {value} > {most} THEN {most} ELSE CAST({value} AS {_CARDINALITY}) END"
