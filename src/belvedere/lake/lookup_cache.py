"""Rows that a call looked up: what was found for one view is not looked for again for another.

Views over the same tables ask for the rows of the same changed keys. Who asks for what another
thread is looking for waits for it.
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

HELD_BYTES = 128_000_000
"""Of what was looked up, how much stays in memory."""

_Place: TypeAlias = tuple[str, int, str, bool]
"""A table's id, a version, a column, and whether its NULLs are asked for."""


@dataclass(frozen=True)
class _Answer:
    rows: pa.Table
    values: pa.Array
    column: str
    nulls: bool

    def serves(self, columns: Sequence[str], values: pa.Array) -> bool:
        """Whether it has these columns of all rows with the values."""
        if not set(columns) <= set(self.rows.column_names):
            return False
        return bool(pc.all(pc.is_in(values, value_set=self.values), min_count=0).as_py())

    def of(self, columns: Sequence[str], values: pa.Array) -> pa.Table:
        """These columns of the rows with the values."""
        if len(values) == len(self.values):  # each stands there once
            return self.rows.select(list(columns))
        asked = self.rows[self.column]
        hit = pc.is_in(asked, value_set=values)
        return self.rows.filter(pc.or_(hit, pc.is_null(asked)) if self.nulls else hit).select(
            list(columns)
        )


class Looked:
    """What a call looked up so far; safe for threads."""

    def __init__(self) -> None:
        self._answers: OrderedDict[tuple[_Place, int], _Answer] = OrderedDict()
        self._asking: defaultdict[_Place, threading.Lock] = defaultdict(threading.Lock)
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
        """As `look_up`, of distinct values; from what is known if that has the rows."""
        place = table.id, version, column.lower(), nulls
        with self._busy:
            asking = self._asking[place]
        with asking:
            known = self._known(place, columns, values)
            if known is not None:
                return known if known.num_rows <= most else None
            named = next((c for c in columns if c.lower() == column.lower()), None)
            every = columns if named else [*columns, column]
            rows = look_up(table, version, every, column, values, nulls=nulls, most=most)
            if rows is None:
                return None
            self._keep(place, _Answer(rows, values, named or column, nulls))
            return rows.select(list(columns))

    def _known(self, place: _Place, columns: Sequence[str], values: pa.Array) -> pa.Table | None:
        with self._busy:
            some = [answer for (at, _), answer in self._answers.items() if at == place]
        found = next((a for a in some if a.serves(columns, values)), None)
        return None if found is None else found.of(columns, values)

    def _keep(self, place: _Place, answer: _Answer) -> None:
        with self._busy:
            self._count += 1
            self._answers[place, self._count] = answer
            while sum(a.rows.nbytes for a in self._answers.values()) > HELD_BYTES:
                self._answers.popitem(last=False)
