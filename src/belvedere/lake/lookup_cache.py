"""Rows that a call has looked up, so that several views look up the same keys once.

Views over the same tables want the rows of the same changed keys. If two threads want the same
rows at once, the second waits for the first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.delta.lookups import look_up
from belvedere.lake.tables.table import Table

MAX_BYTES = 128_000_000
"""The size of the cache."""

_Place: TypeAlias = tuple[str, int, str, bool]
"""A table's id, a version, a column, and whether its NULLs are included."""


@dataclass(frozen=True)
class _Entry:
    rows: pa.Table
    values: pa.Array
    column: str
    nulls: bool

    def covers(self, columns: Sequence[str], values: pa.Array) -> bool:
        """Whether it has these columns of all rows with the values."""
        if not set(columns) <= set(self.rows.column_names):
            return False
        return bool(pc.all(pc.is_in(values, value_set=self.values), min_count=0).as_py())

    def select(self, columns: Sequence[str], values: pa.Array) -> pa.Table:
        """These columns of the rows with the values."""
        if len(values) == len(self.values):  # values are distinct, so these are all
            return self.rows.select(list(columns))
        key = self.rows[self.column]
        match = pc.is_in(key, value_set=values)
        match = pc.or_(match, pc.is_null(key)) if self.nulls else match
        return self.rows.filter(match).select(list(columns))


class LookupCache:
    """The rows that a call has looked up; safe for threads."""

    def __init__(self) -> None:
        self._entries: OrderedDict[tuple[_Place, int], _Entry] = OrderedDict()
        self._locks: defaultdict[_Place, threading.Lock] = defaultdict(threading.Lock)
        self._busy = threading.Lock()
        self._count = 0

    def rows(
        self,
        table: Table,
        version: int,
        columns: Sequence[str],
        column: str,
        values: pa.Array,
        *,
        nulls: bool,
        most: int,
    ) -> pa.Table | None:
        """The result of `look_up` for distinct values, from the cache if it has the rows."""
        place = table.id, version, column.lower(), nulls
        with self._busy:
            lock = self._locks[place]
        with lock:
            cached = self._cached(place, columns, values)
            if cached is not None:
                return cached if cached.num_rows <= most else None
            name = next((c for c in columns if c.lower() == column.lower()), None)
            every = columns if name else [*columns, column]
            rows = look_up(table, version, every, column, values, nulls=nulls, most=most)
            if rows is None:
                return None
            self._add(place, _Entry(rows, values, name or column, nulls))
            return rows.select(list(columns))

    def _cached(self, place: _Place, columns: Sequence[str], values: pa.Array) -> pa.Table | None:
        with self._busy:
            entries = [entry for (at, _), entry in self._entries.items() if at == place]
        entry = next((e for e in entries if e.covers(columns, values)), None)
        return None if entry is None else entry.select(columns, values)

    def _add(self, place: _Place, entry: _Entry) -> None:
        with self._busy:
            self._count += 1
            self._entries[place, self._count] = entry
            while sum(e.rows.nbytes for e in self._entries.values()) > MAX_BYTES:
                self._entries.popitem(last=False)
