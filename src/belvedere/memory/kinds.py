"""Types whose values are the same in Arrow as in Spark, and the types of results of arithmetic."""

from __future__ import annotations

import pyarrow as pa

from belvedere.algebra import types as t
from belvedere.algebra.types import DecimalType, ExactNumber, parse
from belvedere.memory.declined import Declined

_ARROW = {
    t.TINYINT: pa.int8(),
    t.SMALLINT: pa.int16(),
    t.INT: pa.int32(),
    t.BIGINT: pa.int64(),
    t.FLOAT: pa.float32(),
    t.DOUBLE: pa.float64(),
    t.BOOLEAN: pa.bool_(),
    t.STRING: pa.string(),
    t.BINARY: pa.binary(),
    t.DATE: pa.date32(),
    t.TIMESTAMP: pa.timestamp("us", "UTC"),
    t.TIMESTAMP_NTZ: pa.timestamp("us"),
}
MOST_DIGITS = 38
_KEPT = 6
"""Digits behind the point that Spark keeps however many there are before it."""


def is_exact(kind: str) -> bool:
    """Whether values of a type are the same in Arrow as in Spark."""
    type_ = parse(kind)
    return type_ in _ARROW or type_.is_decimal


def arrow(kind: str) -> pa.DataType:
    """The type in Arrow.

    >>> arrow("decimal(12,2)")
    Decimal128Type(decimal128(12, 2))
    """
    type_ = parse(kind)
    if isinstance(type_, DecimalType):
        return pa.decimal128(type_.precision, type_.scale)
    if type_ not in _ARROW:
        raise Declined(f"values of type {kind}")
    return _ARROW[type_]


def wider(a: str, b: str) -> str:
    """The wider of two integer types."""
    return max(a, b, key=digits)


def digits(kind: str) -> tuple[int, int]:
    """Precision and scale of a number as a decimal."""
    type_ = parse(kind)
    if isinstance(type_, ExactNumber):
        return type_.precision, type_.scale
    raise Declined(f"{kind} as a decimal")


def decimal(precision: int, scale: int) -> str:
    """The decimal type; beyond 38 digits Spark rounds, so memory declines."""
    if precision > MOST_DIGITS:
        raise Declined(f"a decimal of {precision} digits")
    return str(DecimalType(precision, scale))


def shortened(precision: int, scale: int) -> str:
    """The type of a result with so many digits, where Spark drops none behind the point.

    >>> shortened(49, 6), shortened(32, 4)
    ('decimal(38,6)', 'decimal(32,4)')
    """
    if precision > MOST_DIGITS and scale > _KEPT:
        raise Declined(f"a result of {precision} digits, {scale} behind the point")
    return decimal(min(precision, MOST_DIGITS), scale)


def quotient(a: str, b: str) -> str:
    """The type of a division of decimals.

    >>> quotient("decimal(25,2)", "decimal(20,0)"), quotient("decimal(5,2)", "decimal(3,0)")
    ('decimal(38,15)', 'decimal(9,6)')
    """
    (p, s), (q, t) = digits(a), digits(b)
    scale = max(_KEPT, s + q + 1)
    whole = p - s + t
    if whole + scale > MOST_DIGITS:
        scale = max(MOST_DIGITS - whole, min(scale, _KEPT))
    return decimal(min(whole + scale, MOST_DIGITS), scale)


def common(a: str, b: str) -> str:
    """The type in which two values are compared, or stand in one column.

    >>> common("int", "decimal(5,2)"), common("date", "date")
    ('decimal(12,2)', 'date')
    """
    if a == b:
        return a
    if parse(a).is_integer and parse(b).is_integer:
        return wider(a, b)
    (p, s), (q, t) = digits(a), digits(b)
    return decimal(max(p - s, q - t) + max(s, t), max(s, t))
