"""OPT^LGM: the cheapest lazy, greedy and minimal plan for known arrivals, by A* (ABIVM, §4.1).

The heuristic is not the paper's, whose Lemma 7 does not hold as printed, but
h = Σ gᵢ(sᵢ + Kᵢ) with gᵢ(M) the least that M changes cost in batches of at most Bᵢ, the most that
can be pending of a table. It is consistent: an action on k ≤ Bᵢ changes costs fᵢ(k), and
gᵢ(M) ≤ fᵢ(k) + gᵢ(M − k). `docs/scheduling.md` has the proof.

Where tables share a part of their costs an action that is not minimal can save one, so all greedy
actions are searched: NAIVE is then among the plans.
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
    from belvedere.kernels.astar import Floats, Found, Ints

    Floors: TypeAlias = Callable[[Floats, int, int], Floats]

MAX_NODES = 300_000
WEIGHTS = (1.0, 1.1, 1.25, 1.5, 2.0)
"""By how much the heuristic is raised when too many states are met: so much dearer at most."""
MAX_EXACT_WORK = 30_000_000
"""Steps for the exact lower bound of one table; beyond, a straight line below it does."""
COST_BITS = 38
"""Costs are multiples of 2⁻³⁸ of the largest, so that sums are exact."""


@dataclass(frozen=True)
class OptimalPlan:
    """The best plan, its cost, and what finding it took; it costs at most `within` times the best."""

    plan: ActionPlan
    cost: float
    expanded: int
    inconsistent: int
    within: float = 1.0


def find_optimal_plan(problem: Problem, *, most: int = MAX_NODES) -> OptimalPlan:
    """The cheapest plan, or one that is proven to be near it where there are too many states.

    With a consistent heuristic raised by a factor, A* finds a plan that costs at most so much more.
    """
    from belvedere.kernels.astar import TooLarge, search

    for weight in WEIGHTS:
        try:
            return search_with_bounds(problem, search, least_cost_in_batches, most, weight)
        except TooLarge:
            continue
    raise Invalid(
        f"no plan found among {most} states",
        hint="plan for fewer steps, or for tables that cost about the same as one",
        reason="PLAN_TOO_LARGE",
    )


def search_with_bounds(
    problem: Problem,
    search: Callable[..., Found],
    floors: Floors,
    most: int = MAX_NODES,
    weight: float = 1.0,
) -> OptimalPlan:
    """The plan that a search finds with a heuristic made of one lower bound for each table."""
    arrived = np.zeros((problem.last + 2, problem.tables), np.int64)
    np.cumsum(np.asarray(problem.arrivals, np.int64), axis=0, out=arrived[1:])
    bounds = np.array([_max_pending(problem, i) for i in range(problem.tables)], np.int64)
    prices = problem.prices
    costs, worst = (
        _cost_table(prices.each, prices.shared, bounds),
        _cost_table(*prices.worst, bounds),
    )
    below = np.zeros((problem.tables, max(problem.totals) + 1))
    for i, (bound, total) in enumerate(zip(bounds, problem.totals, strict=True)):
        below[i, : total + 1] = floors(costs[i], int(bound), total)
    least = sum(float(below[i, total]) for i, total in enumerate(problem.totals))
    found = search(
        arrived,
        costs,
        weight * below,
        bounds,
        prices.shared,
        worst,
        prices.worst[1],
        problem.limit * (1 + SLACK),
        _slopes(problem),
        prices.shared > 0,
        most,
    )
    plan = _plan(problem, arrived, found)
    cost = plan.cost(problem)
    within = min(weight, cost / least if least else inf)
    return OptimalPlan(plan, cost, found.expanded, found.inconsistent, max(within, 1.0))


def least_cost_in_batches(costs: Floats, bound: int, total: int) -> Floats:
    """gᵢ: the least that 0 … `total` changes cost in batches of at most `bound`."""
    from belvedere.kernels.astar import batches

    some = costs[: bound + 1]
    if bool(np.all(np.diff(some, 2) <= 0)):
        # Of a concave function, whole batches and one rest cost the least.
        whole, rest = np.divmod(np.arange(total + 1), bound)
        found: Floats = whole * float(some[bound]) + some[rest]
        return found
    if bound * total <= MAX_EXACT_WORK:
        return batches(costs, bound, total)
    # So few digits that its multiples are exact.
    digits, power = frexp(float(np.min(some[1:] / np.arange(1, len(some)))))
    line: Floats = np.arange(total + 1, dtype=np.float64) * float(
        ldexp(floor(ldexp(digits, 20)), power - 20)
    )
    return line


def paper_floors(costs: Floats, bound: int, total: int) -> Floats:
    """The lower bound that the paper prints: whole batches of `bound`, and nothing for the rest."""
    found: Floats = np.arange(total + 1, dtype=np.float64) // bound * float(costs[bound])
    return found


def _max_pending(problem: Problem, table: int) -> int:
    """Bᵢ: the most of a table that can be pending, what a limit admits and one step's arrivals."""
    cost, total = problem.prices.worst[0][table], problem.totals[table]
    low, high = 0, total
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if cost(middle) <= problem.limit else (low, middle - 1)
    return max(1, min(total, low + max(arrived[table] for arrived in problem.arrivals)))


def _cost_table(functions: tuple[CostFunction, ...], shared: float, bounds: Ints) -> Floats:
    """What 0, 1, … changes cost, less the shared part, as multiples of one small number.

    More changes than that are never pending; in the row of a table they stand for a full state.
    """
    each = [tabulate(cost, int(bound)) for cost, bound in zip(functions, bounds, strict=True)]
    top = max(float(costs.max()) for costs in each)
    unit = ldexp(1.0, frexp(top)[1] - COST_BITS) if top else 1.0
    found = np.full((len(functions), int(bounds.max()) + 2), np.inf)
    for i, (cost, known) in enumerate(zip(functions, each, strict=True)):
        if isinstance(cost, LinearCost):
            # Rounded by its slope a line stays one, and concave.
            known = (
                round((cost.fixed - shared) / unit)
                + round(cost.slope / unit) * np.arange(len(known), dtype=np.float64)
            ) * unit
        else:
            known = np.round((known - shared) / unit) * unit
        found[i, : len(known)] = known
        found[i, 0] = 0.0
    return found


def _slopes(problem: Problem) -> Floats:
    """The slopes of linear costs; where they are not, or tables share, negative."""
    linear = [cost.slope for cost in problem.prices.each if isinstance(cost, LinearCost)]
    plain = len(linear) == problem.tables and not problem.prices.shared
    return np.array(linear if plain else [-1.0] * problem.tables)


def _plan(problem: Problem, arrived: Ints, found: Found) -> ActionPlan:
    actions: list[Action] = [problem.nothing] * (problem.last + 1)
    emptied = np.zeros(problem.tables, np.int64)
    for step, mask in zip(found.steps, found.masks, strict=True):
        taken = [bool(mask >> i & 1) for i in range(problem.tables)]
        there = arrived[step + 1] - emptied
        actions[step] = tuple(int(k) if t else 0 for k, t in zip(there, taken, strict=True))
        emptied[taken] = arrived[step + 1][taken]
    return ActionPlan(tuple(actions))
