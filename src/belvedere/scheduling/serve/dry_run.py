"""Dry runs: the decisions of the service on a stream of arrivals, with a simulated clock.

One action runs at a time and takes the predicted time. Whenever changes arrive or an action begins,
the response to a request at that moment is computed: the rest of the running action, then the refresh
of what is pending. It is a violation if that exceeds the limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from belvedere.listing import Listing
from belvedere.scheduling.model.arrivals import Arrival
from belvedere.scheduling.model.problem import Action, State, Terms
from belvedere.scheduling.serve.deadlines import ViewScheduler, longest_wait, next_to_act


@dataclass(frozen=True)
class Violation:
    """A moment at which a request would have been answered after the limit."""

    seconds: float
    view: str
    response: float
    limit: float
    cause: str


@dataclass(frozen=True)
class TimedAction:
    """An action on a view: when it began, the action, its time."""

    seconds: float
    view: str
    action: Action
    cost: float


@dataclass
class DryRun:
    """The outcome of a dry run of one policy."""

    policy: str
    cost: float = 0.0
    actions: list[TimedAction] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    worst: float = 0.0
    """The longest response as a share of its limit."""
    pending: list[tuple[float, str, State]] = field(default_factory=list)


class PolicyComparison(Listing[DryRun]):
    """The dry runs of several policies on one stream."""

    headers = ("policy", "seconds spent", "actions", "worst answer", "violations")

    def rows(self) -> list[tuple[object, ...]]:
        return [
            (r.policy, round(r.cost, 3), len(r.actions), f"{r.worst:.0%}", len(r.violations))
            for r in self
        ]


def dry_run(
    schedulers: Sequence[ViewScheduler],
    arrivals: Sequence[Arrival],
    every: float,
    time: Callable[[Terms, Action], float] = lambda terms, action: terms.cost(action),
) -> DryRun:
    """Run the schedulers of views on a stream; `time` gives the actual time of an action."""
    clock = _Clock(schedulers, every, time, DryRun(schedulers[0].policy.name))
    last = arrivals[-1].seconds if arrivals else 0.0
    at, look = 0, 0
    while look * every <= last + every:
        now = look * every
        while at < len(arrivals) and arrivals[at].seconds <= now:
            clock.arrive(arrivals[at])
            at += 1
        clock.look(now)
        look += 1
    clock.finish(look * every)
    return clock.seen


@dataclass
class _Clock:
    keepers: Sequence[ViewScheduler]
    every: float
    time: Callable[[Terms, Action], float]
    seen: DryRun
    busy: float = 0.0
    looked: int = 0
    waiting: dict[str, State] = field(default_factory=dict)

    def arrive(self, arrival: Arrival) -> None:
        for scheduler in self.keepers:
            if arrival.table in scheduler.tables:
                waiting = self.waiting.get(scheduler.name, scheduler.terms.nothing)
                arrived = tuple(
                    k + (arrival.changes if t == arrival.table else 0)
                    for k, t in zip(waiting, scheduler.tables, strict=True)
                )
                self.waiting[scheduler.name] = arrived
                self._check(scheduler, arrival.seconds, arrived)

    def look(self, now: float) -> None:
        """One look of the service; while an action runs nothing happens."""
        self.looked += 1
        if now < self.busy:
            return
        for scheduler in self.keepers:
            arrived = self.waiting.pop(scheduler.name, scheduler.terms.nothing)
            scheduler.observe(arrived, self.looked)
            self.seen.pending.append((now, scheduler.name, scheduler.pending))
        self.looked = 0
        self.busy = max(self.busy, now)
        while self.busy <= now and (due := next_to_act(self.keepers)) is not None:
            self._act(due, due.action(longest_wait(self.keepers, due)), now)

    def finish(self, now: float) -> None:
        """Refresh every view at the end."""
        for scheduler in self.keepers:
            scheduler.observe(self.waiting.pop(scheduler.name, scheduler.terms.nothing))
            if any(scheduler.pending):
                self._act(scheduler, scheduler.pending, now)

    def _act(self, scheduler: ViewScheduler, action: Action, now: float) -> None:
        cost = self.time(scheduler.terms, action)
        self.seen.actions.append(TimedAction(now, scheduler.name, action, cost))
        self.seen.cost += cost
        self.busy = max(self.busy, now) + cost
        scheduler.applied(action)
        self._check(scheduler, now, scheduler.terms.nothing)
        self.seen.pending.append((now, scheduler.name, scheduler.pending))

    def _check(self, scheduler: ViewScheduler, now: float, more: State) -> None:
        """Check the response time of a request now: the rest of the running action, then a refresh."""
        state = tuple(a + b for a, b in zip(scheduler.pending, more, strict=True))
        running = max(self.busy - now, 0.0)
        response = running + scheduler.terms.cost(state)
        self.seen.worst = max(self.seen.worst, response / scheduler.terms.limit)
        if response > scheduler.terms.limit * (1 + 1e-6):
            self.seen.violations.append(
                Violation(
                    now,
                    scheduler.name,
                    response,
                    scheduler.terms.limit,
                    self._cause(scheduler, more),
                )
            )

    def _cause(self, scheduler: ViewScheduler, more: State) -> str:
        if scheduler.terms.full(more):
            return "more arrived between two looks than one limit can hold"
        running = self.seen.actions[-1] if self.seen.actions else None
        if running is not None and running.view != scheduler.name:
            return f"{running.view} was being advanced"
        if running is not None and running.cost > 1.2 * scheduler.terms.cost(running.action):
            return "an action took longer than the calibration says"
        return "more arrived than the rates of before made likely"
