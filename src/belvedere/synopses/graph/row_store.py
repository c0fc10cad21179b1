"""The rows of a table as a synopsis holds them: numbered, with the columns that its query reads.

Payload columns stay in memory as the Arrow batches they arrive in. A batch is copied only if it is small,
or a small part of a larger piece of memory. A row's number leads to its place among all inserted rows, so
that a sample is assembled without reading any table. Numbers of deleted rows are used again.
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
from belvedere.synopses.graph.batch_buffer import merge_pieces, take_rows
from belvedere.synopses.plan.value_codes import row_hashes

NO_SUCH_ROW = "NO_SUCH_ROW"
_CHUNK = 1 << 19
"""Rows that are compacted together when most of them are deleted."""


class _Chunk:
    """Consecutively inserted rows, and the place of the first."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.rows = 0
        self.living = 0
        self.pieces: list[pa.Table] = []
        self.new: list[pa.Table] = []

    def append(self, rows: pa.Table) -> None:
        """Append rows."""
        self.new.append(rows)
        self.rows += rows.num_rows
        self.living += rows.num_rows

    def settle(self) -> list[pa.Table]:
        """The rows in few pieces."""
        if self.new:
            self.pieces += merge_pieces(self.new)
            self.new = []
        return self.pieces

    def close(self) -> None:
        """Merge all pieces: no more rows follow."""
        self.pieces, self.new = merge_pieces([*self.pieces, *self.new]), []


class RowStore:
    """The rows of one table."""

    def __init__(self, table: str, types: Mapping[str, str]) -> None:
        self.table = table
        self.types = dict(types)
        self.schema = pa.schema([(name, kinds.arrow(kind)) for name, kind in types.items()])
        self.nothing = self.schema.empty_table()
        self.bound = 0
        """A bound above every row's number."""
        self.count = 0
        self._free = np.empty(0, dtype=np.int32)
        self._place: Any = None
        """The place of each row; None until a number is first used again, while each place is the number."""
        self._chunks = [_Chunk(0)]
        self._index: RowIndex | None = None

    def conform(self, batch: pa.RecordBatch | pa.Table) -> pa.Table:
        """The columns of this table from a batch; an error if one is missing or has another type."""
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
        """The least and greatest value of a column, deleted rows included."""
        ends: list[float] = []
        for chunk in self._chunks:
            for piece in chunk.settle():
                bounds = pc.min_max(piece[column])
                for end in (bounds["min"], bounds["max"]):
                    if not end.is_valid:
                        continue
                    try:
                        ends.append(float(end.as_py()))
                    except (TypeError, ValueError):
                        return None
        return (min(ends), max(ends)) if ends else None

    def insert(self, rows: pa.Table) -> Any:
        """Insert rows; their numbers."""
        count = rows.num_rows
        reused = min(count, len(self._free))
        ids = np.empty(count, dtype=np.int32)
        if reused:
            ids[:reused] = self._free[len(self._free) - reused :]
            self._free = self._free[: len(self._free) - reused]
        ids[reused:] = np.arange(self.bound, self.bound + count - reused, dtype=np.int32)
        self.bound += count - reused
        if reused or self._place is not None:
            self._place_last(ids)
        self._append(rows)
        self.count += count
        if self._index is not None:
            self._index.add(ids, self.hashes(rows), self.bound)
        return ids

    def _place_last(self, ids: Any) -> None:
        """Give rows the places behind all others."""
        if self._place is None:
            self._place = np.arange(self.bound)
        self._place = grown(self._place, self.bound)
        end = self._chunks[-1].start + self._chunks[-1].rows
        self._place[ids] = np.arange(end, end + len(ids))

    def _append(self, rows: pa.Table) -> None:
        last = self._chunks[-1]
        last.append(rows)
        if last.rows >= _CHUNK:
            last.close()
            self._chunks.append(_Chunk(last.start + last.rows))

    def _places(self, ids: Any) -> Any:
        return ids if self._place is None else self._place[ids]

    def find(self, rows: pa.Table) -> Any:
        """The numbers of rows with these values, each once; an error, without effect, if a row is missing."""
        if self._index is None:
            self._index = RowIndex(self.count)
            ids = self._live_ids()
            if len(ids):
                self._index.add(ids, self.hashes(self.take(ids)), self.bound)
        matches = self._index.take(self.hashes(rows))
        if (matches < 0).any():
            self._index.put_back(matches[matches >= 0])
            at = int(np.flatnonzero(matches < 0)[0])
            raise Invalid(
                f"a row to delete is not in {self.table!r}",
                detail=str(rows.slice(at, 1).to_pylist()[0]),
                hint="see which rows the table has; nothing was changed",
                reason=NO_SUCH_ROW,
            )
        return matches

    def unfind(self, ids: Any) -> None:
        """Undo `find`: the rows stay."""
        assert self._index is not None
        self._index.put_back(ids)

    def _live_ids(self) -> Any:
        """The numbers of all rows."""
        live = np.ones(self.bound, dtype=bool)
        live[self._free] = False
        return np.flatnonzero(live).astype(np.int32)

    def remove(self, ids: Any) -> None:
        """Remove rows that `find` returned: their numbers are free."""
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
        """Move the rows that remain of a chunk behind all others."""
        chunk = self._chunks[number]
        live = self._live_ids()
        places = self._places(live)
        ids = live[(places >= chunk.start) & (places < chunk.start + chunk.rows)]
        rows = self.take(ids)
        del self._chunks[number]
        if len(ids):
            self._place_last(ids)
            self._append(rows)

    def hashes(self, rows: pa.Table) -> Any:
        """A hash of each row's values."""
        return row_hashes(rows, self.types)

    def take(self, ids: Any, columns: list[str] | None = None) -> pa.Table:
        """The rows with some numbers, in that order."""
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
        return take_rows(pieces, starts, self._places(ids), names)

    def saved(self) -> dict[str, Any]:
        """The rows as arrays: their places, the free numbers, and the payload as an Arrow stream."""
        arrays = {
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
            arrays[f"chunk {number}"] = np.frombuffer(sink.getvalue(), dtype=np.uint8)
        return arrays

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Load saved rows; the payload stays in the mapped file."""
        self._place = arrays["place"].copy() if len(arrays["place"]) else None
        self._free = arrays["free"].copy()
        self.bound, self.count = arrays["numbers"].tolist()
        self._chunks = []
        for number, (start, rows, living) in enumerate(arrays["chunks"].tolist()):
            chunk = _Chunk(start)
            chunk.rows, chunk.living = rows, living
            stream = pa.ipc.open_stream(pa.py_buffer(arrays[f"chunk {number}"]))
            chunk.pieces = [pa.Table.from_batches([batch]) for batch in stream]
            self._chunks.append(chunk)
        self._index = None

    @property
    def bytes(self) -> int:
        """The memory of the payload, about."""
        return sum(t.nbytes for c in self._chunks for t in (*c.pieces, *c.new))
