"""The MIN view of ABIVM, §5, on Spark: its tables, its stream of updates, and plans run for real."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import belvedere as bv
from belvedere.lake.statistics import measured as size_of
from belvedere.listing import table
from belvedere.scheduling.calibration import calibrate
from belvedere.scheduling.model import Action, Plan, Problem, State, Terms, plus, steps
from belvedere.scheduling.optimal import optimal
from belvedere.scheduling.pictures import bars, draw_bars, draw_curves
from belvedere.scheduling.plans import naive
from belvedere.scheduling.policies import fresh
from belvedere.scheduling.schedules import Calibration, calibrated
from belvedere.scheduling.simulator import auto, simulate
from benchmarks import tpch

CACHE = Path(".cache/benchmarks")
PICTURES = Path("docs/pictures")
TABLES = ("partsupp", "supplier")
QUERY = """SELECT min(ps_supplycost) AS cost FROM partsupp, supplier, nation, region
WHERE s_suppkey = ps_suppkey AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey
AND r_name = 'MIDDLE EAST'"""
SIZES = (1, 30, 1000, 3000)
MANY = 3000
"""Changes of each table that are many."""
ACTIONS, STEPS = 4, 20
"""How often NAIVE acts on a stream, and after about how many steps."""


def measured(scale: float, limits: Sequence[float] | None, quick: bool) -> dict[str, Any]:
    """Calibrate, plan for several limits, run the plans, compare."""
    with bv.connect(CACHE / f"scheduling-{scale:g}") as lake:
        _prepare(lake, scale)
        calibration = _calibrated(lake, quick=quick)
        print(calibration, flush=True)
        PICTURES.mkdir(parents=True, exist_ok=True)
        draw_curves(calibration, PICTURES / "cost-curves.svg")
        _promise(calibration)
        chosen = limits or _limits(calibration, (0.2,) if quick else (0.1, 0.3, 0.8))
        runs = [_compared(lake, calibration, limit) for limit in chosen]
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


def _calibrated(lake: bv.Lake, *, quick: bool) -> Calibration:
    began = time.monotonic()
    door, rounds = lake._door, 1 if quick else 2
    found = calibrate(door, "min_cost", tables=TABLES, sizes=SIZES, rounds=rounds)
    calibrated(door, "min_cost", found)
    print(f"calibrated in {time.monotonic() - began:.0f} s", flush=True)
    return found


def _limits(calibration: Calibration, parts: Sequence[float]) -> list[float]:
    """Limits between the cost of one change of each table and that of thousands."""
    low, high = (calibration.prices.of((k, k)) for k in (1, MANY))
    single = max(cost(1) for cost in calibration.prices.each)
    return [round(max(low + part * (high - low), 1.02 * single), 3) for part in parts]


def _stream(calibration: Calibration, limit: float) -> tuple[State, ...]:
    """As many updates of each table as fill the limit several times under NAIVE, in small steps."""
    most = 1
    while most < 2 * MANY and calibration.prices.of((2 * most, 2 * most)) <= limit:
        most *= 2
    each = max(most // STEPS, 1)
    one = Problem(calibration.prices, limit, ((each, each),) * (4 * ACTIONS * STEPS))
    acts = [i for i, action in enumerate(naive(one).actions) if any(action)]
    last = acts[ACTIONS - 1] + 2 if len(acts) > ACTIONS else len(one.arrivals)
    return one.arrivals[:last]


def _promise(calibration: Calibration) -> None:
    """What the measured curves leave to gain, against the limit."""
    rows = []
    for limit in _limits(calibration, (0.05, 0.1, 0.2, 0.4, 0.7, 1.0)):
        problem = Problem(calibration.prices, limit, _stream(calibration, limit))
        spent, best = naive(problem).cost(problem), optimal(problem).cost
        step = problem.arrivals[0][0]
        shown = (f"{spent:.1f}", f"{best:.1f}", f"{spent / best:.3f}")
        rows.append((f"{limit:.2f}", step, len(problem.arrivals), *shown))
    print(table(("limit", "per step", "steps", "NAIVE", "OPT", "NAIVE/OPT predicted"), rows))


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
    sizes = {t: lake._door.table(t) for t in TABLES}
    for name, count in zip(TABLES, counts, strict=True):
        known = size_of(sizes[name])
        if count and known is not None:
            # Others at every turn, about so many of them.
            mixed = f"xxhash64({time.monotonic_ns() % 1_000_003}, {keys[name]})"
            which = f"pmod({mixed}, {max(int(known.rows) // count, 1)}) = 0"
            lake.sql(f"UPDATE {name} SET {change[name].format(turn=turn)} WHERE {which}")
