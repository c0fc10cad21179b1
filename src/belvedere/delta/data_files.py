"""Rows of a table's data files in Arrow, by their numbers or by a column's values: no Spark.

A file is gone through a batch at a time; what is kept of it are the rows asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from belvedere.delta.deletion_vectors import Numbers
from belvedere.storage.store import ObjectStore

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_BATCH = 1 << 17
_DICTIONARY = frozenset(("RLE_DICTIONARY", "PLAIN_DICTIONARY"))


@dataclass(frozen=True)
class DataFile:
    """A Parquet file of a store, and the values that all its rows have in common."""

    store: ObjectStore
    path: str
    values: Mapping[str, str | None] = field(default_factory=dict)

    def whole(self, schema: pa.Schema, gone: Numbers) -> pa.Table:
        """Its rows, but those with the numbers of the deleted."""
        import pyarrow as pa

        file = self._open()
        count = file.metadata.num_rows
        kept = np.ones(count, dtype=bool)
        kept[gone] = False
        rows = self._shaped(file.read(columns=_stored(file, schema)), schema, count)
        # A table without columns forgets how many rows it has when it is filtered.
        return rows if kept.all() else rows.take(pa.array(np.flatnonzero(kept)))

    def some(self, schema: pa.Schema, numbers: Numbers) -> pa.Table:
        """The rows of these numbers, in order."""
        import pyarrow as pa

        if not len(numbers):
            return schema.empty_table()
        file = self._open(_texts(schema, self._footer))
        stored = _stored(file, schema)
        parts, first = [schema.empty_table()], 0
        for group in range(file.num_row_groups):
            count = file.metadata.row_group(group).num_rows
            if np.diff(np.searchsorted(numbers, (first, first + count)))[0]:
                parts += self._of_group(file, group, stored, schema, numbers - first)
            first += count
        return pa.concat_tables(parts)

    def _of_group(
        self,
        file: pq.ParquetFile,
        group: int,
        stored: list[str],
        schema: pa.Schema,
        numbers: Numbers,
    ) -> list[pa.Table]:
        import pyarrow as pa

        parts, first = [], 0
        for batch in _batches(file, group, stored):
            low, high = np.searchsorted(numbers, (first, first + batch.num_rows))
            if low < high:
                taken = pa.Table.from_batches([batch]).take(pa.array(numbers[low:high] - first))
                parts.append(self._shaped(taken, schema, int(high - low)))
            first += batch.num_rows
        return parts

    def where(self, column: str, values: pa.Array, *, nulls: bool) -> Numbers:
        """The numbers of the rows that have one of the values in a column, or NULL if asked for."""
        import pyarrow.compute as pc

        file = self._open()
        if column not in file.schema_arrow.names:
            return np.arange(file.metadata.num_rows if nulls else 0)
        found, first = [np.empty(0, dtype=np.int64)], 0
        for group in range(file.num_row_groups):
            at = first
            first += file.metadata.row_group(group).num_rows
            if not _may_have(file.metadata.row_group(group), column, values, nulls=nulls):
                continue
            for batch in _batches(file, group, [column]):
                held = batch.column(column)
                hit = pc.is_in(held.cast(values.type), value_set=values)
                wanted = pc.or_(hit, held.is_null()) if nulls else hit
                found.append(np.flatnonzero(wanted) + at)
                at += batch.num_rows
        return np.concatenate(found)

    def first_rows(
        self, column: pa.Field, gone: Numbers, beyond: pa.Scalar, count: int, *, least: bool
    ) -> tuple[Numbers, pa.Array]:
        """Of the rows from a value on, the numbers of the first by a column, and their values."""
        import pyarrow as pa
        import pyarrow.compute as pc

        file = self._open()
        if column.name not in file.schema_arrow.names:
            return np.empty(0, dtype=np.int64), pa.array([], column.type)
        kept = np.ones(file.metadata.num_rows, dtype=bool)
        kept[gone] = False
        best, first = _FirstRows(pa.array([], column.type), count, least=least), 0
        for group in range(file.num_row_groups):
            for batch in _batches(file, group, [column.name]):
                held = batch.column(column.name).cast(column.type)
                reached = (pc.greater_equal if least else pc.less_equal)(held, beyond)
                there = np.array(pc.fill_null(reached, False), dtype=bool)
                best.take(first, held, there & kept[first : first + batch.num_rows])
                first += batch.num_rows
        return best.rows()

    def hides_times(self, kinds: Iterable[str]) -> bool:
        """Whether it has dates or timestamps, if they are among some types, not as Arrow reads them."""
        some = {"date", "timestamp"} & set(kinds)
        return bool(some) and (self._has_old_calendar or ("timestamp" in some and self._has_int96))

    @property
    def _has_old_calendar(self) -> bool:
        """Whether days before 1582-10-15 have the numbers of the calendar that was in use then."""
        told = self._footer.metadata or {}
        version = told.get(b"org.apache.spark.version", b"3").split(b".")[0]
        return b"org.apache.spark.legacyDateTime" in told or version in (b"1", b"2")

    @property
    def _has_int96(self) -> bool:
        """Whether timestamps are stored in nanoseconds, which Arrow wraps after the year 2262."""
        schema = self._footer.schema
        return any(schema.column(i).physical_type == "INT96" for i in range(len(schema)))

    def read(self) -> pa.Table:
        """All that it holds."""
        return self._open().read()

    def shaped(self, rows: pa.Table, schema: pa.Schema) -> pa.Table:
        """Rows of it as the table has them."""
        return self._shaped(rows, schema, rows.num_rows)

    def _open(self, dictionaries: list[str] | None = None) -> pq.ParquetFile:
        import pyarrow.parquet as pq

        source = self.store.open(self.path)
        return pq.ParquetFile(source, metadata=self._footer, read_dictionary=dictionaries)

    @cached_property
    def _footer(self) -> pq.FileMetaData:
        """What the file says of itself, read once."""
        import pyarrow.parquet as pq

        with self.store.open(self.path) as source:
            return pq.read_metadata(source)

    def _shaped(self, rows: pa.Table, schema: pa.Schema, count: int) -> pa.Table:
        """Rows as the table has them: partition values and NULL for what the file does not hold."""
        import pyarrow as pa

        columns = []
        for wanted in schema:
            if wanted.name in rows.column_names:
                columns.append(rows[wanted.name].cast(wanted.type))
            else:
                text = self.values.get(wanted.name) or None
                columns.append(pa.repeat(pa.scalar(text, pa.string()).cast(wanted.type), count))
        return pa.Table.from_arrays(columns, schema=schema)


class _FirstRows:
    """The first rows by a column among those gone through so far, and perhaps a few more."""

    def __init__(self, values: pa.Array, count: int, *, least: bool) -> None:
        self.numbers: Numbers = np.empty(0, dtype=np.int64)
        self.values, self._count, self._least = values, count, least
        self._last: pa.Scalar | None = None
        """What later rows must not be behind."""

    def take(self, first: int, held: pa.Array, there: npt.NDArray[np.bool_]) -> None:
        """Take in a batch of values, those that are there; its first row has this number."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self._last is not None:
            before = (pc.less_equal if self._least else pc.greater_equal)(held, self._last)
            there = there & np.array(pc.fill_null(before, False), dtype=bool)
        places = np.flatnonzero(there)
        self.numbers = np.concatenate([self.numbers, places + first])
        self.values = pa.concat_arrays([self.values, held.take(pa.array(places))])
        if len(self.values) > 2 * self._count:
            self.numbers, self.values = self.rows()
            self._last = (pc.max if self._least else pc.min)(self.values)

    def rows(self) -> tuple[Numbers, pa.Array]:
        """The numbers and values of the first rows, no more."""
        import pyarrow as pa

        chosen = first_of(self.values, self._count, least=self._least)
        return self.numbers[chosen], self.values.take(pa.array(chosen))


def first_of(values: pa.Array, count: int, *, least: bool) -> Numbers:
    """The places of the least or greatest of some values; of equal ones any.

    >>> import pyarrow as pa
    >>> first_of(pa.array([5, 1, 4, 2]), 2, least=True).tolist()
    [1, 3]
    >>> first_of(pa.array([5, 1, 4, 2]), 2, least=False).tolist()
    [0, 2]
    """
    import pyarrow.compute as pc

    if len(values) <= count:
        return np.arange(len(values))
    border = count if least else len(values) - count
    places = pc.partition_nth_indices(values, pivot=border).to_numpy().astype(np.int64)
    return np.sort(places[:border] if least else places[border:])


def _stored(file: pq.ParquetFile, schema: pa.Schema) -> list[str]:
    there = set(file.schema_arrow.names)
    return [name for name in schema.names if name in there]


def _texts(schema: pa.Schema, file: pq.FileMetaData) -> list[str]:
    """The columns of text that are stored, and best read, as numbers of a dictionary."""
    import pyarrow as pa

    texts = {f.name for f in schema if pa.types.is_string(f.type)}
    groups = [file.row_group(i) for i in range(min(file.num_row_groups, 1))]
    chunks = [group.column(i) for group in groups for i in range(group.num_columns)]
    numbered = {c.path_in_schema for c in chunks if _DICTIONARY & set(c.encodings)}
    return sorted(texts & numbered)


def _batches(file: pq.ParquetFile, group: int, columns: list[str]) -> Iterator[pa.RecordBatch]:
    yield from file.iter_batches(_BATCH, row_groups=[group], columns=columns, use_threads=False)


def _may_have(group: pq.RowGroupMetaData, column: str, values: pa.Array, *, nulls: bool) -> bool:
    """Whether a row group's bounds leave room for one of the values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    chunks = (group.column(i) for i in range(group.num_columns))
    found = [c.statistics for c in chunks if c.path_in_schema == column]
    bounds = found[0]
    # A field b of a struct a has the path of a column `a.b`.
    known = len(found) == 1 and bounds is not None and bounds.has_min_max
    if not (known and pa.types.is_integer(values.type)) or (nulls and bounds.null_count != 0):
        return True
    some = pc.and_(pc.greater_equal(values, bounds.min), pc.less_equal(values, bounds.max))
    return bool(pc.any(some).as_py())
