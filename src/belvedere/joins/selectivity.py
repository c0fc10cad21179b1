"""The expected selectivity of a join condition: the share of all pairs of rows that it holds for.

equality    1 / the larger number of distinct values: at most the rows, at most the span of whole numbers and dates
range       the share of a grid over both spans that lies within
unknown     1/200 for an equality or a band, 1/3 for one bound, as in planners of databases
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from belvedere.joins.linear import LinearRange

_DISTINCT = 200
_ONE_BOUND = 1 / 3
_GRID = 24


@dataclass(frozen=True)
class TableSizes:
    """The rows of tables, and the least and greatest values of columns as integers, where they are known."""

    rows: Mapping[str, int] = field(default_factory=dict)
    bounds: Mapping[tuple[str, str], tuple[int, int]] = field(default_factory=dict)

    def record(self) -> list[Any]:
        """In JSON's types."""
        return [dict(self.rows), [[t, c, low, high] for (t, c), (low, high) in self.bounds.items()]]

    @staticmethod
    def of(record: list[Any] | None) -> TableSizes:
        """The sizes of such a record.

        >>> sizes = TableSizes({"t": 5}, {("t", "x"): (1, 9)})
        >>> TableSizes.of(sizes.record()) == sizes, TableSizes.of(None) == TableSizes()
        (True, True)
        """
        if not record:
            return TableSizes()
        return TableSizes(dict(record[0]), {(t, c): (low, high) for t, c, low, high in record[1]})

    def distinct(self, table: str, column: str | None) -> int | None:
        """The greatest number of values that a column can have; None if that is unknown."""
        rows, bounds = self.rows.get(table), self.bounds.get((table, column or ""))
        limits = [n for n in (rows, bounds and bounds[1] - bounds[0] + 1) if n is not None]
        return min(limits) if bounds or (limits and column is not None) else None

    def equality(self, sides: list[tuple[str, str | None]]) -> float:
        """The share of pairs with equal values of two columns, or expressions (None).

        >>> TableSizes({"r": 1000, "s": 50}, {("r", "x"): (1, 10)}).equality([("r", "x"), ("s", "y")])
        0.02
        """
        counts = [n for table, column in sides if (n := self.distinct(table, column)) is not None]
        return 1 / max(1, *counts) if counts else 1 / _DISTINCT

    def range(self, bounds: LinearRange, x: tuple[str, str], y: tuple[str, str]) -> float:
        """The share of pairs whose x + b·y lies within bounds.

        >>> both = TableSizes({}, {("r", "x"): (0, 999), ("s", "y"): (0, 999)})
        >>> from fractions import Fraction
        >>> less = LinearRange("x", "y", Fraction(-1), high=Fraction(0))
        >>> 0.4 < both.range(less, ("r", "x"), ("s", "y")) < 0.6
        True
        """
        one, other = self.bounds.get(x), self.bounds.get(y)
        if one is None or other is None or bounds.in_time:
            return _ONE_BOUND if None in (bounds.low, bounds.high) else 1 / _DISTINCT
        low = float("-inf") if bounds.low is None else float(bounds.low)
        high = float("inf") if bounds.high is None else float(bounds.high)
        b, cell = float(bounds.b), (one[1] - one[0]) / _GRID
        share = 0.0
        for q in _middles(other):
            # The part of each cell of x that lies within: a narrow band falls between the middles.
            for p in _middles(one):
                begin, end = max(low - b * q, p - cell / 2), min(high - b * q, p + cell / 2)
                share += max(0.0, min(1.0, (end - begin + 1) / (cell + 1)))
        return max(share / _GRID**2, 1e-12)


def _middles(span: tuple[int, int]) -> list[float]:
    low, high = span
    return [low + (high - low) * (n + 0.5) / _GRID for n in range(_GRID)]


def integer_bound(value: Any) -> int:
    """A bound as an integer: of a date its day."""
    return value.toordinal() if isinstance(value, datetime.date) else int(value)
