"""The summary by aggregations and joins, for an engine that has the tables: Spark, or DuckDB in tests.

The passes of `graph.py` as queries: counts by key, joined to the rows at the other end of an edge.
Only classes and their links come back, never rows. `run` makes a table of a query and names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from belvedere.algebra.scalars import col
from belvedere.updating.graph import MOST
from belvedere.updating.normal import Shape
from belvedere.updating.trees import Tree

Run = Callable[[exp.Query], str]
Fetch = Callable[[exp.Query], Sequence[Sequence[int]]]
ClassName = tuple[int, float, int]
"""A position, a join cardinality, bits of child positions with partners."""


@dataclass(frozen=True)
class Built:
    """Supernodes with their sizes, links with their weights, rows of each position by kind."""

    sizes: dict[ClassName, int]
    links: dict[tuple[ClassName, ClassName], int]
    rows: list[tuple[int, int, int]]
    """Of each position: all rows, those in view rows, those that are extended dangling."""

    @property
    def bytes(self) -> int:
        """As `Summary.bytes`."""
        return 8 * len(self.sizes) + 12 * len(self.links)


def build(
    tree: Tree,
    held: dict[str, tuple[str, ...]],
    table: Callable[[str], exp.Table],
    run: Run,
    fetch: Fetch,
) -> Built:
    """The summary of a view without candidates; `table` says how SQL names a table."""
    return _Build(tree, held, table, run, fetch).built()


class _Build:
    def __init__(
        self,
        tree: Tree,
        held: dict[str, tuple[str, ...]],
        table: Callable[[str], exp.Table],
        run: Run,
        fetch: Fetch,
    ) -> None:
        self.tree, self.held, self.run, self.fetch = tree, held, run, fetch
        self.rows = [
            run(_distinct(tree.shape, p, held, table)) for p in range(len(tree.shape.positions))
        ]
        # Columns are numbered: none has the name of what is found out about its rows.
        self.columns = [
            [f"c{i}" for i in range(len(held[at.table]))] for at in tree.shape.positions
        ]

    def built(self) -> Built:
        self._both_ways("whole", {p: [] for p in range(len(self.rows))}, " AND ")
        dangling = {p: ["NOT whole"] for p in range(len(self.rows))}
        self._both_ways("extended", dangling, " OR ")
        self._cardinalities()
        return Built(
            self._sizes(), self._links(), [self._counted(p) for p in range(len(self.rows))]
        )

    def _keys(self, p: int, e: int) -> list[str]:
        held = self.held[self.tree.shape.positions[p].table]
        return [f"c{held.index(c)}" for c in self.tree.columns(p, e)]

    def _attach(self, p: int, e: int, counts: str, value: str, name: str) -> None:
        """Rows of a position beside what was counted by key at the other end of an edge."""
        on = " AND ".join(f"x.{c} = n.k{i}" for i, c in enumerate(self._keys(p, e)))
        listed = [f"x.{c}" for c in self.columns[p]]
        query = (
            exp.select(*listed, f"{value} AS {name}", dialect="spark")
            .from_(f"{self.rows[p]} AS x")
            .join(f"{counts} AS n", on=on, join_type="left", dialect="spark")
        )
        self.rows[p] = self.run(query)
        self.columns[p].append(name)

    def _counts(self, p: int, e: int, which: Iterable[str], joined: str) -> str:
        """Some rows of a position counted by their keys on an edge."""
        keys = self._keys(p, e)
        shown = [f"{c} AS k{i}" for i, c in enumerate(keys)]
        query = exp.select(*shown, "count(*) AS n", dialect="spark").from_(self.rows[p])
        conditions = list(which)
        if conditions:
            # Without parentheses: to Spark's parser WHERE (x) after a table is an alias with a column.
            query = query.where(joined.join(conditions), dialect="spark")
        return self.run(query.group_by(*keys, dialect="spark"))

    def _both_ways(self, name: str, own: dict[int, list[str]], joined: str) -> None:
        tree, seen = self.tree, dict[int, list[tuple[int, str]]]()
        for p in reversed(tree.down):
            seen.setdefault(p, [])
            if p != tree.root:
                e = tree.parent_edge[p]
                which = [*own[p], *(flag for _, flag in seen[p])]
                counts = self._counts(p, e, which, joined)
                parent, flag = tree.parent(e), f"{name}_{e}"
                self._attach(parent, e, counts, "n.n IS NOT NULL", flag)
                seen.setdefault(parent, []).append((e, flag))
        for p in tree.down:
            for e in tree.child_edges[p]:
                which = [*own[p], *(flag for f, flag in seen[p] if f != e)]
                counts = self._counts(p, e, which, joined)
                child, flag = tree.child(e), f"{name}_up_{e}"
                self._attach(child, e, counts, "n.n IS NOT NULL", flag)
                seen[child].append((e, flag))
        for p in range(len(self.rows)):
            flags = [*own[p], *(flag for _, flag in seen[p])]
            base = [c for c in self.columns[p] if not c.startswith(f"{name}_")]
            value = joined.join(flags) or "TRUE"
            listed = [*base, f"({value}) AS {name}"]
            self.rows[p] = self.run(exp.select(*listed, dialect="spark").from_(self.rows[p]))
            self.columns[p] = [*base, name]

    def _cardinalities(self) -> None:
        most = f"{MOST:.0f}"
        for p in reversed(self.tree.down):
            sums, bits = [], []
            for bit, e in enumerate(self.tree.child_edges[p]):
                child = self.tree.child(e)
                keys = self._keys(child, e)
                shown = [f"{c} AS k{i}" for i, c in enumerate(keys)]
                total = f"least(sum(jcard), CAST({most} AS DOUBLE)) AS n"
                query = exp.select(*shown, total, dialect="spark").from_(self.rows[child])
                counts = self.run(query.where("extended").group_by(*keys, dialect="spark"))
                self._attach(p, e, counts, "n.n", f"sum_{e}")
                sums.append(f"coalesce(sum_{e}, CAST(0 AS DOUBLE))")
                bits.append(f"CASE WHEN sum_{e} IS NULL THEN 0 ELSE {1 << bit} END")
            jcard = "CAST(1 AS DOUBLE)"
            for part in sums:
                jcard = f"least({jcard} * {part}, CAST({most} AS DOUBLE))"
            base = [c for c in self.columns[p] if not c.startswith("sum_")]
            listed = [
                *base,
                f"{jcard} AS jcard",
                f"{' + '.join(bits) or '0'} AS bits",
            ]
            self.rows[p] = self.run(exp.select(*listed, dialect="spark").from_(self.rows[p]))
            self.columns[p] = [*base, "jcard", "bits"]

    def _sizes(self) -> dict[ClassName, int]:
        found = {}
        for p, rows in enumerate(self.rows):
            query = exp.select("jcard", "bits", "count(*) AS n").from_(rows).where("extended")
            for jcard, bits, n in self.fetch(query.group_by("jcard", "bits")):
                found[p, float(jcard), int(bits)] = int(n)
        return found

    def _links(self) -> dict[tuple[ClassName, ClassName], int]:
        found = {}
        for e in range(len(self.tree.edges)):
            above, below = self.tree.parent(e), self.tree.child(e)
            ends = [self._by_class(p, e) for p in (above, below)]
            width = len(self.tree.edges[e].classes)
            on = " AND ".join(f"a.k{i} = b.k{i}" for i in range(width))
            query = (
                exp.select(
                    "a.jcard AS j",
                    "a.bits AS f",
                    "b.jcard AS k",
                    "b.bits AS g",
                    "sum(a.n * b.n) AS w",
                )
                .from_(f"{ends[0]} AS a")
                .join(f"{ends[1]} AS b", on=on)
                .group_by("a.jcard", "a.bits", "b.jcard", "b.bits")
            )
            for j, bits, k, others, weight in self.fetch(query):
                one, other = (above, float(j), int(bits)), (below, float(k), int(others))
                found[one, other] = int(weight)
        return found

    def _by_class(self, p: int, e: int) -> str:
        keys = self._keys(p, e)
        shown = [f"{c} AS k{i}" for i, c in enumerate(keys)]
        query = exp.select(*shown, "jcard", "bits", "count(*) AS n", dialect="spark")
        return self.run(
            query.from_(self.rows[p])
            .where("extended")
            .group_by(*keys, "jcard", "bits", dialect="spark")
        )

    def _counted(self, p: int) -> tuple[int, int, int]:
        sums = [
            "sum(CASE WHEN whole THEN 1 ELSE 0 END) AS w",
            "sum(CASE WHEN extended THEN 1 ELSE 0 END) AS x",
        ]
        ((rows, whole, extended),) = self.fetch(
            exp.select("count(*) AS n", *sums).from_(self.rows[p])
        )
        return int(rows), int(whole or 0), int(extended or 0)


def _distinct(
    shape: Shape, p: int, held: dict[str, tuple[str, ...]], table: Callable[[str], exp.Table]
) -> exp.Select:
    """The held columns of a position's rows that meet its selection, each row once."""
    at = shape.positions[p]
    columns = [exp.alias_(col(c).expr, f"c{i}") for i, c in enumerate(held[at.table])]
    query = exp.select(*columns)
    query = query.from_(table(at.table))
    if at.selection.conjuncts:
        query = query.where(at.selection.expr.copy())
    return query.distinct()
