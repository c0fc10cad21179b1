"""The simulator: a policy on a stream of arrivals, with every step checked, and AUTO.

AUTO replays a recorded stream under NAIVE, ONLINE and RECEDING and takes the cheapest, so on that
stream it is never above NAIVE.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from belvedere.scheduling.model import Action, Plan, Problem, State, Terms, breaches, minus, plus
from belvedere.scheduling.policies import HALF_LIFE, Policy, fresh

CANDIDATES = ("NAIVE", "ONLINE", "RECEDING")


@dataclass(frozen=True)
class Run:
    """What a policy did on a stream."""

    policy: str
    plan: Plan
    cost: float
    breaches: tuple[str, ...]


def simulate(problem: Problem, policy: Policy) -> Run:
    """Run a policy on a problem's arrivals; at the last step the view is refreshed."""
    state, done = problem.nothing, list[Action]()
    for at, arrived in enumerate(problem.arrivals):
        state = plus(state, arrived)
        policy.observe(arrived)
        action = state if at == problem.last else policy.act(problem, at, state)
        state = minus(state, action)
        done.append(action)
    plan = Plan(tuple(done))
    return Run(policy.name, plan, plan.cost(problem), tuple(breaches(problem, plan)))


@dataclass(frozen=True)
class Auto:
    """The policy that a recorded stream speaks for, and what each would have cost on it."""

    name: str
    costs: dict[str, float]


def auto(terms: Terms, recorded: Sequence[State], half_life: float = HALF_LIFE) -> Auto:
    """AUTO: the cheapest on a recorded stream; of equals the simplest."""
    problem = Problem(terms.prices, terms.limit, tuple(recorded))
    costs = {name: simulate(problem, fresh(name, terms, half_life)).cost for name in CANDIDATES}
    return Auto(min(CANDIDATES, key=lambda name: costs[name]), costs)
