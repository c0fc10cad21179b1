"""Batches held as they came: neighbours of one piece of memory become one piece again, without copying."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

_SMALL = 1 << 14
"""Rows of a piece below which copying it together with others is worth it."""
_WASTE = 4
"""How many times its own size the memory may be that holding a batch keeps alive."""


def joined(tables: list[pa.Table]) -> list[pa.Table]:
    """The same rows in fewer pieces, each column of a piece in one array; copied only where that saves memory.

    >>> rows = pa.table({"x": list(range(40_000))})
    >>> [len(t) for t in joined([rows.slice(0, 15_000), rows.slice(15_000, 25_000)])]
    [40000]
    """
    runs = _runs([t if _is_whole(t) else t.combine_chunks() for t in tables if t.num_rows])
    together = pa.concat_tables(runs) if runs else None
    if together is None:
        return []
    wasteful = together.get_total_buffer_size() > _WASTE * together.nbytes + 4096 * len(runs)
    crumbs = len(runs) > 1 and together.num_rows < _SMALL * len(runs)
    if not (wasteful or crumbs):
        return runs
    # What is in one piece already is not copied by being combined.
    every = pa.array(np.arange(together.num_rows))
    return [together.combine_chunks() if len(runs) > 1 else together.take(every)]


def _is_whole(table: pa.Table) -> bool:
    return all(column.num_chunks == 1 for column in table.columns)


def _runs(tables: list[pa.Table]) -> list[pa.Table]:
    """Tables that lie behind each other in memory as one."""
    found: list[pa.Table] = []
    run: list[pa.Table] = []
    next_: Any = None
    for table in tables:
        begin, end = _ends(table)
        if run and begin != next_:
            found.append(_one(run))
            run = []
        run.append(table)
        next_ = end
    return [*found, _one(run)] if run else found


def _ends(table: pa.Table) -> tuple[Any, Any]:
    """Where in memory the columns of a table begin, and where they end; unlike any other if they are nested."""
    begin, end = [], []
    for column in table.columns:
        array = column.chunk(0)
        held = id(array) if array.type.num_fields else [b and b.address for b in array.buffers()]
        begin.append((held, array.offset))
        end.append((held, array.offset + len(array)))
    return begin, end


def _one(run: list[pa.Table]) -> pa.Table:
    if len(run) == 1:
        return run[0]
    rows = sum(t.num_rows for t in run)
    first = [column.chunk(0) for column in run[0].columns]
    columns = [pa.Array.from_buffers(a.type, rows, a.buffers(), offset=a.offset) for a in first]
    return pa.table(columns, schema=run[0].schema)


def gathered(pieces: list[pa.Table], starts: list[int], places: Any, names: list[str]) -> pa.Table:
    """The rows at some places of pieces that begin at some others, in the order asked for."""
    numbers = np.searchsorted(np.asarray(starts), places, side="right") - 1
    order = np.argsort(numbers, kind="stable")
    begins = np.flatnonzero(np.diff(numbers[order], prepend=-1))
    found = []
    for some in np.split(order, begins[1:]):
        number = int(numbers[some[0]])
        found.append(pieces[number].select(names).take(pa.array(places[some] - starts[number])))
    if len(found) == 1:
        return found[0]
    back = np.empty(len(order), dtype=np.int64)
    back[order] = np.arange(len(order))
    return pa.concat_tables(found).take(pa.array(back))
