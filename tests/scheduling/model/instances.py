"""Random small problems, and the best plans by trying all."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np

from belvedere.scheduling.model.cost_functions import (
    BlockCost,
    CostFunction,
    CurveCost,
    LinearCost,
    ListedCost,
    Prices,
    subadditive_closure,
)
from belvedere.scheduling.model.plans import possible_actions
from belvedere.scheduling.model.problem import Problem, State, minus, plus


def random_cost(random: np.random.Generator, *, linear: bool = False) -> CostFunction:
    kind = 0 if linear else int(random.integers(4))
    if kind == 0:
        return LinearCost(float(random.integers(1, 5)), float(random.integers(0, 7)))
    if kind == 1:
        return BlockCost(int(random.integers(1, 4)), float(random.integers(1, 6)))
    if kind == 2:
        first, slope = int(random.integers(2, 7)), int(random.integers(0, 3))
        return CurveCost(
            ((1, float(first)), (3, float(first + 2 * slope)), (6, float(first + 2 * slope)))
        )
    return ListedCost(subadditive_closure([float(v) for v in random.integers(1, 12, size=8)]))


def dearer(cost: CostFunction) -> CostFunction:
    """What a batch takes at most: half as much again."""
    match cost:
        case LinearCost(slope, fixed):
            return LinearCost(1.5 * slope, 1.5 * fixed)
        case BlockCost(size, price):
            return BlockCost(size, 1.5 * price)
        case CurveCost(points):
            return CurveCost(tuple((k, 1.5 * value) for k, value in points))
        case ListedCost(values):
            return ListedCost(tuple(1.5 * value for value in values))


def random_problem(
    seed: int,
    *,
    linear: bool = False,
    shares: bool = False,
    tables: int | None = None,
    worse: bool = False,
) -> Problem:
    random = np.random.default_rng(seed)
    count = tables or int(random.integers(1, 4))
    each = tuple(random_cost(random, linear=linear) for _ in range(count))
    shared = float(random.integers(0, int(min(c(1) for c in each)) + 1)) if shares else 0.0
    steps = int(random.integers(2, 6 if count > 2 else 7))
    arrivals = random.integers(0, 2 if count > 2 else 3, size=(steps, count))
    limit = float(random.integers(2, 16))
    above = tuple(map(dearer, each)) if worse else ()
    surely = shared - float(random.integers(0, 4)) if worse else None
    prices = Prices(each, shared, above, surely)
    return Problem(prices, limit, tuple(tuple(map(int, row)) for row in arrivals))


def best_of_all(problem: Problem) -> float:
    """OPT: the least cost of any valid plan."""

    @cache
    def least(at: int, state: State) -> float:
        state = plus(state, problem.arrivals[at])
        if at == problem.last:
            return problem.cost(state)
        possible = product(*(range(k + 1) for k in state))
        return min(
            problem.cost(action) + least(at + 1, minus(state, action))
            for action in possible
            if not problem.full(minus(state, action))
        )

    return least(0, problem.nothing)


def best_lazy_greedy(problem: Problem) -> float:
    """OPT^LGM: the least cost of any lazy, greedy and minimal plan."""

    @cache
    def least(at: int, state: State) -> float:
        state = plus(state, problem.arrivals[at])
        if at == problem.last:
            return problem.cost(state)
        if not problem.full(state):
            return least(at + 1, state)
        return min(
            problem.cost(action) + least(at + 1, minus(state, action))
            for action in possible_actions(problem, state)
        )

    return least(0, problem.nothing)


def a_valid_plan(problem: Problem, seed: int) -> tuple[State, ...]:
    """Actions of a random valid plan."""
    random = np.random.default_rng(seed)
    state, done = problem.nothing, []
    for at, arrived in enumerate(problem.arrivals):
        state = plus(state, arrived)
        action = tuple(int(random.integers(0, k + 1)) for k in state)
        if at == problem.last or problem.full(minus(state, action)):
            action = state
        done.append(action)
        state = minus(state, action)
    return tuple(done)
