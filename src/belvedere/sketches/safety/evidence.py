"""Evidence: the ranges of columns that make a partition attribute safe, and that must stay true."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

from belvedere.algebra.relations import Rel
from belvedere.algebra.scalars import Scalar
from belvedere.algebra.types import IntegerType, parse
from belvedere.analyses.intervals import ANYTHING, End, Interval, interval
from belvedere.analyses.origins import Origin, origin
from belvedere.sketches.definition import Watched

_ROOM = 8
"""A column may grow to so many times its greatest value before safety is proved again."""

Ends = Callable[[str, str], tuple[Any, Any]]
"""The least and the greatest value of a table's column; None if it has no values."""
Declared = Callable[[str, str], Interval | None]
"""The range that constraints give a table's column; None without one."""


def _undeclared(_table: str, _column: str) -> Interval | None:
    return None


@dataclass
class Evidence:
    """Proves by interval arithmetic that sums have no negative terms, and records the ranges it relies on."""

    ends: Ends
    declared: Declared = _undeclared
    _known: dict[tuple[str, str], Interval] = field(default_factory=dict)
    _tight: dict[tuple[str, str], Interval] = field(default_factory=dict)
    relied: set[tuple[str, str]] = field(default_factory=set)

    @staticmethod
    def relying_on(watched: Iterable[Watched]) -> Evidence:
        """Evidence of the ranges that a sketch relies on, and of nothing else."""
        known = {(w.table, w.column): Interval(end_of(w.low), end_of(w.high)) for w in watched}
        return Evidence(lambda _table, _column: (None, None), _known=known)

    def nonnegative(self, value: Scalar, over: Rel) -> bool:
        """Whether a scalar over a plan's rows is never negative.

        The proof uses ranges with room for tables to grow; if it fails, the present ranges.
        """
        origins = {c: origin(over, c) for c in value.columns}
        if any(o is None for o in origins.values()):
            return False
        columns = {c: o for c, o in origins.items() if o is not None}
        for o in columns.values():
            self._find_range(o)
        places = {c: (o.table, o.column) for c, o in columns.items()}
        for at in (self._known, {**self._known, **self._tight}):
            ends = {c: at[place] for c, place in places.items()}
            if interval(value, ends.__getitem__, _overflow(columns.values())).nonnegative:
                # A narrower range also proves what a wider one proved before.
                self._known |= {place: at[place] for place in places.values()}
                self.relied |= {*places.values()}
                return True
        return False

    def watched(self) -> tuple[Watched, ...]:
        """The columns that the proofs rely on, and their ranges."""
        known = self._known
        return tuple(
            Watched(t, c, str(known[t, c].low), str(known[t, c].high))
            for t, c in sorted(self.relied)
        )

    def _find_range(self, o: Origin) -> None:
        """Find the range of a table's column, once."""
        place = o.table, o.column
        if place in self._known:
            return
        numeric = parse(o.type).is_number
        if not numeric:
            self._known[place] = ANYTHING
            return
        low, high = self.ends(o.table, o.column)
        declared = self.declared(o.table, o.column) or ANYTHING
        if low is None or not _finite(low) or not _finite(high):
            self._known[place] = declared
            return
        # Tables grow: values up to a multiple of the greatest, and down to zero, keep the proof.
        least, most = Fraction(low), Fraction(high)
        self._known[place] = _both(
            Interval(min(least, Fraction(0)), _with_room(most, o.type)), declared
        )
        self._tight[place] = _both(Interval(least, most), declared)


def end_of(text: str) -> End:
    """An end of an interval, from its text."""
    return float(text) if "inf" in text else Fraction(text)


def _both(one: Interval, other: Interval) -> Interval:
    return Interval(max(one.low, other.low), min(one.high, other.high))


def _with_room(high: Fraction, kind: str) -> Fraction:
    """A greatest value with room above it; for a decimal at most one more digit."""
    if parse(kind).is_decimal and high <= 1:
        return max(high, Fraction(1))
    return max(high * _ROOM, Fraction(1))


def _overflow(origins: Iterable[Origin]) -> int:
    """The least number that overflows arithmetic on the columns."""
    types = [parse(o.type) for o in origins]
    widths = [t.bits for t in types if isinstance(t, IntegerType)]
    if len(widths) < len(types):
        return 10**38
    return 2**31 if max(widths, default=32) <= 32 else 2**63


def _finite(number: Any) -> bool:
    return Decimal(number).is_finite() if not isinstance(number, float) else abs(number) < 1e300
