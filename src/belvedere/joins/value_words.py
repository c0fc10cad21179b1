"""Values as machine words in the same order, and back.

Integers, dates and timestamps are numbers; of a decimal the digits are; of a floating point number
the bits, with the order of negative ones turned round, -0.0 as 0.0, and NaN after all numbers, as
Spark has it. Texts are no words; of a long decimal two are, which put it in order.
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
"""Decimals of so many digits are words, whatever their value."""
_MAGNITUDE = np.int64(0x7FFF_FFFF_FFFF_FFFF)
_SIGN = ~_MAGNITUDE


def fits(kind: str) -> bool:
    """Whether every value of a type is a word."""
    if parse(kind).is_decimal:
        return kinds.digits(kind)[0] <= _DIGITS
    return kinds.is_exact(kind) and kind not in ("string", "binary")


def has_order(kind: str) -> bool:
    """Whether words put the values of a type in order."""
    return parse(kind).is_decimal or fits(kind)


def in_order(values: pa.Array) -> list[Words]:
    """Words by which values are in order, the first deciding; NULL as any.

    >>> from decimal import Decimal
    >>> wide = pa.array([Decimal(n) for n in (-1, 2**64, 1, -(2**64))], pa.decimal128(38, 0))
    >>> np.lexsort(in_order(wide)[::-1]).tolist()
    [3, 0, 2, 1]
    """
    if pa.types.is_decimal(values.type) and values.type.precision > _DIGITS:
        both = _two_words(values)
        return [both[:, 1], both[:, 0] ^ _SIGN]
    found = words(values)
    assert found is not None
    return [found]


def words(values: pa.Array) -> Words | None:
    """Values as words, NULL as any; None if one is not a word.

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


def unordered(found: Words) -> npt.NDArray[np.float64]:
    """The numbers that words stand for."""
    bits = np.where(found < 0, found ^ _MAGNITUDE, found)
    return bits.view(np.float64)


def nulls(values: pa.Array) -> Flags:
    """Which values are NULL."""
    if not values.null_count:
        return np.zeros(len(values), dtype=np.bool_)
    return np.asarray(values.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)


def values_of(found: Words, absent: Flags, kind: str) -> pa.Array:
    """The values of a type that words stand for.

    >>> values_of(np.array([150, 0]), np.array([False, True]), "decimal(5,2)").to_pylist()
    [Decimal('1.50'), None]
    """
    if parse(kind).is_decimal:
        wide = decimals(found, kinds.digits(kind)[1]).cast(kinds.arrow(kind))
        return pc.if_else(pa.array(~absent), wide, pa.scalar(None, wide.type))
    if parse(kind).is_float:
        return pa.array(unordered(found), mask=absent).cast(kinds.arrow(kind))
    plain = pa.array(found, mask=absent)
    if kind == "date":
        return plain.cast(pa.int32()).cast(pa.date32())
    return plain.cast(kinds.arrow(kind))


def decimals(digits: Words, scale: int) -> pa.Array:
    """Digits as decimals with so many of them behind the point."""
    wide = np.empty((len(digits), 2), dtype=np.int64)
    wide[:, 0], wide[:, 1] = digits, digits >> 63
    kind = pa.decimal128(kinds.MOST_DIGITS, scale)
    return pa.Array.from_buffers(kind, len(digits), [None, pa.py_buffer(wide)])


def _two_words(values: pa.Array) -> npt.NDArray[Any]:
    """Decimals as their lower and their upper word."""
    wide = values.cast(pa.decimal128(kinds.MOST_DIGITS, values.type.scale))
    both: npt.NDArray[Any] = np.frombuffer(wide.buffers()[1], dtype=np.int64).reshape(-1, 2)
    return both[wide.offset : wide.offset + len(wide)]


def _digits(values: pa.Array) -> Words | None:
    both, absent = _two_words(values), nulls(values)
    low: Words = np.where(absent, 0, both[:, 0])
    return low if bool(((both[:, 1] == low >> 63) | absent).all()) else None
