"""Values as 64-bit codes: equal values have equal codes, and in bands codes are in the values' order.

integers, decimals of up to 18 digits, dates, times   themselves, at one scale for both sides
doubles                                               their bits; in bands themselves
text, bytes, longer decimals                          two words; of text a hash of 128 bits

NULL slots hold arbitrary codes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.algebra.types import parse
from belvedere.errors import Invalid, Unsupported
from belvedere.joins.linear import DAY, LinearRange
from belvedere.kernels.hashes.hashing import fold, hash_bytes
from belvedere.memory import kinds
from belvedere.synopses.plan.query_tree import Band

SHORT = 18
_FAR = 1 << 62


@dataclass(frozen=True)
class EqualityCode:
    """How values that `=` compares become codes."""

    name: str
    scale: int = 0

    @property
    def words(self) -> int:
        """The number of codes of a value."""
        return 2 if self.name in ("text", "long") else 1


def equality_code(one: str, other: str) -> EqualityCode:
    """The code in which values of two types are compared."""
    if one == other and one in ("date", "timestamp", "timestamp_ntz", "boolean"):
        return EqualityCode(one)
    if {one, other} <= {"string", "binary"} and one == other:
        return EqualityCode("text")
    numbers = [k for k in (one, other) if _is_number(k)]
    if len(numbers) == 2:
        if any(parse(k).is_float for k in numbers):
            return EqualityCode("double")
        scale = max(kinds.digits(k)[1] for k in numbers)
        whole = max(kinds.digits(k)[0] - kinds.digits(k)[1] for k in numbers)
        # A bigint has 19 digits at most; as itself it always fits.
        fits = whole + scale <= SHORT or (scale == 0 and all(parse(k).is_integer for k in numbers))
        return EqualityCode("exact" if fits else "long", scale)
    raise Invalid(
        f"{one} and {other} are not compared",
        hint="cast one of them in a view, or join columns of one type",
        reason="RANGE",
    )


def _is_number(kind: str) -> bool:
    return parse(kind).is_number


def codes(data: pa.ChunkedArray, kind: str, code: EqualityCode) -> list[Any]:
    """The codes of a column, one array per word."""
    array = one_array(data)
    match code.name:
        case "text":
            return list(hash_bytes(array))
        case "double":
            number = (
                pc.fill_null(pc.cast(array, pa.float64(), safe=False), 0.0).to_numpy(False) + 0.0
            )
            return [np.where(np.isnan(number), np.nan, number).view(np.int64)]
        case "long":
            wide = pc.fill_null(
                pc.cast(pc.cast(array, _widest(kind)), pa.decimal128(38, code.scale)), 0
            )
            words = np.frombuffer(wide.buffers()[1], dtype=np.int64)[2 * wide.offset :]
            return [words[0 : 2 * len(wide) : 2].copy(), words[1 : 2 * len(wide) : 2].copy()]
        case _:
            numbers = integers(array, kind)
            more = code.scale - _scale(kind) if code.name == "exact" else 0
            return [numbers * 10**more if more else numbers]


def _widest(kind: str) -> pa.DataType:
    return pa.decimal128(38, _scale(kind)) if not parse(kind).is_integer else pa.decimal128(20, 0)


@cache
def _scale(kind: str) -> int:
    return kinds.digits(kind)[1] if parse(kind).is_decimal else 0


@cache
def _is_decimal(kind: str) -> bool:
    return parse(kind).is_decimal


def integers(array: pa.Array, kind: str) -> Any:
    """Values as integers: decimals times ten to their scale, dates in days, times in microseconds."""
    if not len(array):
        return np.empty(0, dtype=np.int64)
    start, end = array.offset, array.offset + len(array)
    data = array.buffers()[1]
    if _is_decimal(kind):
        return np.frombuffer(data, dtype=np.int64)[2 * start : 2 * end : 2].copy()
    if kind == "boolean":
        return pc.cast(pc.fill_null(array, False), pa.int64()).to_numpy(zero_copy_only=False)
    return np.frombuffer(data, dtype=_WIDTH.get(kind, "int64"))[start:end].astype(np.int64)


_WIDTH = {
    "tinyint": "int8", "smallint": "int16", "int": "int32", "date": "int32", "bigint": "int64",
    "timestamp": "int64", "timestamp_ntz": "int64",
}  # fmt: skip


def one_array(data: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    if not isinstance(data, pa.ChunkedArray):
        return data
    return data.chunk(0) if data.num_chunks == 1 else data.combine_chunks()


def validity(array: pa.Array) -> Any:
    """Where a column has values."""
    bitmap = array.buffers()[0]
    if bitmap is None:
        return np.ones(len(array), dtype=bool)
    first = array.offset >> 3
    bits = np.frombuffer(bitmap, dtype=np.uint8)[first : (array.offset + len(array) + 7) >> 3]
    skip = array.offset & 7
    return np.unpackbits(bits, bitorder="little")[skip : skip + len(array)].view(bool)


def row_hashes(rows: pa.Table, types: Mapping[str, str]) -> Any:
    """A hash of each row's values."""
    count = rows.num_rows
    hashes = np.zeros(count, dtype=np.uint64)
    for name, kind in types.items():
        array = one_array(rows[name])
        bitmap = np.frombuffer(array.buffers()[0], np.uint8) if array.null_count else _NO_NULLS
        for words, first, step in _words(array, kind):
            fold(hashes, words, first, step, count, bitmap, array.offset)
    return hashes


def _words(array: pa.Array, kind: str) -> list[tuple[Any, int, int]]:
    """The words of a column that a hash folds: their memory, the first, and the step to the next."""
    width = _WIDTH.get(kind)
    if width is None and not _is_decimal(kind):
        code = EqualityCode(
            "double" if parse(kind).is_float else "text" if kind in _TEXTS else "exact"
        )
        return [(words, 0, 1) for words in codes(array, kind, code)]
    memory = np.frombuffer(array.buffers()[1], width or "int64") if len(array) else _NO_WORDS
    if width is not None:
        return [(memory, array.offset, 1)]
    long = kinds.digits(kind)[0] > SHORT
    return [(memory, 2 * array.offset + n, 2) for n in range(2 if long else 1)]


_TEXTS = ("string", "binary")
_NO_NULLS = np.empty(0, dtype=np.uint8)
_NO_WORDS = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class BandCode:
    """How the column of one side of a band becomes a number: times a factor, exactly or as a double."""

    factor: Fraction
    exact: bool

    def numbers(self, data: pa.ChunkedArray, kind: str) -> Any:
        """The numbers of a column."""
        array = one_array(data)
        if self.exact:
            exact = integers(pc.fill_null(array, 0) if array.null_count else array, kind)
            factor = int(self.factor)
            if (
                len(exact)
                and max(abs(int(exact.min())), abs(int(exact.max()))) * abs(factor) >= _FAR
            ):
                raise Unsupported("a range over numbers beyond 2^62", reason="RANGE")
            return exact * factor
        doubles = pc.fill_null(pc.cast(array, pa.float64(), safe=False), 0.0).to_numpy(False)
        scaled = doubles * float(self.factor)
        if not np.isfinite(scaled).all():
            raise Unsupported(
                "a range over numbers that are not finite",
                hint="filter NaN and infinity out in the query",
                reason="RANGE",
            )
        return scaled


def band_codes(one: str, other: str, r: LinearRange) -> tuple[BandCode, BandCode, Band] | None:
    """x + b·y within bounds as p - q within a band; None if columns of these types have no such numbers."""
    bounds, is_open = (r.low, r.high), (r.low_open, r.high_open)
    if one in _TIMES or other in _TIMES:
        unit = _time_unit(one, r) if one == other and r.b == -1 else None
        if unit is None:
            return None
        return (
            BandCode(Fraction(1), True),
            BandCode(Fraction(1), True),
            _whole_band(unit, bounds, is_open),
        )
    if r.in_time or not (_is_number(one) and _is_number(other)):
        return None
    if {"float", "double"} & {one, other}:
        return BandCode(Fraction(1), False), BandCode(-r.b, False), _float_band(bounds, is_open)
    if r.as_doubles or any(
        parse(k).is_decimal and kinds.digits(k)[0] > SHORT for k in (one, other)
    ):
        return None
    x, y = Fraction(1, 10 ** _scale(one)), -r.b / 10 ** _scale(other)
    least = math.lcm(x.denominator, y.denominator)
    return (
        BandCode(x * least, True),
        BandCode(y * least, True),
        _whole_band(Fraction(least), bounds, is_open),
    )


_TIMES = ("date", "timestamp", "timestamp_ntz")


def _time_unit(kind: str, r: LinearRange) -> Fraction | None:
    """One unit of a range of times in the codes of its columns; None if the range is no band of codes."""
    if not any((r.low, r.high)):
        return Fraction(1)
    if kind == "date":
        # A date plus hours is a timestamp, which Spark compares in the session's time zone.
        days = not r.in_time or all((b or 0) % DAY == 0 for b in (r.low, r.high))
        return Fraction(1, DAY if r.in_time else 1) if days else None
    if kind == "timestamp" and not (r.two_sided and r.longest < DAY):
        # Spark counts days and differences in the session's time zone, whose offset changes.
        return None
    return Fraction(1) if r.in_time else None


def _whole_band(
    unit: Fraction, bounds: tuple[Fraction | None, Fraction | None], is_open: tuple[bool, bool]
) -> Band:
    low, high = bounds
    first, last = -_FAR * 2 + 1, _FAR * 2 - 1
    if low is not None:
        first = math.ceil(low * unit)
        first += is_open[0] and first == low * unit
    if high is not None:
        last = math.floor(high * unit)
        last -= is_open[1] and last == high * unit
    return Band(int(first), int(last))


def _float_band(
    bounds: tuple[Fraction | None, Fraction | None], is_open: tuple[bool, bool]
) -> Band:
    low = -math.inf if bounds[0] is None else float(bounds[0])
    high = math.inf if bounds[1] is None else float(bounds[1])
    return Band(
        math.nextafter(low, math.inf) if is_open[0] else low,
        math.nextafter(high, -math.inf) if is_open[1] else high,
    )
