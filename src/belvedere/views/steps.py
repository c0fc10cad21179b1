"""Steps: small parts of a plan that it needs more than once are computed once, beforehand.

Spark computes a subquery again wherever it is named, and knows the size of none. A step's rows
come to the driver, a bounded number of them, and go back as a table of exactly known size; what
turns out to be empty takes with it whatever needed it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from belvedere.algebra.relations import Change, Empty, Field, Rel, Scan
from belvedere.algebra.walks import bottom_up, children, each_once
from belvedere.analyses.effort import effort
from belvedere.analyses.sizes import Sizes, Statistics
from belvedere.lake.smallfeed import spans_arrow
from belvedere.lake.work import Few, Work
from belvedere.rules.empties import without_empties
from belvedere.rules.outward import SMALL
from belvedere.sql.render import Source, is_signed
from belvedere.views.maintenance import Move

A_JOB = 2_000_000
"""The work, in rows, that a job of its own is worth."""


@dataclass
class Steps:
    """The steps of one refresh; `ran` gathers their SQL."""

    work: Work
    tables: Source
    ran: list[str]
    _views: dict[str, str] = field(default_factory=dict)
    _declined: list[Rel] = field(default_factory=list)

    def source(self, leaf: Scan | Change) -> exp.Table:
        """What stands in FROM: the result of a step, or a table."""
        view = self._views.get(leaf.table)
        return self.tables(leaf) if view is None else exp.to_table(view)

    def taken(self, way: Move) -> Move:
        """The way with its steps taken."""
        while (step := next(self._worth_it(way), None)) is not None:
            way = self._take(way, step)
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
        query = way.part(step, self.source).sql(dialect="spark")
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
        name = f"step {len(self._views) + 1}"
        self._views[name] = found.view
        fields = tuple(Field(c, c, found.kinds[c]) for c in step.columns)
        leaf = Change(name, fields) if is_signed(step) else Scan(name, fields)
        return leaf, _with(way.known, name, step, found.rows.select(list(step.columns)))


def _with(known: Statistics, name: str, step: Rel, rows: pa.Table) -> Statistics:
    """What is known, and what the rows of a step tell."""
    sizes = Sizes(known)
    size = {name: rows.num_rows}
    values = {(name, c): sizes.values(step, c) for c in step.columns}
    within = {(name, c): spans for c, spans in spans_arrow(rows).items()}
    return replace(
        known,
        rows={**known.rows, **size},
        changed={**known.changed, **size},
        values={**known.values, **values},
        changed_within={**known.changed_within, **within},
    )


def _uses(q: Rel) -> Counter[int]:
    """How often each part would be computed."""
    uses: Counter[int] = Counter({id(q): 1})
    for node in each_once(q):
        for child in children(node):
            uses[id(child)] += uses[id(node)]
    return uses
