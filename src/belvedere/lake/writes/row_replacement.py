"""Rows of a base table exchanged for others in one commit, with a number that tells it from others.

delta-rs makes it on the version it is meant for: whoever came in between is a conflict. A table with
a CHECK that delta-rs does not know (a column's name in other case, text in double quotes, functions
of Spark) is written by Spark, which takes the newest version; what it did there is in the log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError

from belvedere.delta import log
from belvedere.delta.delta_rs import open_table
from belvedere.delta.small_changes import arrow_schema, is_small, signed_arrow
from belvedere.delta.small_writes import CHECKPOINTS, writer_properties
from belvedere.errors import Unsupported
from belvedere.lake.capabilities import reads_files, spark_lake
from belvedere.lake.offline import ReadableLake
from belvedere.lake.sessions.machine import as_unable
from belvedere.lake.tables.table import Table
from belvedere.sql.binder.char_columns import char_length
from belvedere.sql.render import SIGN

Rows = Sequence[Mapping[str, Any]]
OP = "__op"
"""The column of a merge's source that says what is done with a row."""


@dataclass(frozen=True)
class Exchange:
    """Rows that go, by value, and rows that come; the number by which an application knows it."""

    delete: Rows
    insert: Rows
    app: str
    number: int

    def source(self, table: Table) -> pa.Table:
        """All rows, with what is done with each."""
        empty = dict.fromkeys(c for c, _ in table.columns)
        # A row that is there several times goes as one: a merge lets no two rows match one.
        once = [row for i, row in enumerate(self.delete) if row not in self.delete[:i]]
        rows = [{**empty, **row, OP: "delete"} for row in once]
        rows += [{**empty, **row, OP: "insert"} for row in self.insert]
        schema = arrow_schema({**dict(table.columns), OP: "string"})
        return pa.Table.from_pylist(rows, schema=schema)

    def compared(self, table: Table) -> list[str]:
        """The columns by which rows that go are found."""
        told = {c for row in self.delete for c in row}
        return [c for c, _ in table.columns if c in told]


def exchange(lake: ReadableLake, table: Table, rows: Exchange, version: int) -> None:
    """Make the commit on a version; `CommitFailedError` if someone else comes in between."""
    try:
        by_delta_rs(table, rows, version)
    except CommitFailedError:
        raise
    except DeltaError as why:
        unable = as_unable(why)
        # Delta's MERGE fails on columns of CHAR.
        spark = None if table.padded else spark_lake(lake)
        if unable is not None or spark is None:
            raise unable or unwritable(table.name, str(why)) from why
        if lake.table(table.name).version != version:
            raise CommitFailedError(f"{table.name} has another version than {version}") from why
        from belvedere.lake.writes.spark_row_replacement import by_spark

        with spark.work() as w:
            by_spark(w, table, rows)


def by_delta_rs(table: Table, rows: Exchange, version: int) -> None:
    """The commit without Spark."""
    names = [c for c, _ in table.columns]
    same = [_same(table, c) for c in rows.compared(table)] or ["false"]
    target = open_table(table.store, version)
    target.merge(
        source=rows.source(table),
        predicate=" AND ".join([f"s.\"{OP}\" = 'delete'", *same]),
        source_alias="s",
        target_alias="t",
        writer_properties=writer_properties(target),
        commit_properties=CommitProperties(app_transactions=[Transaction(rows.app, rows.number)]),
        post_commithook_properties=CHECKPOINTS,
    ).when_matched_delete().when_not_matched_insert(
        {f'"{c}"': f's."{c}"' for c in names}, f"s.\"{OP}\" = 'insert'"
    ).execute()


def _same(table: Table, column: str) -> str:
    """The condition that a stored and a given row have one value in a column, for delta-rs."""
    length = char_length(table.declared.get(column, ""))
    one, other = (_padded(f'{side}."{column}"', length) for side in "ts")
    return f"({one} IS NOT DISTINCT FROM {other})"


def _padded(value: str, length: int | None) -> str:
    """A value of CHAR as it is read; who wrote it may have left out the spaces behind it."""
    if length is None:
        return value
    return f"CASE WHEN character_length({value}) < {length} THEN rpad({value}, {length}) ELSE {value} END"


def undoing(table: Table, rows: Exchange, version: int, app: str) -> Exchange:
    """What takes back what a commit really did that was made after a version."""
    did = _did(table, rows, version) or rows
    return Exchange(did.insert, did.delete, app, rows.number)


def _did(table: Table, rows: Exchange, version: int) -> Exchange | None:
    """What the commit did that was made after a version, as the change feed says; None if it cannot."""
    kinds = dict(table.columns)
    if not (reads_files(table) and table.change_feed):
        return None
    with suppress(FileNotFoundError):
        for made in log.commits(table.store, range(version + 1, table.version + 1)):
            if _is_of(made, rows) and is_small(table, [made], list(kinds.values())):
                signed = signed_arrow(table, [made], kinds).to_pylist()
                gone, come = (
                    [{c: r[c] for c in kinds} for r in signed if r[SIGN] == sign]
                    for sign in (-1, 1)
                )
                return Exchange(gone, come, rows.app, rows.number)
    return None


def _is_of(made: log.Commit, rows: Exchange) -> bool:
    """Whether a commit has the number of an exchange."""
    return any(t["appId"] == rows.app and t["version"] == rows.number for t in made.transactions)


def unwritable(table: str, why: str) -> Unsupported:
    """A table that updates through views do not write."""
    return Unsupported(
        f"{table!r} cannot be written without Spark",
        detail=why,
        hint="updates through views write tables of a lake on local disk",
        reason="UNWRITABLE_TABLE",
    )
