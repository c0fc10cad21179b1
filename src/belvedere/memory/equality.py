"""Which rows are equal: numbers that stand for their values, in Arrow's hashing and numpy's sorting.

Only types whose equality is that of their values; floating point, with its NaN and two zeros,
and nested values are declined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.memory.declined import Declined

Numbers = npt.NDArray[np.int64]
Columns = Sequence[pa.ChunkedArray]

_MOST = 2**62


def numbered(*tables: Columns) -> list[Numbers]:
    """A number for each row of some tables: the same exactly where all columns are.

    NULL is equal to NULL. The tables have columns of the same types in the same order.

    >>> some, other = pa.chunked_array([[7, None, 7]]), pa.chunked_array([[None]], pa.int64())
    >>> [numbers.tolist() for numbers in numbered([some], [other])]
    [[0, 1, 0], [1]]
    """
    rows = [len(columns[0]) for columns in tables]
    code, count = np.zeros(sum(rows), dtype=np.int64), 1
    for parts in zip(*tables, strict=True):
        own, values = _codes(parts)
        if count * values >= _MOST:
            found, code = np.unique(code, return_inverse=True)
            count = len(found)
        code, count = code * values + own, count * values
    return np.split(code, np.cumsum(rows)[:-1])


def _codes(parts: Columns) -> tuple[Numbers, int]:
    """Numbers for the values of one column in all tables, and how many there are."""
    kind = parts[0].type
    if any(p.type != kind for p in parts) or not _plain(kind):
        raise Declined(f"equality of {', '.join(str(p.type) for p in parts)}")
    whole = pa.chunked_array([c for p in parts for c in p.chunks], type=kind).combine_chunks()
    encoded = pc.dictionary_encode(whole, null_encoding="encode")
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return encoded.indices.to_numpy().astype(np.int64), max(len(encoded.dictionary), 1)


def _plain(kind: pa.DataType) -> bool:
    return any(is_kind(kind) for is_kind in _PLAIN)


_PLAIN = (
    pa.types.is_integer,
    pa.types.is_boolean,
    pa.types.is_decimal,
    pa.types.is_date32,
    pa.types.is_timestamp,
    pa.types.is_string,
    pa.types.is_binary,
)


@dataclass(frozen=True)
class RowGroups:
    """Rows by their number: which group each is in, and a row of each group."""

    of: Numbers
    first: Numbers

    def __len__(self) -> int:
        return len(self.first)

    def total(self, counts: Numbers) -> Numbers:
        """The sum of a count over the rows of each group."""
        totals = np.zeros(len(self), dtype=np.int64)
        np.add.at(totals, self.of, counts)
        return totals


def grouped(columns: Columns, rows: int) -> RowGroups:
    """The rows of a table in groups of equal ones; without columns, all in one group."""
    if not columns:
        return RowGroups(np.zeros(rows, dtype=np.int64), np.zeros(1, dtype=np.int64))
    (numbers,) = numbered(columns)
    _, first, of = np.unique(numbers, return_index=True, return_inverse=True)
    return RowGroups(of.reshape(-1), first)


def meeting(left: Numbers, right: Numbers, most: int) -> tuple[Numbers, Numbers]:
    """The pairs of rows with the same number, as two lists of places; a negative one meets none.

    >>> [places.tolist() for places in meeting(np.array([5, 6, -1]), np.array([-1, 5, 5]), 9)]
    [[0, 0], [1, 2]]
    """
    order = np.argsort(right, kind="stable")
    ordered = right[order]
    start = np.searchsorted(ordered, left, side="left")
    count = np.where(left < 0, 0, np.searchsorted(ordered, left, side="right") - start)
    pairs = int(count.sum())
    if pairs > most:
        raise Declined(f"a join of {pairs} rows")
    lefts = np.repeat(np.arange(len(left)), count)
    within = np.arange(pairs) - np.repeat(np.cumsum(count) - count, count)
    return lefts, order[np.repeat(start, count) + within]
