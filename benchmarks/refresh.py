"""Refresh against recomputation: TPC-H's queries as views, side by side in one session.

    python -m benchmarks.refresh [--quick] [--scale N] [--changes scattered|clustered]

Recomputation is the defining query written by Spark to a Delta table, warm, alternating with the
refresh of the view; medians. One row per view, then one JSON line. Data and views are kept in
.cache/benchmarks between runs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from math import exp, log
from pathlib import Path
from typing import Any

import belvedere as bv
from benchmarks import tpch

QUICK = ("q01", "q03", "q05", "q06", "q10", "q12", "q14", "q18")
UNTOUCHED = ("q02", "q11", "q16")
"""These read neither orders nor lineitem."""

CACHE = Path(".cache/benchmarks")


def main() -> None:
    options = _options()
    views = QUICK if options.quick else [v for v in tpch.queries() if v not in UNTOUCHED]
    with bv.connect(CACHE / f"lake-{options.scale:g}") as lake:
        _prepare(lake, options.scale, views)
        figures = _compare(lake, views, options)
        figures["empty_refresh_ms"] = _empty(lake)
        figures["fixed_units"] = _fixed(lake)
    print(json.dumps(figures))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="8 views, a few rounds")
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-H scale factor (default 1)")
    parser.add_argument("--changes", choices=("scattered", "clustered"), default="scattered")
    parser.add_argument("--share", type=float, default=0.001, help="of the orders, in and out")
    parser.add_argument("--rounds", type=int, default=3, help="measured rounds (default 3)")
    return parser.parse_args()


def _prepare(lake: bv.Lake, scale: float, views: Iterable[str]) -> None:
    """The tables and views that are not there yet."""
    there = {row["tableName"] for row in lake.sql("SHOW TABLES").collect()}
    missing = [t for t in tpch.TABLES if t not in there]
    if missing:
        _say(f"loading {', '.join(missing)}")
        tpch.load(lake, tpch.data(scale, CACHE), missing)
    for view in views:
        _say(f"preparing {view}")
        lake.sql(f"CREATE MATERIALIZED VIEW IF NOT EXISTS {view} AS {tpch.queries()[view]}")
    lake.refresh()


def _compare(lake: bv.Lake, views: Iterable[str], options: argparse.Namespace) -> dict[str, Any]:
    times: dict[str, list[tuple[float, float]]] = {view: [] for view in views}
    how: dict[str, str] = {}
    for number in range(options.rounds + 1):
        _change(lake, options, number)
        for view, pairs in times.items():
            _say(f"round {number}, {view}")
            again = lambda v=view: _recompute(lake, v)  # noqa: E731
            fresh = lambda v=view: lake.refresh(v)  # noqa: E731
            if number % 2:
                slow, (fast, done) = _timed(again)[0], _timed(fresh)
            else:
                (fast, done), slow = _timed(fresh), _timed(again)[0]
            how[view] = done.strategy
            _say(f"  recompute {slow:.2f} s, refresh {fast:.2f} s, {done.strategy} {done.reason}")
            if number:  # the first round warms both
                pairs.append((slow, fast))
    return _report(times, how, options)


def _change(lake: bv.Lake, options: argparse.Namespace, number: int) -> None:
    # Each run goes on where the table's history is, so that its keys are new.
    if options.changes == "clustered":
        statements = tpch.clustered(lake, options.share)
    else:
        statements = tpch.scattered(int(time.time()) + number, options.share)
    for statement in statements:
        lake.sql(statement)


def _report(
    times: dict[str, list[tuple[float, float]]], how: dict[str, str], options: argparse.Namespace
) -> dict[str, Any]:
    print(f"{'view':<6}{'recompute s':>12}{'refresh s':>11}{'ratio':>7}  strategy")
    ratios = {}
    for view, pairs in times.items():
        again, fresh = (statistics.median(p[i] for p in pairs) for i in (0, 1))
        ratios[view] = again / fresh
        print(f"{view:<6}{again:>12.2f}{fresh:>11.2f}{ratios[view]:>7.2f}  {how[view]}")
    mean = exp(statistics.fmean(log(r) for r in ratios.values()))
    key = f"sf{options.scale:g}_{'geomean' if options.scale == 1 else options.changes}"
    return {key: round(mean, 2), "ratios": {v: round(r, 2) for v, r in ratios.items()}}


def _recompute(lake: bv.Lake, view: str) -> None:
    frame = lake.spark.sql(tpch.queries()[view])
    # Delta takes no column called sum(l_quantity).
    named = frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))
    writer = named.write.format("delta").mode("overwrite")
    writer.option("overwriteSchema", "true").saveAsTable(f"recomputed_{view}")


def _empty(lake: bv.Lake) -> float:
    """Milliseconds per view when nothing changed."""
    lake.refresh()
    seconds, done = _timed(lake.refresh)
    return round(1000 * seconds / len(done), 1)


def _fixed(lake: bv.Lake) -> float:
    """The refresh of a small aggregate in units of one small query, both warm."""
    for statement in (
        "DROP MATERIALIZED VIEW IF EXISTS fixed_sums",
        "DROP TABLE IF EXISTS fixed",
        "CREATE TABLE fixed (k BIGINT, v BIGINT)",
        "INSERT INTO fixed SELECT id, id FROM range(10000)",
        "CREATE MATERIALIZED VIEW fixed_sums AS SELECT k, sum(v) AS v FROM fixed GROUP BY k",
    ):
        lake.sql(statement)
    units, refreshes = [], []
    for number in range(8):
        lake.sql(f"INSERT INTO fixed SELECT id * 10, {number} FROM range(1000)")
        refreshes.append(_timed(lambda: lake.refresh("fixed_sums"))[0])
        query = "SELECT k % 1000 AS k, sum(v) FROM fixed GROUP BY 1"
        units.append(_timed(lambda q=query: lake.sql(q).toArrow())[0])
    return round(statistics.median(refreshes[3:]) / statistics.median(units[3:]), 2)


def _timed(run: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    result = run()
    return time.perf_counter() - started, result


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
