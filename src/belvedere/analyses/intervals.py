"""The interval that holds a scalar, given the intervals of its columns: interval arithmetic.

Only what cannot leave the interval is answered: where an integer could pass the ends of its type,
and so wrap around when Spark does not raise, nothing is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from sqlglot import exp

from belvedere.algebra.scalars import Scalar

End: TypeAlias = Fraction | float


@dataclass(frozen=True)
class Interval:
    """All numbers from one end to the other; an end may be infinite."""

    low: End
    high: End

    @property
    def nonnegative(self) -> bool:
        """Whether no number in it is below zero."""
        return self.low >= 0

    def hull(self, other: Interval) -> Interval:
        """The least interval around both."""
        return Interval(min(self.low, other.low), max(self.high, other.high))


ANYTHING = Interval(-math.inf, math.inf)
Known: TypeAlias = Callable[[str], Interval]


def interval(value: Scalar, known: Known, most: int = 2**31) -> Interval:
    """Where a scalar lies; `most` is the first number that integers of its columns cannot hold.

    >>> from sqlglot import parse_one
    >>> at = {"price": Interval(Fraction(0), Fraction(9)), "off": Interval(Fraction(0), Fraction(1))}
    >>> found = interval(Scalar(parse_one("price * (1 - off)")), at.__getitem__)
    >>> int(found.low), int(found.high)
    (0, 9)
    """
    return _Arithmetic(known, most).of(value.expr)


@dataclass(frozen=True)
class _Arithmetic:
    known: Known
    most: int

    def of(self, e: exp.Expr) -> Interval:
        match e:
            case exp.Column():
                return self.known(e.name)
            case exp.Paren():
                return self.of(e.this)
            case exp.Literal() if not e.is_string:
                number = Fraction(e.this)
                return Interval(number, number)
            case exp.Neg():
                inner = self.of(e.this)
                return Interval(-inner.high, -inner.low)
            case exp.Add():
                a, b = self.of(e.this), self.of(e.expression)
                return self.fits(Interval(a.low + b.low, a.high + b.high))
            case exp.Sub():
                a, b = self.of(e.this), self.of(e.expression)
                return self.fits(Interval(a.low - b.high, a.high - b.low))
            case exp.Mul():
                return self.fits(_product(self.of(e.this), self.of(e.expression)))
            case exp.Cast() if e.to.is_type(*exp.DataType.NUMERIC_TYPES):
                # A cast rounds, and rounding does not pass zero; one that does not fit is no number.
                inner = self.of(e.this)
                wide = inner.nonnegative and e.to.is_type("double", "decimal", "bigint")
                return Interval(Fraction(0), math.inf) if wide else ANYTHING
            case exp.Coalesce():
                return self.hull([e.this, *e.expressions])
            case exp.Case() if e.args.get("default") is not None:
                return self.hull([*(b.args["true"] for b in e.args["ifs"]), e.args["default"]])
            case exp.Case():
                return self.hull([b.args["true"] for b in e.args["ifs"]])
            case _:
                return ANYTHING

    def hull(self, parts: list[exp.Expr]) -> Interval:
        """Where one of several values lies; NULL lies nowhere."""
        found = [self.of(p) for p in parts if not isinstance(p, exp.Null)]
        whole = found[0] if found else ANYTHING
        for each in found[1:]:
            whole = whole.hull(each)
        return whole

    def fits(self, found: Interval) -> Interval:
        inside = -self.most <= found.low and found.high < self.most
        return found if inside else ANYTHING


def _product(a: Interval, b: Interval) -> Interval:
    ends = [_times(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return Interval(min(ends), max(ends))


def _times(x: End, y: End) -> End:
    # Zero times infinity: the infinite end is never reached.
    return Fraction(0) if x == 0 or y == 0 else x * y
