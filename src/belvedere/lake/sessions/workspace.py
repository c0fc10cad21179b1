"""Work: what one call makes in a session beside the user's, and ends with it.

The metadata of a commit is a setting of the session that writes it, so that two writers in one
session would stamp each other's commits: they take turns.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types
from pyspark.sql.types import DecimalType, StructField, StructType

from belvedere.algebra.types import parse
from belvedere.delta.schema_types import CHAR_AS_BY_DEFAULT
from belvedere.lake.sessions.errors import translated
from belvedere.lake.sessions.session import DATES_AS_THEY_ARE
from belvedere.memory.kinds import digits, is_exact
from belvedere.memory.plans import Rows
from belvedere.sql.names import STORED_PREFIX, quote
from belvedere.sql.render import SIGN

if TYPE_CHECKING:
    from belvedere.lake.spark_lake import SparkLake

# What Spark needs to read our SQL as we wrote it, and delta-rs to read what Spark wrote.
_OURS = {
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.sources.partitionOverwriteMode": "static",
    **DATES_AS_THEY_ARE,
    # What the values of CHAR are must not depend on who refreshes.
    **CHAR_AS_BY_DEFAULT,
    # A file that went is noticed, not left out.
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.databricks.delta.schema.autoMerge.enabled": "false",
    # Delta reads no changes across renamed, dropped or widened columns. We read only columns
    # that stayed as they were, which is checked before.
    "spark.databricks.delta.changeDataFeed.unsafeBatchReadOnIncompatibleSchemaChanges.enabled": "true",
}


PRECISION = "spark.sql.decimalOperations.allowPrecisionLoss"
"""Whether Spark gives up digits behind the point for those before it."""


class Session:
    """A session beside the user's, with settings of its own; many calls may work in it."""

    def __init__(self, beside: SparkSession, settings: Mapping[str, str]) -> None:
        self.spark = branch(beside)
        self.writing = threading.RLock()
        self._beside = beside
        self._theirs = dict(beside.conf.getAll)
        self._own = {**_OURS, **settings}
        for key, value in self._own.items():
            self.spark.conf.set(key, value)

    def follow(self) -> None:
        """Take over what the user has set since."""
        now = dict(self._beside.conf.getAll)
        for key, value in now.items() - self._theirs.items():
            if key not in self._own and self.spark.conf.isModifiable(key):
                self.spark.conf.set(key, value)
        self._theirs = now

    def close(self) -> None:
        """Let the session go."""
        release(self.spark)


class OwnSession:
    """The session that the user has, as it is."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.writing = threading.RLock()


class Workspace:
    """Temporary views and cached data in a session, dropped at the end.

    The session is opened when something first needs it: work in memory needs none.
    """

    _numbers = itertools.count(1)

    def __init__(
        self,
        door: SparkLake,
        opening: Callable[[], Session | OwnSession],
        settings: Mapping[str, str],
    ) -> None:
        self.door = door
        self._opening, self._settings = opening, settings
        self._views: list[str] = []
        self._kept: list[DataFrame] = []

    @cached_property
    def _session(self) -> Session | OwnSession:
        return self._opening()

    @property
    def spark(self) -> SparkSession:
        """The session's own door to Spark."""
        return self._session.spark

    @property
    def writing(self) -> threading.RLock:
        """Held by whoever writes in the session."""
        return self._session.writing

    def query(self, sql: str) -> DataFrame:
        """A query or statement in this session."""
        with translated():
            return self.spark.sql(sql)

    def empty(self, columns: Iterable[tuple[str, str]]) -> DataFrame:
        """No rows of these columns: Spark sees it to be empty, so that plans over it vanish."""
        row = ", ".join(f"CAST(NULL AS {kind}) AS {quote(name)}" for name, kind in columns)
        return self.query(f"SELECT {row} WHERE false")

    def register(self, label: str, frame: DataFrame) -> str:
        """Make a frame readable until the work ends; the name it has in SQL."""
        name = f"{STORED_PREFIX}{label}_{next(self._numbers)}"
        frame.createOrReplaceTempView(quote(name))
        self._views.append(name)
        return name

    def keep(self, frame: DataFrame) -> DataFrame:
        """Compute a frame once, at its first use, until the work ends."""
        frame.persist()
        self._kept.append(frame)
        return frame

    def few(self, sql: str, most: int) -> Rows | None:
        """The rows of a query, computed now.

        None if they are too many, or of types that Arrow does not hold as Spark does.
        """
        found = self._fetched(self.query(sql).limit(most + 1))
        return None if found is None or found.table.num_rows > most else found

    def all(self, sql: str) -> Rows | None:
        """The rows of a query, however many, computed now; None if Arrow does not hold their types."""
        return self._fetched(self.query(sql))

    def pieces(self, sql: str, count: int) -> Iterator[pa.Table]:
        """The rows of a query in so many pieces, one after the other: never all of them are here at once."""
        frame = self.keep(self.query(sql).coalesce(count))
        for number in range(count):
            yield frame.where(f"spark_partition_id() = {number}").toArrow()

    def _fetched(self, frame: DataFrame) -> Rows | None:
        kinds = {f.name: f.dataType.simpleString() for f in frame.schema.fields}
        if not all(map(is_exact, kinds.values())):
            return None
        rows = Rows(frame.toArrow(), {name: kind for name, kind in kinds.items() if name != SIGN})
        return rows.with_signs(rows.signs) if rows.signed else rows

    def hold(self, label: str, rows: pa.Table, kinds: Mapping[str, str]) -> str:
        """Make rows in memory, of exact types, readable until the work ends; their name in SQL."""
        schema = StructType([StructField(name, _type(kind)) for name, kind in kinds.items()])
        # In one piece: Spark takes an empty piece for the end of the rows.
        whole = rows.select(list(kinds)).combine_chunks()
        return self.register(label, self.spark.createDataFrame(whole, schema=schema))

    @property
    def computes_here(self) -> bool:
        """Whether Spark computes on this machine, and so has no more hands than we."""
        return self.door.capabilities.computes_here

    @cached_property
    def usual_decimals(self) -> bool:
        """Whether results of many digits have the types that they have by default."""
        said = self._settings.get(PRECISION)
        return (self.spark.conf.get(PRECISION, "true") if said is None else said) == "true"

    def close(self) -> None:
        """Drop what the work made."""
        for frame in self._kept:
            frame.unpersist()
        for name in self._views:
            self.spark.catalog.dropTempView(name)
        self._kept.clear()
        self._views.clear()


_TYPES = {
    kind.simpleString(): kind
    for kind in (
        spark_types.BooleanType(),
        spark_types.ByteType(),
        spark_types.ShortType(),
        spark_types.IntegerType(),
        spark_types.LongType(),
        spark_types.FloatType(),
        spark_types.DoubleType(),
        spark_types.StringType(),
        spark_types.BinaryType(),
        spark_types.DateType(),
        spark_types.TimestampType(),
        spark_types.TimestampNTZType(),
    )
}


def _type(kind: str) -> spark_types.DataType:
    return DecimalType(*digits(kind)) if parse(kind).is_decimal else _TYPES[kind]


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
