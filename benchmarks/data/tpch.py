"""TPC-H: its data, its 22 queries as views, and streams of changes to its tables.

The data is generated, and kept between runs.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import belvedere as bv
from benchmarks.data.query_texts import translated

TABLES = ("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem")


def queries() -> dict[str, str]:
    """The queries in Spark's SQL, by the names of their views: q01 … q22."""
    return translated("tpch", "q")


def data(scale: float, cache_directory: Path) -> Path:
    """The directory of the generated Parquet files of a scale."""
    directory = cache_directory / f"tpch-{scale:g}"
    if not directory.exists():
        partial = directory.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        generator = Path(sys.executable).with_name("tpchgen-cli")
        command = [str(generator), "parquet", "-s", f"{scale:g}", "-o", str(partial)]
        subprocess.run(command, check=True, capture_output=True)
        partial.rename(directory)
    return directory


def load(lake: bv.Lake, source: Path, tables: Iterable[str] = TABLES) -> None:
    """Delta tables of the generated data, in key order as generated."""
    for table in tables:
        frame = lake.spark.read.parquet(str(source / f"{table}.parquet"))
        frame.createOrReplaceTempView("generated")
        columns = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in frame.schema)
        lake.sql(f"CREATE TABLE {table} ({columns})")
        lake.sql(f"INSERT INTO {table} SELECT * FROM generated")


def scattered(number: int, share: float) -> list[str]:
    """A share of the orders in and out with their lineitems, over all keys.

    Order keys use 8 of every 32 numbers, so that new ones fit between them.
    """
    every = round(1 / share)
    gap = 8 * (number % 3 + 1)
    # Other blocks of keys in each of the next rounds: none goes twice, or goes that just came.
    new, old = 2 * number % every, (2 * number + 1) % every
    return [
        *_new_orders(
            f"o_orderkey + {gap}", f"o_orderkey % 32 < 8 AND o_orderkey div 32 % {every} = {new}"
        ),
        *_gone_orders(f"o_orderkey div 32 % {every} = {old}"),
    ]


def clustered(lake: bv.Lake, share: float) -> list[str]:
    """A share of the orders in, with the largest keys, and out, those with the smallest."""
    bounds = "SELECT min(o_orderkey) AS low, max(o_orderkey) AS high FROM orders"
    low, high = lake.sql(bounds).collect()[0]
    width = round((high - low) * share)
    return [
        *_new_orders(
            f"o_orderkey + {high - low - width}",
            f"o_orderkey BETWEEN {low + width + 1} AND {low + 2 * width}",
        ),
        *_gone_orders(f"o_orderkey <= {low + width}"),
    ]


def _new_orders(key: str, which: str) -> list[str]:
    line_key, line_which = (text.replace("o_orderkey", "l_orderkey") for text in (key, which))
    return [
        f"INSERT INTO lineitem SELECT {line_key}, * EXCEPT (l_orderkey) FROM lineitem WHERE {line_which}",
        f"INSERT INTO orders SELECT {key}, * EXCEPT (o_orderkey) FROM orders WHERE {which}",
    ]


def _gone_orders(which: str) -> list[str]:
    return [
        f"DELETE FROM lineitem WHERE {which.replace('o_orderkey', 'l_orderkey')}",
        f"DELETE FROM orders WHERE {which}",
    ]
