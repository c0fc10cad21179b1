"""Tables whose log cannot be read from here: the same questions, asked through Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from deltalake.exceptions import DeltaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from belvedere.delta import log
from belvedere.delta.readability import (
    NO_CHANGE_FEED,
    PARTITIONS_CHANGED,
    SCHEMA_CHANGED,
    VERSION_GONE,
    identity_problem,
)
from belvedere.delta.schema_types import columns_of, declared_of
from belvedere.delta.stamps import Position
from belvedere.errors import Unsupported
from belvedere.lake.tables.table import Table, read_table
from belvedere.sql.binder.char_columns import has_char
from belvedere.sql.names import dotted, literal
from belvedere.storage.store import ObjectStore
from belvedere.storage.stores import UnreachableStore, open_store


def describe(spark: SparkSession, name: str) -> Table:
    """A table by its name in the session's catalog, from the log itself where it can be read here."""
    reference = dotted(name)
    detail = spark.sql(f"DESCRIBE DETAIL {reference}").collect()[0]
    if detail["format"] != "delta":
        raise Unsupported(
            f"{name!r} is not a Delta table",
            detail=f"its format is {detail['format']}",
            hint="copy it with CREATE TABLE … USING delta AS SELECT …",
            reason="NOT_A_DELTA_TABLE",
        )
    store = _store(detail["location"])
    table = _logged(name, store, reference)
    # The location may mean another disk here than on the server.
    if table is not None and table.id == detail["id"]:
        return table
    schema = spark.table(reference).schema.jsonValue()
    declared = declared_of(schema)
    return Table(
        name=name,
        id=detail["id"],
        store=store,
        version=_newest(spark, reference),
        columns=columns_of(schema),
        properties=MappingProxyType(dict(detail["properties"])),
        partition_columns=tuple(detail["partitionColumns"]),
        reference=reference,
        declared=MappingProxyType(declared),
        mark=_layout(detail["partitionColumns"], declared),
    )


def _layout(partition_columns: Sequence[str], declared: Mapping[str, str]) -> str:
    """The mark of a table whose commits cannot be read, by what its feed does not tell.

    That is a change of layout, and of which columns are read padded.
    """
    padded = {name: kind for name, kind in sorted(declared.items()) if has_char(kind)}
    reads = f" with {json.dumps(padded)}" if padded else ""
    return f"by {json.dumps(list(partition_columns))}{reads}"


def _store(location: str) -> ObjectStore:
    """The store of a table, as one that cannot be reached where no table is seen in it."""
    store = open_store(location)
    return store if log.is_table(store) else UnreachableStore(location)


def _logged(name: str, store: ObjectStore, reference: str) -> Table | None:
    """A table from its log; None if that cannot be read here."""
    try:
        return read_table(name, store, reference)
    except (DeltaError, OSError, log.DamagedLog):
        return None


def newest(spark: SparkSession, table: Table) -> int:
    """The newest version, from the history."""
    return _newest(spark, table.reference)


def _newest(spark: SparkSession, reference: str) -> int:
    row = spark.sql(f"DESCRIBE HISTORY {reference} LIMIT 1").collect()[0]
    return int(row["version"])


def feed(spark: SparkSession, table: Table, first: int, last: int) -> DataFrame:
    """Spark's change feed of some versions."""
    reader = spark.read.option("readChangeFeed", "true")
    reader = reader.option("startingVersion", first).option("endingVersion", last)
    if table.reference.startswith("delta.`"):
        return reader.format("delta").load(table.store.uri)
    return reader.table(table.reference)


def feed_problem(
    spark: SparkSession,
    table: Table,
    known: Position,
    new: int,
    columns: Mapping[str, str],
) -> str | None:
    """As `ranges.feed_problem`; files that VACUUM removed show only when they are read."""
    problem = identity_problem(table, known, columns)
    old = known.version
    if problem or old == new:
        return problem
    if (known.mark and known.mark != table.mark) or _relaid(spark, table, old):
        return PARTITIONS_CHANGED
    if old > new:
        return VERSION_GONE
    if not table.change_feed:
        return NO_CHANGE_FEED
    try:
        # Delta plans the feed when asked for its columns' execution: no row is read.
        feed(spark, table, old + 1, new).select("_change_type").limit(0).collect()
    except PySparkException as error:
        text = str(error)
        if "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE" in text:
            return SCHEMA_CHANGED
        return NO_CHANGE_FEED if "DELTA_MISSING_CHANGE_DATA" in text else VERSION_GONE
    return state_problem(spark, table, known, columns)


def _relaid(spark: SparkSession, table: Table, old: int) -> bool:
    """Whether all rows may have been under other partition columns since a version.

    An overwrite that names no columns either keeps the layout or has none.
    """
    current = json.dumps(list(table.partition_columns), separators=(",", ":"))
    overwritten = (
        f"version > {old} AND operationParameters['partitionBy'] <> {literal(current)} AND"
        " (operationParameters['mode'] = 'Overwrite' OR operation LIKE '%REPLACE%')"
    )
    history = spark.sql(
        f"DESCRIBE HISTORY {table.reference} LIMIT {_newest(spark, table.reference) - old}"
    )
    return bool(history.where(overwritten).head(1))


def state_problem(
    spark: SparkSession, table: Table, known: Position, columns: Mapping[str, str]
) -> str | None:
    """As `ranges.state_problem`, with the same reservation."""
    problem = identity_problem(table, known, columns)
    if problem or known.version == table.version:
        return problem
    try:
        _ = spark.sql(f"SELECT * FROM {table.at(known.version)}").schema
    except PySparkException:
        return VERSION_GONE
    return None
