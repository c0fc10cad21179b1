"""The MIN view of ABIVM, §5, on Spark: its tables, its stream of updates, and plans run for real.

Costs are measured right before the plans, in the same session, by the same kind of change. Every
plan runs the same stream, row for row, on a copy of the same lake. A limit at which the measured curves leave
nothing to gain is told and not run: its share would be noise over noise.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import belvedere as bv
from belvedere.lake.sessions.scratch import scratch
from belvedere.lake.spark_lake import SparkLake
from belvedere.listing import table
from belvedere.scheduling.calibrate.calibration import calibrate, tables_of
from belvedere.scheduling.model.cost_functions import Prices
from belvedere.scheduling.model.optimal import find_optimal_plan
from belvedere.scheduling.model.plans import naive_plan
from belvedere.scheduling.model.policies import new_policy
from belvedere.scheduling.model.problem import Action, ActionPlan, Problem, State, plus, steps
from belvedere.scheduling.model.simulator import choose_policy, simulate
from belvedere.scheduling.plots import cost_bars, draw_bars, draw_curves
from belvedere.scheduling.schedules import Calibration, save_calibration
from belvedere.views.catalog import the_view
from belvedere.views.refresh import refresh
from benchmarks.data import tpch

CACHE = Path(".cache/benchmarks")
PICTURES = Path("docs/pictures")
VIEW, TABLES = "min_cost", ("partsupp", "supplier")
QUERY = """SELECT min(ps_supplycost) AS cost FROM partsupp, supplier, nation, region
WHERE s_suppkey = ps_suppkey AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey
AND r_name = 'MIDDLE EAST'"""
SIZES = (1, 10, 100, 300, 1000, 3000, 10_000, 30_000)
"""Batches that are timed, up to what plans make; of all tables at once 10 and 1000, compared with these."""
RATES = {"1:1": (1, 1), "20:1": (20, 1), "100:1": (100, 1)}
"""Updates of each table per step: the paper's, and prices that change far more often."""
TIMES = (1.2, 1.5, 2.0, 3.0, 5.0)
"""Limits, as multiples of what one change of each table takes at most."""
WORTH = 1.05
"""NAIVE over OPT from which on there is something to gain."""
ACTIONS, STEPS = 8, 20
"""How often NAIVE acts on a stream, and after about how many steps."""
WARM = 3
"""Refreshes that do not count before a plan is run."""
POLICIES = ("NAIVE", "AUTO", "OPT")


@dataclass(frozen=True)
class Setting:
    """A stream of so many updates at each step, under a limit, and what its plans should cost."""

    rates: str
    problem: Problem
    policy: str
    plans: dict[str, ActionPlan]

    @property
    def predicted(self) -> dict[str, float]:
        """What the plans cost by the measured curves."""
        return {name: plan.cost(self.problem) for name, plan in self.plans.items()}

    @property
    def left(self) -> float:
        """NAIVE over OPT: what the curves leave to gain."""
        return self.predicted["NAIVE"] / self.predicted["OPT"]


def measured(
    scale: float, limits: Sequence[float] | None, times: int, *, quick: bool
) -> dict[str, Any]:
    """Calibrate, plan for several limits, run the plans where there is something to gain."""
    with bv.connect(CACHE / f"scheduling-min-{scale:g}") as lake:
        _prepare(lake, scale)
        calibration = _calibrated(lake)
        print(calibration, flush=True)
        PICTURES.mkdir(parents=True, exist_ok=True)
        draw_curves(calibration, PICTURES / "cost-curves.svg")
        settings = [
            _setting(calibration.prices, rates, limit)
            for rates in RATES
            for limit in limits or _limits(calibration.prices)
        ]
        _promise(settings)
        worth = sorted((s for s in settings if s.left >= WORTH), key=lambda s: -s.left)
        most = 1 if quick else 2
        chosen = [s for rates in RATES for s in [w for w in worth if w.rates == rates][:most]]
        real = [_compared(lake, setting, times) for setting in chosen]
    return {"scale": scale, **_left(settings), **_shares(chosen, real)}


def _left(settings: Sequence[Setting]) -> dict[str, Any]:
    return {
        "gain_left": [[s.rates, s.problem.limit, round(1 - 1 / s.left, 3)] for s in settings],
        "naive_over_opt_predicted": round(max(s.left for s in settings), 3),
    }


def _shares(chosen: Sequence[Setting], real: Sequence[dict[str, float]]) -> dict[str, Any]:
    """What was gained of what there was to gain, in time really spent."""
    if not chosen:
        return {"spark_gain_share": None, "simulated_over_real": None}
    spent = {name: sum(run[name] for run in real) for name in POLICIES}
    predicted = sum(sum(s.predicted.values()) for s in chosen)
    draw_bars(real[0], PICTURES / "cost-bars.svg")
    gained, there = spent["NAIVE"] - spent["AUTO"], spent["NAIVE"] - spent["OPT"]
    return {
        **{f"spark_{name.lower()}_seconds": round(spent[name], 2) for name in POLICIES},
        "spark_naive_over_opt": round(spent["NAIVE"] / spent["OPT"], 3),
        "spark_gain_share": round(gained / there, 3) if there > 0 else None,
        "simulated_over_real": round(predicted / sum(spent.values()), 3),
        "simulated_over_real_each": [
            [s.rates, s.problem.limit, {n: round(s.predicted[n] / run[n], 3) for n in POLICIES}]
            for s, run in zip(chosen, real, strict=True)
        ],
    }


def _prepare(lake: bv.Lake, scale: float) -> None:
    """The tables, the view, and the beginning of the stream, by which its kind is known."""
    source = tpch.data(scale, CACHE)
    there = set(lake._door.names())
    tpch.load(lake, source, [t for t in ("region", "nation", *TABLES) if t not in there])
    if VIEW not in there:
        lake.sql(f"CREATE MATERIALIZED VIEW {VIEW} REFRESH POLICY INCREMENTAL AS {QUERY}")
        Stream(lake._door).update((20, 20))
    lake.refresh(VIEW)


def _calibrated(lake: bv.Lake) -> Calibration:
    began = time.monotonic()
    door = lake._door
    found = calibrate(door, VIEW, tables=TABLES, sizes=SIZES, rounds=3, kinds=("update",))
    save_calibration(door, VIEW, found)
    print(f"calibrated in {time.monotonic() - began:.0f} s", flush=True)
    return found


def _limits(prices: Prices) -> list[float]:
    return [round(times * prices.at_most((1, 1)), 3) for times in TIMES]


def _setting(prices: Prices, rates: str, limit: float) -> Setting:
    problem = Problem(prices, limit, _stream(prices, limit, RATES[rates]))
    chosen = choose_policy(problem, problem.arrivals)
    plans = {
        "NAIVE": naive_plan(problem),
        "AUTO": simulate(problem, new_policy(chosen.name, problem)).plan,
        "OPT": find_optimal_plan(problem).plan,
    }
    return Setting(rates, problem, chosen.name, plans)


def _stream(prices: Prices, limit: float, rates: State) -> tuple[State, ...]:
    """As many updates of each table as fill the limit several times under NAIVE, in small steps."""
    most = 1
    while most < 1000 and prices.at_most([2 * most * r for r in rates]) <= limit:
        most *= 2
    each = tuple(max(most // STEPS, 1) * r for r in rates)
    long = Problem(prices, limit, (each,) * (8 * ACTIONS * STEPS))
    acts = [i for i, action in enumerate(naive_plan(long).actions) if any(action)]
    last = acts[ACTIONS - 1] + 2 if len(acts) > ACTIONS else len(long.arrivals)
    return long.arrivals[:last]


def _promise(settings: Sequence[Setting]) -> None:
    """What the measured curves leave to gain, against the limit."""
    rows = [
        (
            s.rates,
            f"{s.problem.limit:.2f}",
            str(s.problem.arrivals[0]),
            len(s.problem.arrivals),
            *(f"{s.predicted[name]:.2f}" for name in POLICIES),
            f"{s.left:.3f}",
            s.policy,
            "" if s.left >= WORTH else "nothing to gain",
        )
        for s in settings
    ]
    headers = ("rates", "limit", "per step", "steps", *POLICIES, "NAIVE/OPT", "AUTO takes", "")
    print(table(headers, rows), flush=True)


def _compared(lake: bv.Lake, setting: Setting, times: int) -> dict[str, float]:
    """The time that each plan really takes: there and back again, for what runs later is warmer."""
    order = [*POLICIES, *reversed(POLICIES)] * times
    spent: dict[str, list[float]] = {name: [] for name in POLICIES}
    for name in order:
        spent[name].append(_executed(lake, setting.problem, setting.plans[name]))
        print(f"  {setting.rates}, {name}: {spent[name][-1]:.2f} s", flush=True)
    real = {name: sum(times) / len(times) for name, times in spent.items()}
    both = (("real", real), ("predicted", setting.predicted))
    print(f"{setting.rates}, limit {setting.problem.limit:.2f} s, AUTO takes {setting.policy}")
    print(cost_bars({f"{n} {w}": c[n] for n in POLICIES for w, c in both}), flush=True)
    return real


def _executed(lake: bv.Lake, problem: Problem, plan: ActionPlan) -> float:
    """Run a plan on a copy of the lake: the time of its actions alone."""
    with scratch(lake._door, tables_of(the_view(lake._door, VIEW))) as door:
        refresh(door, VIEW)
        stream = Stream(door)
        for i in range(WARM):
            stream.update((20, 20))
            refresh(door, VIEW, only=TABLES[: i % 3] or None)
        waiting, spent = problem.nothing, 0.0
        for step, arrived in zip(steps(problem, plan), problem.arrivals, strict=True):
            waiting = plus(waiting, arrived)
            if any(step.action):
                stream.update(waiting)
                waiting = problem.nothing
                spent += _acted(door, step.action, step.before)
    return spent


def _acted(door: SparkLake, action: Action, before: State) -> float:
    some = [t for t, k in zip(TABLES, action, strict=True) if k]
    began = time.monotonic()
    refresh(door, VIEW, only=None if action == before else some)
    return time.monotonic() - began


class Stream:
    """Updates of a price, and of a supplier's nation: the same rows in the same order every time.

    Rows are taken in the order of a mixed key, round and round; each time round they get other
    values. A batch is thus the rows of one stretch, however the stream is cut.
    """

    MIXED: ClassVar = {
        "partsupp": "pmod(xxhash64(ps_partkey, ps_suppkey), {})",
        "supplier": "pmod(s_suppkey * 7919, {})",
    }
    CHANGE: ClassVar = {
        "partsupp": "ps_supplycost = CAST(1 + pmod(xxhash64(ps_partkey, {}), 99900) / 100"
        " AS DECIMAL(15,2))",
        "supplier": "s_nationkey = pmod(xxhash64(s_suppkey, {}), 25)",
    }

    def __init__(self, door: SparkLake) -> None:
        self._door = door
        counted = {t: f"SELECT count(*) FROM {door.table(t).reference}" for t in TABLES}
        self._rows = {t: int(door.sql(text).collect()[0][0]) for t, text in counted.items()}
        self._at = dict.fromkeys(TABLES, 0)

    def update(self, counts: State) -> None:
        """The next so many rows of each table."""
        for name, count in zip(TABLES, counts, strict=True):
            while count:
                rows, at = self._rows[name], self._at[name]
                lap, first = divmod(at, rows)
                some = min(count, rows - first)
                mixed = self.MIXED[name].format(rows)
                self._door.sql(
                    f"UPDATE {self._door.table(name).reference} SET {self.CHANGE[name].format(lap)}"
                    f" WHERE {mixed} >= {first} AND {mixed} < {first + some}"
                )
                self._at[name] += some
                count -= some
