"""Copies of equal rows in memory, numbered on from those held: `maintenance` has the same in SQL."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.delta.lookups import can_look_up, look_up
from belvedere.delta.small_changes import arrow_schema
from belvedere.execution.in_memory import WHOLE
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
    """The rows to write for a change of a bag; None if Spark is to find them.

    A row for each copy to add (`__in`) or take away, with its number.
    """
    columns = tuple(change.types)
    try:
        net, counts = netted(_as_stored(change, pins.table(stored)), columns)
        held = _like(net, pins, stored, version)
        if held is None:
            return None
        ours, theirs = numbered(net.columns(columns), held.columns(columns))
    except (Declined, pa.ArrowInvalid):
        return None
    values, copies_of = np.unique(theirs, return_counts=True)
    have = np.zeros(len(ours), dtype=np.int64)
    if len(values):
        at = np.minimum(np.searchsorted(values, ours), len(values) - 1)
        have = np.where(values[at] == ours, copies_of[at], 0)
    if (have + counts < 0).any():
        raise StateMismatch("stored rows are not what their vector says", reason=MISMATCH)
    times = np.abs(counts)
    each = np.repeat(np.arange(len(counts)), times)
    within = np.arange(len(each)) - np.repeat(np.cumsum(times) - times, times)
    first = np.minimum(have, have + counts) + 1
    rows = net.with_signs(None).take(each).table
    return rows.append_column(IN, pa.array(counts[each] > 0)).append_column(
        ROW, pa.array(first[each] + within)
    )


def _as_stored(change: Rows, table: Table) -> Rows:
    """A change in the types that its rows have when they are stored."""
    types = {c: table.types[c.lower()] for c in change.types}
    plain = change.with_signs(None).table.cast(arrow_schema(types))
    return Rows(plain, types).with_signs(change.signs)


def _like(rows: Rows, pins: Pins, stored: str, version: int) -> Rows | None:
    """Stored rows, among them every one that is equal to one of the rows."""
    columns, table = list(rows.types), pins.table(stored)
    found = pins.whole(stored, version, tuple(columns), WHOLE)
    if found is None:
        values = {c: pc.unique(rows.table[c]) for c in columns if can_look_up(table, c)}
        if not values:
            return None
        by = max(values, key=lambda c: len(values[c]))
        some, nulls = values[by].drop_null(), values[by].null_count > 0
        found = look_up(table, version, columns, by, some, nulls=nulls, most=SMALL)
    if found is None:
        return None
    return Rows(found, rows.types)
