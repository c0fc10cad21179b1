"""Spark's statements that a view must be asked about first: DDL on what it needs, DML on itself.

Only the names are read; whether the statement is right is Spark's to say.
A new one is a line in `SPARKS`, a function of the cursor behind its keywords and a dataclass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial

from belvedere.sql.statements.cursor import Cursor, Properties


class ChangeKind(Enum):
    """What a statement does to a table besides writing its rows."""

    ADD_COLUMN = "ADD COLUMN"
    DROP_COLUMN = "DROP COLUMN"
    RENAME_COLUMN = "RENAME COLUMN"
    ALTER_COLUMN = "ALTER COLUMN"
    REPLACE_COLUMNS = "REPLACE COLUMNS"
    RENAME = "RENAME TO"
    SET_PROPERTIES = "SET TBLPROPERTIES"
    UNSET_PROPERTIES = "UNSET TBLPROPERTIES"
    REDEFINE = "AS"
    REPLACE = "REPLACE"
    TRUNCATE = "TRUNCATE"
    RESTORE = "RESTORE"
    OTHER = "ALTER"


class WriteKind(Enum):
    """How a statement writes rows."""

    INSERT = "INSERT"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    MERGE = "MERGE"


@dataclass(frozen=True)
class CreateTable:
    """Spark's CREATE TABLE without OR REPLACE."""

    name: str
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateSchema:
    """Spark's CREATE SCHEMA or DATABASE."""

    name: str
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropTable:
    """Spark's DROP TABLE, or DROP VIEW if `view`."""

    name: str
    if_exists: bool = False
    view: bool = False


@dataclass(frozen=True)
class DropSchema:
    """Spark's DROP SCHEMA or DATABASE."""

    name: str
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class TableChange:
    """DDL on an existing table or view: the columns it names, its new name or its properties."""

    kind: ChangeKind
    name: str
    columns: tuple[str, ...] = ()
    new_name: str | None = None
    properties: Properties = ()


@dataclass(frozen=True)
class Write:
    """DML and its targets: one, or several of a FROM … INSERT … INSERT."""

    kind: WriteKind
    names: tuple[str, ...]


@dataclass(frozen=True)
class RefreshTable:
    """Spark's REFRESH [TABLE], which forgets what Spark remembers of a table."""

    name: str


SparkStatement = (
    CreateTable | CreateSchema | DropTable | DropSchema | RefreshTable | TableChange | Write
)


def _create_table(c: Cursor) -> CreateTable:
    if_not_exists = c.take("IF NOT EXISTS")
    return CreateTable(c.name(), if_not_exists)


def _create_schema(c: Cursor) -> CreateSchema:
    if_not_exists = c.take("IF NOT EXISTS")
    return CreateSchema(c.name(), if_not_exists)


def _drop_table(c: Cursor, view: bool) -> DropTable:
    if_exists = c.take("IF EXISTS")
    return DropTable(c.name(), if_exists, view)


def _drop_schema(c: Cursor) -> DropSchema:
    if_exists = c.take("IF EXISTS")
    return DropSchema(c.name(), if_exists, c.take("CASCADE"))


def _refresh(c: Cursor) -> RefreshTable:
    name = c.name()
    c.end()
    return RefreshTable(name)


def _change(c: Cursor, kind: ChangeKind) -> TableChange:
    return TableChange(kind, c.name())


def _restore(c: Cursor) -> TableChange:
    c.take("TABLE")
    return TableChange(ChangeKind.RESTORE, c.name())


def _alter(c: Cursor) -> TableChange:
    name = c.name()
    for phrase, kind in _ALTERATIONS.items():
        if c.take(phrase):
            return _alteration(c, kind, name)
    return TableChange(ChangeKind.OTHER, name)


def _alteration(c: Cursor, kind: ChangeKind, name: str) -> TableChange:
    match kind:
        case ChangeKind.RENAME:
            return TableChange(kind, name, new_name=c.name())
        case ChangeKind.RENAME_COLUMN:
            columns = (c.name(),)
            c.expect("TO")
            return TableChange(kind, name, columns, new_name=c.name())
        case ChangeKind.ALTER_COLUMN:
            return TableChange(kind, name, _altered_columns(c))
        case ChangeKind.DROP_COLUMN:
            c.take("IF EXISTS")
            return TableChange(kind, name, _columns(c))
        case ChangeKind.SET_PROPERTIES:
            return TableChange(kind, name, properties=c.properties())
        case ChangeKind.UNSET_PROPERTIES:
            c.take("IF EXISTS")
            return TableChange(kind, name, properties=c.properties())
        case _:
            return TableChange(kind, name)


def _altered_columns(c: Cursor) -> tuple[str, ...]:
    """The columns of ALTER COLUMN a TYPE …, b COMMENT …; commas inside a type only add names."""
    columns = [c.name()]
    while not c.done:
        if c.take(","):
            columns.append(c.name())
        else:
            c.skip_parentheses()
    return tuple(columns)


def _columns(c: Cursor) -> tuple[str, ...]:
    parenthesised = c.take("(")
    columns = [c.name()]
    while c.take(","):
        columns.append(c.name())
    if parenthesised:
        c.expect(")")
    return tuple(columns)


def _insert(c: Cursor) -> Write:
    return Write(WriteKind.INSERT, (_inserted(c),))


def _inserted(c: Cursor) -> str:
    if c.sees("DIRECTORY") or c.sees("LOCAL DIRECTORY"):
        raise c.wrong("expected a table")
    c.take("TABLE")
    return c.name()


def _write(c: Cursor, kind: WriteKind) -> Write:
    return Write(kind, (c.name(),))


def _from(c: Cursor) -> Write:
    """FROM source INSERT INTO a SELECT … INSERT INTO b SELECT …"""
    names = []
    while not c.done:
        if c.take("INSERT INTO") or c.take("INSERT OVERWRITE"):
            names.append(_inserted(c))
        else:
            c.skip_parentheses()
    if not names:
        raise c.wrong("expected INSERT")
    return Write(WriteKind.INSERT, tuple(names))


def _with(c: Cursor) -> SparkStatement:
    """WITH a AS (…), b(x) AS (…) and then a write."""
    while not c.done:
        opened = c.word() == "("
        c.skip_parentheses()
        if opened and c.word() not in {",", "AS", "MAX"}:
            break
    for phrase, parse in _WRITES.items():
        if c.take(phrase):
            return parse(c)
    raise c.wrong("expected a write")


_WRITES: dict[str, Callable[[Cursor], SparkStatement]] = {
    "INSERT INTO": _insert,
    "INSERT OVERWRITE": _insert,
    "INSERT WITH SCHEMA EVOLUTION INTO": _insert,
    "INSERT WITH SCHEMA EVOLUTION OVERWRITE": _insert,
    "UPDATE": partial(_write, kind=WriteKind.UPDATE),
    "DELETE FROM": partial(_write, kind=WriteKind.DELETE),
    "MERGE INTO": partial(_write, kind=WriteKind.MERGE),
    "MERGE WITH SCHEMA EVOLUTION INTO": partial(_write, kind=WriteKind.MERGE),
    "FROM": _from,
}

SPARKS: dict[str, Callable[[Cursor], SparkStatement]] = {
    **_WRITES,
    "WITH": _with,
    "CREATE TABLE": _create_table,
    "CREATE EXTERNAL TABLE": _create_table,
    "CREATE SCHEMA": _create_schema,
    "CREATE DATABASE": _create_schema,
    "CREATE NAMESPACE": _create_schema,
    "CREATE OR REPLACE TABLE": partial(_change, kind=ChangeKind.REPLACE),
    "CREATE OR REPLACE VIEW": partial(_change, kind=ChangeKind.REPLACE),
    "REPLACE TABLE": partial(_change, kind=ChangeKind.REPLACE),
    "TRUNCATE TABLE": partial(_change, kind=ChangeKind.TRUNCATE),
    "RESTORE": _restore,
    "DROP TABLE": partial(_drop_table, view=False),
    "DROP VIEW": partial(_drop_table, view=True),
    "DROP SCHEMA": _drop_schema,
    "DROP DATABASE": _drop_schema,
    "DROP NAMESPACE": _drop_schema,
    "ALTER TABLE": _alter,
    "ALTER VIEW": _alter,
    "REFRESH TABLE": _refresh,
    "REFRESH": _refresh,
}

# Longer phrases first: `ALTER COLUMN c` also begins with `ALTER`.
_ALTERATIONS: dict[str, ChangeKind] = {
    "RENAME TO": ChangeKind.RENAME,
    "RENAME COLUMN": ChangeKind.RENAME_COLUMN,
    "DROP COLUMNS": ChangeKind.DROP_COLUMN,
    "DROP COLUMN": ChangeKind.DROP_COLUMN,
    "ADD COLUMNS": ChangeKind.ADD_COLUMN,
    "ADD COLUMN": ChangeKind.ADD_COLUMN,
    "REPLACE COLUMNS": ChangeKind.REPLACE_COLUMNS,
    "ALTER COLUMN": ChangeKind.ALTER_COLUMN,
    "CHANGE COLUMN": ChangeKind.ALTER_COLUMN,
    "ALTER": ChangeKind.ALTER_COLUMN,
    "CHANGE": ChangeKind.ALTER_COLUMN,
    "SET TBLPROPERTIES": ChangeKind.SET_PROPERTIES,
    "UNSET TBLPROPERTIES": ChangeKind.UNSET_PROPERTIES,
    "AS": ChangeKind.REDEFINE,
}
