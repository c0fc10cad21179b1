"""Which stored rows a merge may match, as a condition on them: files without such a row stay closed.

    no stored row has a key of the merge    none: all rows are new, and only a file of them is written
    else                                    those between the least and the greatest key

delta-rs reads the files that a condition on stored rows alone leaves room for. The match itself is
NULL-safe and gives it no bounds, so that without one it goes through the whole table.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.algebra.types import parse
from belvedere.delta import log
from belvedere.delta.files import count, files
from belvedere.delta.lookups import look_up
from belvedere.delta.snapshots import Snapshot
from belvedere.sql.merges import Merge

LARGE = 500_000
"""Stored rows from which on it is worth a look whether any of them has a key."""
MOST_FOUND = 10_000
"""Of them are not gone through for it: so many tell that some have."""

_GREATEST = 2**62
"""Beyond it, numbers are not written into a condition."""


def reach(table: Snapshot, rows: pa.Table, merge: Merge) -> str:
    """A condition that holds of every stored row that one of some rows matches; empty if unknown."""
    values = {k: pc.unique(rows[k]) for k in merge.keys if _tells(table, rows[k], k)}
    if not values:
        return ""
    key = max(values, key=lambda k: len(values[k]))
    if _all_new(table, key, values[key]):
        return "FALSE"
    span = pc.min_max(values[key])
    low, high = span["min"].as_py(), span["max"].as_py()
    if max(abs(low), abs(high)) > _GREATEST:
        return ""
    return f't."{key}" >= {low} AND t."{key}" <= {high}'


def _tells(table: Snapshot, column: pa.ChunkedArray, key: str) -> bool:
    """Whether a key is of whole numbers, and rows have one: NULL has its match anywhere."""
    return (
        parse(table.types.get(key.lower(), "")).is_integer
        and len(column) > 0
        and not column.null_count
    )


def _all_new(table: Snapshot, key: str, values: pa.Array) -> bool:
    """Whether it is known that no stored row has one of the values."""
    some = files(table.store, table.version)
    if some is None or (count(some) or 0) < LARGE:
        return False
    if log.newest_version(table.store) != table.version:
        return False
    found = look_up(table, table.version, [key], key, values, nulls=False, most=MOST_FOUND)
    return found is not None and not found.num_rows
