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

from belvedere.derivations.cost_history import cost_history
from belvedere.derivations.protocol import Rebuild
from belvedere.execution.context import ExecutionContext, new_context
from belvedere.execution.costs import candidate, cheaper
from belvedere.execution.foreign_keys import CheckedForeignKeys, check_foreign_keys
from belvedere.execution.in_memory import MAX_ROWS_READ_WHOLE
from belvedere.execution.lookups import new_values
from belvedere.execution.predicted_work import PredictedWork, predict_work
from belvedere.execution.records import RanStep
from belvedere.execution.rows import IN_MEMORY_PASSES, ChangeRows, rows_of
from belvedere.execution.strategies import Strategy, StrategyChoice
from belvedere.lake.writes import commits
from belvedere.sql.statements.views import Policy
from belvedere.views.choice import choose_strategy
from belvedere.views.copies import copies_to_write
from belvedere.views.extrema import NextExtremum, plan_value_changes, row_to_merge
from belvedere.views.maintenance import ViewChange, overwriting, plan_change, rebuild_work
from belvedere.views.pending_changes import PendingChanges, ViewStep, read_changes
from belvedere.views.references import references
from belvedere.views.state import Grouped, physical
from belvedere.views.writes import RowsToMerge, ViewWrite


def apply(step: ViewStep) -> ViewWrite | Rebuild:
    """What to write so that a view's rows have the target state, or why it is to be rebuilt."""
    pending = read_changes(step)
    state, types = step.view.state, step.view.definition.types
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
        work = PredictedWork(work.rows + planned.write_work(_stored_rows(step)), work.on_spark)
    if _rebuild_is_cheaper(pending, choice.strategy, work):
        return Rebuild("CHEAPER")
    foreign_keys = _check_foreign_keys(pending)
    rows = rows_of(planned.change, context.with_foreign_keys(foreign_keys))
    merged = None if rows.is_empty else _rows_to_merge(pending, planned, rows)
    return _write(pending, choice, foreign_keys.holding, merged)


def _write_without_lost_extrema(pending: PendingChanges, state: Grouped) -> ViewWrite | None:
    """A merge that reads no old rows, if rows in memory show that no extremum is lost."""
    step, table = pending.step, pending.step.pins.table(pending.step.view.stored)
    if pending.in_memory.keys() != set(pending.moving):
        return None
    types = step.view.definition.types
    planned = plan_value_changes(state, pending.moving, types, pending.statistics)
    context = _context(pending)
    if _rebuild_is_cheaper(pending, Strategy.MERGE, predict_work(planned.change, context)):
        return None
    foreign_keys = _check_foreign_keys(pending)
    context = context.with_foreign_keys(foreign_keys)
    values = rows_of(planned.change, context, IN_MEMORY_PASSES)
    choice = StrategyChoice(Strategy.MERGE)
    if values.is_empty:
        return _write(pending, choice, foreign_keys.holding)
    if values.in_memory is None:
        return None
    names = tuple(physical(state).values())
    stored = step.pins.whole(step.view.stored, table.version, names, MAX_ROWS_READ_WHOLE)
    if stored is None:
        return None
    find_next = NextExtremum(state, pending.moving, pending.statistics, context)
    merged = row_to_merge(state, values.in_memory, stored, find_next)
    if merged is None:
        return None
    merge = overwriting(planned.merge, merged.replaced)
    if not commits.merges_in_memory(table, merged.row, merge):
        return None
    how = "the next extremum was found" if merged.replaced else "no extremum was lost"
    step.ran.append(RanStep("result", f"1 row to write, computed in memory: {how}", 1))
    return _write(pending, choice, foreign_keys.holding, RowsToMerge(merged.row, merge))


def _rows_to_merge(pending: PendingChanges, planned: ViewChange, rows: ChangeRows) -> RowsToMerge:
    """The rows to write if they are in memory, otherwise a query for Spark."""
    step, stored = pending.step, pending.step.view.stored
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
    if not pending.work.near:
        return None
    return copies_to_write(rows.in_memory, pending.step.pins, pending.step.view.stored, version)


def _write(
    pending: PendingChanges,
    choice: StrategyChoice,
    holding: frozenset[str],
    rows: RowsToMerge | None = None,
) -> ViewWrite:
    return ViewWrite(choice, pending.work, pending.step.view.stored, holding, rows)


def _context(pending: PendingChanges) -> ExecutionContext:
    types = pending.step.view.definition.types
    return new_context(pending.versions, pending.in_memory, types, pending.step.ran)


def _check_foreign_keys(pending: PendingChanges) -> CheckedForeignKeys:
    """The foreign keys that hold before and after, and a note on each that no longer does."""
    step = pending.step
    declared = references(step.lake, step.view, step.pins.table)
    checked = check_foreign_keys(
        step.holding,
        declared,
        pending.moving,
        pending.in_memory,
        lambda *wanted: new_values(pending.versions, *wanted),
    )
    step.notes.extend(note for note in checked.notes if note not in step.notes)
    return checked


def _stored_rows(step: ViewStep) -> float:
    """How many rows the view has, as its log counts them; 0 if it does not."""
    measured = step.pins.measured(step.view.stored)
    return 0.0 if measured is None else measured.rows


def _rebuild_is_cheaper(pending: PendingChanges, strategy: Strategy, work: PredictedWork) -> bool:
    """Whether policy AUTO prefers a rebuild; both candidates are noted."""
    step, history = pending.step, cost_history(pending.step.lake, pending.step.view.definition.id)
    # A change that Spark reads is never computed in memory. Other large tables may turn out not
    # to be read.
    surely = bool(pending.statistics.passed)
    similar = history.on_spark(surely=surely) if surely or work.on_spark else history
    incremental = candidate(strategy, work.rows, similar)
    work_of_rebuild = rebuild_work(step.view.state, pending.statistics)
    rebuild = candidate(Strategy.REBUILD, work_of_rebuild, history.on_spark())
    step.meter.candidates = (incremental, rebuild)
    free = Policy(step.view.definition.policy) is Policy.AUTO
    return free and cheaper(rebuild, incremental)
