"""Periodic refreshes and cleanings that share one throughput: the best sampling ratio (SVC §12.2.2).

Rows arrive at a constant rate. A refresh of b pending rows takes f + r·b seconds, a cleaning of a
sample of ratio m takes f′ + c·m·b seconds, and one job runs at a time. Refreshes alone follow each
other as fast as they keep up. With cleanings, refreshes get a share of the time and come less
often; between them answers are estimates. Their error has two parts: what sampling leaves of the
pending change, and the rows that arrived since the last cleaning. A larger sample has less of the
first and more of the second.

    refreshes only     error = pending rows at the end of a period
    with cleanings     error = √(pending · (1 − m)/m) · spread  +  rows since the last cleaning began

Errors are in units of what one row adds to the answer. `best_plan` searches the ratio and the
share of time for the smallest error; `run_plan` follows a plan on a lake.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import floor, log1p, sqrt
from typing import Protocol

import numpy as np

from belvedere.errors import Invalid

RATIOS = tuple(float(r) for r in np.geomspace(0.005, 1, 40))
REFRESH_SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
MIN_FIXED_SECONDS = 0.001
"""The least fixed part of a fitted cost: a job that costs nothing could run infinitely often."""
SPREAD = 1.5


@dataclass(frozen=True)
class JobCost:
    """Seconds that a job takes: a fixed part, and one per pending row."""

    fixed: float
    per_row: float

    def __call__(self, rows: float) -> float:
        return self.fixed + self.per_row * rows

    @staticmethod
    def fitted(measured: Sequence[tuple[float, float]]) -> JobCost:
        """The line through measured (rows, seconds); neither part is negative."""
        rows, seconds = np.array(measured, float).T
        slope = float(np.polyfit(rows, seconds, 1)[0]) if len(set(rows)) > 1 else 0.0
        per_row = max(slope, 0.0)
        return JobCost(max(float(np.mean(seconds - per_row * rows)), MIN_FIXED_SECONDS), per_row)


@dataclass(frozen=True)
class MaintenanceLoad:
    """The rows that arrive in a second, and what jobs on them cost.

    `clean` is the cost of cleaning a sample of ratio 1. `spread` says how unequal the changed rows
    are: the root of their mean square over their mean.
    """

    rate: float
    refresh: JobCost
    clean: JobCost
    spread: float = SPREAD


@dataclass(frozen=True)
class PeriodicPlan:
    """The seconds between refreshes, the ratio, the cleanings between two, the largest error."""

    period: float
    ratio: float
    cleanings: int
    error: float


def refreshes_only(load: MaintenanceLoad) -> PeriodicPlan:
    """Refreshes one after the other: the shortest period in which they keep up."""
    period = _shortest_period(load, 1.0)
    return PeriodicPlan(period, 0.0, 0, load.rate * 2 * period)


def with_cleanings(load: MaintenanceLoad, ratio: float, refresh_share: float = 0.5) -> PeriodicPlan:
    """Refreshes in a share of the time, cleanings of one ratio in the rest."""
    if not 0 < ratio <= 1:
        raise Invalid(
            f"a ratio of {ratio:g}", hint="a ratio is more than 0 and at most 1", reason="BAD_VALUE"
        )
    period = _shortest_period(load, refresh_share)
    pending = load.rate * (1 + refresh_share) * period
    cleanings, longest = _cleanings_within(
        load, ratio, period * refresh_share, period * (1 - refresh_share)
    )
    if not cleanings:
        return PeriodicPlan(period, ratio, 0, pending)
    sampling = load.spread * sqrt(pending * (1 - ratio) / ratio)
    # The last cleaning of a period misses the rows of its own time and of the refresh after it.
    missed = load.rate * (longest + refresh_share * period)
    return PeriodicPlan(period, ratio, cleanings, sampling + missed)


def best_plan(load: MaintenanceLoad, ratios: Sequence[float] = RATIOS) -> PeriodicPlan:
    """The plan with cleanings whose largest error is smallest, over ratios and shares of time."""
    refreshes_only(load)  # refuses arrivals that refreshes cannot keep up with
    needed = load.rate * load.refresh.per_row
    shares = [share for share in REFRESH_SHARES if share > 1.05 * needed] or [1 - 1e-9]
    plans = (with_cleanings(load, ratio, share) for ratio in ratios for share in shares)
    return min(plans, key=lambda plan: plan.error)


def _shortest_period(load: MaintenanceLoad, refresh_share: float) -> float:
    """The shortest period whose refresh fits into its share of the time."""
    spare = refresh_share - load.rate * load.refresh.per_row
    if spare <= 0:
        raise Invalid(
            f"refreshes cannot keep up with {load.rate:g} rows a second",
            hint="reduce the rate of arrivals, or the cost of a row in a refresh",
            reason="TOO_SLOW",
        )
    return load.refresh.fixed / spare


def _cleanings_within(
    load: MaintenanceLoad, ratio: float, refreshing: float, available: float
) -> tuple[int, float]:
    """How many cleanings fit into the available seconds, and the seconds of the longest.

    Each takes in all rows since the last refresh began, so it takes `growth` times as long as the
    one before: n of them take first · (growthⁿ − 1) / (growth − 1) seconds.
    """
    per_second = load.clean.per_row * ratio * load.rate
    first = load.clean.fixed + per_second * refreshing
    if first <= 0 or first > available:
        return 0, 0.0
    if per_second < 1e-12:
        return floor(available / first), first
    count = floor(log1p(per_second * available / first) / log1p(per_second))
    return count, first * (1 + per_second) ** (count - 1)


class RefreshesAndCleans(Protocol):
    """What a run needs of a lake."""

    def refresh(self, name: str) -> object: ...

    def clean(self, name: str) -> object: ...


@dataclass(frozen=True)
class MaintenanceJob:
    """One job of a run: "refresh" or "clean", when it began, how long it took."""

    what: str
    began: float
    seconds: float


def run_plan(
    lake: RefreshesAndCleans,
    view: str,
    plan: PeriodicPlan,
    seconds: float,
    before_job: Callable[[float], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
) -> list[MaintenanceJob]:
    """Refresh a view once a period and clean its sample in between, for so many seconds.

    `before_job` runs before each job, with the seconds that have passed.
    """
    start, jobs, last_refresh = clock(), list[MaintenanceJob](), 0.0
    while (now := clock() - start) < seconds:
        before_job(now)
        is_due = now - last_refresh >= plan.period or plan.cleanings == 0
        began = clock()
        (lake.refresh if is_due else lake.clean)(view)
        jobs.append(
            MaintenanceJob("refresh" if is_due else "clean", began - start, clock() - began)
        )
        last_refresh = clock() - start if is_due else last_refresh
    return jobs
