"""The incremental part of a refresh: from the changes of the tables to what is written.

    read the changes        each table's net change, or where Spark finds it
    choose a strategy       merge or replace keys, unless the definition asks for a rebuild
    plan the change         the rows to write as a plan, and how they are merged
    compare with a rebuild  under policy AUTO, by predicted seconds
    get the rows            in memory where possible, otherwise as a query for Spark

Nothing is committed here: `apply` returns what to write, or why the view is to be rebuilt.
"""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from belvedere.algebra.relations import Empty
from belvedere.analyses.sizes import Statistics
from belvedere.derivations.cost_history import cost_history
from belvedere.execution.costs import candidate, cheaper
from belvedere.execution.foreign_keys import check_foreign_keys
from belvedere.execution.in_memory import WHOLE, Held
from belvedere.execution.lookups import LookUps
from belvedere.execution.steps import Steps
from belvedere.execution.strategies import Strategy, StrategyChoice
from belvedere.lake.writes import commits
from belvedere.sql.statements.views import Policy
from belvedere.views.choice import choose_strategy
from belvedere.views.copies import copies_to_write
from belvedere.views.extrema import Next, kept, values_that_move
from belvedere.views.maintenance import Move, move, overwriting, rebuilding
from belvedere.views.pending_changes import PendingChanges, ViewStep, read_changes
from belvedere.views.references import references
from belvedere.views.state import Grouped, physical
from belvedere.views.writes import Rebuild, RowsToMerge, ViewWrite


def apply(step: ViewStep) -> ViewWrite | Rebuild:
    """What to write so that a view's rows have the target state, or why it is to be rebuilt."""
    pending = read_changes(step)
    state, types = step.view.state, step.view.definition.types
    choice = choose_strategy(state, types, pending.moving, inserts_only=pending.inserts_only)
    if choice.strategy is Strategy.REBUILD:
        return Rebuild(choice.reason)
    if choice.strategy is Strategy.NOTHING:
        return _write(step, pending, choice, step.holding)
    if choice.reason == "LOST_EXTREMUM" and isinstance(state, Grouped) and not state.keys:
        write = _with_kept_extrema(step, pending, state)
        if write is not None:
            return write
    way = move(state, choice.strategy, pending.moving, types, pending.statistics)
    held = Held(pending.versions, pending.in_memory, types)
    look_ups = LookUps(pending.work, held, step.ran)
    effort, on_spark = look_ups.effort(way)
    effort += way.writing(_stored_rows(step)) if pending.statistics.passed else 0.0
    if _costs_more(step, choice.strategy, effort, pending.statistics, on_spark=on_spark):
        return Rebuild("CHEAPER")
    holding = _check_foreign_keys(step, pending, look_ups)
    way = Steps(pending.work, held, look_ups, step.ran).taken(way)
    rows = None if isinstance(way.plan, Empty) else _rows_to_merge(step, pending, way, held)
    return _write(step, pending, choice, holding, rows)


def _with_kept_extrema(step: ViewStep, pending: PendingChanges, state: Grouped) -> ViewWrite | None:
    """A merge that needs no old rows, if memory can tell that no extremum was lost."""
    if pending.in_memory.keys() != set(pending.moving):
        return None
    types = step.view.definition.types
    held = Held(pending.versions, pending.in_memory, types)
    look_ups = LookUps(pending.work, held, step.ran)
    way = values_that_move(state, pending.moving, types, pending.statistics)
    effort, on_spark = look_ups.effort(way)
    if _costs_more(step, Strategy.MERGE, effort, pending.statistics, on_spark=on_spark):
        return None
    holding = _check_foreign_keys(step, pending, look_ups)
    choice = StrategyChoice(Strategy.MERGE)
    plan = look_ups.made(way).plan
    if isinstance(plan, Empty):
        return _write(step, pending, choice, holding)
    values, names = held.result(plan), tuple(physical(state).values())
    table = step.pins.table(step.view.stored)
    if values is None:
        return None
    stored = step.pins.whole(step.view.stored, table.version, names, WHOLE)
    if stored is None:
        return None
    next_extremum = Next(state, pending.moving, types, way, look_ups)
    row = kept(state, values, stored, next_extremum)
    if row is None:
        return None
    merge = overwriting(way.merge, row.anew)
    if not commits.merges_in_memory(table, row.row, merge):
        return None
    how = "the next extremum was found" if row.anew else "no extremum was lost"
    step.ran.append(f"-- 1 row to write, computed in memory: {how}")
    return _write(step, pending, choice, holding, RowsToMerge(row.row, merge))


def _rows_to_merge(step: ViewStep, pending: PendingChanges, way: Move, held: Held) -> RowsToMerge:
    """The rows of a plan: those in memory, or a query for Spark."""
    table = step.pins.table(step.view.stored)
    rows = _in_memory(step, way, held, table.version)
    if rows is not None and commits.merges_in_memory(table, rows, way.merge):
        step.ran.append(f"-- {rows.num_rows} rows to write, computed in memory")
        return RowsToMerge(rows, way.merge)
    stored = step.view.stored
    if way.numbered:
        stored = step.pins.opened(pending.work, stored, table.version)
    query = way.query(held.source, exp.to_table(stored, dialect="spark")).sql(dialect="spark")
    step.ran.append(query)
    return RowsToMerge(query, way.merge)


def _in_memory(step: ViewStep, way: Move, held: Held, version: int) -> pa.Table | None:
    """The rows to write, if they are in memory by now."""
    rows = held.result(way.plan)
    if rows is None or not way.numbered:
        return None if rows is None else rows.table
    if not held.tables.work.near:
        return None
    return copies_to_write(rows, step.pins, step.view.stored, version)


def _write(
    step: ViewStep,
    pending: PendingChanges,
    choice: StrategyChoice,
    holding: frozenset[str],
    rows: RowsToMerge | None = None,
) -> ViewWrite:
    return ViewWrite(choice, pending.work, step.view.stored, holding, rows)


def _check_foreign_keys(
    step: ViewStep, pending: PendingChanges, look_ups: LookUps
) -> frozenset[str]:
    """The foreign keys that still hold, which look-ups may then rely on."""
    possible = references(step.door, step.view, step.pins.table)
    relied = check_foreign_keys(
        step.holding, possible, pending.moving, pending.in_memory, look_ups.values_after
    )
    look_ups.relied = relied
    step.notes.extend(n for n in relied.notes if n not in step.notes)
    return relied.holding


def _stored_rows(step: ViewStep) -> float:
    """How many rows the view has, as its log counts them; 0 if it does not."""
    measured = step.pins.measured(step.view.stored)
    return 0.0 if measured is None else measured.rows


def _costs_more(
    step: ViewStep, strategy: Strategy, effort: float, known: Statistics, *, on_spark: bool
) -> bool:
    """Whether policy AUTO prefers a rebuild; the candidates are noted."""
    earlier = cost_history(step.door, step.view.definition.id)
    # A change that Spark must read is not computed in memory. Other large tables may turn out
    # not to be read.
    surely = bool(known.passed)
    like_it = earlier.on_spark(surely=surely) if surely or on_spark else earlier
    ours = candidate(strategy, effort, like_it)
    work = rebuilding(step.view.state, known)
    rebuild = candidate(Strategy.REBUILD, work, earlier.on_spark())
    step.meter.candidates = (ours, rebuild)
    free = Policy(step.view.definition.policy) is Policy.AUTO
    return free and cheaper(rebuild, ours)
