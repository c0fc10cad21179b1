"""Comparisons as lines: a·x + b·y + c against zero, so that ranges and bands of one pair meet in one form.

x < 2*y + 5             1·x - 2·y in (-∞, 5)
abs(x - y) <= 3         1·x - 1·y in [-3, 3]
y between x - 1 and x   two lines of one pair: 1·x - 1·y in [0, 1]
x < y + INTERVAL 5 MINUTES     1·x - 1·y in (-∞, 300 000 000), in microseconds
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from sqlglot import exp

DAY = 24 * 3600 * 10**6
"""The microseconds of a day."""


@dataclass(frozen=True)
class Line:
    """Coefficients of columns and a constant."""

    of: tuple[tuple[str, Fraction], ...]
    constant: Fraction
    time: Fraction = Fraction(0)
    """A constant of intervals, in microseconds."""
    double: bool = False
    """Whether a constant is written as a double, so that Spark computes in doubles."""

    def __sub__(self, other: Line) -> Line:
        return self.plus(other.times(Fraction(-1)))

    def plus(self, other: Line) -> Line:
        """The sum."""
        sums = dict(self.of)
        for name, factor in other.of:
            sums[name] = sums.get(name, Fraction(0)) + factor
        kept = tuple(sorted((n, f) for n, f in sums.items() if f))
        constant, double = self.constant + other.constant, self.double or other.double
        return Line(kept, constant, self.time + other.time, double)

    def times(self, factor: Fraction) -> Line:
        """Every coefficient times a number."""
        of = tuple((n, f * factor) for n, f in self.of if factor)
        return Line(of, self.constant * factor, self.time * factor, self.double)


def line(e: exp.Expr) -> Line | None:
    """An expression as a line, if it is one."""
    match e:
        case exp.Paren():
            return line(e.this)
        case exp.Column():
            return Line(((e.name, Fraction(1)),), Fraction(0))
        case exp.Literal() if not e.is_string:
            return Line((), Fraction(e.this), double="e" in e.this.lower())
        case exp.Interval():
            return _duration(e)
        case exp.Neg():
            inner = line(e.this)
            return inner and inner.times(Fraction(-1))
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
            return _combined(e, line(e.this), line(e.expression))
        case _:
            return None


_MICROS = {
    "MICROSECOND": 1, "MILLISECOND": 1000, "SECOND": 10**6, "MINUTE": 60 * 10**6,
    "HOUR": 3600 * 10**6, "DAY": DAY, "WEEK": 7 * DAY,
}  # fmt: skip
"""What has a length; months and years have none of their own."""


def _duration(e: exp.Interval) -> Line | None:
    """INTERVAL 5 MINUTES, or '5' MINUTES, as a constant."""
    unit, given = e.args.get("unit"), e.this
    name = unit.name.upper().removesuffix("S") if isinstance(unit, exp.Var) else ""
    sign = -1 if isinstance(given, exp.Neg) else 1
    given = given.this if isinstance(given, exp.Neg) else given
    if name not in _MICROS or not isinstance(given, exp.Literal):
        return None
    try:
        length = sign * Fraction(given.name.strip())
    except ValueError:
        return None
    whole = length.denominator == 1 or name == "SECOND"
    return Line((), Fraction(0), length * _MICROS[name]) if whole else None


def _combined(e: exp.Expr, one: Line | None, other: Line | None) -> Line | None:
    if one is None or other is None:
        return None
    match e:
        case exp.Add():
            return one.plus(other)
        case exp.Sub():
            return one - other
        case exp.Mul() if not other.of and not other.time:
            return _scaled(one, other.constant, other)
        case exp.Mul() if not one.of and not one.time:
            return _scaled(other, one.constant, one)
        case exp.Div() if not other.of and not other.time and other.constant:
            return _scaled(one, 1 / other.constant, other)
        case _:
            return None


def _scaled(one: Line, factor: Fraction, by: Line) -> Line:
    return replace(one.times(factor), double=one.double or by.double)


@dataclass(frozen=True)
class Interval:
    """x + b·y within bounds; None is without bound."""

    x: str
    y: str
    b: Fraction
    low: Fraction | None = None
    high: Fraction | None = None
    low_open: bool = False
    high_open: bool = False
    timed: bool = False
    """Whether the bounds are intervals of time, in microseconds."""
    longest: Fraction = Fraction(0)
    """The longest interval that is written in it."""
    apart: bool = True
    """Whether the columns stand on two sides of the comparison: their difference is written nowhere."""
    double: bool = False
    """Whether Spark compares doubles, whatever the columns are."""

    @property
    def pair(self) -> tuple[str, str, Fraction]:
        """What is bounded."""
        return self.x, self.y, self.b

    def fits(self, other: Interval) -> bool:
        """Whether another bounds the same, in the same unit: zero is of any."""
        numbers = [i for i in (self, other) if not i.timed and any((i.low, i.high))]
        return self.pair == other.pair and not (numbers and (self.timed or other.timed))

    def meet(self, other: Interval) -> Interval:
        """Both bounds of one pair."""
        low = max((self._lower, other._lower), key=lambda b: (b[0] is not None, b[0], b[1]))
        uppers = [b for b in (self._upper, other._upper) if b[0] is not None]
        high = min(uppers, key=lambda b: (b[0], not b[1])) if uppers else (None, False)
        return Interval(
            self.x, self.y, self.b, low[0], high[0], low[1], high[1],
            self.timed or other.timed, max(self.longest, other.longest), self.apart and other.apart,
            self.double or other.double,
        )  # fmt: skip

    @property
    def _lower(self) -> tuple[Fraction | None, bool]:
        return self.low, self.low_open

    @property
    def _upper(self) -> tuple[Fraction | None, bool]:
        return self.high, self.high_open


def interval(e: exp.Expr) -> Interval | None:
    """A comparison of two columns as an interval, if it is one.

    >>> from sqlglot import parse_one
    >>> i = interval(parse_one("abs(x - 2 * y) < 5"))
    >>> i.pair, (i.low, i.high), i.high_open
    (('x', 'y', Fraction(-2, 1)), (Fraction(-5, 1), Fraction(5, 1)), True)
    """
    match e:
        case exp.Paren():
            return interval(e.this)
        case exp.Between():
            low = interval(exp.GTE(this=e.this, expression=e.args["low"]))
            high = interval(exp.LTE(this=e.this, expression=e.args["high"]))
            return low.meet(high) if low and high and low.fits(high) else None
        case exp.LT(this=exp.Abs()) | exp.LTE(this=exp.Abs()):
            return _band(line(e.this.this), line(e.expression), isinstance(e, exp.LT))
        case exp.GT(expression=exp.Abs()) | exp.GTE(expression=exp.Abs()):
            return _band(line(e.expression.this), line(e.this), isinstance(e, exp.GT))
        case exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            return _bounded(e)
        case _:
            return None


def _band(inside: Line | None, width: Line | None, is_open: bool) -> Interval | None:
    if inside is None or width is None or width.of or len(inside.of) != 2:
        return None
    one = _placed(inside - width, "<", is_open, apart=False)
    other = _placed(inside.plus(width), ">", is_open, apart=False)
    return one.meet(other) if one and other else None


def _bounded(e: exp.Binary) -> Interval | None:
    one, other = line(e.this), line(e.expression)
    if one is None or other is None:
        return None
    difference = one - other
    if len(difference.of) != 2:
        return None
    is_open = isinstance(e, exp.LT | exp.GT)
    apart = len(one.of) == len(other.of) == 1
    side = "<" if isinstance(e, exp.LT | exp.LTE) else ">"
    found = _placed(difference, side, is_open, apart)
    if found is None or not found.timed:
        return found
    return replace(found, longest=max(abs(one.time), abs(other.time)))


def _placed(of: Line, side: str, is_open: bool, apart: bool) -> Interval | None:
    """a·x + b·y + c below or above zero, divided by a; None for numbers and intervals in one sum."""
    (x, a), (y, b) = of.of
    if of.time and of.constant:
        return None
    bound, timed, longest = -(of.constant + of.time) / a, bool(of.time), abs(of.time)
    if (side == "<") == (a > 0):
        return Interval(x, y, b / a, None, bound, False, is_open, timed, longest, apart, of.double)
    return Interval(x, y, b / a, bound, None, is_open, False, timed, longest, apart, of.double)
