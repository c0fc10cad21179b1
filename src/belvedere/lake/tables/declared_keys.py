"""Declared keys and foreign keys: table properties, verified when they are declared.

Delta does not enforce them: who relies on one checks the changes that come after.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from belvedere.errors import Invalid
from belvedere.lake.tables.table import Table
from belvedere.sql.names import quote

if TYPE_CHECKING:
    from belvedere.lake.spark_lake import SparkLake

KEY_PROPERTY = "belvedere.key"
FOREIGN_KEYS_PROPERTY = "belvedere.foreign_keys"
_EXAMPLES = 5


@dataclass(frozen=True)
class ForeignKey:
    """Every non-NULL value of some columns is one of a parent table's columns."""

    columns: tuple[str, ...]
    parent: str
    parent_columns: tuple[str, ...]


def declare_key(door: SparkLake, name: str, columns: Sequence[str]) -> Table:
    """Declare that no two rows agree on these columns and none of them is NULL."""
    table = door.table(name)
    exact = _exact(table, columns)
    listed = ", ".join(quote(c) for c in exact)
    nulls = " OR ".join(f"{quote(c)} IS NULL" for c in exact)
    _refuse(
        door,
        f"SELECT {listed} FROM {table.reference} GROUP BY {listed} HAVING count(*) > 1 OR {nulls}",
        f"({', '.join(exact)}) is not a key of {name!r}",
        "repeated or NULL",
    )
    door.set_properties(table, {KEY_PROPERTY: json.dumps(exact)})
    return door.table(name)


def declare_foreign_key(
    door: SparkLake, name: str, columns: Sequence[str], parent: str, parent_columns: Sequence[str]
) -> Table:
    """Declare that rows whose columns are not NULL have a row of the parent with these values."""
    table, other = door.table(name), door.table(parent)
    exact, theirs = _exact(table, columns), _exact(other, parent_columns)
    if len(exact) != len(theirs):
        raise Invalid(
            f"{len(exact)} columns cannot refer to {len(theirs)} columns of {parent!r}",
            reason="BAD_KEY",
        )
    pairs = list(zip(exact, theirs, strict=True))
    on = " AND ".join(f"c.{quote(a)} = p.{quote(b)}" for a, b in pairs)
    full = " AND ".join(f"c.{quote(a)} IS NOT NULL" for a in exact)
    listed = ", ".join(f"c.{quote(a)}" for a in exact)
    _refuse(
        door,
        f"SELECT DISTINCT {listed} FROM {table.reference} AS c "
        f"LEFT ANTI JOIN {other.reference} AS p ON {on} WHERE {full}",
        f"({', '.join(exact)}) of {name!r} does not refer to {parent!r}",
        "without a row there",
    )
    kept = [k for k in foreign_keys(table) if k.columns != exact or k.parent != parent]
    _store(door, table, [*kept, ForeignKey(exact, parent, theirs)])
    return door.table(name)


def key_of(table: Table) -> tuple[str, ...] | None:
    """The declared key."""
    text = table.properties.get(KEY_PROPERTY)
    return tuple(json.loads(text)) if text else None


def foreign_keys(table: Table) -> tuple[ForeignKey, ...]:
    """The declared foreign keys."""
    found = json.loads(table.properties.get(FOREIGN_KEYS_PROPERTY, "[]"))
    return tuple(
        ForeignKey(tuple(k["columns"]), k["parent"], tuple(k["parent_columns"])) for k in found
    )


def _store(door: SparkLake, table: Table, keys: Sequence[ForeignKey]) -> None:
    text = json.dumps(
        [
            {"columns": k.columns, "parent": k.parent, "parent_columns": k.parent_columns}
            for k in keys
        ]
    )
    door.set_properties(table, {FOREIGN_KEYS_PROPERTY: text})


def _exact(table: Table, columns: Sequence[str]) -> tuple[str, ...]:
    """Columns as the table spells them."""
    if not columns:
        raise Invalid("a key needs at least one column", reason="BAD_KEY")
    names = {name.lower(): name for name, _ in table.columns}
    unknown = [c for c in columns if c.lower() not in names]
    if unknown:
        raise Invalid(
            f"{table.name!r} has no column {unknown[0]!r}",
            hint=f"its columns: {', '.join(name for name, _ in table.columns)}",
            reason="NO_SUCH_COLUMN",
        )
    return tuple(names[c.lower()] for c in columns)


def _refuse(door: SparkLake, offenders_sql: str, message: str, why: str) -> None:
    rows = door.sql(f"{offenders_sql} LIMIT {_EXAMPLES}").collect()
    if rows:
        examples = "; ".join(str(tuple(row)) for row in rows)
        raise Invalid(
            message,
            detail=f"{why}: {examples}",
            hint="correct the rows, then declare it",
            reason="BAD_KEY",
        )
