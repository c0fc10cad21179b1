"""Summaries of small cases built by SQL, in DuckDB, and told in words that two of them share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from sqlglot import exp

from belvedere.joins.equijoin_tree import EquijoinTree
from belvedere.updating.summary import classes
from belvedere.updating.summary.base_tables import BaseTables
from belvedere.updating.summary.classes import CandidateRows, Summary
from belvedere.updating.summary.database_graph import DatabaseGraph
from belvedere.updating.summary.in_tables.build import (
    BuiltSummary,
    ChooseCandidates,
    SummaryQueries,
    SummaryTables,
    held_column_names,
    read_summary,
)
from belvedere.updating.summary.in_tables.candidate_queries import TableMakers
from tests.updating.cases import Case

Numbers = dict[int, dict[int, int]]
"""Of each position the numbers of its rows that are candidates, with their numbers as such."""


@dataclass(frozen=True)
class Sql:
    """A case in DuckDB, its base in memory beside it."""

    case: Case
    base: BaseTables
    connection: duckdb.DuckDBPyConnection

    @staticmethod
    def of(case: Case) -> Sql:
        connection = duckdb.connect(config={"threads": 1})
        for table, rows in case.arrow(case.tables).items():
            connection.register(f"arrow_{table}", rows)
        return Sql(case, case.base(), connection)

    def run(self, name: str, query: exp.Query) -> str:
        # Spark's parser takes WHERE (x) for a table's alias and its only column.
        bare = (where.this.unnest() for where in query.find_all(exp.Where))
        assert not any(isinstance(condition, exp.Column) for condition in bare)
        self.connection.execute(
            f"CREATE TEMP TABLE {name} AS {query.sql(dialect='duckdb', copy=False)}"
        )
        return name

    def read(self, name: str) -> pa.Table:
        return self.ask(exp.select("*").from_(name))

    def ask(self, query: exp.Query) -> pa.Table:
        return self.connection.execute(query.sql(dialect="duckdb", copy=False)).to_arrow_table()

    def passes(self) -> SummaryQueries:
        base = self.base
        return SummaryQueries(
            base.tree, base.held, self.case.keys, lambda t: exp.to_table(f"arrow_{t}"), self.run
        )

    def summary(self, made: SummaryTables) -> BuiltSummary:
        return read_summary(self.base.tree, made, self.read)

    def chosen(
        self, choose: Callable[[TableMakers], ChooseCandidates]
    ) -> tuple[BuiltSummary, Numbers]:
        """The summary with the candidates that are chosen, and which these are."""
        passes = self.passes()
        built = self.summary(passes.run_all(choose(TableMakers(self.run, self.run, self.ask))))
        return built, {p: self._numbers(p, table) for p, table in passes.candidates.items()}

    def _numbers(self, p: int, table: str) -> dict[int, int]:
        at = self.base.shape.positions[p].table
        held = self.base.held[at]
        rows = {tuple(self.base.values(at, r).values()): n for n, r in self._rows(at)}
        found = self.read(table).to_pylist()
        return {rows[tuple(row[v] for v in held_column_names(held))]: row["own"] for row in found}

    def _rows(self, table: str) -> list[tuple[int, tuple[int, ...]]]:
        rows = self.base.tables[table]
        return [(n, rows.row(n)) for n in range(rows.size)]


def in_words(tree: EquijoinTree, built: BuiltSummary) -> tuple[Any, Any]:
    """Sizes and links by what stands for classes."""
    names = {(p, i): (p, int(n)) for p, some in enumerate(built.names) for i, n in enumerate(some)}
    sizes = {names[p, i]: int(n) for p, some in enumerate(built.sizes) for i, n in enumerate(some)}
    links = {
        (names[tree.parent(e), a], names[tree.child(e), b]): w
        for e, found in enumerate(built.links)
        for b, a, w in zip(*(some.tolist() for some in found), strict=True)
    }
    return sizes, links


def arrays_in_words(
    base: BaseTables, graph: DatabaseGraph, summary: Summary, own: Numbers | None = None
) -> tuple[Any, Any]:
    """The same of a summary in arrays, whose candidates have these numbers."""
    names, tree = {}, base.tree
    for p, of_row in enumerate(summary.of_row):
        for n in np.flatnonzero(of_row >= 0):
            children = len(tree.child_edges[p])
            bits = int(graph.joined[p][n]) | int(graph.completes.heard[p][n]) << children
            known = (
                int(graph.jcard[p][n]) << classes.CLASS_BITS | bits & (1 << classes.CLASS_BITS) - 1
            )
            number = (own or {}).get(p, {}).get(int(n))
            names[p, int(of_row[n])] = (p, known if number is None else -number)
    sizes = {names[p, c]: int(summary.sizes[p][c]) for p, c in names}
    links = {
        (names[tree.parent(e), a], names[tree.child(e), b]): w
        for e, found in summary.links.items()
        for b, a, w in zip(*(some.tolist() for some in found.entries()), strict=True)
    }
    return sizes, links


def rows_of(base: BaseTables, own: Numbers) -> CandidateRows:
    """The numbers of the candidates among each position's rows."""
    return [
        np.array(sorted(own.get(p, {})), dtype=np.int64) for p in range(len(base.shape.positions))
    ]
