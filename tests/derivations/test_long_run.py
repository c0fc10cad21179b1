"""A thousand small refreshes in one session: time, memory and files stay flat."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from statistics import median

import pytest
from pyspark.sql import SparkSession

import belvedere as bv
from tests.views.comparison import assert_fresh

pytestmark = [pytest.mark.spark, pytest.mark.soak]

REFRESHES = int(os.environ.get("BELVEDERE_REFRESHES", "1000"))
VIEWS = {
    "sums": "SELECT k % 50 AS g, count(*) AS n, sum(x) AS total, max(k) AS top FROM t GROUP BY k % 50",
    "rows_kept": "SELECT k, x FROM t WHERE k % 3 = 0",
}
SPARK_MB = 1500
"""Half of what its heap may hold in tests; what it keeps as long as there is room comes and goes."""
# Nobody reads old versions here: that files go after a week need not be waited for.
NOT_KEPT = "TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 0 seconds')"


def test_many_small_refreshes(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds, memory, files, heap = [], [], [], []
    with bv.connect(tmp_path / "lake") as lake:
        lake.sql("CREATE TABLE t (k BIGINT, x DOUBLE)")
        lake.sql("INSERT INTO t SELECT id, id / 7 FROM range(10000)")
        for name, query in VIEWS.items():
            lake.sql(f"CREATE MATERIALIZED VIEW {name} {NOT_KEPT} AS {query}")
        for number in range(REFRESHES):
            lake.sql(f"INSERT INTO t SELECT {10000 + 20 * number} + id, id / 7e-3 FROM range(20)")
            if number % 50 == 49:
                # What has to be read of a table takes as long as it has files: its owner's to do.
                lake.sql("OPTIMIZE t")
            if number % 5 == 4:
                lake.sql(f"DELETE FROM t WHERE k BETWEEN {20 * number} AND {20 * number + 60}")
            began = time.monotonic()
            lake.refresh()
            seconds.append(time.monotonic() - began)
            memory.append(_resident_mb(os.getpid()))
            if number % 20 == 0:
                files.append(sum(1 for _ in (tmp_path / "lake").glob("__bv_*/*.parquet")))
                heap.append(_heap_mb(spark))
        for name, query in VIEWS.items():
            assert_fresh(lake, name, query)
        shown = lake.spark.sql("SHOW TABLES").collect()
        leftovers = [t["tableName"] for t in shown if t["isTemporary"]]
    took, held = _by_tenths(seconds), _by_tenths(memory)
    with capsys.disabled():
        sys.stdout.write(
            f"\n{REFRESHES} refreshes, medians of each tenth: {_listed(took, '.2f')} s; "
            f"{_listed(held, '.0f')} MB; Spark's heap {_listed(heap, '.0f')} MB;"
            f" {max(files)} files at most\n"
        )
    assert took[-1] <= 1.5 * took[1]
    # Caches fill at first; what grows on after half of the refreshes would grow for ever.
    assert held[-1] <= 1.03 * held[5]
    assert max(heap) <= SPARK_MB
    assert leftovers == []
    assert max(files) <= 500


def _by_tenths(values: list[float]) -> list[float]:
    tenth = max(1, len(values) // 10)
    return [median(values[i : i + tenth]) for i in range(0, 10 * tenth, tenth)]


def _listed(values: list[float], how: str) -> str:
    return ", ".join(format(v, how) for v in values)


def _resident_mb(process: int) -> float:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _heap_mb(spark: SparkSession) -> float:
    """What Spark's heap holds once its garbage is collected."""
    java = spark._jvm.java.lang  # type: ignore[union-attr]
    java.System.gc()
    runtime = java.Runtime.getRuntime()
    return float(runtime.totalMemory() - runtime.freeMemory()) / 2**20
