"""Response limits: the paper's settings in the simulator, and the MIN view of its §5 on Spark.

    python -m benchmarks.scheduling [--quick] [--scale N] [--limits SECONDS…] [--times N]
        [--simulator]

Rows first, then one JSON line. The Spark part runs the plans of NAIVE, AUTO and OPT on the same
recorded stream and adds up the time that their actions really take; its data is kept in
.cache/benchmarks between runs.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import mean
from typing import Any

from belvedere.listing import table
from belvedere.scheduling.model.arrivals import STREAMS, Arrival, random_arrivals, uniform_arrivals
from belvedere.scheduling.model.cost_functions import LinearCost, Prices
from belvedere.scheduling.model.optimal import find_optimal_plan
from belvedere.scheduling.model.plans import naive_plan
from belvedere.scheduling.model.policies import Adapt, new_policy
from belvedere.scheduling.model.problem import Problem, State, Terms
from belvedere.scheduling.model.simulator import choose_policy, simulate
from belvedere.scheduling.plots import draw_pending
from belvedere.scheduling.serve.deadlines import ViewScheduler
from belvedere.scheduling.serve.dry_run import DryRun, dry_run
from benchmarks.scheduling import min_view

FORCED = 20
"""Actions that a plan must be forced to before its cost per action means anything."""
COSTS = {
    "both small": ((1 / 25, 0.05), (1 / 100, 0.2)),
    "alike": ((1 / 40, 0.2), (1 / 40, 0.2)),
    "near a quarter": ((1 / 25, 0.1), (1 / 100, 0.24)),
    "one large": ((1 / 25, 0.05), (1 / 100, 0.4)),
    "one very large": ((1 / 25, 0.1), (1 / 100, 0.6)),
}
"""Slope and fixed part of two tables, as parts of the limit."""


def main() -> None:
    options = _options()
    found = {**_paper(), **_figures(options.quick), **_violations(options.quick)}
    if not options.simulator:
        found |= min_view.measured(
            options.scale, options.limits, options.times, quick=options.quick
        )
    print(json.dumps(found))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("benchmarks.scheduling", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer seeds and limits, scale 1")
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-H scale factor (default 1)")
    parser.add_argument("--limits", type=float, nargs="+", help="seconds, for the Spark part")
    parser.add_argument(
        "--times", type=int, default=1, help="how often plans run on Spark, there and back again"
    )
    parser.add_argument("--simulator", action="store_true", help="without the Spark part")
    return parser.parse_args()


def _paper() -> dict[str, Any]:
    """§1: R ⋈ S where only R has an index."""
    prices, limit = Prices((LinearCost(0.107, 286.0), LinearCost(0.25))), 350.0
    problem = Problem(prices, limit, uniform_arrivals((1, 1), 20_000))
    find_optimal_plan(Problem(prices, limit, uniform_arrivals((1, 1), 10)))  # compiled
    began = time.perf_counter()
    best = find_optimal_plan(problem)
    took = 1000 * (time.perf_counter() - began)
    horizon = find_optimal_plan(Problem(prices, limit, uniform_arrivals((1, 1), 6000)))
    spent = naive_plan(problem).cost(problem)
    updates = sum(problem.totals)
    costs = {
        "opt": best.cost,
        "online": simulate(problem, new_policy("ONLINE", problem)).cost,
        "adapt": simulate(problem, Adapt(horizon.plan)).cost,
    }
    rows = [("naive", spent / updates, 1.0)]
    rows += [(name, cost / updates, spent / cost) for name, cost in costs.items()]
    shown = [(name, f"{each:.3f}", f"{over:.2f}") for name, each, over in rows]
    print(table(("plan", "ms per update", "naive over it"), shown))
    ratios = {f"paper_naive_over_{name}": round(spent / cost, 3) for name, cost in costs.items()}
    return {**ratios, "astar_ms": round(took, 1), "astar_expanded": best.expanded}


@dataclass(frozen=True)
class Setting:
    """One setting of Fig. 6 or 7."""

    figure: str
    costs: str
    stream: str
    problem: Problem
    again: tuple[State, ...]
    """Another stream of the same kind."""

    @property
    def small(self) -> bool:
        """Whether every fixed cost is below a quarter of the limit."""
        return all(cost(0.0001) < self.problem.limit / 4 for cost in self.problem.prices.each)


def _settings(quick: bool) -> Iterator[Setting]:
    for name, pair in COSTS.items():
        for last in range(100, 1001, 300 if quick else 100):
            prices = Prices(tuple(LinearCost(12 * slope, 12 * fixed) for slope, fixed in pair))
            arrivals = uniform_arrivals((1, 1), last)
            problem = Problem(prices, 12.0, arrivals)
            yield Setting("6", name, f"T={last}", problem, arrivals)
        for kind, (probability, deviation) in STREAMS.items():
            for seed in range(1 if quick else 5):
                prices = Prices(tuple(LinearCost(20 * slope, 20 * fixed) for slope, fixed in pair))
                one, other = (
                    random_arrivals(2, 1000, probability, deviation, seed + more)
                    for more in (0, 100)
                )
                yield Setting("7", name, kind, Problem(prices, 20.0, one), other)


def _figures(quick: bool) -> dict[str, Any]:
    """Fig. 6 and 7: policies over the optimum."""
    rows: list[tuple[Any, ...]] = []
    known: dict[tuple[str, str, str], list[dict[str, float]]] = {}
    for setting in _settings(quick):
        problem = setting.problem
        best = find_optimal_plan(problem)
        if best.plan.count < FORCED:
            continue
        chosen = choose_policy(problem, problem.arrivals)
        horizon = Problem(problem.prices, problem.limit, problem.arrivals[:501])
        adapted = simulate(problem, Adapt(find_optimal_plan(horizon).plan)).cost
        new = Problem(problem.prices, problem.limit, setting.again)
        later = simulate(new, new_policy(chosen.name, new)).cost
        ratios = {
            "naive": chosen.costs["NAIVE"] / best.cost,
            "online": chosen.costs["ONLINE"] / best.cost,
            "adapt": adapted / best.cost,
            "auto": chosen.costs[chosen.name] / best.cost,
            "auto_over_naive": chosen.costs[chosen.name] / chosen.costs["NAIVE"],
            "later": later / find_optimal_plan(new).cost,
            "later_over_naive": later / naive_plan(new).cost(new),
            "small": float(setting.small),
        }
        known.setdefault((setting.figure, setting.costs, setting.stream), []).append(ratios)
    for key, each in known.items():
        average = {name: mean(r[name] for r in each) for name in each[0]}
        names = ("naive", "online", "adapt", "auto", "later")
        rows.append((*key, *(f"{average[name]:.3f}" for name in names)))
    headers = ("figure", "costs", "stream", "NAIVE", "ONLINE", "ADAPT", "AUTO", "AUTO later")
    print(table(headers, rows))
    every = [r for each in known.values() for r in each]

    def worst(name: str, small: float | None = None) -> float:
        return round(max(r[name] for r in every if small in (None, r["small"])), 3)

    return {
        "online_over_opt": worst("online", 1.0),
        "online_over_opt_large_fixed": worst("online", 0.0),
        "auto_over_opt": worst("auto"),
        "auto_over_naive": worst("auto_over_naive"),
        "auto_over_opt_on_a_later_stream": worst("later"),
        "auto_over_naive_on_a_later_stream": worst("later_over_naive"),
        "settings": len(every),
    }


def _violations(quick: bool) -> dict[str, Any]:
    """One hour of each kind of stream through the service's decisions, with time that passes."""
    terms = Terms(Prices((LinearCost(0.0004, 0.35), LinearCost(0.002, 1.1)), 0.3), 5.0)
    seconds, rows, total, shown = 3600, list[tuple[Any, ...]](), 0, list[DryRun]()
    for kind, (probability, deviation) in STREAMS.items():
        steps = random_arrivals(2, seconds, probability, deviation, seed=1)
        arrivals = [
            Arrival(at + 0.25 * i, name, 10 * count)
            for at, row in enumerate(steps)
            for i, (name, count) in enumerate(zip("ab", row, strict=True))
            if count
        ]
        for policy in ("NAIVE", "ONLINE") if quick else ("NAIVE", "ONLINE", "RECEDING"):
            scheduler = ViewScheduler("v", ("a", "b"), terms, new_policy(policy, terms), 0.5)
            run = dry_run([scheduler], arrivals, 0.5)
            total += len(run.violations)
            spent = (f"{run.cost:.1f}", len(run.actions), f"{run.worst:.0%}")
            rows.append((kind, policy, *spent, len(run.violations)))
            if kind == "FU":
                shown.append(replace(run, pending=[p for p in run.pending if p[0] <= 60]))
    min_view.PICTURES.mkdir(parents=True, exist_ok=True)
    draw_pending(shown, ("a", "b"), min_view.PICTURES / "pending.svg")
    print(table(("stream", "policy", "seconds", "actions", "worst answer", "violations"), rows))
    return {"violations": total}


if __name__ == "__main__":
    main()
