"""The problem of ABIVM, §2: arrivals, states, actions, plans, and when a plan is valid.

At each step t = 0 … T some changes of each table arrive. A plan then applies some of what is
pending. A state is *full* if a refresh from it would take longer than the limit C; after the
action of a step no state may be full, and at T nothing may be pending. The cost of a plan is that
of its actions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from belvedere.errors import Invalid
from belvedere.scheduling.model.cost_functions import Prices

SLACK = 1e-9
"""The relative difference that rounding may cause between equal sums."""

State: TypeAlias = tuple[int, ...]
"""The number of pending changes of each table."""

Action: TypeAlias = tuple[int, ...]
"""The number of changes of each table that are applied."""


@dataclass(frozen=True)
class Terms:
    """The costs and the limit."""

    prices: Prices
    limit: float

    def __post_init__(self) -> None:
        if not self.limit >= 0:
            raise Invalid(
                f"a limit of {self.limit:g} seconds",
                hint="give a limit of at least 0 seconds",
                reason="BAD_VALUE",
            )

    @property
    def tables(self) -> int:
        """n, the number of tables."""
        return len(self.prices.each)

    @property
    def nothing(self) -> State:
        """The state of a view without pending changes, and the action that applies none."""
        return (0,) * self.tables

    def cost(self, amounts: Sequence[float]) -> float:
        """f(v): the expected cost of applying v."""
        return self.prices.of(amounts)

    def at_most(self, amounts: Sequence[float]) -> float:
        """The highest cost of applying v; in the paper's model the expected cost."""
        return self.prices.at_most(amounts)

    def remaining_limit(self, state: Sequence[float]) -> float:  # noqa: ARG002
        """The limit that a plan must keep from a state on."""
        return self.limit

    def full(self, state: Sequence[float]) -> bool:
        """Whether a refresh from a state would exceed the limit."""
        return self.at_most(state) > self.limit * (1 + SLACK)

    def allows(self, action: Action, state: State) -> bool:
        """Whether the state after an action is not full."""
        return not self.full(minus(state, action))


@dataclass(frozen=True)
class Problem(Terms):
    """The terms and the arrivals d_0 … d_T; the view is refreshed at T."""

    arrivals: tuple[State, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.arrivals:
            raise Invalid(
                "no arrivals", hint="give the arrivals of at least one step", reason="BAD_ARRIVALS"
            )
        for step, arrived in enumerate(self.arrivals):
            if len(arrived) != self.tables or min(arrived) < 0:
                raise Invalid(
                    f"the arrivals of step {step} are not {self.tables} numbers of changes",
                    detail=str(arrived),
                    reason="BAD_VALUE",
                )

    @property
    def last(self) -> int:
        """T, the step of the refresh."""
        return len(self.arrivals) - 1

    @cached_property
    def totals(self) -> State:
        """The number of changes of each table that arrive over all steps."""
        return tuple(map(sum, zip(*self.arrivals, strict=True)))


@dataclass(frozen=True)
class ActionPlan:
    """A plan: the actions p_0 … p_T."""

    actions: tuple[Action, ...]

    def cost(self, problem: Problem) -> float:
        """f(P): the cost of all actions."""
        return sum(problem.cost(action) for action in self.actions if any(action))

    @property
    def count(self) -> int:
        """The number of actions that apply changes."""
        return sum(map(any, self.actions))


@dataclass(frozen=True)
class PlanStep:
    """One step of a plan: the state before, the action, the state after."""

    at: int
    before: State
    action: Action
    after: State


def steps(problem: Problem, plan: ActionPlan) -> Iterator[PlanStep]:
    """The steps of a plan on a problem."""
    if len(plan.actions) != len(problem.arrivals):
        raise Invalid(
            f"a plan of {len(plan.actions)} steps for {len(problem.arrivals)} steps of arrivals",
            reason="BAD_VALUE",
        )
    state = problem.nothing
    for at, (arrived, action) in enumerate(zip(problem.arrivals, plan.actions, strict=True)):
        before = plus(state, arrived)
        state = minus(before, action)
        yield PlanStep(at, before, action, state)


def breaches(problem: Problem, plan: ActionPlan) -> list[str]:
    """The reasons why a plan is invalid (Definition 1); none if it is valid."""
    messages = []
    for step in steps(problem, plan):
        if min(step.action) < 0 or min(step.after) < 0:
            messages.append(f"step {step.at} applies {step.action} of {step.before}")
        elif step.at < problem.last and problem.full(step.after):
            messages.append(f"step {step.at} leaves {step.after}, which is full")
        elif step.at == problem.last and any(step.after):
            messages.append(f"the refresh at step {step.at} leaves {step.after}")
    return messages


def is_lazy(problem: Problem, plan: ActionPlan) -> bool:
    """Whether every action before the refresh is in a full state (Definition 2)."""
    return all(
        not any(step.action) or problem.full(step.before)
        for step in steps(problem, plan)
        if step.at < problem.last
    )


def is_greedy(problem: Problem, plan: ActionPlan) -> bool:
    """Whether every action applies all or none of a table's pending changes (Definition 3)."""
    return all(
        applied in (0, pending)
        for step in steps(problem, plan)
        for applied, pending in zip(step.action, step.before, strict=True)
    )


def is_minimal(problem: Problem, plan: ActionPlan) -> bool:
    """Whether no action before the refresh can leave out a table (Definition 3)."""
    return not any(
        applied and not problem.full(plus(step.after, restrict_to(step.action, i)))
        for step in steps(problem, plan)
        if step.at < problem.last
        for i, applied in enumerate(step.action)
    )


def restrict_to(action: Action, table: int) -> Action:
    """The part of an action on one table.

    >>> restrict_to((4, 5, 6), 1)
    (0, 5, 0)
    """
    return tuple(k if i == table else 0 for i, k in enumerate(action))


def plus(state: State, arrived: State) -> State:
    """
    >>> plus((1, 2), (3, 4))
    (4, 6)
    """
    return tuple([a + b for a, b in zip(state, arrived, strict=True)])


def minus(state: State, action: Action) -> State:
    """
    >>> minus((3, 4), (1, 2))
    (2, 2)
    """
    return tuple([a - b for a, b in zip(state, action, strict=True)])
