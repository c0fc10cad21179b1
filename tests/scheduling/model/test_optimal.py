"""A*: the compiled search is the plain one, and the heuristic is consistent where the paper's is not."""

from __future__ import annotations

import numpy as np
import pytest

from belvedere.errors import Invalid
from belvedere.kernels.astar import (
    batches,
    search,
)
from belvedere.scheduling.model import optimal as module
from belvedere.scheduling.model.arrivals import STREAMS, random_arrivals
from belvedere.scheduling.model.cost_functions import LinearCost, Prices
from belvedere.scheduling.model.optimal import (
    find_optimal_plan,
    least_cost_in_batches,
    paper_floors,
    search_with_bounds,
)
from belvedere.scheduling.model.plans import naive_plan
from belvedere.scheduling.model.problem import Problem, breaches
from tests.scheduling.model.instances import best_lazy_greedy, random_problem
from tests.scheduling.model.plain_search import batches_plainly, search_plainly

COUNTEREXAMPLE = Problem(
    Prices((LinearCost(3, 4), LinearCost(3, 5))), 8, ((1, 1), (1, 0), (1, 1), (0, 0))
)


def test_the_papers_heuristic_misses_the_optimum_of_the_counterexample() -> None:
    theirs = search_with_bounds(COUNTEREXAMPLE, search, paper_floors)
    assert (theirs.cost, theirs.inconsistent > 0) == (33, True)
    ours = find_optimal_plan(COUNTEREXAMPLE)
    assert (ours.cost, ours.inconsistent) == (32, 0)
    assert ours.expanded < theirs.expanded


@pytest.mark.parametrize("floors", [least_cost_in_batches, paper_floors], ids=lambda f: f.__name__)
def test_the_compiled_search_is_the_plain_one(floors: module.Floors) -> None:
    for seed in range(200):
        problem = random_problem(
            seed, shares=seed % 3 == 0, tables=1 + seed % 4, worse=seed % 5 == 0
        )
        fast, plain = (search_with_bounds(problem, way, floors) for way in (search, search_plainly))
        if floors is least_cost_in_batches:
            assert fast.cost == plain.cost
        assert (fast.inconsistent == 0) == (plain.inconsistent == 0)
        assert breaches(problem, fast.plan) == []


def test_limits_are_kept_by_what_batches_take_at_most_and_costs_are_what_they_take() -> None:
    tighter = 0
    for seed in range(120):
        problem = random_problem(seed, worse=True)
        found = find_optimal_plan(problem)
        assert found.inconsistent == 0
        assert breaches(problem, found.plan) == []
        assert found.cost == pytest.approx(best_lazy_greedy(problem))
        tighter += found.cost > find_optimal_plan(random_problem(seed)).cost
    assert tighter > 10


def test_the_lower_bounds_are_the_plain_ones_by_every_way(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(60):
        random = np.random.default_rng(seed)
        costs = np.concatenate([[0.0], np.cumsum(random.integers(0, 4, 12))]).astype(float)
        bound, total = int(random.integers(1, 12)), int(random.integers(1, 30))
        exact = batches_plainly(costs, bound, total)
        assert batches(costs, bound, total) == pytest.approx(exact)
        assert least_cost_in_batches(costs, bound, total) == pytest.approx(exact)
        with monkeypatch.context() as patch:
            patch.setattr(module, "MAX_EXACT_WORK", 0)
            assert np.all(least_cost_in_batches(costs, bound, total) <= exact)


def test_a_line_below_the_costs_is_consistent_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_EXACT_WORK", 0)
    for seed in range(100):
        problem = random_problem(seed)
        by_line, exact = (
            find_optimal_plan(problem),
            search_with_bounds(problem, search_plainly, _exactly),
        )
        assert by_line.inconsistent == 0
        assert by_line.cost == pytest.approx(exact.cost)


def _exactly(costs: module.Floats, bound: int, total: int) -> module.Floats:
    return batches_plainly(costs, bound, total)


def test_five_tables_get_a_plan_that_is_proven_to_be_near_the_best() -> None:
    prices = Prices(tuple(LinearCost(0.02 * i, 4.0 - 0.5 * i) for i in range(1, 6)))
    problem = Problem(prices, 20.0, random_arrivals(5, 200, *STREAMS["FS"], seed=1))
    found = find_optimal_plan(problem, most=2000)
    assert breaches(problem, found.plan) == []
    assert 1 < found.within <= 2
    assert found.cost <= naive_plan(problem).cost(problem)
    exact = Problem(prices, 20.0, problem.arrivals[:60])
    near, best = (find_optimal_plan(exact, most=most) for most in (100, 300_000))
    assert best.within == 1 < near.within
    assert best.cost <= near.cost <= near.within * best.cost


def test_the_papers_example_halves_the_cost_of_naive() -> None:
    prices = Prices((LinearCost(0.107, 286.0), LinearCost(0.25, 0.0)))
    problem = Problem(prices, 350.0, ((1, 1),) * 5001)
    found = find_optimal_plan(problem)
    assert naive_plan(problem).cost(problem) / found.cost > 2.2
    assert breaches(problem, found.plan) == []


def test_a_search_that_would_not_end_is_refused() -> None:
    prices = Prices(tuple(LinearCost(0.1 * i, 1.0) for i in range(1, 6)))
    problem = Problem(prices, 6.0, random_arrivals(5, 500, *STREAMS["FU"], seed=1))
    with pytest.raises(Invalid, match="no plan found among 100 states"):
        find_optimal_plan(problem, most=100)
