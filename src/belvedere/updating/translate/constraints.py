"""The constraints of a base table: keys, foreign keys, CHECKs, NOT NULL.

Delta enforces CHECK and NOT NULL when it writes, which is too late for a change of several tables, and
does not know declared keys and foreign keys. All are checked before anything is written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from sqlglot import exp

from belvedere.algebra.scalars import Scalar
from belvedere.errors import Unsupported
from belvedere.lake.tables.declared_keys import ForeignKey, foreign_keys, key_of
from belvedere.lake.tables.table import Table
from belvedere.memory import kinds
from belvedere.memory.declined import Declined
from belvedere.memory.scalars import value
from belvedere.sql.dialect import SparkAsWritten
from belvedere.sql.statements.cursor import without_comments
from belvedere.updating.summary.domains import denormalize
from belvedere.updating.translate.condition_constants import listed_values

CHECK_PROPERTY = "delta.constraints."

_NOT_COMPUTED = (Declined, KeyError, pa.ArrowInvalid)
"""Raised where memory cannot compute a condition."""

BaseRow = dict[str, Any]
"""A row of a base table: all its columns, as Python values."""


class RowSource(Protocol):
    """Reads base rows."""

    def where(self, table: str, equal: Mapping[str, Any]) -> list[BaseRow]:
        """The rows of a table whose columns have these values, with all columns."""

    def largest(self, table: str, column: str) -> int:
        """A number that no value of an integer column exceeds, at least 0."""

    def first(self, table: str, column: str, most: int) -> list[Any]:
        """Distinct values of a column without NULL: `most` of them, or all if there are fewer."""


@dataclass(frozen=True)
class TableRules:
    """The columns of a table and the constraints on its rows."""

    columns: Mapping[str, str]
    key: tuple[str, ...] | None = None
    foreign: tuple[ForeignKey, ...] = ()
    checks: Mapping[str, Scalar] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    engine_check: Callable[[str, BaseRow], bool] | None = None
    """Evaluates a CHECK that memory cannot compute: whether a row breaks it. None without an engine."""

    @cached_property
    def constrained(self) -> frozenset[str]:
        """The columns that may need a value: key columns, NOT NULL columns, and those in a CHECK."""
        return self.required.union(self.key or (), *(c.columns for c in self.checks.values()))

    def values_left_by_checks(self, column: str) -> list[Any] | None:
        """The values that CHECKs allow in a column; None if they do not list them."""
        if column not in self._finite:
            self._finite[column] = self._left(column)
        return self._finite[column]

    def _left(self, column: str) -> list[Any] | None:
        kind = self.columns[column]
        lists = [listed_values(check, [column], kind) for check in self.checks.values()]
        listed = [some for some in lists if some is not None]
        if not listed:
            return None
        return [denormalize(v, kind) for v in listed[0] if all(v in some for some in listed[1:])]

    def violation(self, row: BaseRow, but: Collection[str] = ()) -> str | None:
        """The CHECK or NOT NULL that a row breaks, leaving out those on some columns; None if it breaks none."""
        for column in self.required.difference(but):
            if row.get(column) is None:
                return f"NOT NULL of column {column!r}"
        for name, check in self.checks.items():
            if check.columns.isdisjoint(but) and self._is_broken(name, row):
                return f"the constraint {name}: CHECK ({check})"
        return None

    def first_valid(self, rows: Sequence[BaseRow]) -> BaseRow | None:
        """The first row that breaks nothing. CHECKs that memory can compute are computed for all rows at once."""
        sound = np.ones(len(rows), dtype=bool)
        for name in self.checks:
            with suppress(*_NOT_COMPUTED):
                sound &= ~self._false_of(name, rows)
        return next(
            (rows[i] for i in np.flatnonzero(sound).tolist() if self.violation(rows[i]) is None),
            None,
        )

    def _is_broken(self, name: str, row: BaseRow) -> bool:
        """Whether a row breaks a CHECK, computed in memory or by the engine."""
        columns = sorted(self.checks[name].columns)
        try:
            check_key = name, *(row.get(c) for c in columns if kinds.is_exact(self.columns[c]))
            if check_key not in self._told:
                self._told[check_key] = bool(self._false_of(name, [row])[0])
            return self._told[check_key]
        except _NOT_COMPUTED as why:
            if self.engine_check is not None:
                return self.engine_check(name, row)
            raise Unsupported(
                f"the constraint {name} ({self.checks[name]}) cannot be checked before a row is written",
                detail=str(why),
                hint="change the tables themselves, or use the view from a lake that has Spark",
                reason="CHECK_EXPRESSION",
            ) from why

    def _false_of(self, name: str, rows: Sequence[BaseRow]) -> npt.NDArray[np.bool_]:
        """For which rows a CHECK is false, computed in memory."""
        types = {c: self.columns[c] for c in self.checks[name].columns}
        arrays = {c: pa.array([r.get(c) for r in rows], kinds.arrow(k)) for c, k in types.items()}
        # An Arrow table without columns would have no rows.
        arrays[""] = pa.nulls(len(rows))
        result = value(self.checks[name], pa.table(arrays), types)
        if result.kind != "boolean":
            raise Declined(f"a CHECK of type {result.kind}")
        return ~np.asarray(pc.fill_null(result.data, True).to_numpy(), dtype=bool)

    @cached_property
    def _told(self) -> dict[tuple[Any, ...], bool]:
        """Results of CHECKs by the values of their columns."""
        return {}

    @cached_property
    def _finite(self) -> dict[str, list[Any] | None]:
        """The values that CHECKs allow, by column."""
        return {}


def declared_rules(
    table: Table,
    required: frozenset[str] = frozenset(),
    asked: Callable[[str, BaseRow], bool] | None = None,
) -> TableRules:
    """The constraints that a table declares."""
    spelled = {name.lower(): name for name, _ in table.columns}
    checks = {name: check_condition(text, spelled) for name, text in check_texts(table).items()}
    key, foreign = key_of(table), foreign_keys(table)
    return TableRules(dict(table.columns), key, foreign, checks, required, asked)


def check_texts(table: Table) -> dict[str, str]:
    """The text of each CHECK of a table, by name."""
    return {
        name.removeprefix(CHECK_PROPERTY): text
        for name, text in table.properties.items()
        if name.startswith(CHECK_PROPERTY)
    }


def check_condition(text: str, spelled: Mapping[str, str] | None = None) -> Scalar:
    """The condition of a CHECK, with columns in the table's spelling."""
    names = spelled or {}

    def quoted(e: exp.Expr) -> exp.Expr:
        if not isinstance(e, exp.Column):
            return e
        return exp.Column(this=exp.to_identifier(names.get(e.name.lower(), e.name), quoted=True))

    return Scalar(
        sqlglot.parse_one(without_comments(text), dialect=SparkAsWritten).transform(quoted)
    )
