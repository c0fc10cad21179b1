"""Range partitions: a table divided into fragments by ranges of one column (IMP §4.2).

Bounds b₁ < … < b_n divide all values of the column's type into n + 1 ranges

    (-∞, b₁)  [b₁, b₂)  …  [b_n, ∞)

and NULL is a fragment of its own, the last. So every present or future row is in exactly one fragment.
A set of fragments is a bitmap; in a predicate, adjacent ranges are one range.
"""

from __future__ import annotations

import bisect
import datetime
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from belvedere.algebra.scalars import Scalar, col
from belvedere.algebra.types import parse
from belvedere.delta.statistics import misleads_spark
from belvedere.errors import Invalid
from belvedere.joins.value_words import Words, fits, nulls, values_of, words
from belvedere.memory import kinds

Bound: TypeAlias = int | float | Decimal | str | datetime.date | datetime.datetime
Fragments: TypeAlias = npt.NDArray[np.int64]
Bitmap: TypeAlias = npt.NDArray[np.bool_]

MOST_FRAGMENTS = 100_000


@dataclass(frozen=True)
class Partition:
    """The fragments of a table by one of its columns; `kind` is the column's type in Spark's words."""

    table: str
    column: str
    kind: str
    bounds: tuple[Bound, ...]

    def __post_init__(self) -> None:
        if not orderable(self.kind):
            raise Invalid(
                f"column {self.column!r} of {self.table!r} cannot be cut into ranges",
                detail=f"its type is {self.kind}",
                hint="numbers, decimals, dates, timestamps and strings can",
                reason="NO_ORDER",
            )
        if any(not a < b for a, b in itertools.pairwise(self._keys)):
            raise Invalid(
                f"the ranges of {self.column!r} overlap",
                hint="give each bound once, in ascending order",
                reason="OVERLAPPING_RANGES",
            )

    @property
    def count(self) -> int:
        """The number of fragments, that of NULL included.

        >>> Partition("t", "a", "int", (10, 20)).count
        4
        """
        return len(self.bounds) + 2

    def __str__(self) -> str:
        return f"{self.table} by {self.column} into {self.count} fragments"

    @property
    def null(self) -> int:
        """The number of NULL's fragment."""
        return len(self.bounds) + 1

    def fragments(self, values: pa.ChunkedArray | pa.Array) -> Fragments:
        """The fragment of each value.

        >>> Partition("t", "a", "int", (10, 20)).fragments(pa.array([5, 10, 99, None])).tolist()
        [0, 1, 2, 3]
        """
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        bounds, numbers = self._words, words(values)
        if bounds is None or numbers is None:
            return self._by_dictionary(values)
        places: Fragments = np.searchsorted(bounds, numbers, side="right").astype(np.int64)
        if values.null_count:
            places[nulls(values)] = self.null
        return places

    def fragment(self, value: Bound | bytes | None) -> int:
        """The fragment of one value: the definition of `fragments`."""
        if value is None:
            return self.null
        return bisect.bisect_right(self._keys, _key(value))

    def fragment_scalar(self, value: Scalar) -> Scalar:
        """The fragment of a value as SQL: a binary search, so that its depth is small."""
        search = self._search(value.expr, 0, len(self.bounds))
        is_null = exp.Is(this=value.expr.copy(), expression=exp.Null())
        return Scalar(_if(is_null, exp.Literal.number(self.null), search))

    def _search(self, value: exp.Expr, low: int, high: int) -> exp.Expr:
        if low == high:
            return exp.Literal.number(low)
        middle = (low + high) // 2
        less = exp.LT(this=value.copy(), expression=literal(self.bounds[middle], self.kind))
        return _if(less, self._search(value, low, middle), self._search(value, middle + 1, high))

    def predicate(self, kept: Bitmap) -> Scalar:
        """The condition for the rows of some fragments, as ranges of the column.

        >>> p = Partition("t", "a", "int", (10, 20, 30))
        >>> str(p.predicate(np.array([False, True, True, False, True])))
        '(`a` >= 10 AND `a` < 30) OR `a` IS NULL'

        Where Spark or Delta would wrongly skip files by the ranges, it compares an expression instead.

        >>> p = Partition("t", "a", "double", (0.5,))
        >>> str(p.predicate(np.array([False, True, False])))
        "GREATEST(`a`, `a`) >= CAST('0.5' AS DOUBLE)"
        """
        wanted = runs(kept[: self.null])
        value = _without_skipping(self._column) if self._misleads(wanted) else self._column
        parts = [self._range(value, low, high) for low, high in wanted]
        if kept[self.null]:
            parts.append(exp.Is(this=self._column, expression=exp.Null()))
        if not parts:
            return Scalar(exp.false())
        return Scalar(exp.or_(*parts) if len(parts) > 1 else parts[0])

    def _misleads(self, wanted: Sequence[tuple[int, int]]) -> bool:
        """Whether Spark or Delta may skip files that have rows in such ranges.

        Statistics omit NaN, distinguish 0.0 and -0.0, and round decimals of more digits than a double
        has; filters on days that the Julian calendar skips are pushed down as other days.
        """
        if parse(self.kind).is_decimal:
            return misleads_spark(self.kind)
        ends = {b for low, high in wanted for b in self.bounds[max(low - 1, 0) : high + 1]}
        if parse(self.kind).is_float:
            return 0 in ends or any(high == len(self.bounds) for _, high in wanted)
        return self.kind in ("date", "timestamp") and any(map(_is_skipped_day, ends))

    def _range(self, value: exp.Expr, low: int, high: int) -> exp.Expr:
        sides: list[exp.Expr] = []
        if low > 0:
            sides.append(exp.GTE(this=value.copy(), expression=self._bound(low - 1)))
        if high < len(self.bounds):
            sides.append(exp.LT(this=value.copy(), expression=self._bound(high)))
        if not sides:
            return exp.Not(this=exp.Is(this=self._column, expression=exp.Null()))
        return exp.paren(exp.and_(*sides)) if len(sides) > 1 else sides[0]

    def _bound(self, place: int) -> exp.Expr:
        return literal(self.bounds[place], self.kind)

    @property
    def _column(self) -> exp.Expr:
        return col(self.column).expr

    @cached_property
    def _keys(self) -> list[Any]:
        return [_key(b) for b in self.bounds]

    @cached_property
    def _words(self) -> Words | None:
        return words(pa.array(self.bounds, kinds.arrow(self.kind)))

    def _by_dictionary(self, values: pa.Array) -> Fragments:
        """The fragments of texts and long decimals: each distinct value is searched once."""
        encoded = pc.dictionary_encode(values)
        keys = self._keys
        own = [bisect.bisect_right(keys, _key(v)) for v in encoded.dictionary.to_pylist()]
        places = pc.fill_null(encoded.indices, len(own)).to_numpy().astype(np.int64)
        fragments: Fragments = np.array([*own, self.null], dtype=np.int64)[places]
        return fragments

    def to_json(self) -> dict[str, Any]:
        """The partition in JSON's types."""
        bounds = [text_of(b) for b in self.bounds]
        return {"table": self.table, "column": self.column, "kind": self.kind, "bounds": bounds}

    @staticmethod
    def from_json(record: dict[str, Any]) -> Partition:
        """The partition of such a record.

        >>> p = Partition("t", "d", "date", (datetime.date(2020, 1, 2),))
        >>> Partition.from_json(p.to_json()) == p
        True
        """
        kind = record["kind"]
        bounds = tuple(bound_of(text, kind) for text in record["bounds"])
        return Partition(record["table"], record["column"], kind, bounds)


def orderable(kind: str) -> bool:
    """Whether values of a type can be divided into ranges in Spark's order."""
    return kinds.is_exact(kind) and kind not in ("boolean", "binary")


def equi_depth(table: str, column: str, kind: str, sample: pa.Array, count: int) -> Partition:
    """A partition with about equally many sampled rows in each of `count` fragments; fewer if values repeat.

    >>> equi_depth("t", "a", "int", pa.array([6, 5, 4, 3, 2, 1]), 3).bounds
    (3, 5)
    """
    _check_count(count)
    values = sample.drop_null()
    if parse(kind).is_float:
        values = values.filter(pc.is_finite(values))
    order = values.take(pc.sort_indices(values))
    at = [i * len(order) // count for i in range(1, count)]
    bounds = order.take(pa.array(at, pa.int64())).to_pylist() if len(order) else []
    # A bound at the least value would make an empty fragment before it.
    least = order[0].as_py() if len(order) else None
    distinct = {_key(b): b for b in bounds if _key(b) != _key(least)}
    return Partition(table, column, kind, tuple(distinct[k] for k in sorted(distinct)))


def equi_width(
    table: str, column: str, kind: str, low: Bound, high: Bound, count: int
) -> Partition:
    """A partition into `count` ranges of equal width between two values; the outer ones are unbounded.

    >>> equi_width("t", "a", "int", 0, 100, 4).bounds
    (25, 50, 75)
    """
    _check_count(count)
    ends = words(pa.array([low, high], kinds.arrow(kind))) if fits(kind) else None
    if ends is None:
        raise Invalid(
            f"ranges of equal width need numbers, dates or timestamps: {column!r} is {kind}",
            hint="leave EQUI WIDTH out: ranges of equal depth suit any type",
            reason="NO_WIDTH",
        )
    if parse(kind).is_float:
        least, most = float(str(low)), float(str(high))
        steps = [least + (most - least) * i / count for i in range(1, count)]
        cuts_of_kind = dict.fromkeys(bound_of(repr(s), kind) for s in steps if least < s)
        bounds = [b for b in cuts_of_kind if least < b]  # type: ignore[operator]
        return Partition(table, column, kind, tuple(bounds))
    first, last = ends.tolist()
    cuts = dict.fromkeys(first + (last - first) * i // count for i in range(1, count))
    inner = np.array([c for c in cuts if first < c], dtype=np.int64)
    values = values_of(inner, np.zeros(len(inner), dtype=np.bool_), kind).to_pylist()
    return Partition(table, column, kind, tuple(values))


def given(table: str, column: str, kind: str, bounds: Sequence[str]) -> Partition:
    """The partition by bounds that a user wrote."""
    return Partition(table, column, kind, tuple(bound_of(text, kind) for text in bounds))


def runs(kept: Bitmap) -> list[tuple[int, int]]:
    """The first and last fragment of each run of kept fragments.

    >>> runs(np.array([True, False, True, True]))
    [(0, 0), (2, 3)]
    """
    padded = np.concatenate([[False], kept, [False]]).astype(np.int8)
    steps = np.diff(padded)
    starts, ends = np.flatnonzero(steps == 1), np.flatnonzero(steps == -1) - 1
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


def coarser(kept: Bitmap, most: int) -> Bitmap:
    """The fragments in at most `most` runs: the shortest gaps between runs are filled.

    >>> coarser(np.array([True, False, True, False, False, True]), 2).nonzero()[0].tolist()
    [0, 1, 2, 5]
    """
    present = runs(kept)
    gaps = sorted((b[0] - a[1], a[1], b[0]) for a, b in itertools.pairwise(present))
    wider = kept.copy()
    for _, last, first in gaps[: max(len(present) - most, 0)]:
        wider[last:first] = True
    return wider


def text_of(bound: Bound) -> str:
    """A bound as text that `bound_of` reads back."""
    return repr(bound) if isinstance(bound, float) else str(bound)


def bound_of(text: str, kind: str) -> Bound:
    """The value of a type that a text denotes.

    >>> bound_of("2020-01-02", "date"), bound_of("1.50", "decimal(5,2)")
    (datetime.date(2020, 1, 2), Decimal('1.50'))
    """
    try:
        match kind:
            case "float" | "double":
                number = float(text)
                if number != number:
                    raise ValueError(text)
                return number if kind == "double" else float(np.float32(number))
            case "string":
                return text
            case "date":
                return datetime.date.fromisoformat(text)
            case "timestamp":
                time = datetime.datetime.fromisoformat(text)
                return time if time.tzinfo else time.replace(tzinfo=datetime.UTC)
            case "timestamp_ntz":
                return datetime.datetime.fromisoformat(text).replace(tzinfo=None)
            case _ if parse(kind).is_decimal:
                decimal: Decimal = pa.scalar(text).cast(kinds.arrow(kind)).as_py()
                return decimal
            case _:
                return int(text)
    except (ValueError, pa.ArrowInvalid):
        raise Invalid(
            f"{text!r} is no value of type {kind}",
            hint="give bounds of the column's own type",
            reason="BAD_VALUE",
        ) from None


def literal(bound: Bound, kind: str) -> exp.Expr:
    """A bound in SQL, of the column's own type, whatever the session's time zone is."""
    match bound:
        case datetime.datetime():
            text, name = bound.isoformat(sep=" ", timespec="microseconds"), kind
        case datetime.date():
            text, name = bound.isoformat(), "date"
        case Decimal() | float():
            text, name = text_of(bound), kind
        case str():
            return exp.Literal.string(bound)
        case _:
            return exp.convert(int(bound))
    return exp.cast(exp.Literal.string(text), name, dialect="spark")


def _without_skipping(column: exp.Expr) -> exp.Expr:
    """A column's value as an expression by which neither Delta skips files nor Parquet row groups."""
    return exp.Anonymous(this="greatest", expressions=[column.copy(), column.copy()])


def _is_skipped_day(bound: Bound) -> bool:
    """Whether a date, or the day of a time in some time zone, is missing in the Julian calendar."""
    if not isinstance(bound, datetime.date):
        return False
    is_time = isinstance(bound, datetime.datetime)
    first, last = (3, 16) if is_time else (5, 14)
    return (bound.year, bound.month) == (1582, 10) and first <= bound.day <= last


def _key(bound: Bound | bytes | None) -> Any:
    """A key that orders bounds as Spark does: text by its bytes, NaN after all numbers."""
    if isinstance(bound, str):
        return bound.encode()
    if isinstance(bound, float):
        return (bound != bound, bound)
    return bound


def _check_count(count: int) -> None:
    if not 1 <= count <= MOST_FRAGMENTS:
        raise Invalid(
            f"{count} fragments",
            hint=f"ask for 1 to {MOST_FRAGMENTS}",
            reason="FRAGMENT_COUNT",
        )


def _if(condition: exp.Expr, then: exp.Expr, otherwise: exp.Expr) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=condition, true=then)], default=otherwise)
