"""The simulator: run a policy on a stream of arrivals and check every step; and AUTO.

AUTO replays a recorded stream under NAIVE, ONLINE and RECEDING and takes the cheapest. It takes NAIVE
if the gain is within the relative error of the measured costs. So on the recorded stream it costs no
more than NAIVE, up to errors of measurement beyond that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from belvedere.scheduling.model.policies import HALF_LIFE, SchedulingPolicy, new_policy
from belvedere.scheduling.model.problem import (
    Action,
    ActionPlan,
    Problem,
    State,
    Terms,
    breaches,
    minus,
    plus,
)

CANDIDATES = ("NAIVE", "ONLINE", "RECEDING")


@dataclass(frozen=True)
class SimulatedRun:
    """The plan that a policy followed on a stream, its cost, and the reasons if it is invalid."""

    policy: str
    plan: ActionPlan
    cost: float
    breaches: tuple[str, ...]


def simulate(problem: Problem, policy: SchedulingPolicy) -> SimulatedRun:
    """Run a policy on the arrivals of a problem; the last step refreshes the view."""
    state, actions = problem.nothing, list[Action]()
    for at, arrived in enumerate(problem.arrivals):
        state = plus(state, arrived)
        policy.observe(arrived)
        action = state if at == problem.last else policy.act(problem, at, state)
        state = minus(state, action)
        actions.append(action)
    plan = ActionPlan(tuple(actions))
    return SimulatedRun(policy.name, plan, plan.cost(problem), tuple(breaches(problem, plan)))


@dataclass(frozen=True)
class PolicyChoice:
    """The chosen policy, and the cost of each on the recorded stream."""

    name: str
    costs: dict[str, float]


def choose_policy(
    terms: Terms, recorded: Sequence[State], half_life: float = HALF_LIFE
) -> PolicyChoice:
    """AUTO: the cheapest policy on a recorded stream; NAIVE if the gain is within the error of costs."""
    problem = Problem(terms.prices, terms.limit, tuple(recorded))
    costs = {
        name: simulate(problem, new_policy(name, terms, half_life)).cost for name in CANDIDATES
    }
    return PolicyChoice(cheapest_policy(costs, terms.prices.error), costs)


def cheapest_policy(costs: Mapping[str, float], error: float) -> str:
    """The policy with the least cost; NAIVE if the gain is within the error of the costs.

    >>> costs = {"NAIVE": 10.0, "ONLINE": 9.0}
    >>> cheapest_policy(costs, 0.05), cheapest_policy(costs, 0.15)
    ('ONLINE', 'NAIVE')
    """
    best = min(costs, key=lambda name: (costs[name], name != "NAIVE"))
    return best if costs["NAIVE"] - costs[best] > error * costs["NAIVE"] else "NAIVE"
