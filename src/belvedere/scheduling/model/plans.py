"""Constructed plans: NAIVE; any valid plan made lazy, or made lazy, greedy and minimal (LGM).

Lemma 1: MAKELAZYPLAN never costs more. Theorem 1: MAKELGMPLAN costs at most twice as much.
Theorem 2: for linear costs it costs no more. All three hold if tables share nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from belvedere.scheduling.model.problem import (
    Action,
    ActionPlan,
    Problem,
    State,
    Terms,
    minus,
    plus,
    restrict_to,
    steps,
)


def naive_plan(problem: Problem) -> ActionPlan:
    """NAIVE: apply everything that is pending whenever the state is full."""
    state, possible_actions = problem.nothing, list[Action]()
    for at, arrived in enumerate(problem.arrivals):
        state = plus(state, arrived)
        acts = at == problem.last or problem.full(state)
        possible_actions.append(state if acts else problem.nothing)
        state = problem.nothing if acts else state
    return ActionPlan(tuple(possible_actions))


def make_lazy(problem: Problem, plan: ActionPlan) -> ActionPlan:
    """MAKELAZYPLAN: the actions of a plan, delayed until the state is full."""
    state = owed = problem.nothing
    possible_actions = list[Action]()
    for at, (arrived, action) in enumerate(zip(problem.arrivals, plan.actions, strict=True)):
        state, owed = plus(state, arrived), plus(owed, action)
        forced = at == problem.last or problem.full(state)
        possible_actions.append(owed if forced else problem.nothing)
        if forced:
            state, owed = minus(state, owed), problem.nothing
    return ActionPlan(tuple(possible_actions))


def make_lgm(problem: Problem, plan: ActionPlan) -> ActionPlan:
    """MAKELGMPLAN: in a full state, empty the tables with more pending changes than the plan leaves."""
    state, possible_actions = problem.nothing, list[Action]()
    for step, arrived in zip(steps(problem, plan), problem.arrivals, strict=True):
        state = plus(state, arrived)
        action = problem.nothing
        if step.at == problem.last:
            action = state
        elif problem.full(state):
            pairs = zip(state, step.after, strict=True)
            action = minimize(problem, tuple(s if s > p else 0 for s, p in pairs), state)
        possible_actions.append(action)
        state = minus(state, action)
    return ActionPlan(tuple(possible_actions))


def minimize(terms: Terms, action: Action, state: State) -> Action:
    """MINIMIZEACTION: leave out tables, the most expensive first, while the state stays not full."""
    for table in sorted(range(len(action)), key=lambda i: -terms.cost(restrict_to(action, i))):
        without = minus(action, restrict_to(action, table))
        if not terms.full(minus(state, without)):
            action = without
    return action


def greedy_actions(terms: Terms, state: State) -> Iterator[Action]:
    """All actions that empty some tables and leave a state that is not full, fewest tables first."""
    pending = [i for i, k in enumerate(state) if k]
    for many in range(1, len(pending) + 1):
        for chosen in combinations(pending, many):
            action = tuple(k if i in chosen else 0 for i, k in enumerate(state))
            if terms.allows(action, state):
                yield action


def possible_actions(terms: Terms, state: State) -> list[Action]:
    """The actions of a plan in a full state: minimal ones, or all greedy ones if tables share costs."""
    return (
        list(greedy_actions(terms, state)) if terms.prices.shared else minimal_actions(terms, state)
    )


def minimal_actions(terms: Terms, state: State) -> list[Action]:
    """The greedy actions that cannot leave out a table."""
    minimal: list[Action] = []
    for action in greedy_actions(terms, state):
        if not any(_is_part_of(smaller, action) for smaller in minimal):
            minimal.append(action)
    return minimal


def _is_part_of(smaller: Action, action: Action) -> bool:
    return all(not a or b for a, b in zip(smaller, action, strict=True))
