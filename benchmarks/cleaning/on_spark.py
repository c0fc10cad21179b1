"""Cleaning beside refreshing on Spark: the join view (Fig. 4) and the base cube (Fig. 10).

The join view is sampled by the order key, which η takes to both tables; rows of one order are
sampled together. The cube is sampled by its customer: its whole key comes from two tables, above
whose join η would stop. Each round inserts new orders with their lines between those that are
there, and changes the price of a tenth as many; then the sample is cleaned, with and without
stored leaves, and at last the view is refreshed.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import belvedere as bv
from benchmarks.data import tpch

SHARES = (0.1, 0.025, 0.2)
"""Of changed lines, the one that is asked for first: a run that has to end early has it."""
RATIOS = (0.05, 0.2, 0.4)
"""Besides 10 %, for how cleaning grows with the sample."""


@dataclass(frozen=True)
class Workload:
    """A view, the columns its sample hashes, its tables and a query on it."""

    name: str
    view: str
    by: str
    tables: tuple[str, ...]
    query: str


JOIN = Workload(
    "join",
    "SELECT l_orderkey, l_linenumber, l_partkey, l_suppkey, l_quantity, l_extendedprice, l_discount,"
    " l_shipdate, o_custkey, o_orderdate, o_orderpriority, o_totalprice"
    " FROM lineitem JOIN orders ON l_orderkey = o_orderkey",
    "l_orderkey",
    ("orders", "lineitem"),
    "SELECT o_orderpriority, sum(l_extendedprice * (1 - l_discount)) AS revenue FROM v"
    " GROUP BY o_orderpriority",
)
CUBE = Workload(
    "cube",
    "SELECT o_custkey, c_nationkey, n_regionkey, l_partkey,"
    " sum(l_extendedprice * (1 - l_discount)) AS revenue, count(*) AS n"
    " FROM lineitem JOIN orders ON l_orderkey = o_orderkey JOIN customer ON o_custkey = c_custkey"
    " JOIN nation ON c_nationkey = n_nationkey"
    " GROUP BY o_custkey, c_nationkey, n_regionkey, l_partkey",
    "o_custkey",
    ("nation", "customer", "orders", "lineitem"),
    "SELECT c_nationkey, sum(revenue) AS revenue FROM v GROUP BY c_nationkey",
)
WORKLOADS = {w.name: w for w in (JOIN, CUBE)}


def measured(
    work: Workload, scale: float, cache: Path, minutes: float, shares: tuple[float, ...] = SHARES
) -> dict[str, Any]:
    """Seconds of each round and their ratios; no round begins when the minutes are over."""
    began = time.monotonic()
    found: dict[str, Any] = {"scale": scale, "hashed_key": work.by, "rounds": {}, "by_ratio": {}}
    with loaded(scale, cache / f"cleaning-{work.name}-lake", cache, work.tables) as lake:
        _say(found, "load_seconds", time.monotonic() - began)
        lake.sql(f"CREATE MATERIALIZED VIEW v REFRESH POLICY INCREMENTAL AS {work.view}")
        lake.sql(f"CREATE SAMPLE ON v RATIO 10 PERCENT BY ({work.by}) WITH STORED LEAVES")
        small = scale < 3
        if small:  # a second copy of the view for the sample without leaves
            lake.sql(f"CREATE MATERIALIZED VIEW w REFRESH POLICY INCREMENTAL AS {work.view}")
            lake.sql(f"CREATE SAMPLE ON w RATIO 10 PERCENT BY ({work.by})")
        _say(found, "create_seconds", time.monotonic() - began)
        for number, share in enumerate((0.002, *shares)):
            if number > 1 and time.monotonic() - began > 60 * minutes:
                found["cut_off_before"] = share
                break
            one = _round(lake, work, number, share, without_leaves=small)
            if number:  # the first one warms up
                _say(found["rounds"], f"{share:g}", one)
        for number, ratio in enumerate(RATIOS if small else ()):
            if time.monotonic() - began > 60 * minutes:
                break
            _say(found["by_ratio"], f"{ratio:g}", _at_ratio(lake, work, number, ratio))
    for name in ("clean_stored_leaves", "clean"):
        pairs = {s: r for s, r in found["rounds"].items() if name in r}
        found[f"refresh_over_{name}"] = {
            s: round(r["refresh"] / r[name], 2) for s, r in pairs.items()
        }
    found["clean_vs_refresh"] = found["refresh_over_clean_stored_leaves"].get("0.1")
    found["seconds"] = round(time.monotonic() - began)
    return found


def _round(
    lake: bv.Lake, work: Workload, number: int, share: float, *, without_leaves: bool
) -> dict[str, Any]:
    """One round of changes: clean, estimate, refresh, ask the view."""
    one = {"change": timed(lambda: [lake.sql(s) for s in changes(number, share)])}
    one["clean_stored_leaves"] = timed(lambda: lake.clean("v"))
    if without_leaves:
        one["clean"] = timed(lambda: lake.clean("w"))
    answers = {
        method: timed(lambda m=method: lake.estimate(work.query, method=m, clean=False))
        for method in ("AQP", "CORR")
    }
    one["refresh"] = timed(lambda: lake.refresh("v"))
    answers["view"] = median(timed(lambda: lake.sql(work.query).collect()) for _ in range(3))
    rounded: dict[str, Any] = {k: round(v, 2) for k, v in one.items()}
    return {**rounded, "query_ms": {k: round(1000 * v) for k, v in answers.items()}}


def _at_ratio(lake: bv.Lake, work: Workload, number: int, ratio: float) -> float:
    """Seconds to clean a sample of another ratio after 10 % of changes."""
    lake.sql(f"CREATE OR REPLACE SAMPLE ON w RATIO {100 * ratio:g} PERCENT BY ({work.by})")
    for statement in changes(number + 4, 0.1):
        lake.sql(statement)
    return round(timed(lambda: lake.clean("w")), 2)


@contextmanager
def loaded(scale: float, home: Path, cache: Path, tables: tuple[str, ...]) -> Iterator[bv.Lake]:
    """A lake of its own with TPC-H tables that record their changes."""
    kept = cache / f"lake-{scale:g}"
    shutil.rmtree(home, ignore_errors=True)
    there = all((kept / t / "_delta_log").exists() for t in tables)
    if there:
        # Files of a Delta table never change: links are as good as copies, and take no time.
        for t in tables:
            shutil.copytree(kept / t, home / t, copy_function=os.link)
    with bv.connect(home) as lake:
        if there:
            for t in tables:
                lake.sql(f"RESTORE TABLE {t} TO VERSION AS OF 1")
        else:
            tpch.load(lake, tpch.data(scale, cache), tables)
        for t in tables:
            lake.enable_change_feed(t)
        yield lake
    shutil.rmtree(home, ignore_errors=True)


def changes(number: int, share: float) -> list[str]:
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


def timed(run: Callable[[], object]) -> float:
    """Seconds on the clock."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def _say(found: dict[str, Any], key: str, what: Any) -> None:
    found[key] = round(what, 1) if isinstance(what, float) else what
    print(f"{key}: {found[key]}", flush=True)
