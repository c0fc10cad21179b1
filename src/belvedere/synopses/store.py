"""The rows of a table as a synopsis holds them: numbered, with the columns that its query reads.

Payload columns stay in memory as the Arrow batches they came in, joined into larger ones now and then;
a row's number leads to its place in them, so that a sample is gathered without reading any table.
Numbers of deleted rows are given out again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from belvedere.errors import Invalid
from belvedere.kernels.chains import RowIndex
from belvedere.kernels.hashing import fold
from belvedere.kernels.interning import grown
from belvedere.memory import kinds
from belvedere.synopses.terms import Family, codes, one_array, validity

_CHUNK = 1 << 20
_SHIFT = 32


class Store:
    """The rows of one table."""

    def __init__(self, table: str, types: Mapping[str, str]) -> None:
        self.table = table
        self.types = dict(types)
        self.schema = pa.schema([(name, kinds.arrow(kind)) for name, kind in types.items()])
        self._how = {name: _stored(kind) for name, kind in types.items()}
        self.nothing = self.schema.empty_table()
        self.bound = 0
        """Above every row's number."""
        self.count = 0
        self._free = np.empty(0, dtype=np.int32)
        self._place = np.empty(64, dtype=np.int64)
        self._chunks: dict[int, pa.Table] = {}
        self._living: dict[int, int] = {0: 0}
        self._open: list[pa.Table] = []
        self._open_number = 0
        self._open_rows = 0
        self._index: RowIndex | None = None

    def shaped(self, batch: pa.RecordBatch | pa.Table) -> pa.Table:
        """A batch as this table's columns; an error if it has others or of other types."""
        rows = batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])
        if rows.schema.equals(self.schema):
            return rows
        missing = [n for n in self.schema.names if n not in rows.column_names]
        if missing:
            raise Invalid(
                f"rows for {self.table!r} without {', '.join(map(repr, missing))}",
                detail=f"the batch has {', '.join(rows.column_names)}",
                hint=f"the synopsis reads {', '.join(self.schema.names)}",
            )
        rows = rows.select(self.schema.names)
        if rows.schema.equals(self.schema):
            return rows
        try:
            return rows.cast(self.schema)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as why:
            raise Invalid(
                f"rows for {self.table!r} of other types than the table's",
                detail=str(why),
                hint=", ".join(f"{n} {k}" for n, k in self.types.items()),
            ) from None

    def insert(self, rows: pa.Table) -> Any:
        """The numbers of new rows."""
        count = rows.num_rows
        again = min(count, len(self._free))
        ids = np.empty(count, dtype=np.int32)
        if again:
            ids[:again] = self._free[len(self._free) - again :]
            self._free = self._free[: len(self._free) - again]
        ids[again:] = np.arange(self.bound, self.bound + count - again, dtype=np.int32)
        self.bound += count - again
        self._place = grown(self._place, self.bound)
        first = (self._open_number << _SHIFT) + self._open_rows
        self._place[ids] = np.arange(first, first + count)
        self._keep(rows)
        self.count += count
        if self._index is not None:
            self._index.add(ids, self.hashes(rows), self.bound)
        return ids

    def _keep(self, rows: pa.Table) -> None:
        self._open.append(rows)
        self._open_rows += rows.num_rows
        self._living[self._open_number] += rows.num_rows
        if self._open_rows >= _CHUNK:
            self._close()

    def _close(self) -> None:
        self._chunks[self._open_number] = pa.concat_tables(self._open).combine_chunks()
        self._open, self._open_rows = [], 0
        self._open_number += 1
        self._living[self._open_number] = 0

    def find(self, rows: pa.Table) -> Any:
        """The numbers of rows with these values, no number twice; nothing changes if one is missing."""
        if self._index is None:
            self._index = RowIndex(self.count)
            held = self._held()
            if len(held):
                self._index.add(held, self.hashes(self.take(held)), self.bound)
        found = self._index.take(self.hashes(rows))
        if (found < 0).any():
            self._index.put_back(found[found >= 0])
            at = int(np.flatnonzero(found < 0)[0])
            raise Invalid(
                f"a row to delete is not in {self.table!r}",
                detail=str(rows.slice(at, 1).to_pylist()[0]),
                hint="nothing was changed",
            )
        return found

    def unfind(self, ids: Any) -> None:
        """Rows that were found stay after all."""
        assert self._index is not None
        self._index.put_back(ids)

    def _held(self) -> Any:
        held = np.ones(self.bound, dtype=bool)
        held[self._free] = False
        return np.flatnonzero(held).astype(np.int32)

    def forget(self, ids: Any) -> None:
        """Rows that were found are gone: their numbers are free."""
        self._free = np.concatenate([self._free, ids])
        self.count -= len(ids)
        numbers, times = np.unique(self._place[ids] >> _SHIFT, return_counts=True)
        for number, gone in zip(numbers.tolist(), times.tolist(), strict=True):
            self._living[number] -= gone
            chunk = self._chunks.get(number)
            if chunk is not None and 2 * self._living[number] < chunk.num_rows:
                self._shrink(number)

    def _shrink(self, number: int) -> None:
        """The few rows that are left of a chunk move to the open one."""
        held = self._held()
        ids = held[self._place[held] >> _SHIFT == number]
        rows = self.take(ids)
        del self._chunks[number], self._living[number]
        if len(ids):
            first = (self._open_number << _SHIFT) + self._open_rows
            self._place[ids] = np.arange(first, first + len(ids))
            self._keep(rows)

    def hashes(self, rows: pa.Table) -> Any:
        """A hash of each row's values."""
        found = np.zeros(rows.num_rows, dtype=np.uint64)
        for name, kind in self.types.items():
            array = one_array(rows[name])
            valid = validity(array)
            for words in codes(array, kind, self._how[name]):
                fold(found, words, valid)
        return found

    def take(self, ids: Any, columns: list[str] | None = None) -> pa.Table:
        """Some rows by number, in the order asked for."""
        names = self.schema.names if columns is None else columns
        if not len(ids):
            return self.schema.empty_table().select(names)
        places = self._place[ids]
        numbers = places >> _SHIFT
        order = np.argsort(numbers, kind="stable")
        begins = np.flatnonzero(np.diff(numbers[order], prepend=-1))
        pieces = []
        for some in np.split(order, begins[1:]):
            chunk = self._chunk(int(numbers[some[0]])).select(names)
            pieces.append(chunk.take(pa.array(places[some] & ((1 << _SHIFT) - 1))))
        if len(pieces) == 1:
            return pieces[0]
        back = np.empty(len(order), dtype=np.int64)
        back[order] = np.arange(len(order))
        return pa.concat_tables(pieces).take(pa.array(back))

    def _chunk(self, number: int) -> pa.Table:
        if number != self._open_number:
            return self._chunks[number]
        if len(self._open) != 1:
            self._open = [pa.concat_tables([self.nothing, *self._open]).combine_chunks()]
        return self._open[0]

    def saved(self) -> dict[str, Any]:
        """The rows as arrays: their places, the free numbers, and the payload as Arrow writes it."""
        numbers = [*self._chunks, self._open_number]
        found = {
            "place": self._place[: self.bound],
            "free": self._free,
            "numbers": np.array(
                [self.bound, self.count, self._open_number, self._open_rows], dtype=np.int64
            ),
            "living": np.array([[n, self._living[n]] for n in numbers], dtype=np.int64).reshape(
                -1, 2
            ),
        }
        for number in numbers:
            sink = pa.BufferOutputStream()
            chunk = self._chunk(number)
            with pa.ipc.new_stream(sink, self.schema) as stream:
                stream.write_table(chunk)
            found[f"chunk {number}"] = np.frombuffer(sink.getvalue(), dtype=np.uint8)
        return found

    def restore(self, found: Mapping[str, Any]) -> None:
        """The rows as they were saved; the payload stays where it is mapped."""
        self._place, self._free = found["place"].copy(), found["free"].copy()
        self.bound, self.count, self._open_number, self._open_rows = found["numbers"].tolist()
        self._living = dict(found["living"].tolist())
        chunks = {
            n: pa.ipc.open_stream(pa.py_buffer(found[f"chunk {n}"])).read_all()
            for n in self._living
        }
        self._open = [chunks.pop(self._open_number)]
        self._chunks = {n: chunk.combine_chunks() for n, chunk in chunks.items()}
        self._index = None

    @property
    def bytes(self) -> int:
        """The memory of the payload, about."""
        return sum(t.nbytes for t in (*self._chunks.values(), *self._open))


def _stored(kind: str) -> Family:
    """How a column's values become words of a hash."""
    if kind in ("float", "double"):
        return Family("double")
    if kind in ("string", "binary"):
        return Family("text")
    if kinds.is_decimal(kind) and kinds.digits(kind)[0] > 18:
        return Family("long", kinds.digits(kind)[1])
    return Family("exact", kinds.digits(kind)[1] if kinds.is_decimal(kind) else 0)
