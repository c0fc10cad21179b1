"""Rows in memory that stand for leaves of a plan, and the parts of a plan computed from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from belvedere.algebra.relations import Change, Empty, Field, Rel, Scan
from belvedere.algebra.walks import children, each_once, with_children
from belvedere.analyses.sizes import Column, Sizes, Statistics
from belvedere.analyses.types import Types
from belvedere.execution.change_plan import ChangePlan
from belvedere.execution.sources import Versions
from belvedere.memory.declined import Declined
from belvedere.memory.plans import Memory, Rows
from belvedere.rules.empties import without_empties
from belvedere.rules.outward import FEW, SMALL
from belvedere.sql.names import STORED_PREFIX
from belvedere.sql.render import SIGN

MAX_ROWS = 2 * SMALL
"""Rows of any part of a plan that is computed in memory: more than is expected of them."""
MAX_ROWS_READ_WHOLE = FEW
"""Rows of a table that is read whole into memory."""


@dataclass
class RowsInMemory:
    """The rows that one refresh has in memory: changes at first, then results of parts."""

    versions: Versions
    changes: Mapping[str, pa.Table]
    types: Types = field(default_factory=dict)
    """Of the view's columns, by their names in plans."""
    _results: dict[str, Rows] = field(default_factory=dict)
    _views: dict[str, str] = field(default_factory=dict)
    _values: dict[frozenset[Column], pa.Array] = field(default_factory=dict)

    def has(self, leaf: Scan | Change) -> bool:
        """Whether the rows of a leaf are in memory."""
        if leaf.table in self._results:
            return True
        return isinstance(leaf, Change) and leaf.table in self.changes

    def __contains__(self, table: str) -> bool:
        return table in self.changes or table in self._results

    def rows(self, leaf: Rel) -> pa.Table | None:
        """The rows of a leaf that is in memory."""
        if not isinstance(leaf, Scan | Change) or not self.has(leaf):
            return None
        return self._table(leaf.table)

    def result(self, leaf: Rel) -> Rows | None:
        """The result that stands for a leaf, if there is one."""
        return self._results.get(leaf.table) if isinstance(leaf, Scan | Change) else None

    def source(self, leaf: Scan | Change) -> exp.Table:
        """What stands in FROM for a leaf: a temporary view of a result, or a table."""
        name = leaf.table
        if name not in self._results:
            return self.versions(leaf)
        if name not in self._views:
            result = self._results[name]
            signs = {SIGN: "bigint"} if result.signed else {}
            types = {**result.types, **signs}
            self._views[name] = self.versions.work.hold("rows", result.table, types)
        return exp.to_table(self._views[name])

    def values(self, columns: frozenset[Column]) -> pa.Array:
        """The distinct values of some columns of leaves in memory, without NULL."""
        if columns not in self._values:
            arrays = [self._table(table)[column] for table, column in columns]
            chunks = [chunk for array in arrays for chunk in array.chunks]
            every = pa.chunked_array(chunks, type=arrays[0].type)
            self._values[columns] = pc.unique(every.drop_null())
        return self._values[columns]

    def add(self, statistics: Statistics, shape: Rel, rows: Rows) -> tuple[str, Statistics]:
        """Add the result of a part of a plan: the name of its leaf, and the statistics with it."""
        # No table has such a name.
        name = f"{STORED_PREFIX} {len(self._results) + 1}"
        self._results[name] = rows
        return name, with_result(statistics, name, shape, rows.table.num_rows)

    def add_result(self, part: Rel, rows: Rows, statistics: Statistics) -> tuple[Rel, Statistics]:
        """Add the result of a part of a plan: the leaf that replaces it, and the statistics with it."""
        if not rows.table.num_rows:
            return Empty(part.columns), statistics
        name, statistics = self.add(statistics, part, rows)
        fields = tuple(Field(c, c, rows.types[c]) for c in part.columns)
        return (Change if rows.signed else Scan)(name, fields), statistics

    def can_read_whole(self, leaf: Scan | Change, sizes: Sizes) -> bool:
        """Whether a leaf is a table so small that it is read whole."""
        if not isinstance(leaf, Scan) or not self.versions.work.computes_here:
            return False
        return sizes.rows(leaf) <= MAX_ROWS_READ_WHOLE

    def read(self, leaf: Scan | Change) -> pa.Table | None:
        """The rows of a leaf: in memory, or read from a small table."""
        if self.has(leaf) or not isinstance(leaf, Scan):
            return self.rows(leaf)
        _, version = self.versions.version(leaf)
        # A plan may have one column under two names.
        columns = tuple(dict.fromkeys(f.source for f in leaf.fields))
        rows = self.versions.pins.whole(leaf.table, version, columns, MAX_ROWS_READ_WHOLE)
        if rows is not None:
            self.versions.opened.add((leaf.table, version))
        return rows

    def _table(self, name: str) -> pa.Table:
        return self._results[name].table if name in self._results else self.changes[name]


def evaluate_in_memory(change: ChangePlan, memory: RowsInMemory) -> ChangePlan:
    """The plan with results in place of its largest parts that can be computed in memory."""
    if not memory.versions.work.usual_decimals:
        return change
    evaluation = _Evaluation(memory, change)
    plan = without_empties(evaluation.visit(change.plan))
    return change.with_plan(plan, evaluation.statistics)


class _Evaluation:
    def __init__(self, memory: RowsInMemory, change: ChangePlan) -> None:
        self.statistics = change.statistics
        self._memory, self._sizes = memory, change.sizes
        self._plans = Memory(memory.read, MAX_ROWS, memory.types)
        self._leaves = leaves_below(change.plan)
        self._done: dict[int, Rel] = {}

    def visit(self, q: Rel) -> Rel:
        """A part of the plan, or the leaf of its result."""
        if id(q) not in self._done:
            rows = self._computed(q) if children(q) else None
            if rows is None:
                self._done[id(q)] = self._with_children(q)
            else:
                self._done[id(q)], self.statistics = self._memory.add_result(
                    q, rows, self.statistics
                )
        return self._done[id(q)]

    def _with_children(self, q: Rel) -> Rel:
        before = children(q)
        after = [self.visit(child) for child in before]
        same = all(a is b for a, b in zip(before, after, strict=True))
        return q if same else with_children(q, after)

    def _computed(self, q: Rel) -> Rows | None:
        below = self._leaves[id(q)]
        # A part that only reads tables is not worth reading them.
        if not any(map(self._memory.has, below)):
            return None
        if not all(self._can_read(leaf) for leaf in below):
            return None
        try:
            return self._plans.rows(q)
        except Declined:
            return None

    def _can_read(self, leaf: Scan | Change) -> bool:
        return self._memory.has(leaf) or self._memory.can_read_whole(leaf, self._sizes)


def leaves_below(q: Rel) -> dict[int, frozenset[Scan | Change]]:
    """The leaves below each part of a plan, by the identity of the part."""
    leaves: dict[int, frozenset[Scan | Change]] = {}
    for node in reversed(each_once(q)):
        own = frozenset((node,)) if isinstance(node, Scan | Change) else frozenset()
        leaves[id(node)] = own.union(*(leaves[id(child)] for child in children(node)))
    return leaves


def with_result(statistics: Statistics, name: str, shape: Rel, rows: float) -> Statistics:
    """Statistics with a leaf for the result of a part of a plan."""
    sizes, size = Sizes(statistics), {name: rows}
    values = {(name, c): sizes.values(shape, c) for c in shape.columns}
    return replace(
        statistics,
        rows={**statistics.rows, **size},
        changed={**statistics.changed, **size},
        values={**statistics.values, **values},
    )
