"""The rows of a change plan: what can be had in memory is, and Spark computes the rest.

The passes run in the order of `PASSES`. Each takes a plan and gives one with the same rows, more
of which are in memory:

    resolve_lookups   compute parts from rows in memory, and look up the rows that these need
    reorder_joins     begin joins at what is small now: the sizes of results are exact
    resolve_lookups   which may make other look-ups worth it
    run_steps         small parts that Spark computes beforehand

If the whole plan is in memory then, its rows are there. Otherwise a query for Spark gets them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp

from belvedere.execution.change_plan import ChangePlan
from belvedere.execution.context import ExecutionContext
from belvedere.execution.lookups import resolve_lookups
from belvedere.execution.steps import run_steps
from belvedere.memory.plans import Rows
from belvedere.rules.outward import outward

Pass: TypeAlias = Callable[[ChangePlan, ExecutionContext], ChangePlan]


def reorder_joins(change: ChangePlan, _: ExecutionContext) -> ChangePlan:
    """The plan with its joins begun at what is small, now that the sizes of results are known."""
    return change.with_plan(outward(change.plan, change.sizes))


IN_MEMORY_PASSES: tuple[Pass, ...] = (resolve_lookups, reorder_joins, resolve_lookups)
"""The passes that never use Spark."""
PASSES: tuple[Pass, ...] = (*IN_MEMORY_PASSES, run_steps)


@dataclass(frozen=True)
class ChangeRows:
    """The rows of a change plan whose passes have run."""

    change: ChangePlan
    context: ExecutionContext

    @property
    def is_empty(self) -> bool:
        """Whether there are none."""
        return self.change.is_empty

    @property
    def in_memory(self) -> Rows | None:
        """The rows, if they are in memory."""
        return self.context.memory.result(self.change.plan)

    def query(self) -> exp.Query:
        """The query with which Spark computes them; rows in memory become temporary views."""
        return self.change.query(self.context.memory.source)


def rows_of(
    change: ChangePlan, context: ExecutionContext, passes: tuple[Pass, ...] = PASSES
) -> ChangeRows:
    """Get the rows of a change plan, as far as that is possible without running its query."""
    for each in passes:
        change = each(change, context)
    return ChangeRows(change, context)
