"""What a lake and its tables can do from here: the one place that asks where bytes and Spark are."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, cast

from belvedere.delta.small_writes import passes_arrow
from belvedere.delta.snapshots import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from belvedere.lake.offline import ReadableLake
    from belvedere.lake.spark_lake import SparkLake


class Capabilities:
    """What a lake can do; `spark` is its session, None for a lake that is only read."""

    def __init__(self, spark: SparkSession | None, *, in_directory: bool) -> None:
        self._spark = spark
        self.in_directory = in_directory
        """Whether its tables are those of a directory: one schema, and no catalog besides."""

    @property
    def runs_spark(self) -> bool:
        """Whether Spark runs statements on it."""
        return self._spark is not None

    @cached_property
    def computes_here(self) -> bool:
        """Whether Spark computes on this machine; a session does not move."""
        if self._spark is None:
            return False
        return (self._spark.conf.get("spark.master", "") or "").startswith("local")

    @property
    def analyzes_at_once(self) -> bool:
        """Whether a query's names are resolved when it is written, not when it runs."""
        return self._spark is not None and not hasattr(self._spark, "cloneSession")


def spark_lake(lake: ReadableLake) -> SparkLake | None:
    """The same lake, if Spark runs statements on it."""
    return cast("SparkLake", lake) if lake.capabilities.runs_spark else None


def reads_files(table: Snapshot) -> bool:
    """Whether this process reads the log and the files of a table, or Spark alone does."""
    return table.store.reachable


def writes_files(table: Snapshot) -> bool:
    """Whether this process can commit to a table, and its values are the same in Arrow as in Spark."""
    return table.store.reachable and passes_arrow(table)
