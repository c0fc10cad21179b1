"""What a base row must satisfy besides the view: keys, foreign keys, CHECKs, NOT NULL.

Delta enforces CHECK and NOT NULL when it writes, which is too late for a change of several tables;
declared keys and foreign keys it does not know. All are checked before anything is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa
import sqlglot
from sqlglot import exp

from belvedere.algebra.scalars import Scalar
from belvedere.errors import Unsupported
from belvedere.lake.keys import ForeignKey, foreign_keys, key_of
from belvedere.lake.tables import Table
from belvedere.memory import kinds
from belvedere.memory.declined import Declined
from belvedere.memory.scalars import true

CHECK_PROPERTY = "delta.constraints."

BaseRow = dict[str, Any]
"""A row of a base table: all its columns, in Python's values."""


class Source(Protocol):
    """Where base rows can be asked for."""

    def where(self, table: str, equal: Mapping[str, Any]) -> list[BaseRow]:
        """The rows of any table whose columns have these values, all columns of them."""

    def largest(self, table: str, column: str) -> int:
        """A number that no value of a column of integers exceeds, 0 at least."""

    def first(self, table: str, column: str, most: int) -> list[Any]:
        """Values of a column, NULL left out, each once: so many, or all if they are fewer."""


@dataclass(frozen=True)
class TableRules:
    """The columns of a table and what its rows must satisfy."""

    columns: Mapping[str, str]
    key: tuple[str, ...] | None = None
    foreign: tuple[ForeignKey, ...] = ()
    checks: Mapping[str, Scalar] = field(default_factory=dict)
    required: frozenset[str] = frozenset()

    def finite(self, column: str) -> list[Any] | None:
        """The values that a CHECK … IN leaves to a column; None if none does."""
        for check in self.checks.values():
            match check.expr:
                case exp.In(this=exp.Column() as c, expressions=listed) if c.name == column:
                    return [_constant(e) for e in listed]
        return None

    def broken(self, row: BaseRow) -> str | None:
        """Which CHECK or NOT NULL a row breaks; None if none."""
        for column in self.required:
            if row.get(column) is None:
                return f"NOT NULL of column {column!r}"
        if not self.checks:
            return None
        arrays = {
            c: pa.array([row.get(c)], kinds.arrow(k))
            for c, k in self.columns.items()
            if kinds.is_exact(k)
        }
        for name, check in self.checks.items():
            try:
                holds = true(
                    Scalar(exp.not_(exp.paren(check.expr.copy()))), pa.table(arrays), self.columns
                )
            except (Declined, KeyError) as why:
                raise Unsupported(
                    f"the constraint {name} ({check}) cannot be checked before a row is written",
                    detail=str(why),
                    reason="CHECK_EXPRESSION",
                ) from why
            if holds[0].as_py():
                return f"the constraint {name}: CHECK ({check})"
        return None


def rules_of(table: Table, required: frozenset[str] = frozenset()) -> TableRules:
    """The rules that a table declares."""
    checks = {
        name.removeprefix(CHECK_PROPERTY): _parsed(text)
        for name, text in table.properties.items()
        if name.startswith(CHECK_PROPERTY)
    }
    return TableRules(dict(table.columns), key_of(table), foreign_keys(table), checks, required)


def check(text: str) -> Scalar:
    """A CHECK's condition."""
    return _parsed(text)


def _parsed(text: str) -> Scalar:
    tree = sqlglot.parse_one(text, dialect="spark")
    for column in list(tree.find_all(exp.Column)):
        column.replace(exp.Column(this=exp.to_identifier(column.name, quoted=True)))
    return Scalar(tree)


def _constant(e: exp.Expr) -> Any:
    if isinstance(e, exp.Literal):
        return e.this if e.is_string else (int(e.this) if e.is_int else e.this)
    if isinstance(e, exp.Neg):
        return -_constant(e.this)
    raise Unsupported(f"{e.sql()} in a CHECK … IN", reason="CHECK_EXPRESSION")
