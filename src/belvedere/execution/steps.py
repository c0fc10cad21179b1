"""Steps: small parts of a plan that Spark computes beforehand.

    parts needed twice         Spark would compute them again wherever they are named
    parts beside the changes   few rows of tables alone, like a total: with them in memory the
                               rest may need no Spark

Their rows come to the driver, a bounded number of them, and go back as a table of exactly known
size. A part that turns out to be empty removes whatever needs it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from math import inf

from belvedere.algebra.relations import Rel
from belvedere.algebra.walks import bottom_up, children, each_once
from belvedere.analyses.effort import effort
from belvedere.execution.change_plan import ChangePlan
from belvedere.execution.context import ExecutionContext
from belvedere.execution.in_memory import MAX_ROWS_READ_WHOLE, leaves_below
from belvedere.execution.lookups import resolve_lookups
from belvedere.execution.records import RanStep
from belvedere.rules.empties import without_empties
from belvedere.rules.outward import SMALL

JOB_WORK = 2_000_000
"""The work, in rows, for which a Spark job of its own pays."""


def run_steps(change: ChangePlan, context: ExecutionContext) -> ChangePlan:
    """The plan with results in place of its steps, and what follows from them."""
    declined: list[Rel] = []
    while (step := next(_worthwhile(change, context, declined), None)) is not None:
        after = _run(change, step, context)
        if after is None:
            declined.append(step)
        else:
            change = resolve_lookups(after, context)
    return change


def _worthwhile(
    change: ChangePlan, context: ExecutionContext, declined: Sequence[Rel]
) -> Iterator[Rel]:
    """Parts that pay as steps; the parts of others come first."""
    uses, sizes = _uses(change.plan), change.sizes
    beside = _parts_beside_rows(change, context)
    for node in reversed(each_once(change.plan)):
        rows = sizes.rows(node) if children(node) else inf
        if rows > SMALL or any(node is part for part in declined):
            continue
        again = uses[id(node)] - 1
        repeated = again and again * effort(node, sizes, SMALL) > JOB_WORK
        if repeated or (rows <= MAX_ROWS_READ_WHOLE and id(node) in beside):
            yield node


def _parts_beside_rows(change: ChangePlan, context: ExecutionContext) -> set[int]:
    """The parts of a plan that read tables alone and meet rows in memory, by identity."""
    memory, below = context.memory, leaves_below(change.plan)
    with_rows = {part for part, leaves in below.items() if any(map(memory.has, leaves))}
    nodes = (node for node in each_once(change.plan) if id(node) in with_rows)
    parts = (child for node in nodes for child in children(node) if id(child) not in with_rows)
    # A part of small tables alone is read whole when something is computed with it.
    return {
        id(part)
        for part in parts
        if not all(memory.can_read_whole(leaf, change.sizes) for leaf in below[id(part)])
    }


def _run(change: ChangePlan, step: Rel, context: ExecutionContext) -> ChangePlan | None:
    """The plan with the result of a step; None if it has too many rows, or types Arrow lacks."""
    query = change.part_query(step, context.memory.source).sql(dialect="spark")
    start = time.perf_counter()
    rows = context.workspace.few(query, SMALL)
    seconds = time.perf_counter() - start
    count = None if rows is None else rows.table.num_rows
    context.ran.append(RanStep("step", rows=count, seconds=seconds, sql=query))
    if rows is None:
        return None
    result, statistics = context.memory.add_result(step, rows, change.statistics)
    plan = bottom_up(change.plan, lambda q: result if q is step else q)
    return change.with_plan(without_empties(plan), statistics)


def _uses(q: Rel) -> Counter[int]:
    """How often each part would be computed, by identity."""
    uses: Counter[int] = Counter({id(q): 1})
    for node in each_once(q):
        for child in children(node):
            uses[id(child)] += uses[id(node)]
    return uses
