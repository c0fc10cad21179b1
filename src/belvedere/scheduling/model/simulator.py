"""The simulator: a policy on a stream of arrivals, with every step checked, and AUTO.

AUTO replays a recorded stream under NAIVE, ONLINE and RECEDING and takes the cheapest, unless it
gains no more over NAIVE than what is known of costs is off by: then what looks like a gain may be
none. So on that stream it is never above NAIVE, but by what was measured wrong beyond that.
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
    """What a policy did on a stream."""

    policy: str
    plan: ActionPlan
    cost: float
    breaches: tuple[str, ...]


def simulate(problem: Problem, policy: SchedulingPolicy) -> SimulatedRun:
    """Run a policy on a problem's arrivals; at the last step the view is refreshed."""
    state, done = problem.nothing, list[Action]()
    for at, arrived in enumerate(problem.arrivals):
        state = plus(state, arrived)
        policy.observe(arrived)
        action = state if at == problem.last else policy.act(problem, at, state)
        state = minus(state, action)
        done.append(action)
    plan = ActionPlan(tuple(done))
    return SimulatedRun(policy.name, plan, plan.cost(problem), tuple(breaches(problem, plan)))


@dataclass(frozen=True)
class PolicyChoice:
    """The policy that a recorded stream speaks for, and what each would have cost on it."""

    name: str
    costs: dict[str, float]


def choose_policy(
    terms: Terms, recorded: Sequence[State], half_life: float = HALF_LIFE
) -> PolicyChoice:
    """AUTO: the cheapest on a recorded stream, or NAIVE where costs are not known that well."""
    problem = Problem(terms.prices, terms.limit, tuple(recorded))
    costs = {
        name: simulate(problem, new_policy(name, terms, half_life)).cost for name in CANDIDATES
    }
    return PolicyChoice(cheapest_policy(costs, terms.prices.error), costs)


def cheapest_policy(costs: Mapping[str, float], error: float) -> str:
    """The policy that costs the least, or NAIVE if the gain is within the error of the costs.

    >>> costs = {"NAIVE": 10.0, "ONLINE": 9.0}
    >>> cheapest_policy(costs, 0.05), cheapest_policy(costs, 0.15)
    ('ONLINE', 'NAIVE')
    """
    best = min(costs, key=lambda name: (costs[name], name != "NAIVE"))
    return best if costs["NAIVE"] - costs[best] > error * costs["NAIVE"] else "NAIVE"
