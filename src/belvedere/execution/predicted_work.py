"""The predicted work of a change plan, before anything of it runs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from belvedere.algebra.relations import Rel
from belvedere.analyses.effort import effort
from belvedere.analyses.sizes import Sizes
from belvedere.execution.change_plan import ChangePlan
from belvedere.execution.context import ExecutionContext
from belvedere.execution.in_memory import leaves_below, with_result
from belvedere.execution.lookups import next_groups, value_count, wanted_lookups
from belvedere.rules.lookups import filled
from belvedere.rules.outward import SMALL
from belvedere.sql.names import STORED_PREFIX

_PER_ROW, _PER_COLUMN = 0.1, 0.1
"""The work of a look-up, for each row of the table: beside Spark's, see `analyses/effort.py`."""


@dataclass(frozen=True)
class PredictedWork:
    """Work in rows, and whether Spark has to do some of it."""

    rows: float
    on_spark: bool

    def plus(self, rows: float) -> PredictedWork:
        """More work, wherever it is done."""
        return replace(self, rows=self.rows + rows)


def predict_work(change: ChangePlan, context: ExecutionContext) -> PredictedWork:
    """The work of a plan with the look-ups that it leads to.

    Spark reads the tables that are neither looked up nor so small that they are read whole.
    """
    plan, sizes, lookup_work, expected = change.plan, change.sizes, 0.0, set[str]()
    while True:
        plan, wanted = wanted_lookups(plan, sizes, context, expected)
        if not wanted:
            work = lookup_work + effort(plan, sizes, SMALL)
            return PredictedWork(work, _needs_spark(plan, sizes, context, expected))
        groups, leaves = next_groups(wanted, sizes, context)
        questions, statistics = set[object](), sizes.known
        for group in groups:
            name = f"{STORED_PREFIX} expected {len(expected)}"
            expected.add(name)
            rows = sizes.rows(group.leaf)
            if group.question not in questions:
                lookup_work += rows * (_PER_ROW + _PER_COLUMN * len(group.leaf.fields))
            questions.add(group.question)
            part = group.part(sizes, value_count(group.sources, sizes, context))
            statistics = with_result(statistics, name, group.shape, part * rows)
            leaves.update(group.replacements(name))
        plan, sizes = filled(plan, leaves), Sizes(statistics)


def _needs_spark(
    plan: Rel, sizes: Sizes, context: ExecutionContext, expected: Collection[str]
) -> bool:
    memory = context.memory
    return not all(
        leaf.table in expected or memory.has(leaf) or memory.can_read_whole(leaf, sizes)
        for leaf in leaves_below(plan)[id(plan)]
    )
