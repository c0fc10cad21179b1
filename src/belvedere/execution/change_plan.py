"""A change plan: which rows a change needs, as a plan, with what is known of its sizes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property

from sqlglot import exp

from belvedere.algebra.relations import Empty, Negate, Rel
from belvedere.analyses.sizes import NOTHING_KNOWN, Sizes, Statistics
from belvedere.rules.backward import backward
from belvedere.rules.narrow import narrowed
from belvedere.rules.outward import SMALL, outward
from belvedere.sql.render import Source, is_signed, render


@dataclass(frozen=True)
class ChangePlan:
    """The rows to get. How they are written is no part of it."""

    plan: Rel
    statistics: Statistics = NOTHING_KNOWN
    signed: bool = False
    """Whether rows carry their signs even where the plan deletes none."""

    @cached_property
    def sizes(self) -> Sizes:
        """The expected rows of each part."""
        return Sizes(self.statistics)

    @property
    def is_empty(self) -> bool:
        """Whether there are no rows to get."""
        return isinstance(self.plan, Empty)

    def with_plan(self, plan: Rel, statistics: Statistics | None = None) -> ChangePlan:
        """The same rows by another plan."""
        if statistics is None or statistics is self.statistics:
            return self if plan is self.plan else replace(self, plan=plan)
        return replace(self, plan=plan, statistics=statistics)

    def query(self, source: Source) -> exp.Query:
        """The plan in SQL, with hints where a part is small."""
        plan = self.plan
        if self.signed and not is_signed(plan):
            plan = Negate(Negate(plan))
        return self.part_query(plan, source)

    def part_query(self, part: Rel, source: Source) -> exp.Query:
        """A part of the plan in SQL."""
        return render(part, source, self._rows_if_small)

    def _rows_if_small(self, q: Rel) -> float | None:
        rows = self.sizes.rows(q)
        return rows if rows <= SMALL else None


def optimize_change(change: ChangePlan, moving: Collection[str]) -> ChangePlan:
    """Start joins at the changes, prefer new states to old ones, and narrow scans to changed keys.

    This is done once, when the change of the moving tables has been derived: rules/outward.py,
    rules/backward.py and rules/narrow.py, in this order.
    """
    plan = outward(change.plan, change.sizes)
    plan = backward(plan, moving, change.sizes)
    return change.with_plan(narrowed(plan, change.statistics))
