"""How selective a join condition is expected to be: the share of all pairs of rows that it holds for.

equality    1 / the larger number of distinct values: at most the rows, at most the span of whole numbers and dates
range       the share of a grid over both spans that lies within
unknown     1/200 for an equality or a band, 1/3 for one bound, as planners of databases have it
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from belvedere.joins.linear import Interval

_DISTINCT = 200
_ONE_BOUND = 1 / 3
_GRID = 24


@dataclass(frozen=True)
class Known:
    """What the tables' logs say: rows, and the least and greatest values of columns as whole numbers."""

    rows: Mapping[str, int] = field(default_factory=dict)
    bounds: Mapping[tuple[str, str], tuple[int, int]] = field(default_factory=dict)

    def record(self) -> list[Any]:
        """In JSON's types."""
        return [dict(self.rows), [[t, c, low, high] for (t, c), (low, high) in self.bounds.items()]]

    @staticmethod
    def of(record: list[Any] | None) -> Known:
        """What such a record says.

        >>> known = Known({"t": 5}, {("t", "x"): (1, 9)})
        >>> Known.of(known.record()) == known, Known.of(None) == Known()
        (True, True)
        """
        if not record:
            return Known()
        return Known(dict(record[0]), {(t, c): (low, high) for t, c, low, high in record[1]})

    def distinct(self, table: str, column: str | None) -> int | None:
        """How many values a column has at most, as far as is known."""
        rows, bounds = self.rows.get(table), self.bounds.get((table, column or ""))
        found = [n for n in (rows, bounds and bounds[1] - bounds[0] + 1) if n is not None]
        return min(found) if bounds or (found and column is not None) else None

    def equality(self, sides: list[tuple[str, str | None]]) -> float:
        """The share of pairs with equal values of two columns, or expressions (None).

        >>> Known({"r": 1000, "s": 50}, {("r", "x"): (1, 10)}).equality([("r", "x"), ("s", "y")])
        0.02
        """
        counts = [n for table, column in sides if (n := self.distinct(table, column)) is not None]
        return 1 / max(1, *counts) if counts else 1 / _DISTINCT

    def within(self, interval: Interval, x: tuple[str, str], y: tuple[str, str]) -> float:
        """The share of pairs whose x + b·y lies within bounds.

        >>> both = Known({}, {("r", "x"): (0, 999), ("s", "y"): (0, 999)})
        >>> from fractions import Fraction
        >>> less = Interval("x", "y", Fraction(-1), high=Fraction(0))
        >>> 0.4 < both.within(less, ("r", "x"), ("s", "y")) < 0.6
        True
        """
        one, other = self.bounds.get(x), self.bounds.get(y)
        if one is None or other is None or interval.timed:
            return _ONE_BOUND if None in (interval.low, interval.high) else 1 / _DISTINCT
        low = float("-inf") if interval.low is None else float(interval.low)
        high = float("inf") if interval.high is None else float(interval.high)
        b, cell = float(interval.b), (one[1] - one[0]) / _GRID
        share = 0.0
        for q in _middles(other):
            # Of each cell of x the part that lies within: narrow bands fall between the middles.
            for p in _middles(one):
                begin, end = max(low - b * q, p - cell / 2), min(high - b * q, p + cell / 2)
                share += max(0.0, min(1.0, (end - begin + 1) / (cell + 1)))
        return max(share / _GRID**2, 1e-12)


def _middles(span: tuple[int, int]) -> list[float]:
    low, high = span
    return [low + (high - low) * (n + 0.5) / _GRID for n in range(_GRID)]


def as_number(value: Any) -> int:
    """A bound as a whole number: of a date its day."""
    return value.toordinal() if isinstance(value, datetime.date) else int(value)
