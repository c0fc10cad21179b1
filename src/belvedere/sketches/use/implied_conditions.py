"""Conditions that compare values with constants, and which of them imply others (IMP §10.4)."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from types import MappingProxyType

from sqlglot import exp

from belvedere.algebra.scalars import Scalar
from belvedere.algebra.types import ExactNumber, parse
from belvedere.memory import kinds

Types = Mapping[str, str]


@dataclass(frozen=True)
class Constant:
    """A constant of a type: `1`, `1.0` and `1e0` are one number, but Spark compares them differently."""

    type: str
    number: Decimal

    def comparison_type(self, plain: bool) -> str:
        """A name of the type in which Spark compares a value with this constant.

        Constants of one name are compared with the value in one type. An integer or a decimal is
        compared with a decimal in enough digits for both, and with a text by a cast to its own type.
        Neither depends on the constant if the value is a `plain` number.
        """
        type_ = parse(self.type)
        if not (plain and isinstance(type_, ExactNumber)):
            return self.type
        if type_.is_integer:
            return "whole number" if abs(self.number) < 10**_PLAIN_DIGITS else self.type
        few = max(type_.precision - type_.scale, type_.scale) <= _PLAIN_DIGITS
        return f"decimal of {type_.scale} places" if few else self.type

    @property
    def is_exact(self) -> bool:
        """Whether no type in which it is compared makes it equal to a smaller constant."""
        whole = parse(self.type).is_integer
        return self.type in ("date", "double") or (whole and abs(self.number) <= _EXACT_FLOATS)


_PLAIN_DIGITS = 18
"""Values and constants with so many digits before and behind the point do not round each other."""
_EXACT_FLOATS = 2**24
"""The integers up to this one are floats."""


@dataclass(frozen=True)
class Range:
    """A value between constants, and whether it may equal them."""

    value: Scalar
    low: Constant | None = None
    low_in: bool = False
    high: Constant | None = None
    high_in: bool = False

    @property
    def ends(self) -> tuple[Constant, ...]:
        """The constants."""
        return tuple(end for end in (self.low, self.high) if end is not None)

    def within(self, other: Range, types: Types) -> bool:
        """Whether every value in this range is in the other."""
        plain = _is_plain_number(self.value.expr, types)
        ends = (*self.ends, *other.ends)
        if str(self.value) != str(other.value) or len({c.comparison_type(plain) for c in ends}) > 1:
            return False
        exact = all(c.is_exact for c in ends)
        low, floor = (r.low.number if r.low else None for r in (self, other))
        high, ceiling = (-r.high.number if r.high else None for r in (self, other))
        return _after(low, self.low_in, floor, other.low_in, exact) and _after(
            high, self.high_in, ceiling, other.high_in, exact
        )


def _after(
    mine: Decimal | None, mine_in: bool, theirs: Decimal | None, theirs_in: bool, exact: bool
) -> bool:
    """Whether all values from one end on lie after another end; ends that are not exact may be equal."""
    if theirs is None:
        return True
    if mine is None:
        return False
    return mine >= theirs and (theirs_in or not mine_in or (exact and mine > theirs))


def range_of(condition: Scalar) -> Range | None:
    """The range of a comparison with constants; None for any other condition.

    >>> from sqlglot import parse_one
    >>> range_of(Scalar(parse_one("5 < x"))).low
    Constant(type='int', number=Decimal('5'))
    """
    e = condition.expr
    while isinstance(e, exp.Paren):
        e = e.this
    match e:
        case exp.GT() | exp.GTE() | exp.LT() | exp.LTE() | exp.EQ():
            return _compared(e)
        case exp.Between():
            low, high = _constant(e.args["low"]), _constant(e.args["high"])
            if low is None or high is None or e.args.get("symmetric"):
                return None
            return Range(Scalar(e.this), low, True, high, True)
        case _:
            return None


def _compared(e: exp.Binary) -> Range | None:
    first = _constant(e.this)
    constant = first or _constant(e.expression)
    if constant is None:
        return None
    value = Scalar(e.expression if first else e.this)
    is_lower = isinstance(e, exp.LT | exp.LTE if first else exp.GT | exp.GTE)
    inside = isinstance(e, exp.GTE | exp.LTE | exp.EQ)
    if isinstance(e, exp.EQ):
        return Range(value, constant, True, constant, True)
    if is_lower:
        return Range(value, low=constant, low_in=inside)
    return Range(value, high=constant, high_in=inside)


def _constant(e: exp.Expr, sign: str = "") -> Constant | None:
    """A literal number or date with its type; None for any other expression."""
    match e:
        case exp.Paren() if not sign:
            return _constant(e.this)
        case exp.Neg() if not sign:
            return _constant(e.this, "-")
        case exp.Literal() if not e.is_string:
            return _number(sign + e.this)
        case exp.Cast() if e.to.is_type("date") and e.this.is_string and not sign:
            try:
                day = datetime.datetime.strptime(e.this.this, "%Y-%m-%d").date()
            except ValueError:
                return None
            plain = day.isoformat() == e.this.this
            return Constant("date", Decimal(day.toordinal())) if plain else None
        case _:
            return None


def _number(text: str) -> Constant | None:
    """A number in the type that Spark gives its spelling.

    >>> [_number(t).type for t in ("1", "3000000000", "9223372036854775808", "1.50", "1e16")]
    ['int', 'bigint', 'decimal(19,0)', 'decimal(3,2)', 'double']
    """
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    if "e" in text.lower():
        double = float(number)
        return Constant("double", Decimal(double)) if math.isfinite(double) else None
    whole, _, part = text.lstrip("-").partition(".")
    if "." not in text and -(2**63) <= number < 2**63:
        return Constant("int" if -(2**31) <= number < 2**31 else "bigint", number)
    digits = max(len(whole.lstrip("0")) + len(part), len(part), 1)
    return Constant(f"decimal({digits},{len(part)})", number)


def _is_plain_number(e: exp.Expr, types: Types) -> bool:
    """Whether a value is certainly a number, and a decimal only with few places behind the point."""
    match e:
        case exp.Column():
            kind = types.get(e.name, "")
            if parse(kind).is_decimal:
                return kinds.digits(kind)[1] <= _PLAIN_DIGITS - _PLACES_OF_AVERAGES
            return parse(kind).is_integer or parse(kind).is_float
        case exp.Count():
            return True
        case exp.Paren() | exp.Neg() | exp.Sum() | exp.Avg() | exp.Min() | exp.Max():
            return _is_plain_number(e.this, types)
        case exp.Add() | exp.Sub():
            return _is_plain_number(e.this, types) and _is_plain_number(e.expression, types)
        case exp.Literal():
            return not e.is_string and "." not in e.this
        case _:
            return False


_PLACES_OF_AVERAGES = 4
"""An average of decimals has so many places more than they have."""


def implies(one: Scalar, other: Scalar, types: Types = MappingProxyType({})) -> bool:
    """Whether one condition holds only where the other does."""
    if str(one) == str(other):
        return True
    mine, theirs = range_of(one), range_of(other)
    return mine is not None and theirs is not None and mine.within(theirs, types)
