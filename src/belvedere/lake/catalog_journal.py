"""The journal of a session that the user has: a table of its catalog, made at the first use."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from deltalake import Schema
from pyspark.errors import PySparkException

from belvedere.lake import log
from belvedere.lake.journal import JOURNAL, SCHEMA_NAME, LocalJournal, Row, as_arrow
from belvedere.lake.names import literal, quote
from belvedere.lake.typetext import columns_of

if TYPE_CHECKING:
    from belvedere.lake.door import Door

_PROPERTIES = {
    "delta.autoOptimize.autoCompact": "true",
    "delta.enableDeletionVectors": "false",
}


class CatalogJournal:
    """The table `belvedere.refreshes` of the catalog in use; on local disk delta-rs writes it."""

    def __init__(self, door: Door) -> None:
        self.trouble = ""
        self._door = door
        self._made: dict[str, LocalJournal | None] = {}
        self._denied: set[str] = set()

    def append(self, rows: Sequence[Row], schema: Schema) -> None:
        catalog = self._door.spark.catalog.currentCatalog()
        if catalog in self._denied:
            return
        local = self._made.get(catalog)
        if catalog not in self._made or (local is not None and not log.is_table(local.root)):
            local = self._make(catalog, schema)
        if local is not None:
            local.append(rows, schema)
        else:
            frame = self._door.spark.createDataFrame(as_arrow(rows, schema))
            frame.writeTo(_name(catalog)).append()

    def read(self, column: str, value: str) -> list[dict[str, Any]]:
        name = _name(self._door.spark.catalog.currentCatalog())
        try:
            frame = self._door.spark.table(name).where(f"{quote(column)} = {literal(value)}")
            rows: list[dict[str, Any]] = frame.toArrow().to_pylist()
        except PySparkException:
            return []
        return rows

    def _make(self, catalog: str, schema: Schema) -> LocalJournal | None:
        """Make the table if it is not there; where that is not allowed, it is asked once."""
        name = _name(catalog)
        pairs = ", ".join(f"{literal(k)} = {literal(v)}" for k, v in _PROPERTIES.items())
        columns = ", ".join(f"{quote(c)} {t}" for c, t in columns_of(json.loads(schema.to_json())))
        try:
            self._door.sql(f"CREATE SCHEMA IF NOT EXISTS {quote(catalog)}.{quote(SCHEMA_NAME)}")
            self._door.sql(
                f"CREATE TABLE IF NOT EXISTS {name} ({columns}) USING delta TBLPROPERTIES ({pairs})"
            )
            root = self._door.table(name).root
        except Exception:
            self._denied.add(catalog)
            raise
        self._made[catalog] = None if root is None else LocalJournal(root)
        return self._made[catalog]


def _name(catalog: str) -> str:
    return ".".join(quote(part) for part in (catalog, SCHEMA_NAME, JOURNAL))
