"""Work: a session of its own for one refresh.

The metadata of a commit is a setting of the session that writes it, so two refreshes in one
session would stamp each other's commits.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession

from belvedere.lake.names import STORED_PREFIX, quote
from belvedere.lake.trouble import translated

if TYPE_CHECKING:
    from belvedere.lake.door import Door

# What Spark needs to read our SQL as we wrote it, and delta-rs to read what Spark wrote.
_OURS = {
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.sources.partitionOverwriteMode": "static",
    "spark.databricks.delta.schema.autoMerge.enabled": "false",
}


class Work:
    """A session with settings, temporary views and cached data that end with it."""

    def __init__(self, door: Door, spark: SparkSession, settings: Mapping[str, str]) -> None:
        self.door = door
        self.spark = spark
        self._numbers = itertools.count(1)
        self._views: list[str] = []
        self._kept: list[DataFrame] = []
        for key, value in {**_OURS, **settings}.items():
            spark.conf.set(key, value)

    def query(self, sql: str) -> DataFrame:
        """A query or statement in this session."""
        with translated():
            return self.spark.sql(sql)

    def register(self, name: str, frame: DataFrame) -> str:
        """Make a frame readable under a name until the work ends."""
        frame.createOrReplaceTempView(quote(name))
        self._views.append(name)
        return name

    def keep(self, frame: DataFrame) -> DataFrame:
        """Compute a frame once, at its first use, until the work ends."""
        frame.persist()
        self._kept.append(frame)
        return frame

    def fresh_name(self, prefix: str) -> str:
        """A name for a temporary view that nothing else has."""
        return f"{STORED_PREFIX}{prefix}_{next(self._numbers)}"

    def close(self) -> None:
        """Drop what the work made and let its session go."""
        for frame in self._kept:
            frame.unpersist()
        for name in self._views:
            self.spark.catalog.dropTempView(name)
        self._kept.clear()
        self._views.clear()
        release(self.spark)


def branch(spark: SparkSession) -> SparkSession:
    """A session beside another: same catalog, database and settings, nothing else shared."""
    if hasattr(spark, "cloneSession"):
        clone: SparkSession = spark.cloneSession()
        return clone
    new = spark.newSession()
    _inherit(spark, new)
    return new


def release(spark: SparkSession) -> None:
    """End a branched session; a classic one is only forgotten."""
    if hasattr(spark, "cloneSession"):
        # Not stop(): in local mode that ends the server with all its sessions.
        spark.client.release_session()
        spark.client.close()


def _inherit(spark: SparkSession, new: SparkSession) -> None:
    """What a clone would have copied: settings of the session, catalog, database."""
    theirs, fresh = spark.conf.getAll, new.conf.getAll
    for key, value in theirs.items():
        if fresh.get(key) != value and new.conf.isModifiable(key):
            new.conf.set(key, value)
    new.sql(f"USE {quote(spark.catalog.currentCatalog())}.{quote(spark.catalog.currentDatabase())}")
