"""Guard: statements of Spark's that would break what is derived, refused before Spark sees them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from belvedere.delta import log
from belvedere.delta.snapshots import CHANGE_FEED
from belvedere.errors import Invalid, Unsupported
from belvedere.sql.names import admissible, parts, refuse_long
from belvedere.sql.statements.parser import Statement
from belvedere.sql.statements.spark import ChangeKind, CreateSchema, CreateTable, TableChange, Write
from belvedere.views.catalog import all_views, canonical_name, is_here, is_path, is_view

if TYPE_CHECKING:
    from belvedere.lake.spark_lake import SparkLake

_COLUMNS = (
    ChangeKind.DROP_COLUMN,
    ChangeKind.RENAME_COLUMN,
    ChangeKind.ALTER_COLUMN,
    ChangeKind.REPLACE_COLUMNS,
)


@dataclass(frozen=True)
class Reader:
    """Something derived that reads a table: its name, the columns it uses, how it is dropped."""

    name: str
    columns: Collection[str]
    drop: str = "DROP MATERIALIZED VIEW"


def view_readers(door: SparkLake, table: str) -> list[Reader]:
    """The views that read a table."""
    return [Reader(v.name, v.needs(table)) for v in all_views(door) if table in v.inputs]


def refuse_if_needed(shown: str, readers: Collection[Reader], how: str = "") -> None:
    """Invalid if anything reads the table, which the user calls `shown`."""
    if readers:
        first, *_ = readers
        raise Invalid(
            f"{shown!r} is needed{how} by {', '.join(r.name for r in readers)}",
            hint=f"{first.drop} {first.name} first",
            reason="NEEDED",
        )


def guard(door: SparkLake, statement: Statement, others: Callable[[str], list[Reader]]) -> None:
    """Invalid or Unsupported if the statement would break a view, the lake, or `others`."""
    match statement:
        case Write():
            for name in statement.names:
                _refuse_view(
                    door, name, f"{statement.kind.value} into", "change the tables it reads"
                )
        case CreateTable() | TableChange() if is_path(statement.name):
            pass
        case CreateTable():
            _refuse_unregistrable(door, statement.name)
            _refuse_view(door, statement.name, "create a table over", "choose another name")
        case TableChange(kind=ChangeKind.REPLACE) if not is_here(door, statement.name):
            canonical_name(door, statement.name)
        case TableChange() if not is_here(door, statement.name):
            pass
        case CreateSchema() if door.capabilities.in_directory:
            raise Unsupported(
                "a lake in a directory has one schema",
                hint="connect another directory, or connect(spark) with your own catalog",
                reason="ONE_SCHEMA",
            )
        case TableChange():
            if statement.kind is ChangeKind.REPLACE:
                _refuse_unregistrable(door, statement.name)
            _refuse_view(
                door, statement.name, "alter", "ALTER MATERIALIZED VIEW … SET REFRESH POLICY"
            )
            table = canonical_name(door, statement.name)
            _table_change(door, statement, [*view_readers(door, table), *others(table)])
        case _:
            pass


@contextmanager
def created_whole(door: SparkLake, statement: Statement) -> Iterator[None]:
    """Leave nothing of a table of a lake's directory whose creation fails in this block."""
    match statement:
        case CreateTable(name) | TableChange(ChangeKind.REPLACE, name) if door.home is not None:
            store = door.home.at(parts(name)[-1].lower())
        case _:
            yield
            return
    was_there = store.name in door.home.directories()
    try:
        yield
    except BaseException:
        if not was_there and not log.is_table(store):
            store.clear()
        raise


def _refuse_unregistrable(door: SparkLake, name: str) -> None:
    """Invalid if a lake's directory could hold a table that Spark's catalog then refuses."""
    refuse_long(name)
    if door.capabilities.in_directory and not admissible(parts(name)[-1]):
        raise Invalid(
            f"{name} is not a valid name for a table",
            detail="Spark's session catalog takes letters a-z, digits and _ alone",
            hint="choose a name of these; columns may have any name",
            reason="TABLE_NAME",
        )


def _refuse_view(door: SparkLake, name: str, what: str, hint: str) -> None:
    if is_here(door, name) and is_view(door, canonical_name(door, name)):
        raise Invalid(
            f"cannot {what} {name!r}: it is a materialized view", hint=hint, reason="IS_A_VIEW"
        )


def _table_change(door: SparkLake, statement: TableChange, readers: list[Reader]) -> None:
    if statement.kind is ChangeKind.RENAME:
        if door.capabilities.in_directory:
            raise Unsupported(
                "renaming a table of a lake in a directory",
                hint="CREATE TABLE new AS SELECT * FROM old, then DROP TABLE old",
                reason="RENAMED_TABLE",
            )
        refuse_if_needed(statement.name, readers, " as it is")
    if statement.kind in _COLUMNS:
        for reader in readers:
            _columns(statement, reader)
    off = dict(statement.properties).get(CHANGE_FEED, "true").lower() != "true"
    if off or (
        statement.kind is ChangeKind.UNSET_PROPERTIES and CHANGE_FEED in dict(statement.properties)
    ):
        refuse_if_needed(statement.name, readers, " as it is")


def _columns(statement: TableChange, reader: Reader) -> None:
    used = {c.lower() for c in reader.columns}
    hit = [c for c in statement.columns if c.lower() in used]
    if hit or statement.kind is ChangeKind.REPLACE_COLUMNS:
        named = f"column {hit[0]!r} of " if hit else ""
        raise Invalid(
            f"{named}{statement.name!r} is needed by {reader.name}",
            hint=f"{reader.drop} {reader.name} first",
            reason="NEEDED",
        )
