"""Refresh against recompute: the time of each, side by side in one session, medians.

    python -m benchmarks.refresh [--quick] [--rows N] [--rounds N]

Recompute is the defining query written by Spark to a Delta table, warm, alternating with the
refresh of the view. One row per view, then one JSON line.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from math import exp, log
from typing import Any

import belvedere as bv

VIEWS = {
    "filtered": "SELECT o_id, amount FROM items WHERE amount > 990",
    "by_customer": """SELECT o.customer, count(*) AS n, sum(i.amount) AS amount
                      FROM items i JOIN orders o ON i.o_id = o.o_id GROUP BY o.customer""",
    "largest": "SELECT part, min(amount) AS least, max(amount) AS most FROM items GROUP BY part",
    "parts": "SELECT DISTINCT part FROM items WHERE amount > 500",
    "unpaid": """SELECT o.o_id, o.customer FROM orders o
                 LEFT ANTI JOIN items i ON o.o_id = i.o_id AND i.amount > 100""",
}


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory() as directory, bv.connect(directory) as lake:
        _fill(lake, options.rows)
        for name, query in VIEWS.items():
            lake.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        times: dict[str, dict[str, list[float]]] = {
            v: {"recompute": [], "refresh": []} for v in VIEWS
        }
        for number in range(options.rounds + 1):
            _change(lake, options.rows, number)
            for name, query in VIEWS.items():
                again = _timed(lambda q=query: _recompute(lake, q))
                fresh = _timed(lambda n=name: lake.refresh(n))
                if number:  # the first round warms both
                    times[name]["recompute"].append(again)
                    times[name]["refresh"].append(fresh)
    _report(times, options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few minutes: 1 M rows, 3 rounds")
    parser.add_argument("--rows", type=int, help="rows of items (orders has a fourth of it)")
    parser.add_argument("--rounds", type=int, help="measured rounds of changes")
    options = parser.parse_args()
    options.rows = options.rows or (1_000_000 if options.quick else 6_000_000)
    options.rounds = options.rounds or (3 if options.quick else 5)
    return options


def _fill(lake: bv.Lake, rows: int) -> None:
    lake.sql("CREATE TABLE orders (o_id BIGINT, customer BIGINT)")
    lake.sql("CREATE TABLE items (o_id BIGINT, part BIGINT, amount DECIMAL(12,2))")
    lake.sql(f"INSERT INTO orders SELECT id, hash(id) % 10000 FROM range({rows // 4})")
    lake.sql(f"INSERT INTO items {_items(0, rows)}")


def _items(first: int, last: int) -> str:
    return (
        "SELECT id div 4, abs(hash(id, 1)) % 5000, CAST(abs(hash(id, 2)) % 100000 / 100 AS DECIMAL(12,2))"
        f" FROM range({first}, {last})"
    )


def _change(lake: bv.Lake, rows: int, number: int) -> None:
    """A thousandth of the orders in and out, with their items."""
    step = rows // 1000
    first = rows + number * step
    lake.sql(f"INSERT INTO items {_items(first, first + step)}")
    lake.sql(
        f"INSERT INTO orders SELECT DISTINCT id div 4, id % 10000 FROM range({first}, {first + step})"
    )
    low, high = number * step // 4, (number + 1) * step // 4
    lake.sql(f"DELETE FROM items WHERE o_id >= {low} AND o_id < {high}")
    lake.sql(f"DELETE FROM orders WHERE o_id >= {low} AND o_id < {high}")


def _recompute(lake: bv.Lake, query: str) -> None:
    lake.spark.sql(query).write.format("delta").mode("overwrite").option(
        "overwriteSchema", "true"
    ).saveAsTable("recomputed")


def _timed(run: Callable[[], Any]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def _report(times: dict[str, dict[str, list[float]]], options: argparse.Namespace) -> None:
    ratios = {}
    print(f"{'view':<14}{'recompute s':>12}{'refresh s':>12}{'ratio':>8}")
    for name, both in times.items():
        again, fresh = (statistics.median(both[k]) for k in ("recompute", "refresh"))
        ratios[name] = again / fresh
        print(f"{name:<14}{again:>12.2f}{fresh:>12.2f}{ratios[name]:>8.2f}")
    geomean = exp(sum(log(r) for r in ratios.values()) / len(ratios))
    sizes = {"rows": options.rows, "changed": options.rows // 500, "rounds": options.rounds}
    figures = {k: round(v, 3) for k, v in ratios.items()}
    print(json.dumps({"geomean": round(geomean, 3), "ratios": figures, **sizes}))


if __name__ == "__main__":
    main()
