"""Calibration: what k changes of each table cost a view, measured on a scratch copy.

Rows of the copy are deleted and inserted again, a few and many, those of the smallest hash; each time the view's copy advances by them and is timed. Then all tables change at
once, for what a joint refresh shares. Sizes that look cheaper than smaller ones are measured
again; what stays uneven is smoothed, and told.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from belvedere.errors import Invalid
from belvedere.lake.door import Door
from belvedere.lake.events import rows_of
from belvedere.lake.names import quote
from belvedere.lake.scratch import scratch
from belvedere.lake.statistics import measured as size_of
from belvedere.lake.tables import Table
from belvedere.scheduling.fitting import Measured, fit, to_measure_again
from belvedere.scheduling.model import State
from belvedere.scheduling.schedules import Calibration, now, refuse_without_plan
from belvedere.views.catalog import shown_name, the_view
from belvedere.views.definition import View
from belvedere.views.refresh import refresh

SIZES = (1, 10, 100, 1000, 10_000)
JOINT = (10, 1000)
_UNHASHED = ("map", "variant")


def calibrate(
    door: Door,
    name: str,
    *,
    tables: Collection[str] | None = None,
    sizes: Sequence[int] = SIZES,
    rounds: int = 2,
) -> Calibration:
    """Measure what batches of each table's changes, or only of some tables, take."""
    view = the_view(door, name)
    refuse_without_plan(door, view)
    with scratch(door, _needed(view)) as copy:
        bench = _Bench(copy, the_view(copy, view.name))
        chosen = [t for t in view.inputs if tables is None or shown_name(door, t) in tables]
        if not chosen:
            listed = ", ".join(shown_name(door, t) for t in view.inputs)
            raise Invalid(f"{name!r} reads none of these tables", hint=f"it reads {listed}")
        bench.warm_up(chosen)
        times = {t: bench.alone(t, sizes, rounds) for t in chosen}
        joint = bench.together(chosen, [k for k in JOINT if k <= max(sizes)])
    names = tuple(shown_name(door, t) for t in chosen)
    return Calibration(names, tuple(fit(times[t]) for t in chosen), tuple(joint), now())


@dataclass
class _Bench:
    door: Door
    view: View
    turn: int = 0
    sizes: dict[str, int] = field(default_factory=dict)

    def warm_up(self, tables: Sequence[str]) -> None:
        """First times pay for what later ones find ready."""
        refresh(self.door, self.view.name)
        for table in tables:
            self._there_and_back({table: 1})

    def alone(self, table: str, sizes: Sequence[int], rounds: int) -> list[Measured]:
        """The times of batches of one table."""
        found: list[Measured] = []
        for _ in range(rounds):
            for size in self._possible(table, sizes):
                found += self._measure(table, size)
        for size in sorted({self._nearest(table, k) for k in to_measure_again(found)}):
            found += self._measure(table, size)
        return found

    def together(self, tables: Sequence[str], sizes: Sequence[int]) -> list[tuple[State, float]]:
        """The times of batches of all tables at once."""
        if len(tables) < 2:
            return []
        found = []
        for size in sizes:
            wanted = {t: max(self._possible(t, [1, size])) for t in tables}
            for amounts, seconds in self._there_and_back(wanted):
                found.append((tuple(amounts[t] for t in tables), seconds))
        return found

    def _measure(self, table: str, size: int) -> list[Measured]:
        timed = self._there_and_back({table: size})
        return [Measured(amounts[table], seconds) for amounts, seconds in timed if amounts[table]]

    def _there_and_back(self, wanted: dict[str, int]) -> list[tuple[dict[str, int], float]]:
        """Take rows away, advance, put them back, advance."""
        self.turn += 1
        before = {t: self.door.table(t) for t in wanted}
        some = {t: self._some(before[t], size) for t, size in wanted.items()}
        for t, condition in some.items():
            self.door.sql(f"DELETE FROM {before[t].reference} WHERE {condition}")
        taken = self._timed(before)
        middle = {t: self.door.table(t) for t in wanted}
        for t, condition in some.items():
            old = before[t].at(before[t].version)
            self.door.sql(
                f"INSERT INTO {before[t].reference} SELECT * FROM {old} WHERE {condition}"
            )
        return [taken, self._timed(middle)]

    def _timed(self, before: dict[str, Table]) -> tuple[dict[str, int], float]:
        amounts = {t: rows_of(self.door.events(b, after=b.version)) or 0 for t, b in before.items()}
        began = time.monotonic()
        refresh(self.door, self.view.name, only=list(before))
        return amounts, time.monotonic() - began

    def _some(self, table: Table, size: int) -> str:
        """A condition that so many rows of a table meet, others at every turn."""
        plain = [c for c, kind in table.columns if not kind.startswith(_UNHASHED)]
        mixed = f"xxhash64({self.turn}, {', '.join(map(quote, plain))})"
        least = f"SELECT {mixed} AS mixed FROM {table.reference} ORDER BY mixed LIMIT {size}"
        (row,) = self.door.sql(f"SELECT max(mixed) FROM ({least})").collect()
        return "false" if row[0] is None else f"{mixed} <= {row[0]}"

    def _rows(self, table: str) -> int:
        if table not in self.sizes:
            known = size_of(self.door.table(table))
            counted = None if known is None else int(known.rows)
            if counted is None:
                reference = self.door.table(table).reference
                counted = int(self.door.sql(f"SELECT count(*) FROM {reference}").collect()[0][0])
            self.sizes[table] = counted
        return self.sizes[table]

    def _possible(self, table: str, sizes: Sequence[int]) -> list[int]:
        """Batches of at most half a table."""
        most = max(self._rows(table) // 2, 1)
        return sorted({min(size, most) for size in sizes})

    def _nearest(self, table: str, size: int) -> int:
        return min(max(size, 1), max(self._rows(table) // 2, 1))


def _needed(view: View) -> list[str]:
    """All that a view is made of: its state, its parts, its tables."""
    return [view.stored, *(part.stored for part in view.every_part), *view.inputs]
