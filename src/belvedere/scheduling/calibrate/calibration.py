"""Calibration: measure the cost of k changes of each table, by kind of change, on scratch copies.

Rows of a copy are deleted, inserted again and updated, in small and large batches; each time the
copy of the view advances and is timed. Every table is measured on a copy of its own, since the files
that many changes leave would slow down look-ups in the others. Then all tables of another copy change
at once, which shows what a joint refresh shares. Sizes that seem cheaper than smaller ones are
measured again; what stays uneven is smoothed, with a note. The tables' logs show how often each kind
of change arrives.

`calibrate_live` measures the view itself instead, on the changes that are pending.
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
    FittedCost,
    JointBatch,
    MeasuredBatch,
    fit_cost,
    sizes_to_measure_again,
)
from belvedere.scheduling.model.problem import restrict_to
from belvedere.scheduling.schedules import Calibration, now, refuse_without_plan
from belvedere.scheduling.serve.watcher import TableWatch, shares_of_kinds
from belvedere.sql.names import literal, quote
from belvedere.views.catalog import canonical_name, shown_name, the_view
from belvedere.views.definition import View
from belvedere.views.refresh import refresh
from belvedere.views.state import Bag

SIZES = (1, 10, 100, 1000, 10_000)
JOINT = (10, 1000)
SINGLE_REPEATS = 3
"""The repetitions of single changes: one may join many rows, the next none."""
COUNTED_FROM = 100
"""The batch size from which on an approximate number of rows changes; the changed rows are counted."""
SAMPLED_VALUES = 200
"""The number of rows whose values updates write into other rows."""


def calibrate(
    door: SparkLake,
    name: str,
    *,
    tables: Collection[str] | None = None,
    sizes: Sequence[int] = SIZES,
    rounds: int = 2,
    kinds: Collection[str] = KINDS,
) -> Calibration:
    """Measure the cost of batches of changes, of all tables and kinds or of some."""
    view = the_view(door, name)
    refuse_without_plan(door, view)
    names = _tables_to_measure(door, view, tables)
    chosen = [canonical_name(door, t) for t in names]
    times, joint, facts = list[list[MeasuredBatch]](), list[JointBatch](), _TableFacts()
    for table in chosen:
        with _new_bench(door, view, kinds, facts) as bench:
            bench.warm_up([table])
            times.append(bench.alone(table, sizes, rounds))
    if len(chosen) > 1:
        with _new_bench(door, view, kinds, facts) as bench:
            bench.warm_up(chosen)
            joint = bench.together(chosen, [k for k in JOINT if k <= max(sizes)], rounds)
    weights = tuple(shares_of_kinds(door, view.name, t) for t in names)
    fits = tuple(
        fit_cost(measured, shares) for measured, shares in zip(times, weights, strict=True)
    )
    return Calibration(names, fits, tuple(joint), now(), weights)


def calibrate_live(
    door: SparkLake, name: str, earlier: Calibration | None, tables: Collection[str] | None = None
) -> Calibration:
    """Measure the view itself: apply the pending changes of each table, one after another."""
    view = the_view(door, name)
    refuse_without_plan(door, view)
    chosen = earlier.tables if earlier else _tables_to_measure(door, view, tables)
    pending = TableWatch(door, view.name, chosen).pending()
    for table, count in zip(chosen, pending, strict=True):
        if not count and earlier is None:
            raise Invalid(
                f"no changes of {table!r} are pending for {name!r}, so there is nothing to time",
                hint="calibrate without --live, or when every table has changes",
                reason="NOTHING_PENDING",
            )
    calibration, fits = earlier, list[FittedCost]()
    for i, (table, count) in enumerate(zip(chosen, pending, strict=True)):
        if count:
            began = time.monotonic()
            refresh(door, view.name, only=[canonical_name(door, table)])
            seconds = time.monotonic() - began
            fits.append(fit_cost([MeasuredBatch(count, seconds)]))
            calibration = calibration and calibration.with_measured(
                restrict_to(pending, i), seconds
            )
    if calibration is not None:
        return replace(calibration, at=now())
    weights = tuple(shares_of_kinds(door, view.name, t) for t in chosen)
    return Calibration(chosen, tuple(fits), (), now(), weights)


def _tables_to_measure(
    door: SparkLake, view: View, tables: Collection[str] | None
) -> tuple[str, ...]:
    """The tables of a view to measure, by the users' names."""
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
class _TableFacts:
    """Facts about tables that are read once: the number of rows, and an UPDATE assignment."""

    sizes: dict[str, int] = field(default_factory=dict)
    updates: dict[str, str] = field(default_factory=dict)


@contextmanager
def _new_bench(
    door: SparkLake, view: View, kinds: Collection[str], facts: _TableFacts
) -> Iterator[_Bench]:
    with scratch(door, tables_of(view)) as copy:
        yield _Bench(copy, the_view(copy, view.name), kinds, facts)


@dataclass
class _Bench:
    door: SparkLake
    view: View
    kinds: Collection[str]
    facts: _TableFacts
    turn: int = 0

    def warm_up(self, tables: Sequence[str]) -> None:
        """Refresh once without timing, since first refreshes are slower."""
        refresh(self.door, self.view.name)
        for table in tables:
            for _ in self._changed({table: 1}):
                continue

    def alone(self, table: str, sizes: Sequence[int], rounds: int) -> list[MeasuredBatch]:
        """The times of batches of one table."""
        measured: list[MeasuredBatch] = []
        for _ in range(rounds):
            for size in self._possible(table, sizes):
                for _ in range(SINGLE_REPEATS if size == 1 else 1):
                    measured += self._measure(table, size)
        for size in sorted({self._nearest(table, k) for k in sizes_to_measure_again(measured)}):
            measured += self._measure(table, size)
        return measured

    def together(
        self, tables: Sequence[str], sizes: Sequence[int], rounds: int
    ) -> list[JointBatch]:
        """The times of batches of all tables at once."""
        joint = []
        for size in [*sizes] * rounds:
            wanted = {t: max(self._possible(t, [1, size])) for t in tables}
            for kind, amounts, seconds in self._changed(wanted):
                joint.append(JointBatch(tuple(amounts[t] for t in tables), seconds, kind))
        return joint

    def _measure(self, table: str, size: int) -> list[MeasuredBatch]:
        timed = self._changed({table: size})
        return [
            MeasuredBatch(amounts[table], s, kind) for kind, amounts, s in timed if amounts[table]
        ]

    def _changed(self, wanted: dict[str, int]) -> Iterator[tuple[str, dict[str, int], float]]:
        """Delete rows, insert them again, update others; advance and time after each."""
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
        """Update rows, and advance."""
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
        """An assignment of other rows' values, by a hash; empty if there is no column to update."""
        if table.name not in self.facts.updates:
            column = self._updated(table)
            listed = quote(column) if column else "NULL"
            some = (
                f"SELECT {listed} AS v FROM {table.reference} TABLESAMPLE ({SAMPLED_VALUES} ROWS)"
            )
            (row,) = self.door.sql(f"SELECT collect_set(v) FROM ({some})").collect()
            values = ", ".join(
                literal(str(v)).replace("{", "{{").replace("}", "}}") for v in row[0]
            )
            value = f"element_at(array({values}), CAST(1 + pmod({{mixed}}, {len(row[0])}) AS INT))"
            kind = dict(table.columns).get(column, "")
            self.facts.updates[table.name] = f"{listed} = CAST({value} AS {kind})" if row[0] else ""
        return self.facts.updates[table.name]

    def _updated(self, table: Table) -> str:
        """The column to update: one that the view reads, preferably no join column, with few values."""
        used, joined = self.view.used(table.name), _joined_by(self.view, table.name)
        plain = [c for c, kind in table.columns if c in used and _is_updated(kind)]
        counts = dict.fromkeys(plain, 0)
        if len(plain) > 1:
            each = ", ".join(f"approx_count_distinct({quote(c)})" for c in plain)
            (row,) = self.door.sql(f"SELECT {each} FROM {table.reference}").collect()
            counts = dict(zip(plain, row, strict=True))
        return min(plain, key=lambda c: (c in joined, counts[c]), default="")

    def _some(self, table: Table, size: int) -> str:
        """A condition that `size` rows of a table meet, others each time; for large sizes about `size`."""
        mixed = self._mixed(table)
        if size >= COUNTED_FROM:
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
        if table not in self.facts.sizes:
            size = table_size(self.door.table(table))
            counted = None if size is None else int(size.rows)
            if counted is None:
                reference = self.door.table(table).reference
                counted = int(self.door.sql(f"SELECT count(*) FROM {reference}").collect()[0][0])
            self.facts.sizes[table] = counted
        return self.facts.sizes[table]

    def _possible(self, table: str, sizes: Sequence[int]) -> list[int]:
        """The sizes, limited to half of the table."""
        most = max(self._rows(table) // 2, 1)
        return sorted({min(size, most) for size in sizes})

    def _nearest(self, table: str, size: int) -> int:
        return min(max(size, 1), max(self._rows(table) // 2, 1))


def _joined_by(view: View, table: str) -> set[str]:
    """The columns by which a view joins a table."""
    state = view.state
    every = list(nodes(state.plan if isinstance(state, Bag) else state.child))
    joins = {c for q in every if isinstance(q, Join) for c in q.on.columns}
    scans = [q for q in every if isinstance(q, Scan) and q.table == table]
    return {f.source for q in scans for f in q.fields if f.name in joins}


def tables_of(view: View) -> list[str]:
    """The tables of a view: its stored table, those of its parts, its base tables."""
    return [view.stored, *(part.stored for part in view.every_part), *view.inputs]


def _is_updated(kind: str) -> bool:
    """Whether updates that calibration makes may change columns of a type."""
    type_ = parse(kind)
    return type_.is_exact or type_ in (DATE, BOOLEAN) or isinstance(type_, StringType)


def _is_hashed(kind: str) -> bool:
    """Whether Spark hashes values of a type."""
    type_ = parse(kind)
    return type_ != VARIANT and not isinstance(type_, MapType)
