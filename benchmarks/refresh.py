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
from collections.abc import Callable, Collection, Iterable
from math import exp, log
from pathlib import Path
from typing import Any

import belvedere as bv
from benchmarks import tpch

QUICK = ("q01", "q03", "q05", "q06", "q10", "q12", "q14", "q18")
UNTOUCHED = ("q02", "q11", "q16")
"""These read neither orders nor lineitem."""

MANY_FILES = 24
CACHE = Path(".cache/benchmarks")


def main() -> None:
    options = _options()
    views = QUICK if options.quick else [v for v in tpch.queries() if v not in UNTOUCHED]
    with bv.connect(CACHE / f"lake-{options.scale:g}") as lake:
        _prepare(lake, options.scale, views)
        figures = _measure(lake, views, options)
        figures["empty_refresh_ms"] = _empty(lake)
        figures["fixed_units"] = _fixed(lake)
    print(json.dumps(figures))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="8 views, two sizes of changes")
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-H scale factor (default 1)")
    parser.add_argument("--changes", choices=("scattered", "clustered"), default="scattered")
    parser.add_argument("--share", type=float, default=0.001, help="of the orders, in and out")
    parser.add_argument("--rounds", type=int, default=3, help="measured rounds (default 3)")
    return parser.parse_args()


def _prepare(lake: bv.Lake, scale: float, views: Iterable[str]) -> None:
    """The tables and views that are not there yet; tables that earlier runs left in pieces, whole."""
    there = {row["tableName"] for row in lake.sql("SHOW TABLES").collect()}
    missing = [t for t in tpch.TABLES if t not in there]
    if missing:
        _say(f"loading {', '.join(missing)}")
        tpch.load(lake, tpch.data(scale, CACHE), missing)
    for table in ("orders", "lineitem"):
        if lake.sql(f"DESCRIBE DETAIL {table}").collect()[0]["numFiles"] > MANY_FILES:
            _say(f"putting {table} together")
            lake.sql(f"REORG TABLE {table} APPLY (PURGE)")
            lake.sql(f"OPTIMIZE {table}")
    for view in views:
        _say(f"preparing {view}")
        lake.sql(f"CREATE MATERIALIZED VIEW IF NOT EXISTS {view} AS {tpch.queries()[view]}")
    lake.refresh()


Pairs = dict[tuple[str, float], list[tuple[float, float]]]
"""By view and share of changes: seconds of recomputation and of refresh, side by side."""


def _measure(
    lake: bv.Lake,
    views: Iterable[str],
    options: argparse.Namespace,
) -> dict[str, Any]:
    large = {0.1: 2} if options.quick else {0.01: 5, 0.1: 5, 0.5: 5}
    shares = {options.share: options.rounds, **(large if options.scale == 1 else {})}
    pairs: Pairs = {}
    how: dict[tuple[str, float], str] = {}
    same: list[float] = []
    for share, rounds in shares.items():
        for number in range(rounds + 1):
            _change(lake, options, share)
            for view in views:
                slow, fast, done = _pair(lake, view, number)
                how[view, share] = f"{done.strategy} {done.reason}".strip()
                _say(f"{share:g} {view}: {slow:.2f} s, {fast:.2f} s, {how[view, share]}")
                if number:  # the first round warms both
                    pairs.setdefault((view, share), []).append((slow, fast))
                elif share == options.share:
                    same.append(_timed(lambda v=view: _recompute(lake, v))[0] / slow)
    ratios = _report(pairs, how)
    main = [ratio for (_, share), ratio in ratios.items() if share == options.share]
    key = f"sf{options.scale:g}_{'geomean' if options.scale == 1 else options.changes}"
    shown = {v: round(r, 2) for (v, share), r in ratios.items() if share == options.share}
    figures: dict[str, Any] = {key: round(_mean(main), 2), "ratios": shown}
    if len(shares) > 1:
        # A warm recomputation beside another one of the same view.
        figures["same_twice"] = round(_mean(same), 2)
        figures["worst_auto"] = round(_percentile(ratios.values(), 5) / _mean(same), 2)
    return figures


def _pair(lake: bv.Lake, view: str, number: int) -> tuple[float, float, bv.Refreshed]:
    """Recomputation and refresh, in turns the one or the other first."""
    again, fresh = (lambda: _recompute(lake, view)), (lambda: lake.refresh(view))
    if number % 2:
        slow, (fast, done) = _timed(again)[0], _timed(fresh)
    else:
        (fast, done), slow = _timed(fresh), _timed(again)[0]
    return slow, fast, done


def _change(lake: bv.Lake, options: argparse.Namespace, share: float) -> None:
    if options.changes == "clustered":
        statements = tpch.clustered(lake, share)
    else:
        # Each round has two commits; a run goes on where the one before it ended.
        done = lake.sql("DESCRIBE HISTORY orders LIMIT 1").collect()[0]["version"]
        statements = tpch.scattered(done // 2, share)
    for statement in statements:
        lake.sql(statement)


def _report(pairs: Pairs, how: dict[tuple[str, float], str]) -> dict[tuple[str, float], float]:
    """The table of medians; the ratio of each case."""
    print(f"{'changes':<9}{'view':<6}{'recompute s':>12}{'refresh s':>11}{'ratio':>7}  strategy")
    ratios = {}
    for (view, share), found in pairs.items():
        again, fresh = (statistics.median(p[i] for p in found) for i in (0, 1))
        ratio = ratios[view, share] = again / fresh
        taken = how[view, share]
        print(f"{share:<9.1%}{view:<6}{again:>12.2f}{fresh:>11.2f}{ratio:>7.2f}  {taken}")
    return ratios


def _mean(ratios: Collection[float]) -> float:
    return exp(statistics.fmean(map(log, ratios)))


def _percentile(values: Collection[float], percent: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * percent / 100), len(ordered) - 1)]


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
