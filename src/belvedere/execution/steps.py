"""Steps: small parts of a plan that are computed beforehand.

    rows that are looked up    of large tables, those of the changes' keys, without Spark
    parts needed twice         Spark would compute them again wherever they are named
    parts beside the changes   few rows of tables alone, like a total: with them at hand the rest
                               may need no Spark

Their rows come to the driver, a bounded number of them, and go back as a table of exactly known
size; what turns out to be empty takes with it whatever needed it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import inf

from belvedere.algebra.relations import Rel
from belvedere.algebra.walks import bottom_up, children, each_once
from belvedere.analyses.effort import effort
from belvedere.analyses.sizes import Sizes
from belvedere.execution.in_memory import WHOLE, Held, leaves_below
from belvedere.execution.lookups import LookUps
from belvedere.lake.sessions.workspace import Workspace
from belvedere.rules.empties import without_empties
from belvedere.rules.outward import SMALL
from belvedere.views.maintenance import Move

A_JOB = 2_000_000
"""The work, in rows, that a job of its own is worth."""


@dataclass
class Steps:
    """The steps of one refresh; `ran` gathers what was done for them."""

    work: Workspace
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
        beside = self._beside(way.plan, sizes)
        for node in reversed(each_once(way.plan)):
            rows = sizes.rows(node) if children(node) else inf
            if rows > SMALL or any(node is d for d in self._declined):
                continue
            again = uses[id(node)] - 1
            many = again and again * effort(node, sizes, SMALL) > A_JOB
            if many or (rows <= WHOLE and id(node) in beside):
                yield node

    def _beside(self, q: Rel, sizes: Sizes) -> set[int]:
        """The parts of a plan that read tables alone, beside rows in memory."""
        below = leaves_below(q)
        near = {part for part, leaves in below.items() if any(map(self.held.has, leaves))}
        met = (child for node in each_once(q) if id(node) in near for child in children(node))
        apart = (child for child in met if id(child) not in near)
        # Of small tables alone they are read as soon as something is computed with them.
        return {
            id(part)
            for part in apart
            if not all(self.held.small(leaf, sizes) for leaf in below[id(part)])
        }

    def _take(self, way: Move, step: Rel) -> Move:
        query = way.part(step, self.held.source).sql(dialect="spark")
        self.ran.append(query)
        found = self.work.few(query, SMALL)
        if found is None:
            self._declined.append(step)
            return way
        result, known = self.held.stands_for(step, found, way.known)
        plan = without_empties(bottom_up(way.plan, lambda q: result if q is step else q))
        return replace(way, plan=plan, known=known)


def _uses(q: Rel) -> Counter[int]:
    """How often each part would be computed."""
    uses: Counter[int] = Counter({id(q): 1})
    for node in each_once(q):
        for child in children(node):
            uses[id(child)] += uses[id(node)]
    return uses
