"""Plans for people: what the service would do on a stream of arrivals, and what that would cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from belvedere.errors import BelvedereError, Invalid
from belvedere.lake.offline import ReadableLake
from belvedere.scheduling.model.arrivals import Arrival, in_steps, read_arrivals
from belvedere.scheduling.model.optimal import optimal
from belvedere.scheduling.model.policies import fresh
from belvedere.scheduling.model.problem import Problem
from belvedere.scheduling.model.simulator import CANDIDATES, worth_leaving
from belvedere.scheduling.schedules import Schedule, the_schedule
from belvedere.scheduling.serve.deadlines import Keeper
from belvedere.scheduling.serve.dry_run import Comparison, Rehearsal, rehearse
from belvedere.scheduling.serve.watcher import observed

EVERY = 0.5
MOST_STEPS = 20_000


@dataclass(frozen=True)
class Outlook:
    """Policies on one stream: AUTO takes the cheapest that keeps the limits as well as NAIVE,
    if it gains more than what is known of costs is off by.
    """

    views: tuple[str, ...]
    policies: Comparison
    chosen: str
    best: float | None
    """What a plan would cost that knows all arrivals, and whose actions take no time."""

    def run(self, policy: str) -> Rehearsal:
        """What one policy did."""
        return next(r for r in self.policies if r.policy == policy)

    def __str__(self) -> str:
        lines = [str(self.policies), f"AUTO takes {self.chosen}"]
        naive, least = self.run("NAIVE").cost, min(run.cost for run in self.policies)
        if self.chosen != "NAIVE":
            saved = 1 - self.run(self.chosen).cost / naive
            lines[-1] += f", which saves {saved:.0%} of what NAIVE spends"
        elif least < naive:
            lines[-1] += f": what others would save, {1 - least / naive:.1%}, may be an error"
        if self.best is not None:
            lines.append(f"with all arrivals known, and no time passing: {self.best:.3f} s")
        for run in self.policies:
            causes = sorted({v.cause for v in run.violations})
            lines += [f"{run.policy}: {cause}" for cause in causes]
        return "\n".join(lines)


def plan(
    lake: ReadableLake,
    name: str,
    arrivals: str | Path | Sequence[Arrival],
    every: float | None = None,
) -> Outlook:
    """What the service would do for a view on arrivals: observed ones, a file's, or a list."""
    schedule = the_schedule(lake, name)
    _ = schedule.terms
    if isinstance(arrivals, str) and arrivals == "observed":
        found, _ = observed(lake, name, schedule.tables)
        if not found:
            raise Invalid(
                f"no changes of the tables of {name!r} are recorded in their logs",
                hint="give a file of arrivals: seconds,table,changes",
                reason="NO_CHANGES",
            )
    elif isinstance(arrivals, str | Path):
        found = read_arrivals(arrivals, schedule.tables)
    else:
        found = list(arrivals)
    return outlook([schedule], found, every)


def outlook(
    kept: Sequence[Schedule], arrivals: Sequence[Arrival], every: float | None = None
) -> Outlook:
    """All policies on a stream, for one view or several that share a process."""
    span = arrivals[-1].seconds if arrivals else 0.0
    step = every or max(EVERY, span / MOST_STEPS)
    runs = Comparison(rehearsed(kept, arrivals, policy, step) for policy in CANDIDATES)
    naive = runs[0]
    sound = {r.policy: r.cost for r in runs if len(r.violations) <= len(naive.violations)}
    chosen = worth_leaving(sound, max(s.terms.prices.error for s in kept))
    return Outlook(tuple(s.view for s in kept), runs, chosen, _best(kept, arrivals, step))


def rehearsed(
    kept: Sequence[Schedule], arrivals: Sequence[Arrival], policy: str, every: float
) -> Rehearsal:
    """One policy on a stream."""
    keepers = [Keeper(s.view, s.tables, s.terms, fresh(policy, s.terms), every) for s in kept]
    return rehearse(keepers, arrivals, every)


def _best(kept: Sequence[Schedule], arrivals: Sequence[Arrival], every: float) -> float | None:
    """The sum of the views' optimal plans; None where one is not found."""
    try:
        problems = [
            Problem(s.terms.prices, s.terms.limit, in_steps(arrivals, s.tables, every))
            for s in kept
        ]
        return sum(optimal(problem).cost for problem in problems)
    except BelvedereError:
        return None
