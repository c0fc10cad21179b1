"""Candidates by SQL aggregations and joins: `candidates.py` as queries, for rows that stay in the tables.

    x_p      extended rows of p, and whether they are whole
    m_p_e    by key, the least cost of a row of p and what is beyond it, seen from e
    y_p      extended rows with their cost; for whole rows the least cost from below
    f_p      the same; for whole rows also the least cost from above
    g_p_e    by key, the row of f_p that continues a partial embedding best
    e_p      partial embeddings from rows of p outwards
    k_p      the candidates, numbered; the only table that is kept

Only counts are fetched, and as many embeddings as requested. A row with NULL in a held column is no
candidate: nothing completes it where it would join on that column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlglot import exp

from belvedere.updating.summary.candidates import missing_cost
from belvedere.updating.summary.in_tables.build import (
    ChooseCandidates,
    CreateTable,
    SummaryQueries,
    at_key,
    held_column_names,
    key_columns,
)

MOST_CANDIDATES = 1_000_000
"""The limit on the candidates of a share of the rows."""


@dataclass(frozen=True)
class TableMakers:
    """Creates temporary and kept tables, and runs queries over them."""

    once: CreateTable
    kept: CreateTable
    read: Callable[[exp.Query], pa.Table]


def choose_share(share: float, makers: TableMakers) -> ChooseCandidates:
    """Chooses the best-ranked share of the extended rows of all positions."""
    return lambda passes: _CandidateQueries(passes, makers).best(share)


def choose_count(count: int, makers: TableMakers) -> ChooseCandidates:
    """Chooses the rows of the best partial embeddings, each begun from a row not chosen before."""
    return lambda passes: _CandidateQueries(passes, makers).embedded(count)


class _CandidateQueries:
    def __init__(self, passes: SummaryQueries, makers: TableMakers) -> None:
        self.passes, self.tree, self.makers = passes, passes.tree, makers
        self.positions = range(len(passes.tree.block.positions))

    def best(self, share: float) -> dict[int, str]:
        """Rows have few distinct costs, so counting rows by cost decides how far down the ranking to go."""
        if not share or not self._ranked():
            return {}
        groups = [
            (row["cost"], p, row["n"], row["m"]) for p in self.positions for row in self._costs(p)
        ]
        remaining = min(round(share * sum(n for _, _, n, _ in groups)), MOST_CANDIDATES)
        counts = dict.fromkeys(self.positions, 0)
        for _, p, _, count in sorted(groups):
            counts[p] += min(count, remaining)
            remaining -= min(count, remaining)
        return {p: self._kept(p, self._first(p, n, "TRUE")) for p, n in counts.items() if n}

    def embedded(self, count: int) -> dict[int, str]:
        """An embedding has at most one row of each position, so a bounded number of first rows suffices."""
        if not count or not self._ranked():
            return {}
        for p, e in self.tree.directed_edges:
            self._once(at_key("g", p, e), self._best_by_key(p, e))
        for p in self.positions:
            self._once(f"e_{p}", self._embeddings(p, count * len(self.positions)))
        chosen, candidates = self._taken(count), {}
        for q in self.positions if chosen else ():
            parts = [self._rows_of(p, q, numbers) for p, numbers in chosen.items()]
            rows = exp.union(*parts, distinct=True) if len(parts) > 1 else parts[0].distinct()
            candidates[q] = self._kept(q, exp.select("*").from_(rows.subquery("u")))
        return candidates

    def _ranked(self) -> bool:
        """Create the tables that rank extended rows; whether there are any."""
        for p in self.positions:
            rows = self.passes.extended(p).select(
                *self._shown(p), f"{self.passes.whole(p)} AS whole"
            )
            self._once(f"x_{p}", rows)
        if not any(self._count(f"x_{p}") for p in self.positions):
            return False
        self.nothing = [self._nothing(e) for e in range(len(self.tree.edges))]
        for p, e in self.tree.directed_edges:
            other_edges = [f for f in self.tree.around[p] if f != e]
            rows = self.passes.heard(p, "m", other_edges, "left", self._from(f"x_{p}"))
            self._once(at_key("m", p, e), self._least(p, e, rows, self._cost(p, other_edges)))
        for p in reversed(self.tree.down):
            self._once(f"y_{p}", self._from_below(p))
        for p in self.tree.down:
            self._once(f"f_{p}", self._from_above(p))
        return True

    def _nothing(self, e: int) -> dict[int, str]:
        """The cost of missing all rows of an end of an edge, by the position that is missing.

        Every row is in `c` or `d`, so these have all keys.
        """
        edge, keys = self.tree.edges[e], key_columns(self.tree, e)
        not_null = " AND ".join(f"{k} IS NOT NULL" for k in keys)
        ends = [(kind, p) for kind in "cd" for p in edge.ends]
        parts = [
            exp.select(*keys).from_(self.passes.named(at_key(*end, e), "t")).where(not_null)
            for end in ends
        ]
        count = exp.select("count(*) AS n").from_(exp.union(*parts, distinct=True).subquery("u"))
        width = self._number(count)
        return {
            p: f"CAST('{missing_cost(len(self.tree.side(e, p)), width)!r}' AS DOUBLE)"
            for p in edge.ends
        }

    def _cost(self, p: int, edges: Sequence[int]) -> str:
        """The cost of what a row of a position lacks on some edges, joined with `m` of these."""
        terms = [
            f"coalesce(m{f}.cost, {self.nothing[f][self.tree.edges[f].across(p)]})" for f in edges
        ]
        return " + ".join(terms) or "CAST(0 AS DOUBLE)"

    def _from_below(self, p: int) -> exp.Select:
        """Rows of a position with their cost; for whole rows the least cost of rows below."""
        around = self.tree.around[p]
        query = self.passes.heard(p, "m", around, "left", self._from(f"x_{p}"))
        query, heard = self._beyond(p, query, self.tree.child_edges[p], "y")
        return self._where_whole(p, query, _least_of(heard), self._cost(p, around))

    def _from_above(self, p: int) -> exp.Select:
        """The same; for whole rows also the least cost of rows above."""
        edges = [e for e in (self.tree.parent_edge[p],) if e >= 0]
        query, heard = self._beyond(p, self._from(f"y_{p}"), edges, "f")
        return self._where_whole(p, query, _least_of(["r.cost", *heard]), "r.cost")

    def _beyond(
        self, p: int, query: exp.Select, edges: Sequence[int], kind: str
    ) -> tuple[exp.Select, list[str]]:
        """Rows of a position joined with the least cost at the other end of some edges."""
        for e in edges:
            q = self.tree.edges[e].across(p)
            message = self._least(q, e, self._from(f"{kind}_{q}"), "r.cost").subquery(f"t{e}")
            query = query.join(message, on=self.passes.on(p, e, f"t{e}"), join_type="left")
        return query, [f"t{e}.cost" for e in edges]

    def _where_whole(self, p: int, query: exp.Select, whole: str, others: str) -> exp.Select:
        cost = f"CASE WHEN r.whole THEN {whole} ELSE {others} END AS cost"
        return query.select(*self._shown(p), "r.whole AS whole", cost)

    def _least(self, p: int, e: int, rows: exp.Select, cost: str) -> exp.Select:
        """By key, the least cost of some rows of a position."""
        least = rows.select(*self.passes.shown_keys(p, e), f"min({cost}) AS cost")
        return least.group_by(*self.passes.keys(p, e))

    def _costs(self, p: int) -> list[dict[str, Any]]:
        """For each cost, how many rows have it, and how many of these may be candidates."""
        eligible = f"count(CASE WHEN {self._known(p)} THEN 1 END) AS m"
        query = self._from(f"f_{p}").select("r.cost AS cost", "count(*) AS n", eligible)
        counts: list[dict[str, Any]] = self.makers.read(query.group_by("r.cost")).to_pylist()
        return counts

    def _first(self, p: int, count: int, where: str) -> exp.Select:
        """The rows of a position with the least cost."""
        query = self._from(f"f_{p}").select(*self._shown(p), "r.cost AS cost")
        query = query.where(f"({self._known(p)}) AND {where}")
        return query.order_by("cost", *self._columns(p)).limit(count)

    def _kept(self, p: int, rows: exp.Select) -> str:
        """Some rows of a position as its candidates, numbered from 1."""
        columns = self._columns(p)
        cost = ["r.cost"] if "cost" in rows.named_selects else []
        order = ", ".join([*cost, *(f"r.{v}" for v in columns)])
        number = f"CAST(row_number() OVER (ORDER BY {order}) AS BIGINT) AS own"
        query = exp.select(*self._shown(p), number, dialect="spark").from_(rows.subquery("r"))
        return self.makers.kept(f"k_{p}", query.where(self._known(p)))

    def _best_by_key(self, p: int, e: int) -> exp.Select:
        """By key, the row of a position with the least cost."""
        keys, columns = self.passes.keys(p, e), self._columns(p)
        order = ", ".join(["r.cost", *(f"r.{v}" for v in columns)])
        place = f"row_number() OVER (PARTITION BY {', '.join(keys)} ORDER BY {order}) AS place"
        shown = (*self._shown(p), *self.passes.shown_keys(p, e), place)
        ranked = self._from(f"f_{p}").select(*shown, dialect="spark").subquery("r")
        return exp.select(*columns, *key_columns(self.tree, e)).from_(ranked).where("place = 1")

    def _embeddings(self, p: int, count: int) -> exp.Select:
        """Partial embeddings from the dangling rows of a position with the least cost, numbered."""
        first_rows = self._first(p, count, "NOT r.whole").subquery("r")
        query, shown = (
            exp.Select().from_(first_rows),
            [f"r.{v} AS {_embedding_column(p, v)}" for v in self._columns(p)],
        )
        for position, e, alias in self._outwards(p):
            q = self.tree.edges[e].across(position)
            best = self.passes.named(at_key("g", q, e), f"g{q}")
            query = query.join(
                best, on=self.passes.on(position, e, f"g{q}", alias), join_type="left"
            )
            shown += [f"g{q}.{v} AS {_embedding_column(q, v)}" for v in self._columns(q)]
        order = ", ".join(["r.cost", *(f"r.{v}" for v in self._columns(p))])
        number = f"row_number() OVER (ORDER BY {order}) AS number"
        return query.select("r.cost AS cost", number, *shown, dialect="spark")

    def _outwards(self, p: int) -> Iterator[tuple[int, int, str]]:
        """The edges away from a position: the position before each, the edge, the alias of the rows there."""
        todo = [(p, -1, "r")]
        while todo:
            position, arrived_by, alias = todo.pop()
            for e in self.tree.around[position]:
                if e != arrived_by:
                    q = self.tree.edges[e].across(position)
                    yield position, e, alias
                    todo.append((q, e, f"g{q}"))

    def _taken(self, count: int) -> dict[int, list[int]]:
        """The numbers of the chosen embeddings, by the position that they begin from."""
        embeddings = []
        for p in self.positions:
            for row in self.makers.read(self._from(f"e_{p}").select("*")).to_pylist():
                rows = [
                    tuple(row[_embedding_column(q, v)] for v in self._columns(q))
                    for q in self.positions
                ]
                embeddings.append((row["cost"], p, row["number"], rows))
        chosen: dict[int, list[int]] = {}
        taken: set[tuple[int, Any]] = set()
        for _, p, number, rows in sorted(embeddings, key=lambda embedding: embedding[:3]):
            if count and (p, rows[p]) not in taken:
                count -= 1
                chosen.setdefault(p, []).append(number)
                taken.update(enumerate(rows))
        return chosen

    def _rows_of(self, p: int, q: int, numbers: Sequence[int]) -> exp.Select:
        """The rows of one position in some embeddings that begin from another."""
        shown = [f"r.{_embedding_column(q, v)} AS {v}" for v in self._columns(q)]
        listed = ", ".join(map(str, numbers))
        return self._from(f"e_{p}").select(*shown).where(f"r.number IN ({listed})")

    def _columns(self, p: int) -> list[str]:
        return held_column_names(self.passes.held_at(p))

    def _shown(self, p: int) -> list[str]:
        return [f"r.{v} AS {v}" for v in self._columns(p)]

    def _known(self, p: int) -> str:
        """The condition that no held column of a row is NULL."""
        return " AND ".join(f"r.{v} IS NOT NULL" for v in self._columns(p))

    def _from(self, name: str) -> exp.Select:
        """A materialized query, with the alias of a position's rows."""
        return exp.Select().from_(self.passes.named(name, "r"))

    def _once(self, name: str, query: exp.Select) -> None:
        self.passes.made[name] = self.makers.once(name, query)

    def _count(self, name: str) -> int:
        return self._number(self._from(name).select("count(*) AS n"))

    def _number(self, query: exp.Select) -> int:
        return int(self.makers.read(query)["n"][0].as_py())


def _least_of(costs: Sequence[str]) -> str:
    """The least of some costs, ignoring NULL."""
    return f"least({', '.join(costs)})" if len(costs) > 1 else [*costs, "CAST(NULL AS DOUBLE)"][0]


def _embedding_column(p: int, column: str) -> str:
    """The name of a column of a position's rows in an embedding."""
    return f"p{p}_{column}"
