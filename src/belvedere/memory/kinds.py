"""Spark's types by their names, as far as values of theirs are the same in Arrow."""

from __future__ import annotations

import re

import pyarrow as pa

from belvedere.memory.declined import Declined

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_ARROW = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
MOST_DIGITS = 38
_KEPT = 6
"""Digits behind the point that Spark keeps however many there are before it."""


def is_exact(kind: str) -> bool:
    """Whether values of a type are the same in Arrow as in Spark."""
    return kind in _ARROW or is_decimal(kind)


def arrow(kind: str) -> pa.DataType:
    """The type in Arrow.

    >>> arrow("decimal(12,2)")
    Decimal128Type(decimal128(12, 2))
    """
    if found := _DECIMAL.fullmatch(kind):
        return pa.decimal128(*map(int, found.groups()))
    if kind not in _ARROW:
        raise Declined(f"values of type {kind}")
    return _ARROW[kind]


def is_integer(kind: str) -> bool:
    """Whether a type has whole numbers only."""
    return kind in _DIGITS


def is_decimal(kind: str) -> bool:
    """Whether a type is a decimal of some precision."""
    return _DECIMAL.fullmatch(kind) is not None


def wider(a: str, b: str) -> str:
    """Of two integer types the one that holds both."""
    return max(a, b, key=lambda kind: _DIGITS[kind])


def digits(kind: str) -> tuple[int, int]:
    """Precision and scale of a number as a decimal."""
    if found := _DECIMAL.fullmatch(kind):
        precision, scale = map(int, found.groups())
        return precision, scale
    if is_integer(kind):
        return _DIGITS[kind], 0
    raise Declined(f"{kind} as a decimal")


def decimal(precision: int, scale: int) -> str:
    """The decimal type; beyond 38 digits Spark rounds, which is left to it."""
    if precision > MOST_DIGITS:
        raise Declined(f"a decimal of {precision} digits")
    return f"decimal({precision},{scale})"


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
    if is_integer(a) and is_integer(b):
        return wider(a, b)
    (p, s), (q, t) = digits(a), digits(b)
    return decimal(max(p - s, q - t) + max(s, t), max(s, t))
