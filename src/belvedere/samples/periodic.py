"""Cleaning together with periodic refreshes under one throughput: which ratio is best (SVC §12.2.2).

Rows arrive at a rate. A refresh of b pending rows takes f + r·b seconds, a cleaning of a sample of
ratio m takes f′ + c·m·b, and only one of them runs at a time. Alone, refreshes follow each other
as fast as they keep up. Together, a share of the time goes to cleanings, refreshes come less
often, and answers between them are estimates: their error is what sampling leaves of the pending
change, and what came since the last cleaning. A larger sample is more precise and older.

    alone      error = pending rows at the end of a period
    together   error = √(pending · (1 − m)/m) · spread  +  rows since the last cleaning began

in units of what one row adds to the answer. `best` searches the ratio; `run` does it on a lake.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from belvedere.errors import Invalid


@dataclass(frozen=True)
class Cost:
    """Seconds of a job: a fixed part, and one per pending row."""

    fixed: float
    per_row: float

    def __call__(self, rows: float) -> float:
        return self.fixed + self.per_row * rows

    @staticmethod
    def fitted(measured: Sequence[tuple[float, float]]) -> Cost:
        """The line through measured (rows, seconds), its parts not negative."""
        rows, seconds = np.array(measured, float).T
        slope = float(np.polyfit(rows, seconds, 1)[0]) if len(set(rows)) > 1 else 0.0
        per_row = max(slope, 0.0)
        return Cost(max(float(np.mean(seconds - per_row * rows)), 0.0), per_row)


@dataclass(frozen=True)
class Load:
    """What arrives, and what work on it costs; `clean` is of a sample of everything."""

    rate: float
    refresh: Cost
    clean: Cost
    spread: float = 1.5
    """How unequal the changed rows are: the root of their mean square over their mean."""


@dataclass(frozen=True)
class Plan:
    """A schedule: the period of refreshes, the ratio, cleanings in a period, the largest error."""

    period: float
    ratio: float
    cleanings: int
    error: float


def alone(load: Load) -> Plan:
    """Refreshes one after the other: the shortest period in which they keep up."""
    period = _period(load, 0.0)
    return Plan(period, 0.0, 0, load.rate * 2 * period)


def together(load: Load, ratio: float, share: float = 0.5) -> Plan:
    """Refreshes in a share of the time, cleanings of one ratio in the rest."""
    if not 0 < ratio <= 1:
        raise Invalid(
            f"a ratio of {ratio:g}", hint="a ratio is more than 0 and at most 1", reason="BAD_VALUE"
        )
    period = _period(load, 1 - share)
    cleaning, done, since = period * (1 - share), 0.0, 0
    longest = 0.0
    while True:
        pending = load.rate * (period * share + done)
        takes = load.clean.fixed + load.clean.per_row * ratio * pending
        if done + takes > cleaning:
            break
        done, since, longest = done + takes, since + 1, max(longest, takes)
    if not since:
        return Plan(period, ratio, 0, load.rate * (1 + share) * period)
    pending = load.rate * (1 + share) * period
    sampled = load.spread * np.sqrt(pending * (1 - ratio) / ratio)
    # What the last cleaning of a period did not see: it, and the refresh that follows.
    unseen = load.rate * (longest + share * period)
    return Plan(period, ratio, since, float(sampled + unseen))


def best(load: Load, ratios: Sequence[float] = tuple(np.geomspace(0.005, 1, 40))) -> Plan:
    """The ratio and share of time with the smallest of the largest errors."""
    needed = load.rate * load.refresh.per_row
    alone(load)  # refuses what refreshes cannot keep up with at all
    shares = [s for s in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95) if s > 1.05 * needed]
    found = [together(load, float(r), s) for r in ratios for s in shares or (1 - 1e-9,)]
    return min(found, key=lambda plan: plan.error)


def _period(load: Load, away: float) -> float:
    """The shortest period whose refresh fits into its share of the time."""
    left = 1 - away - load.rate * load.refresh.per_row
    if left <= 0:
        raise Invalid(
            f"refreshes cannot keep up with {load.rate:g} rows a second",
            hint="give refreshes more of the time, or fewer rows",
            reason="TOO_SLOW",
        )
    return load.refresh.fixed / left


class Cleans(Protocol):
    """What a run needs of a lake."""

    def refresh(self, name: str) -> object: ...

    def clean(self, name: str) -> object: ...


@dataclass(frozen=True)
class Step:
    """One job of a run: what, when it began, what it took."""

    what: str
    began: float
    seconds: float


def run(
    lake: Cleans,
    view: str,
    arrive: Callable[[float], None],
    plan: Plan,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> list[Step]:
    """Refresh a view once a period and clean its sample in between, for so long.

    `arrive` is told the time that passed and makes rows arrive; it runs between jobs.
    """
    began, steps, refreshed = clock(), list[Step](), 0.0
    while (now := clock() - began) < seconds:
        arrive(now)
        due = now - refreshed >= plan.period or plan.cleanings == 0
        at = clock()
        (lake.refresh if due else lake.clean)(view)
        steps.append(Step("refresh" if due else "clean", at - began, clock() - at))
        refreshed = clock() - began if due else refreshed
    return steps
