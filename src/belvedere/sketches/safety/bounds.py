"""Bounds of a table's columns, without reading its rows.

declared    by CHECK constraints, which Delta enforces for every row   delta.constraints.*
recorded    by the least and greatest values of its files, in the log
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import sqlglot
from sqlglot.errors import SqlglotError

from belvedere.algebra.scalars import Scalar
from belvedere.algebra.types import parse
from belvedere.analyses.intervals import End, Interval
from belvedere.delta.files import files
from belvedere.delta.statistics import bounds_of_all, column_facts
from belvedere.lake.tables.table import Table
from belvedere.sketches.use.implied_conditions import Constant, range_of
from belvedere.sql.dialect import SparkAsWritten
from belvedere.sql.statements.cursor import without_comments

_CHECK = "delta.constraints."


def declared_range(table: Table, column: str) -> Interval | None:
    """The range that CHECK constraints give a column's values; None without one."""
    low: End = -math.inf
    high: End = math.inf
    kind = table.types.get(column.lower(), "")
    for condition in _conditions(table):
        bounds = range_of(condition)
        if bounds is None or not _is(bounds.value, column):
            continue
        if not all(_is_exact(end, kind) for end in bounds.ends):
            continue
        low = max(low, low if bounds.low is None else Fraction(bounds.low.number))
        high = min(high, high if bounds.high is None else Fraction(bounds.high.number))
    return None if (low, high) == (-math.inf, math.inf) else Interval(low, high)


def recorded_range(table: Table, column: str) -> tuple[Any, Any] | None:
    """The range of a column's values in a version's files; None if a file does not record it.

    A file without values needs no record. The ends may be values of rows that are deleted.
    """
    kind = table.types.get(column.lower(), "")
    some = files(table.store, table.version) if table.plain else None
    if some is None or not parse(kind).is_exact:
        return None
    if not any(column_facts(table, f, column).may_have_values for f in some):
        return None, None
    return bounds_of_all(table, some, column)


def _conditions(table: Table) -> Iterator[Scalar]:
    """The conditions of CHECK constraints; a condition that does not parse is skipped."""
    for name, text in table.properties.items():
        if name.startswith(_CHECK):
            try:
                yield from Scalar(
                    sqlglot.parse_one(without_comments(text), dialect=SparkAsWritten)
                ).conjuncts
            except SqlglotError:
                continue


def _is(value: Scalar, column: str) -> bool:
    return (value.column or "").lower() == column.lower()


def _is_exact(constant: Constant, kind: str) -> bool:
    """Whether a comparison of a column with a constant rounds neither."""
    if parse(kind).is_float:
        return Decimal(float(np.float32(float(constant.number)))) == constant.number
    whole = constant.type in ("int", "bigint") or parse(constant.type).is_decimal
    return whole and parse(kind).is_exact
