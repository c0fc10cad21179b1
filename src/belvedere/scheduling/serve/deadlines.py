"""When to act, so that a request is answered within its limit although actions take time.

In the paper actions take no time. On a lake changes arrive while an advance runs, and a request that
comes then waits for the advance and for the refresh of what has arrived. An action q in a state s is
*safe* if

    f(q) + f(s − q + arrivals expected while q runs) + others ≤ C

where f is the upper bound of the cost, and `others` is the work on other views that may go first: all
views with a deadline no later, and one running action of the others (earliest deadline first, one at
a time). A view acts if at the next look no action would be safe.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import ceil, sqrt

from belvedere.errors import Invalid
from belvedere.scheduling.model.policies import ArrivalRates, SchedulingPolicy
from belvedere.scheduling.model.problem import SLACK, Action, State, Terms, plus

RESERVE_DEVIATIONS = 4.0
"""The standard deviations of arrivals that are kept in reserve."""


@dataclass(frozen=True)
class TimedTerms(Terms):
    """Terms with actions that take time: a state is full if at the next look no action is safe."""

    means: tuple[float, ...] = ()
    scatter: tuple[float, ...] = ()
    every: float = 1.0
    others: float = 0.0
    joint: bool = False
    """Whether every action empties all tables."""

    def remaining_limit(self, state: Sequence[float]) -> float:
        """The limit, less the time that actions need of it."""
        return max(self.limit - (self._answer(state) - self.at_most(state)), 0.0)

    def full(self, state: Sequence[float]) -> bool:
        """Whether at the next look no action would be safe."""
        soon = [k + c for k, c in zip(state, self.coming(self.every), strict=True)]
        return self._answer(soon) > self.limit * (1 + SLACK)

    def allows(self, action: Action, state: State) -> bool:
        """Whether an action is safe, and another will be safe after it."""
        safe = self._after(action, state) <= self.limit * (1 + SLACK)
        return safe and super().allows(action, state)

    def coming(self, seconds: float) -> list[int]:
        """The most changes that may arrive in a time."""
        looks = seconds / self.every
        pairs = zip(self.means, self.scatter, strict=True)
        return [ceil(m * looks + RESERVE_DEVIATIONS * d * sqrt(looks)) for m, d in pairs]

    def _answer(self, state: Sequence[float]) -> float:
        """The time to answer a request that comes when the safest action begins."""
        pending = [i for i, k in enumerate(state) if k]
        fewest = max(len(pending), 1) if self.joint else 1
        return min(
            (
                self._after([k if i in chosen else 0.0 for i, k in enumerate(state)], state)
                for many in range(fewest, len(pending) + 1)
                for chosen in combinations(pending, many)
            ),
            default=0.0,
        )

    def _after(self, action: Sequence[float], state: Sequence[float]) -> float:
        takes = self.at_most(action)
        arrived = self.coming(takes)
        rest = [k - a + c for k, a, c in zip(state, action, arrived, strict=True)]
        return takes + self.at_most(rest) + self.others


@dataclass
class ViewScheduler:
    """Decides when and how to advance one view, so that its limit is kept."""

    name: str
    tables: tuple[str, ...]
    terms: Terms
    policy: SchedulingPolicy
    every: float
    rates: ArrivalRates = field(init=False)
    pending: State = field(init=False)
    looks: int = 0

    def __post_init__(self) -> None:
        refuse_short_limit(self.name, self.tables, self.terms)
        self.rates = ArrivalRates(self.terms.tables)
        self.pending = self.terms.nothing

    def observe(self, arrived: State, looks: int = 1) -> None:
        """Observe the arrivals since the last look, which may be several looks ago."""
        for part in _split_evenly(arrived, looks):
            self.rates.observe(part)
            self.policy.observe(part)
        self.looks += looks
        self.pending = plus(self.pending, arrived)

    def refresh_seconds(self) -> float:
        """The longest time that a refresh would take now."""
        return self.terms.at_most(self.pending)

    def timed_terms(self, others: float = 0.0) -> TimedTerms:
        """The present terms, with the expected arrivals."""
        none = (0.0,) * self.terms.tables
        return TimedTerms(
            self.terms.prices,
            self.terms.limit,
            tuple(self.rates.means) or none,
            tuple(self.rates.deviations()) or none,
            self.every,
            others,
            self.policy.name == "NAIVE",
        )

    def must_act(self, others: float = 0.0) -> bool:
        """Whether waiting for the next look would risk the limit."""
        return any(self.pending) and self.timed_terms(others).full(self.pending)

    def action(self, others: float = 0.0) -> Action:
        """The action that the policy chooses."""
        action = self.policy.act(self.timed_terms(others), self.looks, self.pending)
        return action if any(action) else self.pending

    def applied(self, action: Action) -> None:
        """Subtract an action from the pending changes."""
        self.pending = tuple(a - b for a, b in zip(self.pending, action, strict=True))


def longest_wait(schedulers: Sequence[ViewScheduler], scheduler: ViewScheduler) -> float:
    """The longest time that work on other views may delay a request for this one."""
    others = [k for k in schedulers if k is not scheduler]
    sooner = sum(k.refresh_seconds() for k in others if k.terms.limit <= scheduler.terms.limit)
    return sooner + max(
        (k.refresh_seconds() for k in others if k.terms.limit > scheduler.terms.limit), default=0.0
    )


def next_to_act(schedulers: Sequence[ViewScheduler]) -> ViewScheduler | None:
    """The view to act on: the one at risk with the shortest limit, or the one that delays it most."""
    for scheduler in sorted(schedulers, key=lambda k: k.terms.limit):
        if scheduler.must_act():
            return scheduler
    for scheduler in sorted(schedulers, key=lambda k: k.terms.limit):
        if any(scheduler.pending) and scheduler.timed_terms(
            longest_wait(schedulers, scheduler)
        ).full(scheduler.pending):
            return max(schedulers, key=ViewScheduler.refresh_seconds)
    return None


def refuse_short_limit(name: str, tables: Sequence[str], terms: Terms) -> None:
    """Invalid if a single change of some table takes longer than the limit."""
    costs, shared = terms.prices.worst
    for table, cost in zip(tables, costs, strict=True):
        if cost(1) > terms.limit:
            enough = max(c(1) for c in costs) * 1.2 + abs(shared)
            raise Invalid(
                f"the limit of {name!r}, {terms.limit:g} seconds, cannot be kept",
                detail=f"a single change of {table!r} takes {cost(1):.3g} seconds",
                hint=f"ALTER MATERIALIZED VIEW {name} SET RESPONSE LIMIT {ceil(enough)} SECONDS",
                reason="LIMIT_TOO_SHORT",
            )


def _split_evenly(arrived: State, looks: int) -> list[State]:
    """Divide arrivals evenly over several looks.

    >>> _split_evenly((3,), 2)
    [(1,), (2,)]
    """
    parts = [tuple(k * i // looks for k in arrived) for i in range(looks + 1)]
    return [tuple(b - a for a, b in zip(parts[i], parts[i + 1], strict=True)) for i in range(looks)]
