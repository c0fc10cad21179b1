"""Batches as they arrive: slices of one piece of memory become one piece again, without copying."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

_SMALL = 1 << 14
"""Pieces of fewer rows are copied together."""
_WASTE = 4
"""A batch may keep alive so many times the memory of its own rows."""


def merge_pieces(tables: list[pa.Table]) -> list[pa.Table]:
    """The same rows in fewer pieces, each column of a piece in one array; copied only where that saves memory.

    >>> rows = pa.table({"x": list(range(40_000))})
    >>> [len(t) for t in merge_pieces([rows.slice(0, 15_000), rows.slice(15_000, 25_000)])]
    [40000]
    """
    runs = _runs([t if _is_whole(t) else t.combine_chunks() for t in tables if t.num_rows])
    together = pa.concat_tables(runs) if runs else None
    if together is None:
        return []
    wasteful = together.get_total_buffer_size() > _WASTE * together.nbytes + 4096 * len(runs)
    small = len(runs) > 1 and together.num_rows < _SMALL * len(runs)
    if not (wasteful or small):
        return runs
    # Combining one piece does not copy it; taking all its rows does.
    every = pa.array(np.arange(together.num_rows))
    return [together.combine_chunks() if len(runs) > 1 else together.take(every)]


def _is_whole(table: pa.Table) -> bool:
    return all(column.num_chunks == 1 for column in table.columns)


def _runs(tables: list[pa.Table]) -> list[pa.Table]:
    """Tables that follow each other in memory as one table."""
    tables_of_runs: list[pa.Table] = []
    run: list[pa.Table] = []
    next_: Any = None
    for table in tables:
        begin, end = _ends(table)
        if run and begin != next_:
            tables_of_runs.append(_one(run))
            run = []
        run.append(table)
        next_ = end
    return [*tables_of_runs, _one(run)] if run else tables_of_runs


def _ends(table: pa.Table) -> tuple[Any, Any]:
    """Where in memory the columns of a table begin and end; nested columns are like no others."""
    begin, end = [], []
    for column in table.columns:
        array = column.chunk(0)
        memory = id(array) if array.type.num_fields else [b and b.address for b in array.buffers()]
        begin.append((memory, array.offset))
        end.append((memory, array.offset + len(array)))
    return begin, end


def _one(run: list[pa.Table]) -> pa.Table:
    if len(run) == 1:
        return run[0]
    rows = sum(t.num_rows for t in run)
    first = [column.chunk(0) for column in run[0].columns]
    columns = [pa.Array.from_buffers(a.type, rows, a.buffers(), offset=a.offset) for a in first]
    return pa.table(columns, schema=run[0].schema)


def take_rows(pieces: list[pa.Table], starts: list[int], places: Any, names: list[str]) -> pa.Table:
    """The rows at some places, in that order; `starts` has the place of the first row of each piece."""
    numbers = np.searchsorted(np.asarray(starts), places, side="right") - 1
    order = np.argsort(numbers, kind="stable")
    begins = np.flatnonzero(np.diff(numbers[order], prepend=-1))
    parts = []
    for some in np.split(order, begins[1:]):
        number = int(numbers[some[0]])
        parts.append(pieces[number].select(names).take(pa.array(places[some] - starts[number])))
    if len(parts) == 1:
        return parts[0]
    back = np.empty(len(order), dtype=np.int64)
    back[order] = np.arange(len(order))
    return pa.concat_tables(parts).take(pa.array(back))
