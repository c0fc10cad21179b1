"""Guard: statements of Spark's that would break a view, refused before Spark sees them."""

from __future__ import annotations

from belvedere.errors import Invalid, Unsupported
from belvedere.lake.door import Door
from belvedere.lake.tables import CHANGE_FEED
from belvedere.sql.statements import (
    ChangeKind,
    CreateSchema,
    CreateTable,
    Statement,
    TableChange,
    Write,
)
from belvedere.views.catalog import all_views, canonical_name, is_view
from belvedere.views.definition import View

_COLUMNS = (
    ChangeKind.DROP_COLUMN,
    ChangeKind.RENAME_COLUMN,
    ChangeKind.ALTER_COLUMN,
    ChangeKind.REPLACE_COLUMNS,
)


def guard(door: Door, statement: Statement) -> None:
    """Invalid or Unsupported if the statement would break a view or the lake."""
    match statement:
        case Write():
            for name in statement.names:
                _refuse_view(
                    door, name, f"{statement.kind.value} into", "change the tables it reads"
                )
        case CreateTable():
            _refuse_view(door, statement.name, "create a table over", "choose another name")
        case CreateSchema() if door.directory is not None:
            raise Unsupported(
                "a lake in a directory has one schema",
                hint="connect another directory, or connect(spark) with your own catalog",
            )
        case TableChange():
            _refuse_view(
                door, statement.name, "alter", "ALTER MATERIALIZED VIEW … SET REFRESH POLICY"
            )
            _table_change(door, statement)
        case _:
            pass


def _refuse_view(door: Door, name: str, what: str, hint: str) -> None:
    if is_view(door, canonical_name(door, name)):
        raise Invalid(
            f"cannot {what} {name!r}: it is a materialized view", hint=hint, reason="IS_A_VIEW"
        )


def _table_change(door: Door, statement: TableChange) -> None:
    table = canonical_name(door, statement.name)
    views = [v for v in all_views(door) if table in v.inputs]
    if statement.kind is ChangeKind.RENAME:
        if door.directory is not None:
            raise Unsupported(
                "renaming a table of a lake in a directory",
                hint="CREATE TABLE new AS SELECT * FROM old, then DROP TABLE old",
            )
        _needed(statement.name, views)
    if statement.kind in _COLUMNS:
        for view in views:
            _columns(statement, view, table)
    off = dict(statement.properties).get(CHANGE_FEED, "true").lower() != "true"
    if off or (
        statement.kind is ChangeKind.UNSET_PROPERTIES and CHANGE_FEED in dict(statement.properties)
    ):
        _needed(statement.name, views)


def _needed(name: str, views: list[View]) -> None:
    if views:
        listed = ", ".join(v.name for v in views)
        raise Invalid(
            f"{name!r} is needed as it is by {listed}",
            hint=f"DROP MATERIALIZED VIEW {views[0].name} first",
            reason="NEEDED",
        )


def _columns(statement: TableChange, view: View, table: str) -> None:
    used = {c.lower() for c in view.needs(table)}
    hit = [c for c in statement.columns if c.lower() in used]
    if hit or statement.kind is ChangeKind.REPLACE_COLUMNS:
        named = f"column {hit[0]!r} of " if hit else ""
        raise Invalid(
            f"{named}{statement.name!r} is needed by {view.name}",
            hint=f"DROP MATERIALIZED VIEW {view.name} first",
            reason="NEEDED",
        )
