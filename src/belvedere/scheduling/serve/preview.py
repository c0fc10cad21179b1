"""Forecasts: what the service would do on a stream of arrivals, and what that would cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from belvedere.errors import BelvedereError, Invalid
from belvedere.lake.offline import ReadableLake
from belvedere.scheduling.model.arrivals import Arrival, in_steps, read_arrivals
from belvedere.scheduling.model.optimal import find_optimal_plan
from belvedere.scheduling.model.policies import new_policy
from belvedere.scheduling.model.problem import Problem
from belvedere.scheduling.model.simulator import CANDIDATES, cheapest_policy
from belvedere.scheduling.schedules import Schedule, the_schedule
from belvedere.scheduling.serve.deadlines import ViewScheduler
from belvedere.scheduling.serve.dry_run import DryRun, PolicyComparison, dry_run
from belvedere.scheduling.serve.watcher import observed_arrivals

EVERY = 0.5
MAX_STEPS = 20_000


@dataclass(frozen=True)
class Forecast:
    """The policies on one stream, and the one that AUTO takes: the cheapest that keeps the limits as
    well as NAIVE, if its gain is larger than the error of the costs.
    """

    views: tuple[str, ...]
    policies: PolicyComparison
    chosen: str
    best: float | None
    """The cost of the optimal plan, which knows all arrivals and whose actions take no time."""

    def run(self, policy: str) -> DryRun:
        """The dry run of one policy."""
        return next(r for r in self.policies if r.policy == policy)

    def __str__(self) -> str:
        lines = [str(self.policies), f"AUTO takes {self.chosen}"]
        naive, least = self.run("NAIVE").cost, min(run.cost for run in self.policies)
        if self.chosen != "NAIVE":
            saved = 1 - self.run(self.chosen).cost / naive
            lines[-1] += f", which saves {saved:.0%} of what NAIVE spends"
        elif least < naive:
            lines[-1] += (
                f": the gain of others, {1 - least / naive:.1%}, is within the error of the costs"
            )
        if self.best is not None:
            lines.append(f"the optimal plan, which knows all arrivals: {self.best:.3f} s")
        for run in self.policies:
            causes = sorted({v.cause for v in run.violations})
            lines += [f"{run.policy}: {cause}" for cause in causes]
        return "\n".join(lines)


def plan(
    lake: ReadableLake,
    name: str,
    arrivals: str | Path | Sequence[Arrival],
    every: float | None = None,
) -> Forecast:
    """The forecast for a view on arrivals: those observed in the logs, of a file, or a list."""
    schedule = the_schedule(lake, name)
    _ = schedule.terms
    if isinstance(arrivals, str) and arrivals == "observed":
        stream, _ = observed_arrivals(lake, name, schedule.tables)
        if not stream:
            raise Invalid(
                f"no changes of the tables of {name!r} are recorded in their logs",
                hint="give a file of arrivals: seconds,table,changes",
                reason="NO_CHANGES",
            )
    elif isinstance(arrivals, str | Path):
        stream = read_arrivals(arrivals, schedule.tables)
    else:
        stream = list(arrivals)
    return forecast_views([schedule], stream, every)


def forecast_views(
    scheduled: Sequence[Schedule], arrivals: Sequence[Arrival], every: float | None = None
) -> Forecast:
    """The forecast for one view, or for several that share a process."""
    span = arrivals[-1].seconds if arrivals else 0.0
    step = every or max(EVERY, span / MAX_STEPS)
    runs = PolicyComparison(
        dry_run_policy(scheduled, arrivals, policy, step) for policy in CANDIDATES
    )
    naive = runs[0]
    sound = {r.policy: r.cost for r in runs if len(r.violations) <= len(naive.violations)}
    chosen = cheapest_policy(sound, max(s.terms.prices.error for s in scheduled))
    return Forecast(
        tuple(s.view for s in scheduled), runs, chosen, _optimal_cost(scheduled, arrivals, step)
    )


def dry_run_policy(
    scheduled: Sequence[Schedule], arrivals: Sequence[Arrival], policy: str, every: float
) -> DryRun:
    """The dry run of one policy on a stream."""
    schedulers = [
        ViewScheduler(s.view, s.tables, s.terms, new_policy(policy, s.terms), every)
        for s in scheduled
    ]
    return dry_run(schedulers, arrivals, every)


def _optimal_cost(
    scheduled: Sequence[Schedule], arrivals: Sequence[Arrival], every: float
) -> float | None:
    """The cost of the views' optimal plans together; None if one is not found."""
    try:
        problems = [
            Problem(s.terms.prices, s.terms.limit, in_steps(arrivals, s.tables, every))
            for s in scheduled
        ]
        return sum(find_optimal_plan(problem).cost for problem in problems)
    except BelvedereError:
        return None
