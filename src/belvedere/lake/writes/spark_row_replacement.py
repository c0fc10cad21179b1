"""Rows of a base table exchanged for others by Spark."""

from __future__ import annotations

from deltalake.exceptions import CommitFailedError
from pyspark.errors import PySparkException

from belvedere.lake.sessions.errors import as_invalid, is_conflict
from belvedere.lake.sessions.workspace import Workspace
from belvedere.lake.tables.table import Table
from belvedere.lake.writes.commits import fenced
from belvedere.lake.writes.row_replacement import OP, Exchange
from belvedere.sql.names import quote


def by_spark(w: Workspace, table: Table, rows: Exchange) -> None:
    """The commit, on the newest version; `CommitFailedError` as delta-rs raises it."""
    held = w.hold("exchanged", rows.source(table), {**dict(table.columns), OP: "string"})
    names = [quote(c) for c, _ in table.columns]
    same = [f"(t.{quote(c)} <=> s.{quote(c)})" for c in rows.compared(table)] or ["false"]
    values = ", ".join(f"s.{c}" for c in names)
    try:
        with fenced(w, rows.app, rows.number):
            w.query(
                f"MERGE INTO {table.reference} AS t USING {held} AS s"
                f" ON s.{OP} = 'delete' AND {' AND '.join(same)} WHEN MATCHED THEN DELETE"
                f" WHEN NOT MATCHED AND s.{OP} = 'insert'"
                f" THEN INSERT ({', '.join(names)}) VALUES ({values})"
            )
    except PySparkException as why:
        raise CommitFailedError(str(why)) if is_conflict(why) else as_invalid(why) from why
