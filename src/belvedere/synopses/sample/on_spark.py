"""A synopsis drawn on Spark, for joins whose sample fits into memory but whose tables do not.

1. Weights are computed bottom-up, by one aggregation and one join per edge.
2. Join numbers are drawn here, in Python's integers.
3. Rows are found top-down: the candidate rows are put in order with running sums of their weights, and each
   number belongs to the last row that begins at or before it.

Only the sample is kept. Inserted rows make new results: a random number of the sample's rows is drawn from
these, and the others stay. Deleted rows would have to be replaced from the whole join, so the sample is
drawn again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from belvedere.algebra.scalars import condition, every
from belvedere.errors import Unsupported
from belvedere.memory import kinds
from belvedere.sql.names import quote
from belvedere.synopses.estimate import estimates
from belvedere.synopses.estimate.values import true, value
from belvedere.synopses.plan.synopsis_plan import SynopsisPlan
from belvedere.synopses.sample.reservoir import SampleKind

if TYPE_CHECKING:
    from belvedere.lake.sessions.workspace import Workspace

_WIDE = "decimal(38,0)"
_PART = "shiftright(__place, 33)"
"""The partition in which Spark numbered a row."""
_ROUNDS = 4
_MORE = 1.3


@dataclass
class SparkSample:
    """A sample drawn on Spark: rows under the plan's names, and the size of the join."""

    plan: SynopsisPlan
    kind: SampleKind
    rows: pa.Table
    size: int
    seed: int

    def passing(self) -> Any:
        """Which rows pass the filters after the tree."""
        if not self.plan.sample_filters:
            return np.ones(self.rows.num_rows, dtype=bool)
        return true(every(self.plan.sample_filters), self.rows, self.plan.block.types)

    def slots(self) -> Any:
        """The places of the rows that the query shows."""
        places = np.flatnonzero(self.passing())
        return places if self.kind.rows is None else places[: self.kind.rows]

    def arrow(self) -> pa.Table:
        """The sample's rows as the query shows them."""
        rows, types = self.rows.take(pa.array(self.slots())), self.plan.block.types
        return pa.table({n: value(s, rows, types).data for n, s in self.plan.block.outputs})

    @property
    def join_size(self) -> Any:
        """How many rows the join has."""
        return estimates.size(self._population()) if self.plan.sample_filters else self.size

    def estimate(
        self,
        what: str,
        where: str | None = None,
        group_by: str | None = None,
        confidence: float = 0.95,
    ) -> Any:
        """An aggregate over the join with an interval; by groups, a dictionary of them."""
        return estimates.estimate(self._population(), what, where, group_by, confidence)

    def histogram(self, what: str, buckets: int) -> estimates.Histogram:
        """An equi-depth histogram of an expression over the join."""
        return estimates.histogram(self._population(), what, buckets)

    def train_test(self, share: float) -> tuple[pa.Table, pa.Table]:
        """The sample as rows to train on and a share of it to test with."""
        return estimates.split(self.arrow(), share, np.random.default_rng(self.seed))

    def key_counts(self, column: str) -> pa.Table:
        """Refused: the weights are not kept."""
        raise Unsupported(
            f"exact counts by {column!r}",
            detail="the synopsis was drawn on Spark and keeps no weights",
            hint="estimate('count(*)', group_by=…) has an interval",
            reason="COUNTS",
        )

    def _population(self) -> estimates.Population:
        block = self.plan.block
        return estimates.Population(
            self.rows, block.types, dict(block.outputs), self.passing(), self.size,
            self.kind.replacement,
        )  # fmt: skip


def can_draw(plan: SynopsisPlan) -> bool:
    """Whether Spark can draw from a tree: equalities only."""
    return all(edge.band is None for edge in plan.tree.edges)


def draw(
    work: Workspace, tables: Mapping[str, str], plan: SynopsisPlan, kind: SampleKind, seed: int
) -> SparkSample:
    """A sample of a plan that collapses nothing; `tables` are the names its tables have in SQL."""
    random = np.random.default_rng(seed)
    tree = _Tree(work, [tables[p.table] for p in plan.block.positions], plan)
    size = tree.weigh()
    wanted = _wanted(kind, size, random)
    drawn = SparkSample(plan, kind, tree.rows([]), size, seed)
    for _ in range(_ROUNDS):
        drawn = SparkSample(plan, kind, tree.rows(_numbers(random, size, wanted, kind)), size, seed)
        passing = int(drawn.passing().sum())
        enough = (
            kind.rows is None or passing >= kind.rows or (wanted >= size and not kind.replacement)
        )
        if enough or not size or kind.rows is None:
            break
        wanted = int(_MORE * kind.rows * wanted / max(passing, 1))
        wanted = wanted if kind.replacement else min(wanted, size)
    return drawn


@dataclass(frozen=True)
class DeltaTerm:
    """One term of the join's change: the inserted rows at one position, and a table for every position."""

    position: int
    tables: tuple[str, ...]


def delta_terms(
    positions: Sequence[str],
    old: Mapping[str, str],
    new: Mapping[str, str],
    inserted: Mapping[str, str],
) -> list[DeltaTerm]:
    """The terms that make the new results, each result in one term; `inserted` has the new rows by table.

    >>> old, new = {"t": "t0", "u": "u0"}, {"t": "t1"}
    >>> [s.tables for s in delta_terms(["t", "u", "t"], old, new, {"t": "dt"})]
    [('dt', 'u0', 't0'), ('t1', 'u0', 'dt')]
    """
    now = [old[t] for t in positions]
    terms = []
    for at, table in sorted(enumerate(positions), key=lambda p: (p[1], p[0])):
        if table in inserted:
            terms.append(DeltaTerm(at, (*now[:at], inserted[table], *now[at + 1 :])))
            now[at] = new[table]
    return terms


def draw_inserted(
    work: Workspace, before: SparkSample, terms: Sequence[DeltaTerm], random: np.random.Generator
) -> SparkSample | None:
    """The sample after inserts; None if filters leave too few rows of it."""
    plan, kind, seed = before.plan, before.kind, before.seed
    trees = [_Tree(work, t.tables, plan, plan.roots.index(t.position)) for t in terms]
    sizes = [before.size, *(tree.weigh() for tree in trees)]
    shares = _shares(sizes, before.rows.num_rows, kind, random)
    stay = random.permutation(before.rows.num_rows)[: shares[0]]
    parts = [before.rows.take(pa.array(stay))]
    for tree, size, share in zip(trees, sizes[1:], shares[1:], strict=True):
        parts.append(tree.rows(_numbers(random, size, share, kind)))
    rows = pa.concat_tables(parts)
    # The order decides which of the passing rows are shown.
    rows = rows.take(pa.array(random.permutation(rows.num_rows)))
    drawn = SparkSample(plan, kind, rows, sum(sizes), seed)
    everything = not kind.replacement and rows.num_rows == drawn.size
    if kind.rows is None or everything or int(drawn.passing().sum()) >= kind.rows:
        return drawn
    return None


def _shares(
    sizes: list[int], held: int, kind: SampleKind, random: np.random.Generator
) -> list[int]:
    """The rows of a sample from each of some sets of results; its present rows are from the first."""
    if kind.rate is not None:
        return [held, *(_wanted(kind, size, random) for size in sizes[1:])]
    assert kind.rows is not None
    remaining, shares = list(sizes), [0] * len(sizes)
    wanted = max(held, kind.rows) if sum(sizes) else 0
    for _ in range(wanted if kind.replacement else min(wanted, sum(sizes))):
        number, at = _below(random, sum(remaining)), 0
        while number >= remaining[at]:
            number -= remaining[at]
            at += 1
        shares[at] += 1
        remaining[at] -= not kind.replacement
    return shares


def _wanted(kind: SampleKind, size: int, random: np.random.Generator) -> int:
    if kind.rate is not None:
        return min(size, int(random.binomial(min(size, 2**62), kind.rate)))
    assert kind.rows is not None
    return kind.rows if kind.replacement and size else min(kind.rows, size)


def _numbers(random: np.random.Generator, size: int, count: int, kind: SampleKind) -> list[int]:
    """Join numbers: independent, or distinct, in random order."""
    if kind.replacement:
        return [_below(random, size) for _ in range(count)]
    if 2 * count >= size:
        return [int(n) for n in random.permutation(size)[:count]]
    numbers: dict[int, None] = {}
    while len(numbers) < count:
        numbers[_below(random, size)] = None
    return list(numbers)


def _below(random: np.random.Generator, size: int) -> int:
    """A random integer below another, of any size."""
    bits = size.bit_length()
    while True:
        drawn = int.from_bytes(random.bytes(bits // 8 + 1), "little") >> (8 - bits % 8)
        if drawn < size:
            return drawn


class _Tree:
    """The nodes of a plan as temporary views with weights, from its root or from the node of inserted rows.

    In the second case the views hold only rows that meet the inserted rows.
    """

    def __init__(
        self, work: Workspace, tables: Sequence[str], plan: SynopsisPlan, came: int | None = None
    ) -> None:
        self.work, self.tables, self.plan = work, tables, plan
        self.root = plan.tree.root if came is None else came
        self.narrow = came is not None
        self.views: dict[int, str] = {}
        self.parts: list[tuple[int, int]] = []
        """The root's partitions and the weight of each."""

    def weigh(self) -> int:
        """Weights of all nodes, from the leaves to the root; the size of the join."""
        self._weighed(self.root, None, None)
        root = quote(self.views[self.root])
        totals = self.work.query(f"SELECT {_PART}, sum(__weight) FROM {root} GROUP BY {_PART}")
        self.parts = sorted((int(part), int(total)) for part, total in totals.collect())
        return sum(total for _, total in self.parts)

    def _children(self, node: int, came: int | None) -> list[int]:
        return [e for e in self.plan.tree.around[node] if e != came]

    def _base(self, node: int, came: int | None, above: str | None) -> str:
        """The rows of a node, as SQL: filtered, and narrowed to what the rows above it meet."""
        number = self.plan.roots[node]
        fields = self.plan.block.positions[number].fields
        columns = ", ".join(f"{quote(f.source)} AS {quote(f.name)}" for f in fields)
        sql = f"SELECT {columns} FROM {quote(self.tables[number])}"
        chosen = self.plan.block.positions[number].filter
        if chosen is not None:
            part = condition(chosen.expr).sql(dialect="spark")
            sql = f"SELECT * FROM ({sql}) AS t WHERE {part}"
        if above is not None and came is not None:
            theirs = self._keys(came, self.plan.tree.across(node, came))
            keys = ", ".join(f"{k} AS __k{n}" for n, k in enumerate(theirs))
            on = " AND ".join(f"{k} = __k{n}" for n, k in enumerate(self._keys(came, node)))
            sql = (
                f"SELECT t.* FROM ({sql}) AS t"
                f" LEFT SEMI JOIN (SELECT DISTINCT {keys} FROM {quote(above)}) AS a ON {on}"
            )
        return sql

    def _weighed(self, node: int, came: int | None, above: str | None) -> None:
        """Register a view of a node's rows, each with its weight and what it meets over each edge below."""
        sql, mine = self._base(node, came, above), None
        if self.narrow:
            mine = self.work.register(f"base_{node}", self.work.keep(self.work.query(sql)))
            sql = f"SELECT * FROM {quote(mine)}"
        met = []
        for edge in self._children(node, came):
            there = self.plan.tree.across(node, edge)
            self._weighed(there, edge, mine)
            own, other = self._keys(edge, node), self._keys(edge, there)
            keys = ", ".join(f"{k} AS __k{n}" for n, k in enumerate(other))
            below = (
                f"SELECT {keys}, CAST(sum(__weight) AS {_WIDE}) AS __met_{edge}"
                f" FROM {quote(self.views[there])} GROUP BY {', '.join(other)}"
            )
            on = " AND ".join(f"{k} = __k{n}" for n, k in enumerate(own))
            dropped = ", ".join(f"__k{n}" for n in range(len(own)))
            sql = f"SELECT * EXCEPT ({dropped}) FROM ({sql}) AS t JOIN ({below}) AS b{edge} ON {on}"
            met.append(f"__met_{edge}")
        product = " * ".join([f"CAST(1 AS {_WIDE})", *met])
        frame = self.work.query(
            f"SELECT *, CAST({product} AS {_WIDE}) AS __weight, monotonically_increasing_id() AS __place"
            f" FROM ({sql}) AS t"
        )
        self.views[node] = self.work.register(f"node_{node}", self.work.keep(frame))

    def _keys(self, edge: int, node: int) -> list[str]:
        terms, e = self.plan.edge_terms[edge], self.plan.tree.edges[edge]
        end = 0 if e.left == node else 1
        return [pair[end].scalar.sql() for pair in terms.equal]

    def rows(self, numbers: list[int]) -> pa.Table:
        """The join results with some numbers, under the plan's names."""
        root, types = self.root, self.plan.block.types
        schema = pa.schema([(name, kinds.arrow(kind)) for name, kind in types.items()])
        if not numbers:
            return schema.empty_table()
        ends = list(accumulate(total for _, total in self.parts))
        at = [bisect_right(ends, number) for number in numbers]
        requests = {
            "__part": [self.parts[n][0] for n in at],
            "__number": [n - (ends[p - 1] if p else 0) for n, p in zip(numbers, at, strict=True)],
        }
        rows = self._rows_at(root, None, [_PART], requests, ["__part"])
        columns = self._below(root, None, rows)
        return pa.table({name: columns[name] for name in types}).cast(schema)

    def _below(self, node: int, came: int | None, rows: pa.Table) -> dict[str, Any]:
        """The columns of a node's rows, and of the rows of all nodes below it."""
        position = self.plan.block.positions[self.plan.roots[node]]
        columns = {f.name: rows[f.name] for f in position.fields}
        rests = [int(r) for r in rows["__rest"].to_pylist()]
        for edge in self._children(node, came):
            there = self.plan.tree.across(node, edge)
            met = [int(m) for m in rows[f"__met_{edge}"].to_pylist()]
            requests: dict[str, Any] = {
                f"__k{n}": rows[f"__own_{edge}_{n}"] for n in range(len(self._keys(edge, node)))
            }
            requests["__number"] = [r % m for r, m in zip(rests, met, strict=True)]
            rests = [r // m for r, m in zip(rests, met, strict=True)]
            names = [n for n in requests if n != "__number"]
            below = self._rows_at(there, edge, self._keys(edge, there), requests, names)
            columns |= self._below(there, edge, below)
        return columns

    def _rows_at(
        self,
        node: int,
        came: int | None,
        keys: list[str],
        requests: dict[str, Any],
        names: list[str],
    ) -> pa.Table:
        """For each number the row of its group that it falls to, and the number within the row, in order."""
        numbers = pa.array([str(n) for n in requests["__number"]], pa.string())
        table = pa.table(
            {
                **{n: requests[n] for n in names},
                "__number": numbers,
                "__turn": np.arange(len(numbers)),
            }
        )
        wanted = self.work.register("asked", self.work.spark.createDataFrame(table))
        view, group = quote(self.views[node]), ", ".join(names)
        on = " AND ".join(f"{k} = w.{n}" for k, n in zip(keys, names, strict=True))
        shown = ", ".join(f"{k} AS {n}" for k, n in zip(keys, names, strict=True))
        running = f"sum(__weight) OVER (PARTITION BY {', '.join(keys)} ORDER BY __place)"
        rows = (
            f"SELECT {shown}, CAST({running} - __weight AS {_WIDE}) AS __start, __place"
            f" FROM {view} LEFT SEMI JOIN (SELECT DISTINCT {group} FROM {quote(wanted)}) AS w ON {on}"
        )
        both = (
            f"SELECT {group}, __start, __place, __start AS __begun, CAST(NULL AS bigint) AS __turn"
            f" FROM ({rows}) AS r UNION ALL SELECT {group}, CAST(__number AS {_WIDE}), NULL, NULL,"
            f" __turn FROM {quote(wanted)}"
        )
        # Starts and places increase together: the greatest so far are those of the row that a number falls to.
        order = f"PARTITION BY {group} ORDER BY __start, __turn NULLS FIRST"
        span = f"({order} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
        falls = (
            f"SELECT __turn, __start - max(__begun) OVER {span} AS __rest,"
            f" max(__place) OVER {span} AS __at FROM ({both}) AS b"
        )
        owns = "".join(
            f", {k} AS __own_{e}_{n}"
            for e in self._children(node, came)
            for n, k in enumerate(self._keys(e, node))
        )
        rows_found = self.work.query(
            f"SELECT __turn, __rest, v.*{owns} FROM ({falls}) AS f JOIN {view} AS v"
            f" ON v.__place = f.__at WHERE __turn IS NOT NULL ORDER BY __turn"
        )
        return rows_found.toArrow()
