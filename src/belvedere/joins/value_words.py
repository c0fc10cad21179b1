"""Values as machine words in the same order, and back.

The word of an integer, date or timestamp is its number, of a decimal its digits, and of a floating point
number its bits, rearranged so that negative numbers are in order, -0.0 equals 0.0 and NaN comes after all
numbers, as in Spark. A long decimal has two words, in whose order it is. Texts have none. NULL slots hold
arbitrary words.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.algebra.types import parse
from belvedere.memory import kinds

Words: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

_DIGITS = 18
"""Every decimal of so many digits is a word."""
_MAGNITUDE = np.int64(0x7FFF_FFFF_FFFF_FFFF)
_SIGN = ~_MAGNITUDE


def fits(kind: str) -> bool:
    """Whether every value of a type is a word."""
    if parse(kind).is_decimal:
        return kinds.digits(kind)[0] <= _DIGITS
    return kinds.is_exact(kind) and kind not in ("string", "binary")


def has_order(kind: str) -> bool:
    """Whether words order the values of a type."""
    return parse(kind).is_decimal or fits(kind)


def in_order(values: pa.Array) -> list[Words]:
    """Words that order values, the first before the second.

    >>> from decimal import Decimal
    >>> wide = pa.array([Decimal(n) for n in (-1, 2**64, 1, -(2**64))], pa.decimal128(38, 0))
    >>> np.lexsort(in_order(wide)[::-1]).tolist()
    [3, 0, 2, 1]
    """
    if pa.types.is_decimal(values.type) and values.type.precision > _DIGITS:
        both = _two_words(values)
        return [both[:, 1], both[:, 0] ^ _SIGN]
    single = words(values)
    assert single is not None
    return [single]


def words(values: pa.Array) -> Words | None:
    """Values as words; None if a value is not a word.

    >>> words(pa.array([-1.5, 0.0, float("inf")])).argsort().tolist()
    [0, 1, 2]
    """
    kind = values.type
    if pa.types.is_decimal(kind):
        return _digits(values)
    if pa.types.is_floating(kind):
        numbers = pc.fill_null(values.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)
        return ordered(np.asarray(numbers, dtype=np.float64))
    if pa.types.is_date32(kind):
        values = values.cast(pa.int32())
    elif pa.types.is_timestamp(kind):
        values = values.cast(pa.int64())
    elif pa.types.is_boolean(kind):
        values = values.cast(pa.int8())
    if not pa.types.is_integer(values.type):
        return None
    numbers = values if not values.null_count else pc.fill_null(values, 0)
    return np.asarray(numbers.to_numpy(zero_copy_only=False), dtype=np.int64)


def ordered(numbers: npt.NDArray[np.float64]) -> Words:
    """Floating point numbers as words in Spark's order."""
    plain = np.where(np.isnan(numbers), np.nan, numbers + 0.0)
    bits = plain.view(np.int64)
    return np.where(bits < 0, bits ^ _MAGNITUDE, bits)


def unordered(numbers: Words) -> npt.NDArray[np.float64]:
    """The floating point numbers of words."""
    bits = np.where(numbers < 0, numbers ^ _MAGNITUDE, numbers)
    return bits.view(np.float64)


def nulls(values: pa.Array) -> Flags:
    """Which values are NULL."""
    if not values.null_count:
        return np.zeros(len(values), dtype=np.bool_)
    return np.asarray(values.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)


def values_of(numbers: Words, absent: Flags, kind: str) -> pa.Array:
    """The values of a type that have some words; NULL where `absent`.

    >>> values_of(np.array([150, 0]), np.array([False, True]), "decimal(5,2)").to_pylist()
    [Decimal('1.50'), None]
    """
    if parse(kind).is_decimal:
        wide = decimals(numbers, kinds.digits(kind)[1]).cast(kinds.arrow(kind))
        return pc.if_else(pa.array(~absent), wide, pa.scalar(None, wide.type))
    if parse(kind).is_float:
        return pa.array(unordered(numbers), mask=absent).cast(kinds.arrow(kind))
    plain = pa.array(numbers, mask=absent)
    if kind == "date":
        return plain.cast(pa.int32()).cast(pa.date32())
    return plain.cast(kinds.arrow(kind))


def decimals(digits: Words, scale: int) -> pa.Array:
    """Digits as decimals of a scale."""
    wide = np.empty((len(digits), 2), dtype=np.int64)
    wide[:, 0], wide[:, 1] = digits, digits >> 63
    kind = pa.decimal128(kinds.MOST_DIGITS, scale)
    return pa.Array.from_buffers(kind, len(digits), [None, pa.py_buffer(wide)])


def _two_words(values: pa.Array) -> npt.NDArray[Any]:
    """The lower and the upper word of decimals."""
    wide = values.cast(pa.decimal128(kinds.MOST_DIGITS, values.type.scale))
    both: npt.NDArray[Any] = np.frombuffer(wide.buffers()[1], dtype=np.int64).reshape(-1, 2)
    return both[wide.offset : wide.offset + len(wide)]


def _digits(values: pa.Array) -> Words | None:
    both, absent = _two_words(values), nulls(values)
    low: Words = np.where(absent, 0, both[:, 0])
    return low if bool(((both[:, 1] == low >> 63) | absent).all()) else None
