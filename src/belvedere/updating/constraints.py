"""What a base row must satisfy besides the view: keys, foreign keys, CHECKs, NOT NULL.

Delta enforces CHECK and NOT NULL when it writes, which is too late for a change of several tables;
declared keys and foreign keys it does not know. All are checked before anything is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from belvedere.sql.dialect import SparkAsWritten
from belvedere.updating.domains import plain
from belvedere.updating.spoken import left

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
    asked: Callable[[str, BaseRow], bool] | None = None
    """Whether a row breaks a CHECK that memory does not compute, if there is someone to ask."""

    def finite(self, column: str) -> list[Any] | None:
        """The values that CHECKs leave to a column; None if they list none."""
        kind = self.columns[column]
        lists = [left(check, [column], kind) for check in self.checks.values()]
        listed = [some for some in lists if some is not None]
        if not listed:
            return None
        return [plain(v, kind) for v in listed[0] if all(v in some for some in listed[1:])]

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
        rows = pa.table(arrays)
        for name, check in self.checks.items():
            if self._is_broken(name, check, row, rows):
                return f"the constraint {name}: CHECK ({check})"
        return None

    def _is_broken(self, name: str, check: Scalar, row: BaseRow, rows: pa.Table) -> bool:
        """Whether one CHECK is false of a row: in memory, or as whoever can be asked says."""
        try:
            never = true(Scalar(exp.not_(exp.paren(check.expr.copy()))), rows, self.columns)
            return bool(never[0].as_py())
        except (Declined, KeyError, pa.ArrowInvalid) as why:
            if self.asked is not None:
                return self.asked(name, row)
            raise Unsupported(
                f"the constraint {name} ({check}) cannot be checked before a row is written",
                detail=str(why),
                hint="change the tables themselves, or use the view from a lake that has Spark",
                reason="CHECK_EXPRESSION",
            ) from why


def rules_of(
    table: Table,
    required: frozenset[str] = frozenset(),
    asked: Callable[[str, BaseRow], bool] | None = None,
) -> TableRules:
    """The rules that a table declares."""
    spelled = {name.lower(): name for name, _ in table.columns}
    checks = {name: check(text, spelled) for name, text in checks_of(table).items()}
    key, foreign = key_of(table), foreign_keys(table)
    return TableRules(dict(table.columns), key, foreign, checks, required, asked)


def checks_of(table: Table) -> dict[str, str]:
    """The text of each CHECK that a table has, by its name."""
    return {
        name.removeprefix(CHECK_PROPERTY): text
        for name, text in table.properties.items()
        if name.startswith(CHECK_PROPERTY)
    }


def check(text: str, spelled: Mapping[str, str] | None = None) -> Scalar:
    """A CHECK's condition, its columns as their table spells them."""
    names = spelled or {}

    def quoted(e: exp.Expr) -> exp.Expr:
        if not isinstance(e, exp.Column):
            return e
        return exp.Column(this=exp.to_identifier(names.get(e.name.lower(), e.name), quoted=True))

    return Scalar(sqlglot.parse_one(text, dialect=SparkAsWritten).transform(quoted))
