"""What a base row must satisfy besides the view: keys, foreign keys, CHECKs, NOT NULL.

Delta enforces CHECK and NOT NULL when it writes, which is too late for a change of several tables;
declared keys and foreign keys it does not know. All are checked before anything is written.
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
"""What is raised where memory does not compute a condition."""

BaseRow = dict[str, Any]
"""A row of a base table: all its columns, in Python's values."""


class RowSource(Protocol):
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

    @cached_property
    def constrained(self) -> frozenset[str]:
        """The columns that may have to have a value: of the key, NOT NULL, or in a CHECK."""
        return self.required.union(self.key or (), *(c.columns for c in self.checks.values()))

    def finite(self, column: str) -> list[Any] | None:
        """The values that CHECKs leave to a column; None if they list none."""
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

    def broken(self, row: BaseRow, but: Collection[str] = ()) -> str | None:
        """Which CHECK or NOT NULL a row breaks, but for those that speak of some columns; None if none."""
        for column in self.required.difference(but):
            if row.get(column) is None:
                return f"NOT NULL of column {column!r}"
        for name, check in self.checks.items():
            if check.columns.isdisjoint(but) and self._is_broken(name, row):
                return f"the constraint {name}: CHECK ({check})"
        return None

    def first_sound(self, rows: Sequence[BaseRow]) -> BaseRow | None:
        """The first of some rows that breaks nothing; what memory computes is computed of all at once."""
        sound = np.ones(len(rows), dtype=bool)
        for name in self.checks:
            with suppress(*_NOT_COMPUTED):
                sound &= ~self._false_of(name, rows)
        return next(
            (rows[i] for i in np.flatnonzero(sound).tolist() if self.broken(rows[i]) is None), None
        )

    def _is_broken(self, name: str, row: BaseRow) -> bool:
        """Whether one CHECK is false of a row: in memory, or as whoever can be asked says."""
        columns = sorted(self.checks[name].columns)
        try:
            told = name, *(row.get(c) for c in columns if kinds.is_exact(self.columns[c]))
            if told not in self._told:
                self._told[told] = bool(self._false_of(name, [row])[0])
            return self._told[told]
        except _NOT_COMPUTED as why:
            if self.asked is not None:
                return self.asked(name, row)
            raise Unsupported(
                f"the constraint {name} ({self.checks[name]}) cannot be checked before a row is written",
                detail=str(why),
                hint="change the tables themselves, or use the view from a lake that has Spark",
                reason="CHECK_EXPRESSION",
            ) from why

    def _false_of(self, name: str, rows: Sequence[BaseRow]) -> npt.NDArray[np.bool_]:
        """Of which rows a CHECK is false, computed in memory."""
        types = {c: self.columns[c] for c in self.checks[name].columns}
        arrays = {c: pa.array([r.get(c) for r in rows], kinds.arrow(k)) for c, k in types.items()}
        # A table without columns would have no rows.
        arrays[""] = pa.nulls(len(rows))
        found = value(self.checks[name], pa.table(arrays), types)
        if found.kind != "boolean":
            raise Declined(f"a CHECK of type {found.kind}")
        return ~np.asarray(pc.fill_null(found.data, True).to_numpy(), dtype=bool)

    @cached_property
    def _told(self) -> dict[tuple[Any, ...], bool]:
        """Whether CHECKs are false of values that were looked at."""
        return {}

    @cached_property
    def _finite(self) -> dict[str, list[Any] | None]:
        """What was found of the values that CHECKs leave, by column."""
        return {}


def declared_rules(
    table: Table,
    required: frozenset[str] = frozenset(),
    asked: Callable[[str, BaseRow], bool] | None = None,
) -> TableRules:
    """The rules that a table declares."""
    spelled = {name.lower(): name for name, _ in table.columns}
    checks = {name: check_condition(text, spelled) for name, text in check_texts(table).items()}
    key, foreign = key_of(table), foreign_keys(table)
    return TableRules(dict(table.columns), key, foreign, checks, required, asked)


def check_texts(table: Table) -> dict[str, str]:
    """The text of each CHECK that a table has, by its name."""
    return {
        name.removeprefix(CHECK_PROPERTY): text
        for name, text in table.properties.items()
        if name.startswith(CHECK_PROPERTY)
    }


def check_condition(text: str, spelled: Mapping[str, str] | None = None) -> Scalar:
    """A CHECK's condition, its columns as their table spells them."""
    names = spelled or {}

    def quoted(e: exp.Expr) -> exp.Expr:
        if not isinstance(e, exp.Column):
            return e
        return exp.Column(this=exp.to_identifier(names.get(e.name.lower(), e.name), quoted=True))

    return Scalar(
        sqlglot.parse_one(without_comments(text), dialect=SparkAsWritten).transform(quoted)
    )
