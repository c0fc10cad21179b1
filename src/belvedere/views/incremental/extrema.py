"""Extrema without a scan: the minimum or maximum of all rows, when rows are deleted.

Let m be the stored minimum, c the least inserted value and g the least deleted one, net of what
cancels. If one of these holds,

    c ≤ m    the minimum is c: it is there now, and nothing was less
    g > m    the minimum is m or c: the rows that have m are still there

the change is merged and nothing else is read. Otherwise the extremum may be lost (LOST_EXTREMUM),
and all values are m or more. If the minimum is that of a column x of one table T, the next minimum
is the least x that the plan has over the first rows of T by x, from m on, if it has any over them
(rule U5). A few thousand rows are tried. If that fails too, Spark reads all rows. Maxima are
handled the other way round.

Only aggregates without GROUP BY are handled: with it, only the touched groups are computed again.
And only in memory: where Spark has to compute anything, it computes the aggregate.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.algebra.relations import (
    Agg,
    Aggregate,
    Change,
    Field,
    Output,
    Project,
    Rel,
    Scan,
)
from belvedere.algebra.scalars import Scalar, col
from belvedere.analyses.sizes import Statistics
from belvedere.analyses.types import Types
from belvedere.delta.first_rows import read_first_rows
from belvedere.execution.change_plan import ChangePlan, optimize_change
from belvedere.execution.context import ExecutionContext
from belvedere.execution.in_memory import MAX_ROWS
from belvedere.execution.lookups import with_source_names
from belvedere.execution.records import RanStep
from belvedere.execution.rows import IN_MEMORY_PASSES, rows_of
from belvedere.memory.declined import Declined
from belvedere.memory.plans import Memory, Rows, netted
from belvedere.rules.delta import Delta
from belvedere.rules.lookups import leaf_of, onto
from belvedere.sql.render import SIGN
from belvedere.views.maintenance import ViewChange, merge_groups
from belvedere.views.state import Combine, Grouped, Part, physical

ROWS_TRIED = (1000, 30_000)
"""The first rows of a table among which the next extremum is searched, at first and then."""
_NEXT = "__next"

FindNext = Callable[[Part, Any], Any]
"""The extremum after one that was lost; None if it is not found."""


def plan_value_changes(
    state: Grouped, moving: Collection[str], types: Types, statistics: Statistics
) -> ViewChange:
    """The signed values that an aggregate gains and loses, and how its new row is merged."""
    outputs = tuple(Output(name, value) for value, name in _arguments(state).items())
    values = Project(Delta(moving, types).of(state.child), outputs)
    merge = merge_groups(state, moving, types, statistics).merge
    return ViewChange(optimize_change(ChangePlan(values, statistics), moving), merge)


@dataclass(frozen=True)
class ExtremaRow:
    """The row to merge into the stored one."""

    row: pa.Table
    replaced: frozenset[str] = frozenset()
    """Columns with a new extremum, which replaces the stored one."""


def row_to_merge(
    state: Grouped, change: Rows, stored: pa.Table, find_next: FindNext
) -> ExtremaRow | None:
    """The row to merge; None if an extremum may be lost and the next one was not found."""
    try:
        return _row_to_merge(state, change, stored, find_next)
    except Declined:
        return None


def _row_to_merge(
    state: Grouped, change: Rows, stored: pa.Table, find_next: FindNext
) -> ExtremaRow | None:
    # Rows without signs are all inserted, each as often as it is there.
    net, counts = netted(change.with_signs(change.signs), tuple(change.types))
    rows = net.with_signs(None)
    inserted, deleted = (
        _parts_of(state, rows.where(pa.array(side)), None) for side in (counts > 0, counts < 0)
    )
    gained = _parts_of(state, rows, counts)
    names, row, replaced = physical(state), dict[str, pa.ChunkedArray](), set[str]()
    for part in state.parts:
        name = part.agg.name
        if part.combine is Combine.ADD:
            row[names[name]] = gained.table[name]
            continue
        kind = stored.schema.field(names[name]).type
        extremum = _python_value(stored[names[name]][0])
        new, old = (_python_value(side.table[name].cast(kind)[0]) for side in (inserted, deleted))
        if _lost(part.combine, extremum, new, old):
            # No deleted value is beyond the stored extremum, or the stored row is wrong.
            found = extremum is not None and old == extremum
            new = find_next(part, extremum) if found else None
            if new is None:
                return None
            replaced.add(names[name])
        row[names[name]] = pa.chunked_array([pa.array([new], kind)])
    return ExtremaRow(pa.table(row), frozenset(replaced))


def _python_value(value: pa.Scalar) -> Any:
    """A value as Python has it; Declined for days after the year 9999, which Python lacks."""
    try:
        return value.as_py()
    except (OverflowError, ValueError) as error:
        raise Declined(str(error)) from error


@dataclass(frozen=True)
class NextExtremum:
    """Finds the next extremum in the new state of what is aggregated (U5)."""

    state: Grouped
    moving: Collection[str]
    statistics: Statistics
    context: ExecutionContext
    """That of the change: its tables and changes are read again, its results are not."""

    def __call__(self, part: Part, lost: Any) -> Any:
        child = Delta(self.moving, self.context.memory.types).new(self.state.child)
        column = part.agg.args[0].column
        place = leaf_of(child, column) if column else None
        if column is None or place is None or not self.context.workspace.computes_here:
            return None
        least = part.combine is Combine.LEAST
        leaf, source = place
        for rows in self._first_rows(leaf, source, lost, least=least):
            values = self._values(child, column, leaf, rows)
            if values is None:
                return None
            extremum = _python_value((pc.min if least else pc.max)(values))
            if extremum is not None:
                return extremum
        return None

    def _first_rows(self, leaf: Scan, source: str, lost: Any, *, least: bool) -> Iterator[pa.Table]:
        """The first rows of a table from a value on: a few, then more, as long as there are any."""
        versions = self.context.versions
        table, version = versions.version(leaf)
        columns = with_source_names(leaf).columns
        for count in ROWS_TRIED:
            rows = read_first_rows(table, version, columns, source, lost, count, least=least)
            if rows is None or not rows.num_rows:
                return
            versions.opened.add((leaf.table, version))
            which = f"the first by {source} from {lost} on"
            text = f"{rows.num_rows} rows of {table.name} at version {version}: {which}"
            self.context.ran.append(RanStep("look-up", text, rows.num_rows))
            yield rows
            if rows.num_rows < count:
                return

    def _values(self, child: Rel, column: str, leaf: Scan, rows: pa.Table) -> pa.Array | None:
        """A column of the plan over some rows of a table; None if Spark must compute it."""
        context, shape = self.context.without_results(), with_source_names(leaf)
        types = {f.name: f.type for f in shape.fields}
        name, statistics = context.memory.add(self.statistics, shape, Rows(rows, types))
        plan = onto(child, column, Scan(name, leaf.fields))
        change = ChangePlan(Project(plan, (Output(_NEXT, col(column)),)), statistics)
        values = rows_of(optimize_change(change, self.moving), context, IN_MEMORY_PASSES)
        if values.is_empty:
            return pa.array([], pa.null())
        return None if values.in_memory is None else values.in_memory.table[_NEXT]


def _lost(combine: Combine, stored: Any, inserted: Any, deleted: Any) -> bool:
    """Whether no row may have the stored extremum any more, and no inserted row a better one."""
    if deleted is None:
        return False
    if stored is None:
        return True
    if combine is Combine.LEAST:
        return not (deleted > stored or (inserted is not None and inserted <= stored))
    return not (deleted < stored or (inserted is not None and inserted >= stored))


def _parts_of(state: Grouped, rows: Rows, counts: Any | None) -> Rows:
    """The parts of an aggregate over rows: those that add up with counts, the extrema without."""
    fields = tuple(Field(c, c, kind) for c, kind in rows.types.items())
    table = rows.table if counts is None else rows.table.append_column(SIGN, [counts])
    leaf: Rel = Scan("rows", fields) if counts is None else Change("rows", fields)
    adds = counts is not None
    parts = [p for p in state.parts if (p.combine is Combine.ADD) == adds]
    aggregates = tuple(_over(p.agg, _arguments(state)) for p in parts)
    return Memory(lambda _: table, MAX_ROWS).rows(Aggregate(leaf, (), aggregates))


def _over(agg: Agg, names: dict[Scalar, str]) -> Agg:
    """An aggregate over the columns of its arguments."""
    return replace(agg, args=tuple(col(names[a]) for a in agg.args))


def _arguments(state: Grouped) -> dict[Scalar, str]:
    """The arguments of the parts of an aggregate, each once under a name."""
    every = dict.fromkeys(a for p in state.parts for a in p.agg.args)
    return {value: f"__a{number}" for number, value in enumerate(every, start=1)}
