"""Cleaning beside refreshing on Spark: the join view of lineitem and orders, 10 % sample (Fig. 4).

The hashed key is the order key, which η takes to both tables; rows of one order are sampled
together. Each round inserts new orders with their lines, and changes some that are there; then
the sample is cleaned, with and without stored leaves, and at last the view is refreshed.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from statistics import median
from typing import Any

import belvedere as bv
from belvedere.cleaning.periodic import Cost, Load, alone, best, run, together
from benchmarks import tpch

VIEW = (
    "SELECT l_orderkey, l_linenumber, l_partkey, l_suppkey, l_quantity, l_extendedprice, l_discount,"
    " l_shipdate, o_custkey, o_orderdate, o_orderpriority, o_totalprice"
    " FROM lineitem JOIN orders ON l_orderkey = o_orderkey"
)
QUERY = "SELECT o_orderpriority, sum(l_extendedprice * (1 - l_discount)) AS revenue FROM lines GROUP BY o_orderpriority"


LINES = 6_000_000
RATIO = 0.1


def measured(
    scale: float, cache: Path, shares: tuple[float, ...] = (0.025, 0.1, 0.2), beside: float = 0
) -> dict[str, Any]:
    """Seconds of each, and their ratios."""
    found: dict[str, Any] = {"scale": scale, "hashed_key": "l_orderkey", "rounds": {}}
    home = cache / "cleaning-lake"
    shutil.rmtree(home, ignore_errors=True)
    with bv.connect(home) as lake:
        tpch.load(lake, tpch.data(scale, cache), ("orders", "lineitem"))
        for table in ("orders", "lineitem"):
            lake.enable_change_feed(table)
        lake.sql(f"CREATE MATERIALIZED VIEW lines REFRESH POLICY INCREMENTAL AS {VIEW}")
        lake.sql(f"CREATE MATERIALIZED VIEW lines2 REFRESH POLICY INCREMENTAL AS {VIEW}")
        lake.sql("CREATE SAMPLE ON lines RATIO 10 PERCENT BY (l_orderkey) WITH STORED LEAVES")
        lake.sql("CREATE SAMPLE ON lines2 RATIO 10 PERCENT BY (l_orderkey)")
        for number, share in enumerate((0.01, *shares)):
            for statement in _changes(number, share):
                lake.sql(statement)
            with_leaves, without = (
                _timed(lambda: lake.clean("lines")),
                _timed(lambda: lake.clean("lines2")),
            )
            answers = {
                method: _timed(lambda m=method: lake.estimate(QUERY, method=m, clean=False))
                for method in ("AQP", "CORR")
            }
            refresh = _timed(lambda: lake.refresh("lines"))
            on_view = median(_timed(lambda: lake.sql(QUERY).collect()) for _ in range(3))
            lake.refresh("lines2")
            if number:  # the first one warms up
                found["rounds"][f"{share:g}"] = {
                    "refresh": round(refresh, 2),
                    "clean_stored_leaves": round(with_leaves, 2),
                    "clean": round(without, 2),
                    "query_ms": {
                        k: round(1000 * v) for k, v in {"view": on_view, **answers}.items()
                    },
                }
                print(share, found["rounds"][f"{share:g}"], flush=True)
        if beside:
            found["periodic"] = periodic(lake, found["rounds"], scale, beside)
    for name in ("clean_stored_leaves", "clean"):
        ratios = {s: round(r["refresh"] / r[name], 2) for s, r in found["rounds"].items()}
        found[f"refresh_over_{name}"] = ratios
    found["clean_vs_refresh"] = found["refresh_over_clean_stored_leaves"].get("0.1")
    return found


def periodic(lake: bv.Lake, rounds: dict[str, Any], scale: float, seconds: float) -> dict[str, Any]:
    """Fig. 15: the best ratio by the simulator from what was measured, and a run of its plan."""
    points = {
        name: [(LINES * scale * 1.1 * float(s), r[name]) for s, r in rounds.items()]
        for name in ("refresh", "clean_stored_leaves")
    }
    refresh, clean = (Cost.fitted(p) for p in points.values())
    rate = 0.3 / max(refresh.per_row, 1e-9)
    load = Load(rate, refresh, Cost(clean.fixed, clean.per_row / RATIO))
    plan, only = best(load), alone(load)
    real = together(load, RATIO)
    arrived = [0]

    def arrive(_: float) -> None:
        arrived[0] += 1
        for statement in _changes(10 + arrived[0], 0.005):
            lake.sql(statement)

    steps = run(lake, "lines", arrive, real, seconds)
    kinds = {k: [s.seconds for s in steps if s.what == k] for k in ("clean", "refresh")}
    return {
        "best_ratio": round(plan.ratio, 3),
        "error_alone_over_together": round(only.error / plan.error, 2),
        "at_our_ratio": {"period": round(real.period, 1), "cleanings": real.cleanings},
        "run_seconds": seconds,
        "ran": {k: [len(v), round(median(v), 2) if v else None] for k, v in kinds.items()},
    }


def _changes(number: int, share: float) -> list[str]:
    """A share of the orders comes with its lines; a tenth as many lines get another price."""
    every = max(round(1 / share), 1)
    gap = 8 * (number % 3 + 1)
    which = f"{{}} % 32 < 8 AND {{}} div 32 % {every} = {number % every}"
    line, order = which.format("l_orderkey", "l_orderkey"), which.format("o_orderkey", "o_orderkey")
    return [
        f"INSERT INTO lineitem SELECT l_orderkey + {gap}, * EXCEPT (l_orderkey) FROM lineitem WHERE {line}",
        f"INSERT INTO orders SELECT o_orderkey + {gap}, * EXCEPT (o_orderkey) FROM orders WHERE {order}",
        "UPDATE lineitem SET l_extendedprice = l_extendedprice * 1.1"
        f" WHERE l_orderkey div 32 % {every * 10} = {number}",
    ]


def _timed(run: Any) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began
