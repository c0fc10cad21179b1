"""What it takes to keep a filter current, in the mix of TPC-H's refresh functions, and to build on Spark."""

from __future__ import annotations

import gc
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from belvedere.joins.normal_form import JoinBlock
from belvedere.updating.summary.filter import UpdateFilter
from benchmarks.updating.sampled_tpch import COLUMNS, JOINS, KEYS, Tpch, outputs

BATCHES = 5
ORDER = {"orders": "o_orderkey", "lineitem": "l_orderkey"}
PER_ORDER = {"orders": 2, "lineitem": 5}
"""Changes for one order that comes with its four lines and one that goes with the one that was sampled."""
Batch = tuple[dict[str, pa.Table], dict[str, list[int]]]


def batches(tpch: Tpch, shape: JoinBlock, rows: int = 1000) -> Iterator[Batch]:
    """About so many changes each: as many orders come, with their lines, as go with theirs."""
    connection = tpch.connection
    tables = [t for t in ORDER if t in shape.tables]
    orders = rows // sum(PER_ORDER[t] for t in tables) if tables else 0
    for i in range(BATCHES if tables else 0):
        some = f"LIMIT {orders} OFFSET {i * orders}"
        old = f"(SELECT o_orderkey FROM orders ORDER BY hash(o_orderkey, 5) {some})"
        new = f"(SELECT o_orderkey FROM whole_orders ORDER BY hash(o_orderkey, 6) {some})"
        nets, signs = {}, {}
        for table in tables:
            key = ORDER[table]
            gone = connection.execute(
                f"SELECT * FROM {table} WHERE {key} IN {old}"
            ).to_arrow_table()
            listed = ", ".join(f"{c} + 8 AS {c}" if c == key else c for c in COLUMNS[table])
            come = connection.execute(
                f"SELECT {listed} FROM whole_{table} WHERE {key} IN {new}"
            ).to_arrow_table()
            nets[table] = pa.concat_tables([gone, come.cast(gone.schema)])
            signs[table] = [-1] * gone.num_rows + [1] * come.num_rows
        yield nets, signs


def maintained(tpch: Tpch, made: UpdateFilter) -> tuple[float, float, int]:
    """CPU milliseconds of the first batch and the median of those after it; changes in a batch."""
    times, changes = [], 0
    gc.collect()  # what was measured before left much behind
    for nets, signs in batches(tpch, made.shape):
        changes = sum(net.num_rows for net in nets.values())
        began = time.process_time()
        made.advance(nets, signs)
        times.append((time.process_time() - began) * 1000)
    return (times[0], statistics.median(times[1:]), changes) if times else (0.0, 0.0, 0)


def built_on_spark(tpch: Tpch, name: str) -> dict[str, float]:
    """Seconds on Spark, from the sampled tables as Delta tables: the summary by jobs, the whole view."""
    import belvedere as bv

    froms, where = JOINS[name]
    tables = {part.split()[0] for part in froms.split(", ")}
    query = f"SELECT {outputs(froms)} FROM {froms} WHERE {where}"
    times: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as directory, bv.connect(Path(directory) / "lake") as lake:
        for table in sorted(tables):
            file = Path(directory) / f"{table}.parquet"
            tpch.connection.execute(f"COPY {table} TO '{file}' (FORMAT parquet)")
            feed = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
            lake.sql(f"CREATE TABLE {table} USING delta {feed} AS SELECT * FROM parquet.`{file}`")
            lake.declare_key(table, list(KEYS[table]))
        for what, text in (
            ("summary", f"EXPLAIN CREATE UPDATABLE VIEW v AS {query}"),
            ("view", f"CREATE UPDATABLE VIEW v AS {query}"),
        ):
            began = time.perf_counter()
            lake.sql(text).collect()
            times[what] = round(time.perf_counter() - began, 1)
    return times
