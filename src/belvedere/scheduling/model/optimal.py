"""OPT^LGM: the cheapest lazy, greedy and minimal plan for known arrivals, by A* (ABIVM, §4.1).

The heuristic is h = Σ gᵢ(sᵢ + Kᵢ), where gᵢ(M) is the least cost of M changes in batches of at most
Bᵢ, the most changes of the table that can be pending. It is consistent: an action on k ≤ Bᵢ changes
costs fᵢ(k), and gᵢ(M) ≤ fᵢ(k) + gᵢ(M − k). `docs/scheduling.md` has the proof. The paper's heuristic
is not used, since its Lemma 7 does not hold as printed.

If tables share a part of their costs, an action that is not minimal can save a later action. All
greedy actions are searched then, so that NAIVE is among the plans.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import floor, frexp, inf, ldexp
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from belvedere.errors import Invalid
from belvedere.scheduling.model.cost_functions import CostFunction, LinearCost, tabulate
from belvedere.scheduling.model.problem import SLACK, Action, ActionPlan, Problem

if TYPE_CHECKING:
    from belvedere.kernels.astar import Floats, Ints, ShortestPath

    Floors: TypeAlias = Callable[[Floats, int, int], Floats]

MAX_NODES = 300_000
WEIGHTS = (1.0, 1.1, 1.25, 1.5, 2.0)
"""The factors of the heuristic, tried in order while there are too many states; the plan then costs
at most so many times the optimum."""
MAX_EXACT_WORK = 30_000_000
"""The most steps for the exact lower bound of one table; otherwise a straight line below it is used."""
COST_BITS = 38
"""Costs are multiples of 2⁻³⁸ of the largest, so that sums are exact."""


@dataclass(frozen=True)
class OptimalPlan:
    """A plan that costs at most `within` times the optimum, its cost, and counts of the search."""

    plan: ActionPlan
    cost: float
    expanded: int
    inconsistent: int
    within: float = 1.0


def find_optimal_plan(problem: Problem, *, most: int = MAX_NODES) -> OptimalPlan:
    """The cheapest plan; with too many states, a plan within a proven factor of it.

    With a consistent heuristic times a factor, A* finds a plan within that factor of the optimum.
    """
    from belvedere.kernels.astar import TooLarge, search

    for weight in WEIGHTS:
        try:
            return search_with_bounds(problem, search, least_cost_in_batches, most, weight)
        except TooLarge:
            continue
    raise Invalid(
        f"no plan found among {most} states",
        hint="plan for fewer steps, or combine tables with similar costs into one",
        reason="PLAN_TOO_LARGE",
    )


def search_with_bounds(
    problem: Problem,
    search: Callable[..., ShortestPath],
    floors: Floors,
    most: int = MAX_NODES,
    weight: float = 1.0,
) -> OptimalPlan:
    """The plan that a search finds with a heuristic of one lower bound for each table."""
    arrived = np.zeros((problem.last + 2, problem.tables), np.int64)
    np.cumsum(np.asarray(problem.arrivals, np.int64), axis=0, out=arrived[1:])
    bounds = np.array([_max_pending(problem, i) for i in range(problem.tables)], np.int64)
    prices = problem.prices
    costs, worst = (
        _cost_table(prices.each, prices.shared, bounds),
        _cost_table(*prices.worst, bounds),
    )
    lower = np.zeros((problem.tables, max(problem.totals) + 1))
    for i, (bound, total) in enumerate(zip(bounds, problem.totals, strict=True)):
        lower[i, : total + 1] = floors(costs[i], int(bound), total)
    lower_bound = sum(float(lower[i, total]) for i, total in enumerate(problem.totals))
    result = search(
        arrived,
        costs,
        weight * lower,
        bounds,
        prices.shared,
        worst,
        prices.worst[1],
        problem.limit * (1 + SLACK),
        _slopes(problem),
        prices.shared > 0,
        most,
    )
    plan = _plan(problem, arrived, result)
    cost = plan.cost(problem)
    within = min(weight, cost / lower_bound if lower_bound else inf)
    return OptimalPlan(plan, cost, result.expanded, result.inconsistent, max(within, 1.0))


def least_cost_in_batches(costs: Floats, bound: int, total: int) -> Floats:
    """gᵢ: the least costs of 0 … `total` changes in batches of at most `bound`."""
    from belvedere.kernels.astar import batches

    within_bound = costs[: bound + 1]
    if bool(np.all(np.diff(within_bound, 2) <= 0)):
        # For a concave function, full batches and one rest cost the least.
        whole, rest = np.divmod(np.arange(total + 1), bound)
        costs_in_batches: Floats = whole * float(within_bound[bound]) + within_bound[rest]
        return costs_in_batches
    if bound * total <= MAX_EXACT_WORK:
        return batches(costs, bound, total)
    # Keep few digits, so that multiples are exact.
    digits, power = frexp(float(np.min(within_bound[1:] / np.arange(1, len(within_bound)))))
    line: Floats = np.arange(total + 1, dtype=np.float64) * float(
        ldexp(floor(ldexp(digits, 20)), power - 20)
    )
    return line


def paper_floors(costs: Floats, bound: int, total: int) -> Floats:
    """The lower bound as printed in the paper: full batches of `bound`, nothing for the rest."""
    floor_costs: Floats = np.arange(total + 1, dtype=np.float64) // bound * float(costs[bound])
    return floor_costs


def _max_pending(problem: Problem, table: int) -> int:
    """Bᵢ: the most changes of a table that can be pending: what the limit admits, plus one step."""
    cost, total = problem.prices.worst[0][table], problem.totals[table]
    low, high = 0, total
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if cost(middle) <= problem.limit else (low, middle - 1)
    return max(1, min(total, low + max(arrived[table] for arrived in problem.arrivals)))


def _cost_table(functions: tuple[CostFunction, ...], shared: float, bounds: Ints) -> Floats:
    """The costs of 0, 1, … changes, less the shared part, as multiples of one small number.

    More changes are never pending; in the row of a table an infinite cost marks a full state.
    """
    each = [tabulate(cost, int(bound)) for cost, bound in zip(functions, bounds, strict=True)]
    top = max(float(costs.max()) for costs in each)
    unit = ldexp(1.0, frexp(top)[1] - COST_BITS) if top else 1.0
    table = np.full((len(functions), int(bounds.max()) + 2), np.inf)
    for i, (cost, values) in enumerate(zip(functions, each, strict=True)):
        if isinstance(cost, LinearCost):
            # Round the slope, so that a line stays a line.
            values = (
                round((cost.fixed - shared) / unit)
                + round(cost.slope / unit) * np.arange(len(values), dtype=np.float64)
            ) * unit
        else:
            values = np.round((values - shared) / unit) * unit
        table[i, : len(values)] = values
        table[i, 0] = 0.0
    return table


def _slopes(problem: Problem) -> Floats:
    """The slopes if all costs are linear and tables share nothing; otherwise −1."""
    linear = [cost.slope for cost in problem.prices.each if isinstance(cost, LinearCost)]
    plain = len(linear) == problem.tables and not problem.prices.shared
    return np.array(linear if plain else [-1.0] * problem.tables)


def _plan(problem: Problem, arrived: Ints, result: ShortestPath) -> ActionPlan:
    actions: list[Action] = [problem.nothing] * (problem.last + 1)
    emptied = np.zeros(problem.tables, np.int64)
    for step, mask in zip(result.steps, result.masks, strict=True):
        emptied_now = [bool(mask >> i & 1) for i in range(problem.tables)]
        pending = arrived[step + 1] - emptied
        actions[step] = tuple(int(k) if t else 0 for k, t in zip(pending, emptied_now, strict=True))
        emptied[emptied_now] = arrived[step + 1][emptied_now]
    return ActionPlan(tuple(actions))
