"""The MIN view of ABIVM, §5, on Spark: its tables, its stream of updates, and plans run for real."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import belvedere as bv
from belvedere.listing import table
from belvedere.scheduling.model import Action, Plan, Problem, State, Terms, plus, steps
from belvedere.scheduling.optimal import optimal
from belvedere.scheduling.pictures import bars, draw_bars, draw_curves
from belvedere.scheduling.plans import naive
from belvedere.scheduling.policies import fresh
from belvedere.scheduling.schedules import Calibration, the_schedule
from belvedere.scheduling.simulator import auto, simulate
from benchmarks import tpch

CACHE = Path(".cache/benchmarks")
PICTURES = Path("docs/pictures")
TABLES = ("partsupp", "supplier")
QUERY = """SELECT min(ps_supplycost) AS cost FROM partsupp, supplier, nation, region
WHERE s_suppkey = ps_suppkey AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey
AND r_name = 'MIDDLE EAST'"""
SIZES = (1, 10, 100, 1000, 4000)
ACTIONS = 7
"""How often NAIVE acts on a stream."""


def measured(scale: float, limits: Sequence[float] | None, quick: bool) -> dict[str, Any]:
    """Calibrate, plan for several limits, run the plans, compare."""
    with bv.connect(CACHE / f"scheduling-{scale:g}") as lake:
        _prepare(lake, scale)
        calibration = _calibrated(lake)
        print(calibration)
        PICTURES.mkdir(parents=True, exist_ok=True)
        draw_curves(calibration, PICTURES / "cost-curves.svg")
        single = max(cost(1) for cost in calibration.prices.each)
        joint = calibration.prices.of((1, 1))
        _promise(calibration, joint)
        chosen = limits or [round(joint * by, 2) for by in ((1.25,) if quick else (1.1, 1.25, 2.0))]
        runs = [_compared(lake, calibration, max(limit, 1.01 * single)) for limit in chosen]
    naive_cost, auto_cost, best = (sum(run.real[name] for run in runs) for name in POLICIES)
    predicted = sum(sum(run.predicted.values()) for run in runs)
    draw_bars(runs[-1].real, PICTURES / "cost-bars.svg")
    return {
        "scale": scale,
        "limits": [run.limit for run in runs],
        "spark_naive_seconds": round(naive_cost, 2),
        "spark_auto_seconds": round(auto_cost, 2),
        "spark_opt_seconds": round(best, 2),
        "spark_naive_over_opt": round(naive_cost / best, 3),
        "spark_gain_share": round((naive_cost - auto_cost) / (naive_cost - best), 3)
        if naive_cost > best
        else None,
        "simulated_over_real": round(predicted / (naive_cost + auto_cost + best), 3),
        "simulated_over_real_each": [
            {name: round(run.predicted[name] / run.real[name], 3) for name in POLICIES}
            for run in runs
        ],
    }


POLICIES = ("NAIVE", "AUTO", "OPT")


@dataclass
class Compared:
    """The same stream under three plans."""

    limit: float
    predicted: dict[str, float]
    real: dict[str, float]


def _prepare(lake: bv.Lake, scale: float) -> None:
    source = tpch.data(scale, CACHE)
    there = set(lake._door.names())
    tpch.load(lake, source, [t for t in ("region", "nation", *TABLES) if t not in there])
    if "min_cost" not in there:
        lake.sql(f"CREATE MATERIALIZED VIEW min_cost REFRESH POLICY INCREMENTAL AS {QUERY}")
    lake.refresh("min_cost")


def _calibrated(lake: bv.Lake) -> Calibration:
    began = time.monotonic()
    found = lake._limits.calibrate("min_cost", tables=TABLES, sizes=SIZES)
    print(f"calibrated in {time.monotonic() - began:.0f} s")
    known = the_schedule(lake._door, "min_cost").calibration
    assert known is not None
    return found


def _stream(calibration: Calibration, limit: float) -> tuple[State, ...]:
    """As many updates of each table as fill the limit several times under NAIVE, in small steps."""
    each = 1
    while calibration.prices.of((40 * each, 40 * each)) <= limit and each < 100:
        each += 1
    one = Problem(calibration.prices, limit, ((each, each),) * 4000)
    acts = [i for i, action in enumerate(naive(one).actions) if any(action)]
    last = acts[ACTIONS - 1] + 2 if len(acts) > ACTIONS else 4000
    return ((each, each),) * last


def _promise(calibration: Calibration, joint: float) -> None:
    """What the measured curves leave to gain, against the limit."""
    rows = []
    for by in (1.05, 1.1, 1.25, 1.5, 2.0, 3.0):
        limit = joint * by
        problem = Problem(calibration.prices, limit, _stream(calibration, limit))
        spent, best = naive(problem).cost(problem), optimal(problem).cost
        rows.append((f"{limit:.2f}", f"{spent:.1f}", f"{best:.1f}", f"{spent / best:.3f}"))
    print(table(("limit", "NAIVE", "OPT", "NAIVE/OPT predicted"), rows))


def _compared(lake: bv.Lake, calibration: Calibration, limit: float) -> Compared:
    problem = Problem(calibration.prices, limit, _stream(calibration, limit))
    terms = Terms(calibration.prices, limit)
    chosen = auto(terms, problem.arrivals)
    plans = {
        "NAIVE": naive(problem),
        "AUTO": simulate(problem, fresh(chosen.name, terms)).plan,
        "OPT": optimal(problem).plan,
    }
    predicted = {name: plan.cost(problem) for name, plan in plans.items()}
    real = {name: _executed(lake, problem, plan) for name, plan in plans.items()}
    print(f"limit {limit:.2f} s, AUTO takes {chosen.name}, {len(problem.arrivals)} steps")
    print(
        bars(
            {
                f"{n} {w}": c[n]
                for n in POLICIES
                for w, c in (("real", real), ("predicted", predicted))
            }
        )
    )
    return Compared(limit, predicted, real)


def _executed(lake: bv.Lake, problem: Problem, plan: Plan) -> float:
    """Run a plan: the time of its actions alone."""
    lake.refresh("min_cost")
    waiting, spent = problem.nothing, 0.0
    for step, arrived in zip(steps(problem, plan), problem.arrivals, strict=True):
        waiting = plus(waiting, arrived)
        if any(step.action):
            _update(lake, waiting, step.at)
            waiting = problem.nothing
            spent += _acted(lake, step.action, step.before)
    return spent


def _acted(lake: bv.Lake, action: Action, before: State) -> float:
    began = time.monotonic()
    if action == before:
        lake.refresh("min_cost")
    else:
        lake.advance("min_cost", *(t for t, k in zip(TABLES, action, strict=True) if k))
    return time.monotonic() - began


def _update(lake: bv.Lake, counts: State, turn: int) -> None:
    """So many random updates of a price, and of a supplier's nation."""
    keys = {"partsupp": "ps_partkey, ps_suppkey", "supplier": "s_suppkey"}
    change = {
        "partsupp": "ps_supplycost = CAST(1 + pmod(xxhash64(ps_partkey, {turn}), 99900) / 100 AS DECIMAL(15,2))",
        "supplier": "s_nationkey = (s_nationkey + 1 + {turn} % 24) % 25",
    }
    seed = time.monotonic_ns() % 1_000_003
    for name, count in zip(TABLES, counts, strict=True):
        if count:
            mixed = f"xxhash64({seed}, {keys[name]})"
            least = f"SELECT {mixed} AS mixed FROM {name} ORDER BY mixed LIMIT {count}"
            (row,) = lake.sql(f"SELECT max(mixed) FROM ({least})").collect()
            lake.sql(
                f"UPDATE {name} SET {change[name].format(turn=turn)} WHERE {mixed} <= {row[0]}"
            )
