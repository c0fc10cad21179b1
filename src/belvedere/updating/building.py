"""The summary by aggregations and joins, for an engine that has the tables: Spark, or DuckDB in tests.

The passes of `graph.py` as queries, each over the tables and those before it, for every end (p, e)
of an edge of the join tree and for every position and edge:

    c_p_e    by key, rows of p that have partners on all their other edges: they complete
    d_p_e    by key, rows of p that dangle, or hear of one that does on another edge
    b_p_e    by key, extended rows of p by their class: join cardinality, bits
    z_p      extended rows of p by the same: the sizes of classes
    l_e      pairs of classes that meet on an edge, with how many rows do: their links
    n_p      rows of p, and those that are whole: for an explanation

How many whole rows of p have a key needs no table: those of c_p_e, if the other end completes it.

`run` makes a table of each and names it, so that none is computed twice: a frame that Spark keeps for
an explanation, or a view that is maintained like any other. Only classes and links come back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from belvedere.algebra.scalars import col
from belvedere.updating.graph import MOST
from belvedere.updating.trees import Keys, Tree

Run = Callable[[str, exp.Query], str]
"""Makes a table of a query under a name that says what it is; how SQL calls the table."""
Read = Callable[[str], Iterable[Sequence[Any]]]
"""The rows of such a table."""
ClassName = tuple[int, int, int]
"""A position, a join cardinality, bits of child positions with partners."""


@dataclass(frozen=True)
class Built:
    """Supernodes with their sizes, links with their weights, rows of each position by kind."""

    sizes: dict[ClassName, int]
    links: dict[tuple[ClassName, ClassName], int]
    rows: list[tuple[int, int]]
    """Of each position: all rows, those in view rows; nothing if they were not counted."""

    @property
    def bytes(self) -> int:
        """As `Summary.bytes`."""
        return 8 * len(self.sizes) + 12 * len(self.links)

    def of(self, p: int) -> list[int]:
        """The sizes of a position's classes."""
        return [n for (q, *_), n in self.sizes.items() if q == p]


@dataclass(frozen=True)
class Steps:
    """How the tables of a summary are called."""

    sizes: tuple[str, ...]
    """Of each position."""
    links: tuple[str, ...]
    """Of each edge."""
    rows: tuple[str, ...] = ()
    """Of each position, if its rows were counted."""


def at_key(kind: str, p: int, e: int) -> str:
    """What a table by key says of the rows of a position on an edge."""
    return f"{kind}_{p}_{e}"


def keys_of(tree: Tree, e: int) -> list[str]:
    """The columns of a table by key that hold the key."""
    return [f"k{i}" for i in range(len(tree.edges[e].classes))]


def summary_of(tree: Tree, made: Steps, read: Read) -> Built:
    """The summary that was made."""
    sizes: dict[ClassName, int] = {}
    links: dict[tuple[ClassName, ClassName], int] = {}
    for p, name in enumerate(made.sizes):
        sizes |= {(p, int(jcard), int(bits)): int(n) for jcard, bits, n in read(name)}
    for e, name in enumerate(made.links):
        above, below = tree.parent(e), tree.child(e)
        for j, f, k, g, w in read(name):
            links[(above, int(j), int(f)), (below, int(k), int(g))] = int(w)
    rows = [(int(n), int(whole)) for name in made.rows for n, whole in read(name)]
    return Built(sizes, links, rows)


class Passes:
    """The queries of a view's summary, without candidates, each run once."""

    def __init__(
        self,
        tree: Tree,
        held: Mapping[str, tuple[str, ...]],
        keys: Keys,
        table: Callable[[str], exp.Table],
        run: Run,
    ) -> None:
        self.tree, self.held, self.run = tree, held, run
        self.made: dict[str, str] = {}
        self.rows = [self._rows(p, keys, table) for p in range(len(tree.shape.positions))]

    def run_all(self) -> Steps:
        """Run everything that the summary is made of."""
        tree = self.tree
        for p, e in tree.ways:
            others = [f for f in tree.around[p] if f != e]
            self._keep(at_key("c", p, e), self._counted(p, e, self._heard(p, "c", others, "")))
        for p, e in tree.ways:
            others = [f for f in tree.around[p] if f != e]
            query = self._heard(p, "c", tree.around[p], "left")
            query = self._heard(p, "d", others, "left", query)
            self._keep(
                at_key("d", p, e), self._counted(p, e, query.where(self._dangles(p, others)))
            )
        for p in reversed(tree.down):
            for e in tree.around[p]:
                self._keep(at_key("b", p, e), self._grouped(p, e))
        return Steps(
            tuple(self._keep(f"z_{p}", self._sizes(p)) for p in range(len(self.rows))),
            tuple(self._keep(f"l_{e}", self._links(e)) for e in range(len(tree.edges))),
        )

    def run_all_counted(self) -> Steps:
        """The same, and count rows."""
        made = self.run_all()
        counts = (self._keep(f"n_{p}", self._counts(p)) for p in range(len(self.rows)))
        return replace(made, rows=tuple(counts))

    def _keep(self, name: str, query: exp.Select) -> str:
        self.made[name] = self.run(name, query)
        return self.made[name]

    def _as(self, name: str, alias: str) -> exp.Expr:
        """What was made, under an alias."""
        return exp.alias_(exp.to_table(self.made[name], dialect="spark"), alias, table=True)

    def _rows(self, p: int, keys: Keys, table: Callable[[str], exp.Table]) -> exp.Expr:
        """The held columns of a position's rows that meet its selection, each row once."""
        at = self.tree.shape.positions[p]
        held = self.held[at.table]
        # Columns are numbered: none has the name of what is found out about its rows.
        query = exp.select(*(exp.alias_(col(c).expr, f"v{i}") for i, c in enumerate(held)))
        query = query.from_(table(at.table))
        if at.selection.conjuncts:
            query = query.where(at.selection.expr.copy())
        if set(keys.get(at.table, ("",))) <= set(held):
            return query.subquery("r")
        self._keep(f"r_{p}", query.distinct())
        return self._as(f"r_{p}", "r")

    def _keys(self, p: int, e: int) -> list[str]:
        held = self.held[self.tree.shape.positions[p].table]
        return [f"r.v{held.index(c)}" for c in self.tree.columns(p, e)]

    def _heard(
        self, p: int, kind: str, edges: Iterable[int], join: str, query: exp.Select | None = None
    ) -> exp.Select:
        """Rows of a position beside what the other ends of some edges say of their keys."""
        found = query or exp.Select().from_(self.rows[p].copy())
        for f in edges:
            q = self.tree.edges[f].across(p)
            said = self._as(at_key(kind, q, f), f"{kind}{f}")
            found = found.join(said, on=self._on(p, f, said.alias), join_type=join)
        return found

    def _on(self, p: int, e: int, other: str) -> str:
        mine = zip(self._keys(p, e), keys_of(self.tree, e), strict=True)
        return " AND ".join(f"{own} = {other}.{key}" for own, key in mine)

    def _shown_keys(self, p: int, e: int) -> list[str]:
        pairs = zip(self._keys(p, e), keys_of(self.tree, e), strict=True)
        return [f"{own} AS {key}" for own, key in pairs]

    def _counted(self, p: int, e: int, query: exp.Select) -> exp.Select:
        return query.select(*self._shown_keys(p, e), "count(*) AS n").group_by(*self._keys(p, e))

    def _whole(self, p: int) -> str:
        return " AND ".join(f"c{f}.k0 IS NOT NULL" for f in self.tree.around[p]) or "TRUE"

    def _dangles(self, p: int, edges: Iterable[int]) -> str:
        """Whether a row dangles or hears of one that does.

        Asked by the key, not by how many say so: a count that goes from 3 to 4 tells nobody anything,
        and views that do not read it do not follow it.
        """
        alone = [f"c{f}.k0 IS NULL" for f in self.tree.around[p]]
        return " OR ".join([*alone, *(f"d{f}.k0 IS NOT NULL" for f in edges)]) or "FALSE"

    def _counts(self, p: int) -> exp.Select:
        heard = self._heard(p, "c", self.tree.around[p], "left")
        return heard.select("count(*) AS n", f"count(CASE WHEN {self._whole(p)} THEN 1 END) AS w")

    def _extended(self, p: int, shown: Iterable[str]) -> exp.Subquery:
        """Extended rows of a position with their classes."""
        tree = self.tree
        query = self._heard(p, "c", tree.around[p], "left")
        query = self._heard(p, "d", tree.around[p], "left", query)
        jcard, bits = f"CAST(1 AS {_CARDINALITY})", []
        for bit, e in enumerate(tree.child_edges[p]):
            query = query.join(self._sums(e), on=self._on(p, e, f"s{e}"), join_type="left")
            # Three factors fit a decimal: beyond that a product is cut off before it goes on.
            jcard = _at_most(jcard) if bit and bit % 2 == 0 else jcard
            jcard = f"{jcard} * {_at_most(f'coalesce(s{e}.s, CAST(0 AS DECIMAL(38, 0)))')}"
            bits.append(f"CASE WHEN s{e}.s IS NULL THEN 0 ELSE {1 << bit} END")
        found = query.where(self._dangles(p, tree.around[p]))
        return found.select(
            *shown, f"{_at_most(jcard)} AS jcard", f"{' + '.join(bits) or '0'} AS bits"
        ).subquery("f")

    def _sums(self, e: int) -> exp.Subquery:
        """The join cardinalities of the extended rows below an edge, summed by key."""
        below, keys = self._as(at_key("b", self.tree.child(e), e), "b"), keys_of(self.tree, e)
        total = "sum(CAST(n AS DECIMAL(20, 0)) * jcard) AS s"
        query = exp.select(*keys, total, dialect="spark").from_(below)
        return query.group_by(*keys).subquery(f"s{e}")

    def _grouped(self, p: int, e: int | None) -> exp.Select:
        """Extended rows of a position by their key on an edge and by their class."""
        keys = [] if e is None else keys_of(self.tree, e)
        rows = self._extended(p, [] if e is None else self._shown_keys(p, e))
        by = [*keys, "jcard", "bits"]
        return exp.select(*by, "count(*) AS n").from_(rows).group_by(*by)

    def _sizes(self, p: int) -> exp.Select:
        if not self.tree.around[p]:
            return self._grouped(p, None)
        first = self._as(at_key("b", p, self.tree.around[p][0]), "b")
        by = ["jcard", "bits"]
        return exp.select(*by, "sum(n) AS n").from_(first).group_by(*by)

    def _links(self, e: int) -> exp.Select:
        above = self._as(at_key("b", self.tree.parent(e), e), "a")
        below = self._as(at_key("b", self.tree.child(e), e), "b")
        on = " AND ".join(f"a.{k} = b.{k}" for k in keys_of(self.tree, e))
        by = ["a.jcard", "a.bits", "b.jcard", "b.bits"]
        named = [f"{c} AS {n}" for c, n in zip(by, "jfkg", strict=True)]
        joined = exp.select(*named, "sum(a.n * b.n) AS w").from_(above).join(below, on=on)
        return joined.group_by(*by)


_CARDINALITY = "DECIMAL(12, 0)"


def _at_most(value: str) -> str:
    """A number that stops at the greatest join cardinality."""
    most = f"CAST({MOST:.0f} AS {_CARDINALITY})"
    return f"CASE WHEN {value} > {most} THEN {most} ELSE CAST({value} AS {_CARDINALITY}) END"
