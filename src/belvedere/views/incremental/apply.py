"""The incremental part of a refresh: from the changes of the tables to what is written.

    read the changes        each table's net change, in memory if it is small
    choose a strategy       merge or replace keys; a rebuild where the definition requires it
    plan the change         the rows to get, and how they are merged into the stored ones
    compare with a rebuild  under policy AUTO, by predicted seconds
    check foreign keys      those that still hold make look-ups unnecessary
    get the rows            in memory as far as possible, otherwise with a query for Spark

Nothing is committed here: `apply` returns what to write, or why the view is to be rebuilt.
"""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from belvedere.derivations.protocol import AdvanceStep, Rebuild
from belvedere.execution.context import ExecutionContext, new_context
from belvedere.execution.in_memory import MAX_ROWS_READ_WHOLE
from belvedere.execution.predicted_work import predict_work
from belvedere.execution.records import RanStep
from belvedere.execution.rows import IN_MEMORY_PASSES, ChangeRows, rows_of
from belvedere.execution.strategies import Strategy, StrategyChoice
from belvedere.lake.spark_lake import SparkLake
from belvedere.lake.writes import commits
from belvedere.views.definition import View
from belvedere.views.incremental.choice import choose_strategy
from belvedere.views.incremental.comparison import rebuild_is_cheaper, stored_rows
from belvedere.views.incremental.copies import copies_to_write
from belvedere.views.incremental.extrema import NextExtremum, plan_value_changes, row_to_merge
from belvedere.views.incremental.foreign_keys import check_references
from belvedere.views.incremental.pending_changes import PendingChanges, read_changes
from belvedere.views.incremental.writes import RowsToMerge, ViewWrite
from belvedere.views.maintenance import ViewChange, plan_change, replacing_columns
from belvedere.views.state import Grouped, physical


def apply(lake: SparkLake, view: View, step: AdvanceStep) -> ViewWrite | Rebuild:
    """What to write so that a view's rows have the target state, or why it is to be rebuilt."""
    pending = read_changes(lake, view, step)
    state, types = view.state, view.definition.types
    choice = choose_strategy(state, types, pending.moving, inserts_only=pending.inserts_only)
    if choice.strategy is Strategy.REBUILD:
        return Rebuild(choice.reason)
    if choice.strategy is Strategy.NOTHING:
        return _write(pending, choice, step.holding)
    if choice.reason == "LOST_EXTREMUM" and isinstance(state, Grouped) and not state.keys:
        write = _write_without_lost_extrema(pending, state)
        if write is not None:
            return write
    planned = plan_change(state, choice.strategy, pending.moving, types, pending.statistics)
    context = _context(pending)
    work = predict_work(planned.change, context)
    if pending.statistics.passed:
        work = work.plus(planned.write_work(stored_rows(pending)))
    if rebuild_is_cheaper(pending, choice.strategy, work):
        return Rebuild("CHEAPER")
    foreign_keys = check_references(pending)
    rows = rows_of(planned.change, context.with_foreign_keys(foreign_keys))
    merged = None if rows.is_empty else _rows_to_merge(pending, planned, rows)
    return _write(pending, choice, foreign_keys.holding, merged)


def _write_without_lost_extrema(pending: PendingChanges, state: Grouped) -> ViewWrite | None:
    """A merge that reads no old rows, if rows in memory show that no extremum is lost."""
    step, view = pending.step, pending.view
    if pending.in_memory.keys() != set(pending.moving):
        return None
    types = view.definition.types
    planned = plan_value_changes(state, pending.moving, types, pending.statistics)
    context = _context(pending)
    if rebuild_is_cheaper(pending, Strategy.MERGE, predict_work(planned.change, context)):
        return None
    foreign_keys = check_references(pending)
    context = context.with_foreign_keys(foreign_keys)
    values = rows_of(planned.change, context, IN_MEMORY_PASSES)
    choice = StrategyChoice(Strategy.MERGE)
    if values.is_empty:
        return _write(pending, choice, foreign_keys.holding)
    if values.in_memory is None:
        return None
    table, names = step.pins.table(view.stored), tuple(physical(state).values())
    stored = step.pins.whole(view.stored, table.version, names, MAX_ROWS_READ_WHOLE)
    if stored is None:
        return None
    find_next = NextExtremum(state, pending.moving, pending.statistics, context)
    merged = row_to_merge(state, values.in_memory, stored, find_next)
    if merged is None:
        return None
    merge = replacing_columns(planned.merge, merged.replaced)
    if not commits.merges_in_memory(table, merged.row, merge):
        return None
    how = "the next extremum was found" if merged.replaced else "no extremum was lost"
    step.ran.append(RanStep("result", f"1 row to write, computed in memory: {how}", 1))
    return _write(pending, choice, foreign_keys.holding, RowsToMerge(merged.row, merge))


def _rows_to_merge(pending: PendingChanges, planned: ViewChange, rows: ChangeRows) -> RowsToMerge:
    """The rows to write if they are in memory, otherwise a query for Spark."""
    step, stored = pending.step, pending.view.stored
    table = step.pins.table(stored)
    in_memory = _rows_in_memory(pending, planned, rows, table.version)
    if in_memory is not None and commits.merges_in_memory(table, in_memory, planned.merge):
        text = f"{in_memory.num_rows} rows to write, computed in memory"
        step.ran.append(RanStep("result", text, in_memory.num_rows))
        return RowsToMerge(in_memory, planned.merge)
    if planned.numbered:
        stored = step.pins.opened(pending.work, stored, table.version)
    query = planned.query(rows.query(), exp.to_table(stored, dialect="spark"))
    text = query.sql(dialect="spark")
    step.ran.append(RanStep("query", sql=text))
    return RowsToMerge(text, planned.merge)


def _rows_in_memory(
    pending: PendingChanges, planned: ViewChange, rows: ChangeRows, version: int
) -> pa.Table | None:
    """The rows to write, if they are in memory by now."""
    if rows.in_memory is None or not planned.numbered:
        return None if rows.in_memory is None else rows.in_memory.table
    if not pending.work.computes_here:
        return None
    return copies_to_write(rows.in_memory, pending.step.pins, pending.view.stored, version)


def _write(
    pending: PendingChanges,
    choice: StrategyChoice,
    holding: frozenset[str],
    rows: RowsToMerge | None = None,
) -> ViewWrite:
    return ViewWrite(choice, pending.work, pending.view.stored, holding, rows)


def _context(pending: PendingChanges) -> ExecutionContext:
    types = pending.view.definition.types
    return new_context(pending.versions, pending.in_memory, types, pending.step.ran)
