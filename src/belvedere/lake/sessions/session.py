"""The embedded Spark session: one JVM per process, one session and one database per lake."""

from __future__ import annotations

import os
import shlex
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from belvedere.errors import Invalid
from belvedere.lake.sessions.jars import cache_directory, check_java, delta_jars
from belvedere.lake.sessions.machine import SPARK_LOG, begin_log
from belvedere.sql.names import database_name, literal, quote

_CATALOG = "spark.sql.catalog.spark_catalog"
_DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_LOG_BYTES = 5_000_000

DATES_AS_THEY_ARE = {"spark.sql.datetime.java8API.enabled": "true"}
"""Otherwise Spark hands constants of its filters to Parquet through the calendar that was in use then,
which had no 1582-10-05 to 14: a filter for such a day, or a moment in it, skips the rows that have it."""

_starting = threading.Lock()
_running: SparkSession | None = None


def lake_session(directory: Path) -> SparkSession:
    """A session of its own in which unqualified names are the tables of one directory."""
    spark = embedded().newSession()
    database = quote(database_name(directory))
    # One at a time: Spark drops a database with its directory, which another call may just have made.
    with _starting:
        if not directory.exists():
            # What this process knew of a lake that stood there went with it.
            spark.sql(f"DROP DATABASE IF EXISTS {database} CASCADE")
            directory.mkdir(parents=True, exist_ok=True)
    spark.sql(f"CREATE DATABASE IF NOT EXISTS {database} LOCATION {literal(str(directory))}")
    spark.sql(f"USE {database}")
    return spark


def embedded() -> SparkSession:
    """The session that this process runs Spark in, started at the first call."""
    global _running
    with _starting:
        if _running is None:
            _running = _adopt(SparkSession.getActiveSession()) or _start()
        return _running


def stop() -> None:
    """End the embedded session; every door of this process is closed by it."""
    global _running
    with _starting:
        if _running is not None:
            _running.stop()
            _running = None


def _adopt(active: SparkSession | None) -> SparkSession | None:
    """A process has one SparkContext: use the one that runs if it knows Delta."""
    if active is None:
        return None
    if active.conf.get(_CATALOG, "") != _DELTA_CATALOG:
        raise Invalid(
            "a Spark session without Delta already runs in this process",
            detail=f"{_CATALOG} is not {_DELTA_CATALOG}",
            hint="connect the directory first, or configure that session for Delta",
            reason="NO_SPARK",
        )
    return active


def _start() -> SparkSession:
    check_java()
    conf = SparkConf(loadDefaults=False).setAll(list(settings(os.environ).items()))
    log = cache_directory() / SPARK_LOG
    with _open_log(log) as sink:
        begin_log(sink)
        try:
            # Spark's log belongs into a file: a library must not write to its user's terminal.
            gateway = launch_gateway(  # type: ignore[no-untyped-call]
                conf, {"stdout": sink, "stderr": sink}
            )
            context = SparkContext(conf=conf, gateway=gateway)
        except PySparkRuntimeError as error:
            tail = log.read_text(errors="replace")[-2000:] if log.is_file() else ""
            raise Invalid(
                "Spark did not start", detail=tail, hint=f"see {log}", reason="NO_SPARK"
            ) from error
    # Errors that are raised need not be printed as well, with the JVM's stack.
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True
    return SparkSession(context)


def settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings; BELVEDERE_SPARK ("key=value key=value") overrides any of them."""
    cores = os.cpu_count() or 2
    chosen = {
        "spark.app.name": "belvedere",
        "spark.master": "local[*]",
        "spark.driver.memory": _memory(),
        "spark.jars": ",".join(delta_jars()),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "localhost",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        _CATALOG: _DELTA_CATALOG,
        **DATES_AS_THEY_ARE,
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(cache_directory() / "warehouse"),
        "spark.sql.sources.default": "delta",
        # delta-rs wraps Spark's default, nanoseconds in 96 bits, after the year 2262.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.shuffle.partitions": str(min(max(cores, 2), 32)),
        # VACUUM and OPTIMIZE list files in as many tasks as this says; the default is 10 000.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(cores),
        # On local disk a thousand files are looked at sooner than a job for that begins.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.databricks.delta.properties.defaults.enableChangeDataFeed": "true",
        "spark.databricks.delta.properties.defaults.enableDeletionVectors": "true",
    }
    for setting in shlex.split(environment.get("BELVEDERE_SPARK", "")):
        key, equals, value = setting.partition("=")
        if not equals:
            raise Invalid(f"BELVEDERE_SPARK: {setting!r} is not key=value", reason="OPTIONS")
        chosen[key] = value
    return chosen


def _memory() -> str:
    """Half the machine's memory, at most 8 GiB."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{max(1, min(8, total // 2**31))}g"


def _open_log(log: Path) -> IO[bytes]:
    """Spark's log to write on; where that cannot be, nothing is logged."""
    try:
        fresh = not log.exists() or log.stat().st_size > _LOG_BYTES
        return log.open("wb" if fresh else "ab")
    except OSError:
        return open(os.devnull, "wb")
