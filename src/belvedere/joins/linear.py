"""Comparisons as linear ranges: x + b·y within bounds, so that all ranges of one pair have one form.

x < 2*y + 5             x - 2·y in (-∞, 5)
abs(x - y) <= 3         x - y in [-3, 3]
y between x - 1 and x   two comparisons of one pair: x - y in [0, 1]
x < y + INTERVAL 5 MINUTES     x - y in (-∞, 300 000 000), in microseconds
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from sqlglot import exp

DAY = 24 * 3600 * 10**6
"""The microseconds of a day."""


@dataclass(frozen=True)
class LinearForm:
    """A sum of columns times factors, and a constant."""

    terms: tuple[tuple[str, Fraction], ...]
    constant: Fraction
    duration: Fraction = Fraction(0)
    """The constant part that intervals of time make, in microseconds."""
    as_doubles: bool = False
    """Whether a constant is written as a double, so that Spark computes in doubles."""

    def __add__(self, other: LinearForm) -> LinearForm:
        sums = dict(self.terms)
        for name, factor in other.terms:
            sums[name] = sums.get(name, Fraction(0)) + factor
        terms = tuple(sorted((n, f) for n, f in sums.items() if f))
        return LinearForm(
            terms,
            self.constant + other.constant,
            self.duration + other.duration,
            self.as_doubles or other.as_doubles,
        )

    def __sub__(self, other: LinearForm) -> LinearForm:
        return self + other.times(Fraction(-1))

    def times(self, factor: Fraction) -> LinearForm:
        """Every part times a number."""
        terms = tuple((n, f * factor) for n, f in self.terms if factor)
        return LinearForm(terms, self.constant * factor, self.duration * factor, self.as_doubles)

    @property
    def is_number(self) -> bool:
        """Whether it is a plain number."""
        return not self.terms and not self.duration


def linear_form(e: exp.Expr) -> LinearForm | None:
    """An expression as a linear form; None for any other expression."""
    match e:
        case exp.Paren():
            return linear_form(e.this)
        case exp.Column():
            return LinearForm(((e.name, Fraction(1)),), Fraction(0))
        case exp.Literal() if not e.is_string:
            return LinearForm((), Fraction(e.this), as_doubles="e" in e.this.lower())
        case exp.Interval():
            return _duration(e)
        case exp.Neg():
            inner = linear_form(e.this)
            return inner and inner.times(Fraction(-1))
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
            return _arithmetic(e, linear_form(e.this), linear_form(e.expression))
        case _:
            return None


_MICROS = {
    "MICROSECOND": 1, "MILLISECOND": 1000, "SECOND": 10**6, "MINUTE": 60 * 10**6,
    "HOUR": 3600 * 10**6, "DAY": DAY, "WEEK": 7 * DAY,
}  # fmt: skip
"""The units that have a fixed length; months and years do not."""


def _duration(e: exp.Interval) -> LinearForm | None:
    """INTERVAL 5 MINUTES, or '5' MINUTES, as a constant."""
    unit, number = e.args.get("unit"), e.this
    name = unit.name.upper().removesuffix("S") if isinstance(unit, exp.Var) else ""
    sign = -1 if isinstance(number, exp.Neg) else 1
    number = number.this if isinstance(number, exp.Neg) else number
    if name not in _MICROS or not isinstance(number, exp.Literal):
        return None
    try:
        length = sign * Fraction(number.name.strip())
    except ValueError:
        return None
    whole = length.denominator == 1 or name == "SECOND"
    return LinearForm((), Fraction(0), length * _MICROS[name]) if whole else None


def _arithmetic(e: exp.Expr, one: LinearForm | None, other: LinearForm | None) -> LinearForm | None:
    if one is None or other is None:
        return None
    match e:
        case exp.Add():
            return one + other
        case exp.Sub():
            return one - other
        case exp.Mul() if other.is_number:
            return _scaled(one, other.constant, other)
        case exp.Mul() if one.is_number:
            return _scaled(other, one.constant, one)
        case exp.Div() if other.is_number and other.constant:
            return _scaled(one, 1 / other.constant, other)
        case _:
            return None


def _scaled(form: LinearForm, factor: Fraction, number: LinearForm) -> LinearForm:
    return replace(form.times(factor), as_doubles=form.as_doubles or number.as_doubles)


@dataclass(frozen=True)
class LinearRange:
    """x + b·y within bounds; a bound of None is infinite."""

    x: str
    y: str
    b: Fraction
    low: Fraction | None = None
    high: Fraction | None = None
    low_open: bool = False
    high_open: bool = False
    in_time: bool = False
    """Whether the bounds are intervals of time, in microseconds."""
    longest: Fraction = Fraction(0)
    """The longest interval of time that the comparison has."""
    two_sided: bool = True
    """Whether the columns stand on two sides of the comparison, which then computes no difference."""
    as_doubles: bool = False
    """Whether Spark compares doubles, whatever the types of the columns."""

    @property
    def pair(self) -> tuple[str, str, Fraction]:
        """What is bounded."""
        return self.x, self.y, self.b

    def is_comparable(self, other: LinearRange) -> bool:
        """Whether another bounds the same pair in the same unit; zero is of any unit."""
        numbers = [r for r in (self, other) if not r.in_time and any((r.low, r.high))]
        return self.pair == other.pair and not (numbers and (self.in_time or other.in_time))

    def intersect(self, other: LinearRange) -> LinearRange:
        """The range within the bounds of both."""
        low = max((self._lower, other._lower), key=lambda b: (b[0] is not None, b[0], b[1]))
        uppers = [b for b in (self._upper, other._upper) if b[0] is not None]
        high = min(uppers, key=lambda b: (b[0], not b[1])) if uppers else (None, False)
        return LinearRange(
            self.x, self.y, self.b, low[0], high[0], low[1], high[1],
            self.in_time or other.in_time, max(self.longest, other.longest),
            self.two_sided and other.two_sided, self.as_doubles or other.as_doubles,
        )  # fmt: skip

    @property
    def _lower(self) -> tuple[Fraction | None, bool]:
        return self.low, self.low_open

    @property
    def _upper(self) -> tuple[Fraction | None, bool]:
        return self.high, self.high_open


def linear_range(e: exp.Expr) -> LinearRange | None:
    """A comparison of two columns as a linear range; None for any other condition.

    >>> from sqlglot import parse_one
    >>> r = linear_range(parse_one("abs(x - 2 * y) < 5"))
    >>> r.pair, (r.low, r.high), r.high_open
    (('x', 'y', Fraction(-2, 1)), (Fraction(-5, 1), Fraction(5, 1)), True)
    """
    match e:
        case exp.Paren():
            return linear_range(e.this)
        case exp.Between():
            low = linear_range(exp.GTE(this=e.this, expression=e.args["low"]))
            high = linear_range(exp.LTE(this=e.this, expression=e.args["high"]))
            return low.intersect(high) if low and high and low.is_comparable(high) else None
        case exp.LT(this=exp.Abs()) | exp.LTE(this=exp.Abs()):
            inside, width = linear_form(e.this.this), linear_form(e.expression)
            return _band(inside, width, isinstance(e, exp.LT))
        case exp.GT(expression=exp.Abs()) | exp.GTE(expression=exp.Abs()):
            inside, width = linear_form(e.expression.this), linear_form(e.this)
            return _band(inside, width, isinstance(e, exp.GT))
        case exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            return _comparison(e)
        case _:
            return None


def _band(inside: LinearForm | None, width: LinearForm | None, is_open: bool) -> LinearRange | None:
    """abs(inside) below a width."""
    if inside is None or width is None or width.terms or len(inside.terms) != 2:
        return None
    upper = _against_zero(inside - width, "<", is_open, two_sided=False)
    lower = _against_zero(inside + width, ">", is_open, two_sided=False)
    return upper.intersect(lower) if upper and lower else None


def _comparison(e: exp.Binary) -> LinearRange | None:
    one, other = linear_form(e.this), linear_form(e.expression)
    if one is None or other is None:
        return None
    difference = one - other
    if len(difference.terms) != 2:
        return None
    is_open = isinstance(e, exp.LT | exp.GT)
    two_sided = len(one.terms) == len(other.terms) == 1
    direction = "<" if isinstance(e, exp.LT | exp.LTE) else ">"
    bounds = _against_zero(difference, direction, is_open, two_sided)
    if bounds is None or not bounds.in_time:
        return bounds
    return replace(bounds, longest=max(abs(one.duration), abs(other.duration)))


def _against_zero(
    form: LinearForm, direction: str, is_open: bool, two_sided: bool
) -> LinearRange | None:
    """a·x + b·y + c below or above zero, divided by a; None for a sum of numbers and intervals of time."""
    (x, a), (y, b) = form.terms
    if form.duration and form.constant:
        return None
    bound = -(form.constant + form.duration) / a
    rest = bool(form.duration), abs(form.duration), two_sided, form.as_doubles
    if (direction == "<") == (a > 0):
        return LinearRange(x, y, b / a, None, bound, False, is_open, *rest)
    return LinearRange(x, y, b / a, bound, None, is_open, False, *rest)
