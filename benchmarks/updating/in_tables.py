"""A view whose rows stay in its tables: what creating it, checks and updates through it take."""

from __future__ import annotations

import resource
import statistics
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import belvedere as bv
from benchmarks.cleaning.on_spark import loaded, timed

KEYS = {
    "nation": ["n_nationkey"],
    "customer": ["c_custkey"],
    "orders": ["o_orderkey"],
    "lineitem": ["l_orderkey", "l_linenumber"],
}
VIEW = (
    "SELECT n_nationkey, n_name, c_custkey, c_name, o_orderkey, o_orderdate, l_linenumber, l_quantity"
    " FROM nation JOIN customer ON c_nationkey = n_nationkey"
    " JOIN orders ON o_custkey = c_custkey JOIN lineitem ON l_orderkey = o_orderkey"
)
SAMPLED = ("customer", "orders", "lineitem")
"""Tables of which a quarter of the rows are left, so that rows dangle."""
EACH = 5
ORDERS, BATCHES = 100, 3
"""Orders of a batch that come, and that go, with four lines each; how many batches count."""


def in_tables(scale: float, cache: Path) -> dict[str, Any]:
    """Seconds on Delta tables of a scale; megabytes of this process, which is no JVM."""
    with loaded(scale, cache / "updating-tables-lake", cache, tuple(KEYS)) as lake:
        for table, key in KEYS.items():
            lake.declare_key(table, key)
        before = _megabytes()
        created = timed(lambda: lake.sql(f"CREATE UPDATABLE VIEW v LOOKUPS IN TABLES AS {VIEW}"))
        rows = _asked(lake)
        lake.check("v", insert=rows[0])  # the first one compiles
        found = {
            "scale": scale,
            "create_s": round(created, 2),
            "check_insert_s": _median(rows, lambda r: _possible(lake, insert=r)),
            "check_delete_s": _median(
                rows, lambda r: _possible(lake, delete={**r, "l_linenumber": 1})
            ),
            "insert_s": _median(rows, lambda r: _inserted(lake, r)),
            "python_mb": round(_megabytes() - before),
        }
        lake.sql("DROP UPDATABLE VIEW v")
        found["with_summary"] = _with_summary(lake, rows)
    # Of its own, since most of its rows go.
    with loaded(scale, cache / "updating-sampled-lake", cache, tuple(KEYS)) as lake:
        for table, key in KEYS.items():
            lake.declare_key(table, key)
        for table in SAMPLED:
            lake.sql(f"DELETE FROM {table} WHERE xxhash64({', '.join(KEYS[table])}) % 4 <> 0")
        found["where_rows_dangle"] = _with_summary(lake, _asked(lake))
    print(found, flush=True)
    return found


def _with_summary(lake: bv.Lake, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The same view with its summary in tables: building it, keeping it, asking it."""
    create = (
        f"CREATE UPDATABLE VIEW v CANDIDATES 10 PERCENT LOOKUPS IN TABLES WITH SUMMARY AS {VIEW}"
    )
    lake.sql("DROP UPDATABLE VIEW IF EXISTS v")
    found: dict[str, Any] = {"build_s": round(timed(lambda: lake.sql(create)), 1)}
    found["summary"] = str(lake.explain("v")).splitlines()[1:-1]
    orders = lake.sql("SELECT * FROM orders").count()
    numbers = range(1 + BATCHES)
    for name, some in (
        ("maintain", map(_near, numbers)),
        ("scattered", (_scattered(n, orders) for n in numbers)),
    ):
        kept = [_batch(lake, *which) for which in some]
        found[f"{name}_s"] = round(statistics.median(kept[1:]), 2)  # the first one compiles
        found[f"build_over_{name}"] = round(found["build_s"] / found[f"{name}_s"], 1)
    new = [{**row, "l_linenumber": 91} for row in rows]
    loading = timed(lambda: lake.check("v", insert=new[0], mode="FAST"))
    found["fast_first_s"] = round(loading, 2)  # classes and links are read
    found["fast_s"] = _median(new, lambda r: lake.check("v", insert=r, mode="FAST"))
    print(found, flush=True)
    return found


def _near(number: int) -> tuple[str, str]:
    """Orders that come and orders that go, a range of keys each: as TPC-H's refresh functions have them."""
    width = 4 * ORDERS  # eight of every 32 numbers are keys
    come, gone = (f"{{0}} div {width} = {2 * number + side}" for side in (1, 2))
    return come, gone


def _scattered(number: int, orders: int) -> tuple[str, str]:
    """As many over all keys."""
    every = max(orders // ORDERS, 1)
    come, gone = (f"{{0}} div 32 % {every} = {2 * number + 1001 + side}" for side in (0, 1))
    return come, gone


def _batch(lake: bv.Lake, come: str, gone: str) -> float:
    """Seconds to keep the summary after about a thousand changed rows: orders with their lines."""
    for table, key in (("lineitem", "l_orderkey"), ("orders", "o_orderkey")):
        lake.sql(
            f"INSERT INTO {table} SELECT {key} + 8, * EXCEPT ({key}) FROM {table}"
            f" WHERE {key} % 32 < 8 AND {come.format(key)}"
        )
        lake.sql(f"DELETE FROM {table} WHERE {gone.format(key)}")
    return timed(lambda: lake.refresh("v"))


def _asked(lake: bv.Lake) -> list[dict[str, Any]]:
    """A further line of some orders, as the view's first lines of them show them."""
    query = f"{VIEW} WHERE l_linenumber = 1 AND o_orderkey % 10007 = 1 LIMIT {EACH}"
    return [{**r.asDict(), "l_linenumber": 90} for r in lake.sql(query).collect()]


def _possible(lake: bv.Lake, **asked: Any) -> None:
    assert lake.check("v", **asked).possible == "yes"


def _inserted(lake: bv.Lake, row: dict[str, Any]) -> None:
    listed = (repr(str(v)) if isinstance(v, str | date) else str(v) for v in row.values())
    lake.sql(f"INSERT INTO v VALUES ({', '.join(listed)})")


def _median(rows: list[dict[str, Any]], run: Callable[[dict[str, Any]], None]) -> float:
    return round(statistics.median(timed(lambda r=row: run(r)) for row in rows), 2)


def _megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
