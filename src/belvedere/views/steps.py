"""Steps: small parts of a plan that are computed beforehand.

    rows that are looked up    of large tables, those of the changes' keys, without Spark
    parts needed twice         Spark would compute them again wherever they are named

Their rows come to the driver, a bounded number of them, and go back as a table of exactly known
size; what turns out to be empty takes with it whatever needed it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from belvedere.algebra.relations import Change, Empty, Field, Rel, Scan
from belvedere.algebra.walks import bottom_up, children, each_once
from belvedere.analyses.effort import effort
from belvedere.analyses.sizes import Sizes, Statistics
from belvedere.lake.work import Few, Work
from belvedere.rules.empties import without_empties
from belvedere.rules.outward import SMALL
from belvedere.sql.render import is_signed
from belvedere.views.held import Held
from belvedere.views.lookups import LookUps
from belvedere.views.maintenance import Move

A_JOB = 2_000_000
"""The work, in rows, that a job of its own is worth."""


@dataclass
class Steps:
    """The steps of one refresh; `ran` gathers what was done for them."""

    work: Work
    held: Held
    look_ups: LookUps
    ran: list[str]
    _declined: list[Rel] = field(default_factory=list)

    def taken(self, way: Move) -> Move:
        """The way with its steps taken."""
        way = self.look_ups.made(way)
        while (step := next(self._worth_it(way), None)) is not None:
            way = self.look_ups.made(self._take(way, step))
        return way

    def _worth_it(self, way: Move) -> Iterator[Rel]:
        """Parts that pay as steps, those that others are made of first."""
        uses, sizes = _uses(way.plan), Sizes(way.known)
        for node in reversed(each_once(way.plan)):
            again = uses[id(node)] - 1
            small = children(node) and sizes.rows(node) <= SMALL
            open_to = again and small and not any(node is d for d in self._declined)
            if open_to and again * effort(node, sizes, SMALL) > A_JOB:
                yield node

    def _take(self, way: Move, step: Rel) -> Move:
        query = way.part(step, self.held.source).sql(dialect="spark")
        self.ran.append(query)
        found = self.work.few("step", query, SMALL)
        if found is None:
            self._declined.append(step)
            return way
        result, known = self._result(way, step, found)
        plan = without_empties(bottom_up(way.plan, lambda q: result if q is step else q))
        return replace(way, plan=plan, known=known)

    def _result(self, way: Move, step: Rel, found: Few) -> tuple[Rel, Statistics]:
        """What stands for a step in the plan, and what is known with it."""
        if found.rows.num_rows == 0:
            return Empty(step.columns), way.known
        rows = found.rows.select(list(step.columns))
        name, known = self.held.add(way.known, step, rows, found.view)
        fields = tuple(Field(c, c, found.kinds[c]) for c in step.columns)
        return (Change if is_signed(step) else Scan)(name, fields), known


def _uses(q: Rel) -> Counter[int]:
    """How often each part would be computed."""
    uses: Counter[int] = Counter({id(q): 1})
    for node in each_once(q):
        for child in children(node):
            uses[id(child)] += uses[id(node)]
    return uses
