"""Keeping limits in time that passes: when to act, so that a request is answered within its limit.

The paper's actions take no time; on a lake an advance runs while changes arrive, and a request
that comes just then waits for it, and then for what has arrived. So an action q in a state s is
*safe* if

    f(q) + f(s − q + arrivals expected while q runs) + others ≤ C

with f what batches take at most, where `others` is what other views of the process may put first: all that is due no later, and
one running action of those that are due later (earliest deadline first, one at a time). A view is
looked at every few seconds, and acts if at the next look no action would be safe any more.
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
"""Standard deviations of arrivals that are kept in reserve."""


@dataclass(frozen=True)
class TimedTerms(Terms):
    """Terms under which actions take time; a state is full if at the next look none is safe."""

    means: tuple[float, ...] = ()
    scatter: tuple[float, ...] = ()
    every: float = 1.0
    others: float = 0.0
    joint: bool = False
    """Whether only actions on everything are taken."""

    def remaining_limit(self, state: Sequence[float]) -> float:
        """The limit, less what the time of actions takes of it."""
        return max(self.limit - (self._answer(state) - self.at_most(state)), 0.0)

    def full(self, state: Sequence[float]) -> bool:
        """Whether at the next look no action would be safe."""
        soon = [k + c for k, c in zip(state, self.coming(self.every), strict=True)]
        return self._answer(soon) > self.limit * (1 + SLACK)

    def allows(self, action: Action, state: State) -> bool:
        """Whether an action is safe, and there will be one that is after it."""
        safe = self._after(action, state) <= self.limit * (1 + SLACK)
        return safe and super().allows(action, state)

    def coming(self, seconds: float) -> list[int]:
        """What may arrive in some time."""
        looks = seconds / self.every
        pairs = zip(self.means, self.scatter, strict=True)
        return [ceil(m * looks + RESERVE_DEVIATIONS * d * sqrt(looks)) for m, d in pairs]

    def _answer(self, state: Sequence[float]) -> float:
        """When a request that comes as an action begins is answered, by the safest action."""
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
    """Keeps the limit of one view."""

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
        """Take note of what arrived since the last look, which may be several looks ago."""
        for part in _split_evenly(arrived, looks):
            self.rates.observe(part)
            self.policy.observe(part)
        self.looks += looks
        self.pending = plus(self.pending, arrived)

    def refresh_seconds(self) -> float:
        """How long a refresh would take now, at most."""
        return self.terms.at_most(self.pending)

    def timed_terms(self, others: float = 0.0) -> TimedTerms:
        """The terms of now, with what is expected to arrive."""
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
        """Whether to wait for the next look would be to risk the limit."""
        return any(self.pending) and self.timed_terms(others).full(self.pending)

    def action(self, others: float = 0.0) -> Action:
        """What the policy does about it."""
        action = self.policy.act(self.timed_terms(others), self.looks, self.pending)
        return action if any(action) else self.pending

    def applied(self, action: Action) -> None:
        """An action has been taken off what is pending."""
        self.pending = tuple(a - b for a, b in zip(self.pending, action, strict=True))


def longest_wait(schedulers: Sequence[ViewScheduler], scheduler: ViewScheduler) -> float:
    """The longest that other views may keep the process busy before one that is asked for."""
    others = [k for k in schedulers if k is not scheduler]
    sooner = sum(k.refresh_seconds() for k in others if k.terms.limit <= scheduler.terms.limit)
    return sooner + max(
        (k.refresh_seconds() for k in others if k.terms.limit > scheduler.terms.limit), default=0.0
    )


def next_to_act(schedulers: Sequence[ViewScheduler]) -> ViewScheduler | None:
    """Whose action is due: of the view at risk that is due first, or whoever holds it up most."""
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
    """Arrivals of several looks, evenly: which look brought them is not known.

    >>> _split_evenly((3,), 2)
    [(1,), (2,)]
    """
    parts = [tuple(k * i // looks for k in arrived) for i in range(looks + 1)]
    return [tuple(b - a for a, b in zip(parts[i], parts[i + 1], strict=True)) for i in range(looks)]
