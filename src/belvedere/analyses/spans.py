"""Spans: a few intervals that hold all values of a column, of integers or dates.

New keys are often the largest and old ones the smallest: one interval around both would hold
everything between them too.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import TypeAlias

Bound: TypeAlias = int | date
Range: TypeAlias = tuple[Bound, Bound]
"""From one value to another, both within."""
Spans: TypeAlias = tuple[Range, ...]
"""In order, and apart."""

MOST = 4


def width(spans: Iterable[Range]) -> int:
    """How many values lie within.

    >>> width([(3, 5), (9, 9)]), width([(date(2024, 1, 1), date(2024, 2, 1))])
    (4, 32)
    """
    return sum(_number(high) - _number(low) + 1 for low, high in spans)


def together(spans: Iterable[Range]) -> Spans:
    """Intervals that hold all of the given ones, at most `MOST`: the narrowest gaps are closed.

    >>> together([(1, 2), (4, 9), (2, 3), (20, 20)])
    ((1, 3), (4, 9), (20, 20))
    >>> together([(1, 1), (3, 3), (10, 10), (20, 20), (50, 50)])
    ((1, 3), (10, 10), (20, 20), (50, 50))
    """
    apart: list[Range] = []
    for low, high in sorted(spans, key=lambda at: _number(at[0])):
        if apart and _number(low) <= _number(apart[-1][1]):
            apart[-1] = apart[-1][0], max(apart[-1][1], high, key=_number)
        else:
            apart.append((low, high))
    while len(apart) > MOST:
        at = min(range(len(apart) - 1), key=lambda i: _gap(apart[i], apart[i + 1]))
        apart[at : at + 2] = [(apart[at][0], apart[at + 1][1])]
    return tuple(apart)


def _gap(a: Range, b: Range) -> int:
    return _number(b[0]) - _number(a[1])


def _number(bound: Bound) -> int:
    return bound.toordinal() if isinstance(bound, date) else bound
