"""Policies: the action at a step, from the arrivals so far.

At every step a policy observes the arrivals, then chooses an action on pending changes, after which
the state must not be full. ADAPT follows a plan for another horizon. ONLINE takes the action with
the least cost per time. RECEDING plans ahead for the arrivals that it expects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import floor
from typing import Protocol

from belvedere.errors import Invalid
from belvedere.scheduling.model.optimal import find_optimal_plan
from belvedere.scheduling.model.plans import minimize, possible_actions
from belvedere.scheduling.model.problem import (
    Action,
    ActionPlan,
    Problem,
    State,
    Terms,
    minus,
    plus,
    steps,
)

HALF_LIFE = 100.0
"""The steps after which an observed arrival counts half."""
NEVER = 1 << 20
"""A number of steps that stands for never."""
MAX_PLANNED_STEPS = 150
"""The most steps into which RECEDING divides the longest time until a table must be emptied."""


class SchedulingPolicy(Protocol):
    """Chooses the action at each step."""

    @property
    def name(self) -> str:
        """The name of the policy."""

    def observe(self, arrived: State) -> None:
        """Observe the arrivals of a step."""

    def act(self, terms: Terms, at: int, state: State) -> Action:
        """The action at a step."""


@dataclass
class ArrivalRates:
    """The mean number of arrivals per step of each table, by exponential smoothing.

    The first arrivals are averaged with equal weights, so that the very first does not dominate.
    """

    tables: int
    half_life: float = HALF_LIFE
    means: list[float] = field(default_factory=list)
    squares: list[float] = field(default_factory=list)
    seen: int = 0

    def observe(self, arrived: Sequence[float]) -> None:
        """Observe the arrivals of a step."""
        if not self.means:
            self.means, self.squares = [0.0] * self.tables, [0.0] * self.tables
        self.seen += 1
        weight = max(1 / self.seen, 1 - 0.5 ** (1 / self.half_life))
        for i, count in enumerate(arrived):
            self.means[i] += weight * (count - self.means[i])
            self.squares[i] += weight * (count * count - self.squares[i])

    def deviations(self) -> list[float]:
        """The standard deviations of the arrivals of one step."""
        pairs = zip(self.means, self.squares, strict=True)
        return [max(square - mean * mean, 0.0) ** 0.5 for mean, square in pairs]

    def expected(self, steps: int, stride: int = 1) -> tuple[State, ...]:
        """Expected arrivals of the next steps, or strides of steps, in whole numbers that follow the means.

        >>> ArrivalRates(1, means=[0.5]).expected(4)
        ((0,), (1,), (0,), (1,))
        """
        until = [tuple(floor(m * t * stride + 1e-9) for m in self.means) for t in range(steps + 1)]
        return tuple(minus(b, a) for a, b in pairwise(until))


def time_to_full(terms: Terms, state: State, means: Sequence[float]) -> int:
    """TIMETOFULL: the steps until a state is full if the mean arrives at every step."""
    if not any(means):
        return NEVER

    def is_full(steps: int) -> bool:
        return terms.full([k + m * steps for k, m in zip(state, means, strict=True)])

    high = 1
    while high < NEVER and not is_full(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_full(middle) else (middle, high)
    return high


@dataclass
class Naive:
    """NAIVE: apply everything whenever the state is full."""

    name: str = "NAIVE"

    def observe(self, arrived: State) -> None:
        pass

    def act(self, terms: Terms, at: int, state: State) -> Action:  # noqa: ARG002
        return state if terms.full(state) else terms.nothing


@dataclass
class Adapt:
    """ADAPT: repeat the plan for one horizon; apply more where the state would stay full."""

    plan: ActionPlan
    name: str = "ADAPT"

    def observe(self, arrived: State) -> None:
        pass

    def act(self, terms: Terms, at: int, state: State) -> Action:
        planned = self.plan.actions[at % len(self.plan.actions)]
        # If arrivals differ, other amounts are pending than planned: apply all of these tables.
        action = tuple(pending if k else 0 for k, pending in zip(planned, state, strict=True))
        rest = minus(state, action)
        return plus(action, minimize(terms, rest, rest)) if terms.full(rest) else action


@dataclass
class Online:
    """ONLINE: of the possible actions the one with the least cost per time so far."""

    rates: ArrivalRates
    spent: float = 0.0
    name: str = "ONLINE"

    def observe(self, arrived: State) -> None:
        self.rates.observe(arrived)

    def act(self, terms: Terms, at: int, state: State) -> Action:
        if not terms.full(state):
            return terms.nothing

        def amortized(action: Action) -> tuple[float, float]:
            cost = terms.cost(action)
            lasts = time_to_full(terms, minus(state, action), self.rates.means)
            return (self.spent + cost) / (at + lasts), cost

        action = min(possible_actions(terms, state) or [state], key=amortized)
        self.spent += terms.cost(action)
        return action


@dataclass
class Receding:
    """RECEDING: the first action of the best plan for the arrivals that are expected next.

    The plan is followed as long as the state is the expected one.
    """

    rates: ArrivalRates
    cycles: float = 2.0
    name: str = "RECEDING"
    planned: dict[int, tuple[State, Action]] = field(default_factory=dict)

    def observe(self, arrived: State) -> None:
        self.rates.observe(arrived)

    def act(self, terms: Terms, at: int, state: State) -> Action:
        if not terms.full(state):
            return terms.nothing
        expected, action = self.planned.get(at, (None, terms.nothing))
        if expected != state:
            action = self._replanned(terms, at, state)
        if terms.allows(action, state):
            return action
        return min(possible_actions(terms, state), key=terms.cost, default=state)

    def _replanned(self, terms: Terms, at: int, state: State) -> Action:
        longest = self._longest(terms)
        stride = max(1, longest // MAX_PLANNED_STEPS)
        coming = self.rates.expected(max(2, round(self.cycles * longest / stride)), stride)
        problem = Problem(terms.prices, terms.remaining_limit(state), (state, *coming))
        try:
            best = find_optimal_plan(problem).plan
        except Invalid:  # too many states to plan: do the least that is necessary
            return minimize(terms, state, state)
        # The second half of a plan assumes that nothing arrives after its end, so it is not followed.
        half = (step for step in steps(problem, best) if step.at <= len(coming) // 2)
        followed = half if stride == 1 else ()
        self.planned = {at + s.at: (s.before, s.action) for s in followed if any(s.action)}
        return best.actions[0]

    def _longest(self, terms: Terms) -> int:
        """The longest time, in steps, until a table alone makes the state full."""
        means = self.rates.means
        alone = (
            time_to_full(terms, terms.nothing, [m if i == j else 0.0 for j, m in enumerate(means)])
            for i in range(terms.tables)
        )
        return max((count for count in alone if count < NEVER), default=1)


def new_policy(name: str, terms: Terms, half_life: float = HALF_LIFE) -> SchedulingPolicy:
    """A policy of this name that has observed nothing yet."""
    match name:
        case "NAIVE":
            return Naive()
        case "ONLINE":
            return Online(ArrivalRates(terms.tables, half_life))
        case "RECEDING":
            return Receding(ArrivalRates(terms.tables, half_life))
    raise ValueError(name)
