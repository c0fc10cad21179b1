"""Calibration: what k changes of each table cost a view, by kinds of change, on scratch copies.

Rows of a copy are deleted, inserted again and updated, a few and many, those of the smallest
hash; each time the view's copy advances by them and is timed. Every table has a copy of its own:
the files that so many changes leave would slow down the look-ups of the others. Then, on another
copy, all tables change at once, for what a joint refresh shares. Sizes that look cheaper than
smaller ones are measured again; what stays uneven is smoothed, and told. Which kinds count for the
total is told by the tables' logs.

Where it is asked for, the view itself is timed instead as it goes on: see `live`.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from belvedere.algebra.relations import Join, Scan
from belvedere.algebra.types import BOOLEAN, DATE, VARIANT, MapType, StringType, parse
from belvedere.algebra.walks import nodes
from belvedere.delta.history import rows_of
from belvedere.delta.statistics import table_size
from belvedere.errors import Invalid
from belvedere.lake.sessions.scratch import scratch
from belvedere.lake.spark_lake import SparkLake
from belvedere.lake.tables.table import Table
from belvedere.scheduling.calibrate.fitting import (
    KINDS,
    Fit,
    Joint,
    Measured,
    fit,
    to_measure_again,
)
from belvedere.scheduling.model.problem import only
from belvedere.scheduling.schedules import Calibration, now, refuse_without_plan
from belvedere.scheduling.serve.watcher import Watch, arriving
from belvedere.sql.names import literal, quote
from belvedere.views.catalog import canonical_name, shown_name, the_view
from belvedere.views.definition import View
from belvedere.views.refresh import refresh
from belvedere.views.state import Bag

SIZES = (1, 10, 100, 1000, 10_000)
JOINT = (10, 1000)
SINGLES = 3
"""How many times as often single changes are timed: one may join many rows, the next none."""
MANY = 100
"""Rows from which on about so many will do: those that were changed are counted."""
VALUES = 200
"""Of how many rows the values are taken that others get."""


def calibrate(
    door: SparkLake,
    name: str,
    *,
    tables: Collection[str] | None = None,
    sizes: Sequence[int] = SIZES,
    rounds: int = 2,
    kinds: Collection[str] = KINDS,
) -> Calibration:
    """Measure what batches of changes take: of each table or some, of every kind or some."""
    view = the_view(door, name)
    refuse_without_plan(door, view)
    names = _chosen(door, view, tables)
    chosen = [canonical_name(door, t) for t in names]
    times, joint, known = list[list[Measured]](), list[Joint](), _Known()
    for table in chosen:
        with _bench(door, view, kinds, known) as bench:
            bench.warm_up([table])
            times.append(bench.alone(table, sizes, rounds))
    if len(chosen) > 1:
        with _bench(door, view, kinds, known) as bench:
            bench.warm_up(chosen)
            joint = bench.together(chosen, [k for k in JOINT if k <= max(sizes)], rounds)
    weights = tuple(arriving(door, view.name, t) for t in names)
    fits = tuple(fit(found, often) for found, often in zip(times, weights, strict=True))
    return Calibration(names, fits, tuple(joint), now(), weights)


def live(
    door: SparkLake, name: str, known: Calibration | None, tables: Collection[str] | None = None
) -> Calibration:
    """Measure the view itself: what is pending of each table is applied, one after another."""
    view = the_view(door, name)
    refuse_without_plan(door, view)
    chosen = known.tables if known else _chosen(door, view, tables)
    pending = Watch(door, view.name, chosen).pending()
    for table, count in zip(chosen, pending, strict=True):
        if not count and known is None:
            raise Invalid(
                f"no changes of {table!r} are pending for {name!r}, so there is nothing to time",
                hint="calibrate on a copy, or when every table has changed",
                reason="NOTHING_PENDING",
            )
    found, timed = known, list[Fit]()
    for i, (table, count) in enumerate(zip(chosen, pending, strict=True)):
        if count:
            began = time.monotonic()
            refresh(door, view.name, only=[canonical_name(door, table)])
            seconds = time.monotonic() - began
            timed.append(fit([Measured(count, seconds)]))
            found = found and found.with_measured(only(pending, i), seconds)
    if found is not None:
        return replace(found, at=now())
    weights = tuple(arriving(door, view.name, t) for t in chosen)
    return Calibration(chosen, tuple(timed), (), now(), weights)


def _chosen(door: SparkLake, view: View, tables: Collection[str] | None) -> tuple[str, ...]:
    """The tables of a view to measure, by the names that people use."""
    every = [shown_name(door, t) for t in view.inputs]
    chosen = tuple(t for t in every if tables is None or t in tables)
    if not chosen:
        listed = ", ".join(every)
        raise Invalid(
            f"{view.name!r} reads none of these tables",
            hint=f"it reads {listed}",
            reason="NOT_IN_QUERY",
        )
    return chosen


@dataclass
class _Known:
    """What was asked of a table once: its rows, and how to give them other values."""

    sizes: dict[str, int] = field(default_factory=dict)
    updates: dict[str, str] = field(default_factory=dict)


@contextmanager
def _bench(door: SparkLake, view: View, kinds: Collection[str], known: _Known) -> Iterator[_Bench]:
    with scratch(door, needed(view)) as copy:
        yield _Bench(copy, the_view(copy, view.name), kinds, known)


@dataclass
class _Bench:
    door: SparkLake
    view: View
    kinds: Collection[str]
    known: _Known
    turn: int = 0

    def warm_up(self, tables: Sequence[str]) -> None:
        """First times pay for what later ones find ready."""
        refresh(self.door, self.view.name)
        for table in tables:
            for _ in self._changed({table: 1}):
                continue

    def alone(self, table: str, sizes: Sequence[int], rounds: int) -> list[Measured]:
        """The times of batches of one table."""
        found: list[Measured] = []
        for _ in range(rounds):
            for size in self._possible(table, sizes):
                for _ in range(SINGLES if size == 1 else 1):
                    found += self._measure(table, size)
        for size in sorted({self._nearest(table, k) for k in to_measure_again(found)}):
            found += self._measure(table, size)
        return found

    def together(self, tables: Sequence[str], sizes: Sequence[int], rounds: int) -> list[Joint]:
        """The times of batches of all tables at once."""
        found = []
        for size in [*sizes] * rounds:
            wanted = {t: max(self._possible(t, [1, size])) for t in tables}
            for kind, amounts, seconds in self._changed(wanted):
                found.append(Joint(tuple(amounts[t] for t in tables), seconds, kind))
        return found

    def _measure(self, table: str, size: int) -> list[Measured]:
        timed = self._changed({table: size})
        return [Measured(amounts[table], s, kind) for kind, amounts, s in timed if amounts[table]]

    def _changed(self, wanted: dict[str, int]) -> Iterator[tuple[str, dict[str, int], float]]:
        """Take rows away, put them back, give others another value; advance after each."""
        if {"delete", "insert"} & set(self.kinds):
            self.turn += 1
            before = {t: self.door.table(t) for t in wanted}
            some = {t: self._some(before[t], size) for t, size in wanted.items()}
            for t, condition in some.items():
                self.door.sql(f"DELETE FROM {before[t].reference} WHERE {condition}")
            yield "delete", *self._timed(before)
            middle = {t: self.door.table(t) for t in wanted}
            for t, condition in some.items():
                old = before[t].at(before[t].version)
                self.door.sql(
                    f"INSERT INTO {before[t].reference} SELECT * FROM {old} WHERE {condition}"
                )
            yield "insert", *self._timed(middle)
        if "update" in self.kinds:
            yield from self._others(wanted)

    def _others(self, wanted: dict[str, int]) -> Iterator[tuple[str, dict[str, int], float]]:
        """Give rows another value, and advance."""
        self.turn += 1
        before = {t: self.door.table(t) for t in wanted}
        values = {t: value for t in wanted if (value := self._other(before[t]))}
        for t, value in values.items():
            where, mixed = self._some(before[t], wanted[t]), self._mixed(before[t])
            one = value.format(mixed=mixed)
            self.door.sql(f"UPDATE {before[t].reference} SET {one} WHERE {where}")
        if values:
            yield "update", *self._timed(before)

    def _timed(self, before: dict[str, Table]) -> tuple[dict[str, int], float]:
        amounts = {t: rows_of(self.door.events(b, after=b.version)) or 0 for t, b in before.items()}
        began = time.monotonic()
        refresh(self.door, self.view.name, only=list(before))
        return amounts, time.monotonic() - began

    def _other(self, table: Table) -> str:
        """An assignment of other rows' values, by a hash; empty if the view reads none to change."""
        if table.name not in self.known.updates:
            column = self._updated(table)
            listed = quote(column) if column else "NULL"
            some = f"SELECT {listed} AS v FROM {table.reference} TABLESAMPLE ({VALUES} ROWS)"
            (row,) = self.door.sql(f"SELECT collect_set(v) FROM ({some})").collect()
            found = ", ".join(literal(str(v)).replace("{", "{{").replace("}", "}}") for v in row[0])
            one = f"element_at(array({found}), CAST(1 + pmod({{mixed}}, {len(row[0])}) AS INT))"
            kind = dict(table.columns).get(column, "")
            self.known.updates[table.name] = f"{listed} = CAST({one} AS {kind})" if row[0] else ""
        return self.known.updates[table.name]

    def _updated(self, table: Table) -> str:
        """The column to update: one that the view reads, rather not joins by, of few values."""
        used, joined = self.view.used(table.name), _joined_by(self.view, table.name)
        plain = [c for c, kind in table.columns if c in used and _is_updated(kind)]
        counts = dict.fromkeys(plain, 0)
        if len(plain) > 1:
            each = ", ".join(f"approx_count_distinct({quote(c)})" for c in plain)
            (row,) = self.door.sql(f"SELECT {each} FROM {table.reference}").collect()
            counts = dict(zip(plain, row, strict=True))
        return min(plain, key=lambda c: (c in joined, counts[c]), default="")

    def _some(self, table: Table, size: int) -> str:
        """A condition that so many rows of a table meet, others at every turn; of many, about so many."""
        mixed = self._mixed(table)
        if size >= MANY:
            part = int(size / max(self._rows(table.name), size) * (1 << 30))
            return f"pmod({mixed}, {1 << 30}) < {part}"
        least = f"SELECT {mixed} AS mixed FROM {table.reference} ORDER BY mixed LIMIT {size}"
        (row,) = self.door.sql(f"SELECT max(mixed) FROM ({least})").collect()
        return "false" if row[0] is None else f"{mixed} <= {row[0]}"

    def _mixed(self, table: Table) -> str:
        return f"xxhash64({self.turn}, {', '.join(map(quote, self._hashed(table)))})"

    def _hashed(self, table: Table) -> list[str]:
        return [c for c, kind in table.columns if _is_hashed(kind)]

    def _rows(self, table: str) -> int:
        if table not in self.known.sizes:
            known = table_size(self.door.table(table))
            counted = None if known is None else int(known.rows)
            if counted is None:
                reference = self.door.table(table).reference
                counted = int(self.door.sql(f"SELECT count(*) FROM {reference}").collect()[0][0])
            self.known.sizes[table] = counted
        return self.known.sizes[table]

    def _possible(self, table: str, sizes: Sequence[int]) -> list[int]:
        """Batches of at most half a table."""
        most = max(self._rows(table) // 2, 1)
        return sorted({min(size, most) for size in sizes})

    def _nearest(self, table: str, size: int) -> int:
        return min(max(size, 1), max(self._rows(table) // 2, 1))


def _joined_by(view: View, table: str) -> set[str]:
    """The columns of a table by which a view joins it."""
    state = view.state
    every = list(nodes(state.plan if isinstance(state, Bag) else state.child))
    joins = {c for q in every if isinstance(q, Join) for c in q.on.columns}
    scans = [q for q in every if isinstance(q, Scan) and q.table == table]
    return {f.source for q in scans for f in q.fields if f.name in joins}


def needed(view: View) -> list[str]:
    """All that a view is made of: its state, its parts, its tables."""
    return [view.stored, *(part.stored for part in view.every_part), *view.inputs]


def _is_updated(kind: str) -> bool:
    """Whether updates that calibration makes may change columns of a type."""
    type_ = parse(kind)
    return type_.is_exact or type_ in (DATE, BOOLEAN) or isinstance(type_, StringType)


def _is_hashed(kind: str) -> bool:
    """Whether Spark hashes values of a type."""
    type_ = parse(kind)
    return type_ != VARIANT and not isinstance(type_, MapType)
