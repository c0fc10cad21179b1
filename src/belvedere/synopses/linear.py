"""Comparisons as lines: a·x + b·y + c against zero, so that ranges and bands of one pair meet in one form.

x < 2*y + 5             1·x - 2·y in (-∞, 5)
abs(x - y) <= 3         1·x - 1·y in [-3, 3]
y between x - 1 and x   two lines of one pair: 1·x - 1·y in [0, 1]
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sqlglot import exp


@dataclass(frozen=True)
class Line:
    """Coefficients of columns and a constant."""

    of: tuple[tuple[str, Fraction], ...]
    constant: Fraction

    def __sub__(self, other: Line) -> Line:
        return self.plus(other.times(Fraction(-1)))

    def plus(self, other: Line) -> Line:
        """The sum."""
        sums = dict(self.of)
        for name, factor in other.of:
            sums[name] = sums.get(name, Fraction(0)) + factor
        kept = tuple(sorted((n, f) for n, f in sums.items() if f))
        return Line(kept, self.constant + other.constant)

    def times(self, factor: Fraction) -> Line:
        """Every coefficient times a number."""
        return Line(tuple((n, f * factor) for n, f in self.of if factor), self.constant * factor)


def line(e: exp.Expr) -> Line | None:
    """An expression as a line, if it is one."""
    match e:
        case exp.Paren():
            return line(e.this)
        case exp.Column():
            return Line(((e.name, Fraction(1)),), Fraction(0))
        case exp.Literal() if not e.is_string:
            return Line((), Fraction(e.this))
        case exp.Neg():
            inner = line(e.this)
            return inner and inner.times(Fraction(-1))
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
            return _combined(e, line(e.this), line(e.expression))
        case _:
            return None


def _combined(e: exp.Expr, one: Line | None, other: Line | None) -> Line | None:
    if one is None or other is None:
        return None
    match e:
        case exp.Add():
            return one.plus(other)
        case exp.Sub():
            return one - other
        case exp.Mul() if not other.of:
            return one.times(other.constant)
        case exp.Mul() if not one.of:
            return other.times(one.constant)
        case exp.Div() if not other.of and other.constant:
            return one.times(1 / other.constant)
        case _:
            return None


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

    @property
    def pair(self) -> tuple[str, str, Fraction]:
        """What is bounded."""
        return self.x, self.y, self.b

    def meet(self, other: Interval) -> Interval:
        """Both bounds of one pair."""
        low = max((self._lower, other._lower), key=lambda b: (b[0] is not None, b[0], b[1]))
        uppers = [b for b in (self._upper, other._upper) if b[0] is not None]
        high = min(uppers, key=lambda b: (b[0], not b[1])) if uppers else (None, False)
        return Interval(self.x, self.y, self.b, low[0], high[0], low[1], high[1])

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
            return low.meet(high) if low and high and low.pair == high.pair else None
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
    above = inside.plus(Line((), -width.constant))
    below = inside.plus(Line((), width.constant))
    one = _placed(above, "<", is_open)
    return one.meet(_placed(below, ">", is_open))


def _bounded(e: exp.Binary) -> Interval | None:
    one, other = line(e.this), line(e.expression)
    if one is None or other is None:
        return None
    difference = one - other
    if len(difference.of) != 2:
        return None
    is_open = isinstance(e, exp.LT | exp.GT)
    return _placed(difference, "<" if isinstance(e, exp.LT | exp.LTE) else ">", is_open)


def _placed(of: Line, side: str, is_open: bool) -> Interval:
    """a·x + b·y + c below or above zero, divided by a."""
    (x, a), (y, b) = of.of
    bound = -of.constant / a
    if (side == "<") == (a > 0):
        return Interval(x, y, b / a, high=bound, high_open=is_open)
    return Interval(x, y, b / a, low=bound, low_open=is_open)
