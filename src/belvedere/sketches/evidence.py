"""Evidence: what is known of tables that makes an attribute safe, and must go on being so."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

from belvedere.algebra.relations import Rel
from belvedere.algebra.scalars import Scalar
from belvedere.analyses.intervals import ANYTHING, Interval, interval
from belvedere.analyses.origins import Origin, origin
from belvedere.memory.kinds import is_decimal, is_integer
from belvedere.sketches.definition import Watched

Ends = Callable[[str, str], tuple[Any, Any]]
"""The least and the greatest value of a table's column; None where it has none."""


@dataclass
class Evidence:
    """Proves by interval arithmetic that sums have no negative terms; gathers what it relied on."""

    ends: Ends
    _known: dict[tuple[str, str], Interval] = field(default_factory=dict)
    relied: set[tuple[str, str]] = field(default_factory=set)

    @staticmethod
    def relying_on(watched: Iterable[Watched]) -> Evidence:
        """What a sketch was found to rely on, and nothing else."""
        known = {(w.table, w.column): Interval(Fraction(w.low), Fraction(w.high)) for w in watched}
        return Evidence(lambda _table, _column: (None, None), known)

    def nonnegative(self, value: Scalar, over: Rel) -> bool:
        """Whether a scalar over a plan's rows is never below zero."""
        origins = {c: origin(over, c) for c in value.columns}
        if any(o is None for o in origins.values()):
            return False
        found = {c: o for c, o in origins.items() if o is not None}
        at = {c: self._interval(o) for c, o in found.items()}
        holds = interval(value, lambda c: at.get(c, ANYTHING), _most(found.values())).nonnegative
        if holds:
            self.relied |= {(o.table, o.column) for o in found.values()}
        return holds

    def watched(self) -> tuple[Watched, ...]:
        """Which columns must stay between which values."""
        return tuple(
            Watched(
                t, c, str(Fraction(self._known[t, c].low)), str(Fraction(self._known[t, c].high))
            )
            for t, c in sorted(self.relied)
        )

    def _interval(self, o: Origin) -> Interval:
        key = o.table, o.column
        if key not in self._known:
            self._known[key] = self._measured(o)
        return self._known[key]

    def _measured(self, o: Origin) -> Interval:
        numeric = is_integer(o.type) or is_decimal(o.type) or o.type in ("float", "double")
        if not numeric:
            return ANYTHING
        low, high = self.ends(o.table, o.column)
        if low is None or not _finite(low) or not _finite(high):
            return ANYTHING
        # A table grows: what is above its greatest value, or between zero and its least, is no harm.
        least = min(Fraction(low), Fraction(0)) if Fraction(low) < 0 else Fraction(0)
        most = _roomy(Fraction(high), o.type)
        return Interval(least, most)


def _roomy(high: Fraction, kind: str) -> Fraction:
    """The greatest value with room above it; that of a decimal is never above one more digit."""
    if is_decimal(kind) and high <= 1:
        return max(high, Fraction(1))
    return max(high * 2, Fraction(1))


def _most(origins: Iterable[Origin]) -> int:
    """The first number that integers computed from columns cannot hold."""
    types = {o.type for o in origins}
    if types <= {"tinyint", "smallint", "int"}:
        return 2**31
    return 2**63 if types <= {"tinyint", "smallint", "int", "bigint"} else 10**38


def _finite(number: Any) -> bool:
    return Decimal(number).is_finite() if not isinstance(number, float) else abs(number) < 1e300
