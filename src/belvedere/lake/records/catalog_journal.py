"""The journal of a session that the user has: a table of its catalog, made at the first use."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from deltalake import Schema
from pyspark.errors import PySparkException

from belvedere.delta import log
from belvedere.delta.schema_types import columns_of
from belvedere.errors import Invalid
from belvedere.lake.capabilities import reads_files
from belvedere.lake.records.journal import (
    JOURNAL,
    SCHEMA_NAME,
    Journal,
    LocalJournal,
    Row,
    as_arrow,
    local_journal,
)
from belvedere.sql.names import literal, quote

if TYPE_CHECKING:
    from belvedere.lake.spark_lake import SparkLake

_PROPERTIES = {
    "delta.autoOptimize.autoCompact": "true",
    "delta.enableDeletionVectors": "false",
}


class CatalogJournal:
    """The table `belvedere.refreshes` of the catalog in use; on local disk delta-rs writes it."""

    def __init__(self, door: SparkLake) -> None:
        self.trouble = ""
        self._door = door
        self._made: dict[str, LocalJournal | None] = {}
        self._denied: dict[str, Exception] = {}

    def append(self, rows: Sequence[Row], schema: Schema) -> None:
        catalog = self._door.spark.catalog.currentCatalog()
        if catalog in self._denied:
            raise self._denied[catalog]
        local = self._made.get(catalog)
        if catalog not in self._made or (local is not None and not log.is_table(local.store)):
            local = self._make(catalog, schema)
        if local is not None:
            local.append(rows, schema)
            return
        try:
            frame = self._door.spark.createDataFrame(as_arrow(rows, schema))
            frame.writeTo(_name(catalog)).append()
        except PySparkException:
            # Perhaps someone dropped it: the next time looks, and makes it again.
            del self._made[catalog]
            raise

    def read(self, column: str = "", value: str = "") -> list[dict[str, Any]]:
        catalog = self._door.spark.catalog.currentCatalog()
        local = self._made.get(catalog)
        if local is not None:
            return local.read(column, value)
        return self._rows(catalog, _only(column, value))

    def newest(self, by: str, most: int, column: str = "", value: str = "") -> list[dict[str, Any]]:
        catalog = self._door.spark.catalog.currentCatalog()
        local = self._made.get(catalog)
        if local is not None:
            return local.newest(by, most, column, value)
        return self._rows(catalog, f"{_only(column, value)} ORDER BY {quote(by)} DESC LIMIT {most}")

    def mend(self) -> None:
        """It is a table of the catalog: left to whoever keeps that."""

    def _rows(self, catalog: str, which: str) -> list[dict[str, Any]]:
        try:
            frame = self._door.sql(f"SELECT * FROM {_name(catalog)} WHERE {which}")
            rows: list[dict[str, Any]] = frame.toArrow().to_pylist()
        except (Invalid, PySparkException):
            return []
        return rows

    def _make(self, catalog: str, schema: Schema) -> LocalJournal | None:
        """Make the table if it is not there; where that is not allowed, it is tried once."""
        try:
            if not self._door.exists(_name(catalog)):
                self._create(catalog, schema)
            table = self._door.table(_name(catalog))
        except Exception as error:
            self._denied[catalog] = error
            raise
        self._made[catalog] = LocalJournal(table.store) if reads_files(table) else None
        return self._made[catalog]

    def _create(self, catalog: str, schema: Schema) -> None:
        space = f"{quote(catalog)}.{quote(SCHEMA_NAME)}"
        if not self._door.spark.catalog.databaseExists(space):
            self._door.sql(f"CREATE SCHEMA IF NOT EXISTS {space}")
        columns = ", ".join(f"{quote(c)} {t}" for c, t in columns_of(json.loads(schema.to_json())))
        pairs = ", ".join(f"{literal(k)} = {literal(v)}" for k, v in _PROPERTIES.items())
        self._door.sql(
            f"CREATE TABLE IF NOT EXISTS {_name(catalog)} ({columns}) "
            f"USING delta TBLPROPERTIES ({pairs})"
        )


def journal_of(door: SparkLake) -> Journal:
    """The journal of a lake with Spark."""
    return CatalogJournal(door) if door.directory is None else local_journal(door.directory)


def _only(column: str, value: str) -> str:
    return f"{quote(column)} = {literal(value)}" if column else "true"


def _name(catalog: str) -> str:
    return ".".join(quote(part) for part in (catalog, SCHEMA_NAME, JOURNAL))
