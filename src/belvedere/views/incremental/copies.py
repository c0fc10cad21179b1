"""Copies of equal rows in memory, numbered after the stored ones; `maintenance` has the same in SQL."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.delta.lookups import can_look_up, look_up
from belvedere.delta.small_changes import arrow_schema
from belvedere.execution.in_memory import MAX_ROWS_READ_WHOLE
from belvedere.lake.pins import Pins
from belvedere.lake.sessions.errors import StateMismatch
from belvedere.lake.tables.table import Table
from belvedere.memory.declined import Declined
from belvedere.memory.equality import numbered
from belvedere.memory.plans import Rows, netted
from belvedere.rules.outward import SMALL
from belvedere.sql.merges import MISMATCH
from belvedere.views.maintenance import IN
from belvedere.views.state import ROW


def copies_to_write(change: Rows, pins: Pins, stored: str, version: int) -> pa.Table | None:
    """The rows to write for a change of a bag; None if Spark has to compute them.

    There is a row for each copy to insert (`__in`) or delete, with its number.
    """
    columns = tuple(change.types)
    try:
        net, counts = netted(_in_stored_types(change, pins.table(stored)), columns)
        stored_rows = _stored_rows(net, pins, stored, version)
        if stored_rows is None:
            return None
        changed, existing = numbered(net.columns(columns), stored_rows.columns(columns))
    except (Declined, pa.ArrowInvalid):
        return None
    values, copies_of = np.unique(existing, return_counts=True)
    copies = np.zeros(len(changed), dtype=np.int64)
    if len(values):
        at = np.minimum(np.searchsorted(values, changed), len(values) - 1)
        copies = np.where(values[at] == changed, copies_of[at], 0)
    if (copies + counts < 0).any():
        raise StateMismatch("stored rows are not what their vector says", reason=MISMATCH)
    times = np.abs(counts)
    each = np.repeat(np.arange(len(counts)), times)
    within = np.arange(len(each)) - np.repeat(np.cumsum(times) - times, times)
    first = np.minimum(copies, copies + counts) + 1
    rows = net.with_signs(None).take(each).table
    return rows.append_column(IN, pa.array(counts[each] > 0)).append_column(
        ROW, pa.array(first[each] + within)
    )


def _in_stored_types(change: Rows, table: Table) -> Rows:
    """A change in the types that its rows have in the stored table."""
    types = {c: table.types[c.lower()] for c in change.types}
    plain = change.with_signs(None).table.cast(arrow_schema(types))
    return Rows(plain, types).with_signs(change.signs)


def _stored_rows(rows: Rows, pins: Pins, stored: str, version: int) -> Rows | None:
    """Stored rows, among them all that equal one of the rows."""
    columns, table = list(rows.types), pins.table(stored)
    stored_rows = pins.whole(stored, version, tuple(columns), MAX_ROWS_READ_WHOLE)
    if stored_rows is None:
        values = {c: pc.unique(rows.table[c]) for c in columns if can_look_up(table, c)}
        if not values:
            return None
        by = max(values, key=lambda c: len(values[c]))
        keys, nulls = values[by].drop_null(), values[by].null_count > 0
        stored_rows = look_up(table, version, columns, by, keys, nulls=nulls, most=SMALL)
    return None if stored_rows is None else Rows(stored_rows, rows.types)
