"""The rows of a table as a synopsis holds them: numbered, with the columns that its query reads.

Payload columns stay in memory as the Arrow batches they came in: what comes is held, not copied, unless it
comes in crumbs or is a small part of something larger. A row's number leads to its place among all that
ever came, so that a sample is gathered without reading any table. Numbers of deleted rows are given out again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.errors import Invalid
from belvedere.kernels.hashes.interning import grown
from belvedere.kernels.join_graph.chains import RowIndex
from belvedere.memory import kinds
from belvedere.synopses.graph.batch_buffer import gathered, joined
from belvedere.synopses.plan.value_codes import row_hashes

NO_SUCH_ROW = "NO_SUCH_ROW"
_CHUNK = 1 << 19
"""Rows that are looked at together when most of them are gone."""


class _Chunk:
    """Rows that came one after the other, the first of them at some place."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.rows = 0
        self.living = 0
        self.pieces: list[pa.Table] = []
        self.new: list[pa.Table] = []

    def keep(self, rows: pa.Table) -> None:
        """More rows."""
        self.new.append(rows)
        self.rows += rows.num_rows
        self.living += rows.num_rows

    def settle(self) -> list[pa.Table]:
        """The rows in few pieces."""
        if self.new:
            self.pieces += joined(self.new)
            self.new = []
        return self.pieces

    def close(self) -> None:
        """Nothing more will come."""
        self.pieces, self.new = joined([*self.pieces, *self.new]), []


class RowStore:
    """The rows of one table."""

    def __init__(self, table: str, types: Mapping[str, str]) -> None:
        self.table = table
        self.types = dict(types)
        self.schema = pa.schema([(name, kinds.arrow(kind)) for name, kind in types.items()])
        self.nothing = self.schema.empty_table()
        self.bound = 0
        """Above every row's number."""
        self.count = 0
        self._free = np.empty(0, dtype=np.int32)
        self._place: Any = None
        """Where each row is, from when a number is first given out again; until then at its number."""
        self._chunks = [_Chunk(0)]
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
                reason="BAD_ROWS",
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
                reason="BAD_ROWS",
            ) from None

    def span(self, column: str) -> tuple[float, float] | None:
        """Bounds of a column's values: the least and greatest of all that are held, gone ones too."""
        ends: list[float] = []
        for chunk in self._chunks:
            for piece in chunk.settle():
                found = pc.min_max(piece[column])
                for end in (found["min"], found["max"]):
                    if not end.is_valid:
                        continue
                    try:
                        ends.append(float(end.as_py()))
                    except (TypeError, ValueError):
                        return None
        return (min(ends), max(ends)) if ends else None

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
        if again or self._place is not None:
            self._move(ids)
        self._keep(rows)
        self.count += count
        if self._index is not None:
            self._index.add(ids, self.hashes(rows), self.bound)
        return ids

    def _move(self, ids: Any) -> None:
        """Rows will be behind all others."""
        if self._place is None:
            self._place = np.arange(self.bound)
        self._place = grown(self._place, self.bound)
        end = self._chunks[-1].start + self._chunks[-1].rows
        self._place[ids] = np.arange(end, end + len(ids))

    def _keep(self, rows: pa.Table) -> None:
        last = self._chunks[-1]
        last.keep(rows)
        if last.rows >= _CHUNK:
            last.close()
            self._chunks.append(_Chunk(last.start + last.rows))

    def _places(self, ids: Any) -> Any:
        return ids if self._place is None else self._place[ids]

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
                hint="see which rows the table has; nothing was changed",
                reason=NO_SUCH_ROW,
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
        starts = np.array([chunk.start for chunk in self._chunks])
        numbers = np.searchsorted(starts, self._places(ids), side="right") - 1
        for number, gone in reversed(list(enumerate(np.bincount(numbers).tolist()))):
            chunk = self._chunks[number]
            chunk.living -= gone
            if gone and chunk is not self._chunks[-1] and 4 * chunk.living < chunk.rows:
                self._shrink(number)

    def _shrink(self, number: int) -> None:
        """The few rows that are left of a chunk move behind all others."""
        chunk = self._chunks[number]
        held = self._held()
        places = self._places(held)
        ids = held[(places >= chunk.start) & (places < chunk.start + chunk.rows)]
        rows = self.take(ids)
        del self._chunks[number]
        if len(ids):
            self._move(ids)
            self._keep(rows)

    def hashes(self, rows: pa.Table) -> Any:
        """A hash of each row's values."""
        return row_hashes(rows, self.types)

    def take(self, ids: Any, columns: list[str] | None = None) -> pa.Table:
        """Some rows by number, in the order asked for."""
        names = self.schema.names if columns is None else columns
        if not len(ids):
            return self.schema.empty_table().select(names)
        pieces: list[pa.Table] = []
        starts: list[int] = []
        for chunk in self._chunks:
            at = chunk.start
            for piece in chunk.settle():
                pieces.append(piece)
                starts.append(at)
                at += piece.num_rows
        return gathered(pieces, starts, self._places(ids), names)

    def saved(self) -> dict[str, Any]:
        """The rows as arrays: their places, the free numbers, and the payload as Arrow writes it."""
        found = {
            "place": np.empty(0, dtype=np.int64)
            if self._place is None
            else self._place[: self.bound],
            "free": self._free,
            "numbers": np.array([self.bound, self.count], dtype=np.int64),
            "chunks": np.array([[c.start, c.rows, c.living] for c in self._chunks], dtype=np.int64),
        }
        for number, chunk in enumerate(self._chunks):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, self.schema) as stream:
                for piece in chunk.settle():
                    stream.write_table(piece)
            found[f"chunk {number}"] = np.frombuffer(sink.getvalue(), dtype=np.uint8)
        return found

    def restore(self, found: Mapping[str, Any]) -> None:
        """The rows as they were saved; the payload stays where it is mapped."""
        self._place = found["place"].copy() if len(found["place"]) else None
        self._free = found["free"].copy()
        self.bound, self.count = found["numbers"].tolist()
        self._chunks = []
        for number, (start, rows, living) in enumerate(found["chunks"].tolist()):
            chunk = _Chunk(start)
            chunk.rows, chunk.living = rows, living
            stream = pa.ipc.open_stream(pa.py_buffer(found[f"chunk {number}"]))
            chunk.pieces = [pa.Table.from_batches([batch]) for batch in stream]
            self._chunks.append(chunk)
        self._index = None

    @property
    def bytes(self) -> int:
        """The memory of the payload, about."""
        return sum(t.nbytes for c in self._chunks for t in (*c.pieces, *c.new))
