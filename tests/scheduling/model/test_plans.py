"""Plans against all valid plans of small problems: the lemmas and theorems of ABIVM, §3."""

from __future__ import annotations

import pytest

from belvedere.errors import Invalid
from belvedere.scheduling.model.cost_functions import LinearCost, ListedCost, Prices
from belvedere.scheduling.model.optimal import find_optimal_plan
from belvedere.scheduling.model.plans import (
    greedy_actions,
    make_lazy,
    make_lgm,
    minimal_actions,
    minimize,
    naive_plan,
)
from belvedere.scheduling.model.problem import (
    ActionPlan,
    Problem,
    breaches,
    is_greedy,
    is_lazy,
    is_minimal,
    minus,
)
from tests.scheduling.model.instances import (
    a_valid_plan,
    best_lazy_greedy,
    best_of_all,
    random_problem,
)

SOME, MANY = range(500), range(10_000, 30_000)


def check_against_all_plans(seed: int) -> None:
    problem = random_problem(seed)
    best, lgm, found = best_of_all(problem), best_lazy_greedy(problem), find_optimal_plan(problem)
    assert found.cost == pytest.approx(lgm, rel=1e-9)
    assert best - 1e-9 <= found.cost <= 2 * best + 1e-9
    assert found.inconsistent == 0
    assert breaches(problem, found.plan) == []
    assert is_lazy(problem, found.plan)
    assert is_greedy(problem, found.plan)
    assert is_minimal(problem, found.plan)
    assert breaches(problem, naive_plan(problem)) == []
    assert naive_plan(problem).cost(problem) >= best - 1e-9


def check_linear(seed: int) -> None:
    problem = random_problem(seed, linear=True)
    assert find_optimal_plan(problem).cost == pytest.approx(best_of_all(problem), rel=1e-9)


def check_constructions(seed: int) -> None:
    problem = random_problem(seed)
    plan = ActionPlan(a_valid_plan(problem, seed))
    assert breaches(problem, plan) == []
    lazy, lgm = make_lazy(problem, plan), make_lgm(problem, plan)
    assert breaches(problem, lazy) == breaches(problem, lgm) == []
    assert is_lazy(problem, lazy)
    assert lazy.cost(problem) <= plan.cost(problem) + 1e-9
    assert is_lazy(problem, lgm)
    assert is_greedy(problem, lgm)
    assert is_minimal(problem, lgm)
    assert lgm.cost(problem) <= 2 * plan.cost(problem) + 1e-9


def check_shared(seed: int) -> None:
    """Where tables share costs every greedy action is tried, so NAIVE is never better."""
    problem = random_problem(seed, shares=True)
    found = find_optimal_plan(problem)
    assert found.cost == pytest.approx(best_lazy_greedy(problem), rel=1e-9)
    assert found.inconsistent == 0
    assert breaches(problem, found.plan) == []
    if problem.prices.shared:
        assert found.cost <= naive_plan(problem).cost(problem) + 1e-9


CHECKS = (check_against_all_plans, check_linear, check_constructions, check_shared)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_random_problems(check: object) -> None:
    for seed in SOME:
        check(seed)  # type: ignore[operator]


@pytest.mark.soak
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_many_random_problems(check: object) -> None:
    for seed in MANY:
        check(seed)  # type: ignore[operator]


@pytest.mark.parametrize("inverse", [2, 4, 10])
def test_one_table_for_which_lgm_approaches_twice_the_optimum(inverse: int) -> None:
    """§3.2: f rises to C at 2/ε changes and stays a little above; 2/ε + 1 arrive at each step."""
    limit, most = 1.0, 2 * inverse
    values = [k / most * limit for k in range(1, most + 1)] + [(1 + 0.5 / inverse) * limit]
    cost = ListedCost((*values, *[values[-1]] * (3 * most)))
    pairs = 3
    problem = Problem(Prices((cost,)), limit, ((most + 1,),) * (2 * pairs))
    lgm = find_optimal_plan(problem).cost
    assert lgm == pytest.approx((2 + 1 / inverse) * pairs * limit)
    leaving = tuple(((1,), (2 * most + 1,)) * pairs)
    plan = ActionPlan(leaving)
    assert breaches(problem, plan) == []
    assert lgm >= (2 - 1 / inverse) * plan.cost(problem) - 1e-9


def test_minimal_actions_are_the_greedy_ones_that_contain_no_other() -> None:
    problem = Problem(
        Prices((LinearCost(1, 4), LinearCost(1, 4), LinearCost(1, 4))), 11, ((1, 1, 1),)
    )
    state = (2, 2, 2)
    assert set(minimal_actions(problem, state)) == {(2, 2, 0), (2, 0, 2), (0, 2, 2)}
    assert set(greedy_actions(problem, state)) == {(2, 2, 0), (2, 0, 2), (0, 2, 2), state}
    assert not problem.full(minus(state, minimize(problem, state, state)))


def test_a_plan_that_applies_too_much_or_leaves_too_much_is_refused_with_the_step() -> None:
    problem = Problem(Prices((LinearCost(1, 4),)), 5, ((1,), (1,), (0,)))
    assert breaches(problem, ActionPlan(((0,), (0,), (2,)))) == [
        "step 1 leaves (2,), which is full"
    ]
    assert breaches(problem, ActionPlan(((3,), (0,), (0,))))[0] == "step 0 applies (3,) of (1,)"
    assert breaches(problem, ActionPlan(((1,), (0,), (0,)))) == [
        "the refresh at step 2 leaves (1,)"
    ]
    with pytest.raises(Invalid, match="2 steps for 3"):
        breaches(problem, ActionPlan(((1,), (0,))))
    with pytest.raises(Invalid, match="step 1"):
        Problem(Prices((LinearCost(1, 4),)), 5, ((1,), (-1,)))
    with pytest.raises(Invalid, match="a limit of -1 seconds"):
        Problem(Prices((LinearCost(1, 4),)), -1, ((1,),))
    with pytest.raises(Invalid, match="no arrivals"):
        Problem(Prices((LinearCost(1, 4),)), 1, ())
