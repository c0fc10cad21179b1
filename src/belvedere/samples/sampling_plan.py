"""The sampling plan of a view: what is recorded of its refreshes, cleanings and arrivals, and the
best ratio for that. Needs no Spark.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from belvedere.derivations.ledger import Record, newest
from belvedere.errors import Invalid
from belvedere.lake.offline import ReadableLake
from belvedere.listing import table
from belvedere.samples.create import no_sample, samples_of
from belvedere.samples.periodic import (
    SPREAD,
    JobCost,
    MaintenanceJob,
    MaintenanceLoad,
    PeriodicPlan,
    RefreshesAndCleans,
    best_plan,
    refreshes_only,
    run_plan,
)
from belvedere.sql.names import is_part
from belvedere.views.arrivals import commits_since_creation
from belvedere.views.catalog import the_view
from belvedere.views.definition import View

FROM_CHANGES = ("merge", "replace keys")
MAX_RECORDS = 50
"""The newest refreshes that costs are fitted to."""
PAUSE = 0.05
"""Seconds between two jobs of a run, so that a lake without changes is not read without rest."""
SAME_SIZE = 1.5
"""Batches of which the largest has less than so many times the rows of the smallest are of one size."""


@dataclass(frozen=True)
class SamplingPlan:
    """The best plan for a view, beside refreshes alone and cleanings of the sample that it has."""

    view: str
    load: MaintenanceLoad
    best: PeriodicPlan
    refreshes_only: PeriodicPlan
    current: PeriodicPlan | None = None
    notes: tuple[str, ...] = ()

    @property
    def gain(self) -> float:
        """How many times smaller the largest error is than that of refreshes alone."""
        return self.refreshes_only.error / self.best.error

    @property
    def pays(self) -> bool:
        """Whether cleanings make the largest error smaller."""
        return self.best.cleanings > 0 and self.gain > 1

    def __str__(self) -> str:
        headers = ("plan", "ratio", "refresh every", "cleanings between", "largest error")
        rows = [_row("refreshes only", self.refreshes_only)]
        if self.current is not None:
            rows.append(_row("the present sample", self.current))
        rows.append(_row("best ratio", self.best))
        load = self.load
        lines = [
            f"{load.rate:,.4g} changed rows arrive in a second",
            f"a refresh takes {_cost(load.refresh)}",
            f"a cleaning takes {_cost(load.clean)} in the sample",
            "",
            table(headers, rows),
            "",
            self._advice(),
            *(f"note: {note}" for note in self.notes),
        ]
        return "\n".join(lines)

    def _advice(self) -> str:
        if not self.pays:
            return f"Cleanings do not pay: refresh {self.view} as often as it takes."
        return (
            f"A sample of RATIO {100 * self.best.ratio:.3g} PERCENT makes the largest error"
            f" {self.gain:.1f} times smaller than refreshes alone."
        )

    def run(self, lake: RefreshesAndCleans, seconds: float) -> list[MaintenanceJob]:
        """Refresh the view and clean the sample that it has, as planned, for so many seconds."""
        if self.current is None:
            raise no_sample(self.view)
        return run_plan(lake, self.view, self.current, seconds, lambda _: time.sleep(PAUSE))


def sampling_plan(
    lake: ReadableLake,
    name: str,
    *,
    rate: float | None = None,
    refresh_cost: tuple[float, float] | None = None,
    clean_cost: tuple[float, float] | None = None,
    spread: float = SPREAD,
) -> SamplingPlan:
    """The sampling plan of a view; what is not given is taken from what is recorded.

    Costs are (seconds, seconds per row), those of a cleaning per sampled row.
    """
    view = the_view(lake, name)
    _refuse_unless(rate is None or (isfinite(rate) and rate > 0), "rate", rate)
    _refuse_unless(isfinite(spread) and spread > 0, "spread", spread)
    notes: list[str] = []
    samples = samples_of(lake, view.name)
    if clean_cost is None and not samples:
        raise no_sample(view.name)
    ratio = next((s.definition.sampling.ratio for s in samples if s.definition.sampling), None)
    refresh = _given("refresh_cost", refresh_cost) or _fitted(lake, [view], "refresh", notes)
    clean = _given("clean_cost", clean_cost)
    if clean is None:
        sampled = _fitted(lake, samples, "cleaning", notes)
        clean = JobCost(sampled.fixed, sampled.per_row / (ratio or 1.0))
    load = MaintenanceLoad(rate or arrival_rate(lake, view), refresh, clean, spread)
    best = best_plan(load)
    current = None if ratio is None else best_plan(load, [ratio])
    return SamplingPlan(view.name, load, best, refreshes_only(load), current, tuple(notes))


def arrival_rate(lake: ReadableLake, view: View) -> float:
    """The changed rows a second of a view's tables, from their first to their last change."""
    tables = [t for t in view.inputs if not is_part(t)]
    commits = [c for t in tables for c in commits_since_creation(lake, view, t) if c.rows]
    commits.sort(key=lambda commit: commit.time)
    span = (commits[-1].time - commits[0].time).total_seconds() if commits else 0.0
    if span <= 0:
        raise Invalid(
            f"the tables of {view.name!r} have fewer than two changes since it was created",
            hint="give the changed rows that arrive in a second: rate=",
            reason="NO_CHANGES",
        )
    # The rows of the first change arrived before the span begins.
    return sum(commit.rows or 0 for commit in commits[1:]) / span


def _given(option: str, cost: tuple[float, float] | None) -> JobCost | None:
    """The cost that the user gives; None if none is given."""
    if cost is None:
        return None
    fixed, per_row = cost
    valid = isfinite(fixed) and isfinite(per_row) and fixed > 0 and per_row >= 0
    _refuse_unless(valid, option, f"{fixed:g}, {per_row:g}")
    return JobCost(fixed, per_row)


def _refuse_unless(valid: bool, option: str, value: object) -> None:
    if not valid:
        hints = {
            "rate": "give a number of rows a second that is more than 0",
            "spread": "give a number that is more than 0",
        }
        raise Invalid(
            f"{option} = {value}",
            hint=hints.get(option, "give seconds, more than 0, and seconds per row, 0 or more"),
            reason="BAD_VALUE",
        )


def _fitted(lake: ReadableLake, views: Sequence[View], job: str, notes: list[str]) -> JobCost:
    """The cost of a job that refreshes these views, one after the other, from their records."""
    costs = [_fitted_one(lake, view, job, notes) for view in views]
    return JobCost(sum(c.fixed for c in costs), sum(c.per_row for c in costs))


def _fitted_one(lake: ReadableLake, view: View, job: str, notes: list[str]) -> JobCost:
    records = newest(lake, MAX_RECORDS, view.definition.id)
    measured = [(rows, r.seconds) for r in records if (rows := _changed_rows(r)) > 0]
    if not measured:
        command = "refresh it" if job == "refresh" else "clean its sample"
        option = "refresh_cost" if job == "refresh" else "clean_cost"
        raise Invalid(
            f"no {job} of {view.name!r} from changes is recorded",
            hint=f"change its tables and {command}, or give {option}=(seconds, seconds per row)",
            reason="NOT_MEASURED",
        )
    if max(measured)[0] < SAME_SIZE * min(measured)[0]:
        notes.append(
            f"every recorded {job} of {view.name} was of about {max(measured)[0]:,} rows:"
            " its cost per row is not known and counts as fixed"
        )
    return JobCost.fitted(measured)


def _changed_rows(record: Record) -> int:
    """The changed rows that a refresh applied; 0 if it computed everything again."""
    if record.strategy not in FROM_CHANGES:
        return 0
    return sum(rows for name, rows in record.pending.items() if not is_part(name))


def _row(name: str, plan: PeriodicPlan) -> tuple[object, ...]:
    ratio = f"{100 * plan.ratio:.3g} %" if plan.ratio else ""
    return name, ratio, f"{plan.period:.3g} s", plan.cleanings, f"{plan.error:,.0f} rows"


def _cost(cost: JobCost) -> str:
    return f"{cost.fixed:.3g} s and {1000 * cost.per_row:.3g} ms for each changed row"
