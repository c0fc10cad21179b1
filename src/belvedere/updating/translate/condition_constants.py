"""The constants in a condition on a column, and the values that the condition allows.

    allows      x = c, x IN (…), x BETWEEN two close numbers, and several of these with OR
    mentions    constants of the column's type, the first day of a year, texts that match a LIKE

A constant is read as a value of the column's type and ignored if it is none.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal, InvalidOperation

from sqlglot import exp

from belvedere.algebra.scalars import Scalar
from belvedere.algebra.types import parse
from belvedere.memory import kinds
from belvedere.updating.summary.domains import NormalValue, denormalize, is_numeric, normalize

_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_EXACT_IN_A_DOUBLE = 15
"""Numbers with at most so many digits are distinct as doubles."""
MOST_BETWEEN = 200
"""The largest range whose values are listed."""


def listed_values(condition: Scalar, columns: Sequence[str], kind: str) -> list[NormalValue] | None:
    """The values that a condition allows for columns of one value; None if it does not list them.

    >>> import sqlglot
    >>> listed_values(Scalar(sqlglot.parse_one("x = 3 OR x IN (5, NULL)")), ["x"], "int")
    [3, 5]
    """
    lists = [_listed_by(part.expr, columns, kind) for part in condition.conjuncts]
    listed = [some for some in lists if some is not None]
    if not listed:
        return None
    return [v for v in listed[0] if all(v in some for some in listed[1:])]


def _listed_by(e: exp.Expr, columns: Sequence[str], kind: str) -> list[NormalValue] | None:
    match e:
        case exp.Paren() | exp.And():
            return listed_values(Scalar(e), columns, kind)
        case exp.Or(this=one, expression=other):
            both = [_listed_by(some, columns, kind) for some in (one, other)]
            return None if None in both else [v for some in both for v in some or ()]
        case exp.EQ(this=exp.Column() as c, expression=what) if c.name in columns:
            return _constant_values([what], kind)
        case exp.EQ(this=what, expression=exp.Column() as c) if c.name in columns:
            return _constant_values([what], kind)
        case exp.In(this=exp.Column() as c, expressions=listed) if c.name in columns and listed:
            return _constant_values(listed, kind)
        case exp.Between(this=exp.Column() as c) if c.name in columns and is_numeric(kind):
            return _range_values(_constant_values([e.args["low"], e.args["high"]], kind))
        case _:
            return None


def _constant_values(listed: Sequence[exp.Expr], kind: str) -> list[NormalValue] | None:
    """Constants as values of a type, without NULL; None if one of them is not a value of the type.

    The instant of a timestamp constant depends on the session's time zone, so it is not read.
    """
    if kind == "timestamp":
        return None
    values = [constant_value(e, kind) for e in listed if not isinstance(e, exp.Null)]
    return None if None in values else values


def _range_values(ends: list[NormalValue] | None) -> list[NormalValue] | None:
    if ends is None or len(ends) < 2:
        return None
    low, high = (int(end) for end in ends if end is not None)
    return list(range(low, high + 1)) if high - low < MOST_BETWEEN else None


def constant_value(e: exp.Expr, kind: str) -> NormalValue:
    """A constant as a value of a type; None if it is not one.

    >>> constant_value(exp.Neg(this=exp.Literal.number(5)), "int"), constant_value(exp.Literal.string("a"), "int")
    (-5, None)
    >>> constant_value(exp.Literal.string("1970-01-03"), "date"), constant_value(exp.Literal.number("1.5"), "int")
    (2, None)

    A double equals several numbers of many digits, so it is not read as any of them.

    >>> constant_value(exp.Literal.number("1e3"), "int"), constant_value(exp.Literal.number("1e3"), "bigint")
    (1000, None)
    """
    match e:
        case exp.Paren(this=inner):
            return constant_value(inner, kind)
        case exp.Cast(this=exp.Literal() as inner) if _is_lossless_cast(e, kind):
            return constant_value(inner, kind)
        case exp.Boolean(this=truth):
            return normalize(bool(truth), kind) if kind == "boolean" else None
        case exp.Neg(this=exp.Literal(is_string=False) as inner):
            return _number_value(f"-{inner.this}", kind)
        case exp.Literal(is_string=True, this=text):
            return _text_value(text, kind)
        case exp.Literal(this=text):
            return _number_value(text, kind)
        case _:
            return None


def _number_value(text: str, kind: str) -> NormalValue:
    if not parse(kind).is_exact:
        return None
    if "e" in text.lower() and kinds.digits(kind)[0] > _EXACT_IN_A_DOUBLE:
        return None
    try:
        value = normalize(Decimal(text), kind)
        exact = denormalize(value, kind) == Decimal(text)
    except InvalidOperation:
        return None
    return value if exact else None


def _is_lossless_cast(cast: exp.Cast, kind: str) -> bool:
    """Whether a cast keeps the constant's value within a type."""
    to = cast.to.sql(dialect="spark").lower().replace(" ", "")
    is_integer_cast = parse(to).is_integer and parse(kind).is_integer and cast.this.is_int
    return to == kind or is_integer_cast


def _text_value(text: str, kind: str) -> NormalValue:
    try:
        if kind == "date":
            if not _DAY.fullmatch(text):
                return None
            return normalize(datetime.date.fromisoformat(text), kind)
        if kind in ("timestamp", "timestamp_ntz"):
            return normalize(datetime.datetime.fromisoformat(text), kind)
    except ValueError:
        return None
    return text if kind == "string" else None


def mentioned_values(condition: Scalar, kind: str) -> Iterator[NormalValue]:
    """Values of a type that a condition mentions."""
    for literal in condition.expr.find_all(exp.Literal):
        if isinstance(literal.parent, exp.Like):
            continue
        signed = literal.parent if isinstance(literal.parent, exp.Neg) else literal
        value = constant_value(signed, kind)
        if value is not None:
            yield value
        elif literal.is_int and kind == "date" and 1 <= int(literal.this) <= datetime.MAXYEAR:
            yield normalize(datetime.date(int(literal.this), 1, 1), kind)
        elif literal.is_number and parse(kind).is_integer:
            yield int(Decimal(signed.sql()))
    for like in condition.expr.find_all(exp.Like) if kind == "string" else ():
        for some in ("", "new"):
            yield like.expression.name.replace("%", some).replace("_", "n")
