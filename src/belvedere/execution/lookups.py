"""Look-ups of a refresh: which are worth it, and their rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.algebra.relations import (
    At,
    Change,
    Empty,
    Field,
    Negate,
    Rel,
    Scan,
    Union,
    Unsigned,
)
from belvedere.analyses.effort import effort
from belvedere.analyses.sizes import Sizes
from belvedere.analyses.values import Sources
from belvedere.delta.lookups import can_look_up, look_up
from belvedere.execution.foreign_keys import CheckedForeignKeys
from belvedere.execution.in_memory import MOST, Held, leaves_below, with_result
from belvedere.lake.sessions.workspace import Workspace
from belvedere.memory.declined import Declined
from belvedere.memory.plans import Memory, Rows
from belvedere.rules.empties import without_empties
from belvedere.rules.lookups import LookUp, Texts, filled, look_ups
from belvedere.rules.outward import SMALL, outward
from belvedere.sql.names import STORED_PREFIX
from belvedere.views.maintenance import Move

LARGE = 50_000
"""Rows of a table from which on it is not simply read."""
A_PART = 0.25
"""Of the values of a column, above which its table is as well read whole."""


_ROW, _COLUMN = 0.1, 0.1
"""The work of a look-up, for each row of the table: beside Spark's, see `analyses/effort.py`."""


@dataclass
class LookUps:
    """The look-ups of one refresh; `ran` gathers what was looked up."""

    work: Workspace
    held: Held
    ran: list[str]
    relied: CheckedForeignKeys = field(default_factory=CheckedForeignKeys)
    """Foreign keys by which some rows are those of changes."""
    _values: dict[Sources, pa.Array] = field(default_factory=dict)
    _in_vain: set[LookUp] = field(default_factory=set)
    _turned: bool = False
    """Whether the plan was begun anew at what is small now: once, for its parts are known by identity."""
    _looked: dict[object, pa.Table] = field(default_factory=dict)
    """Rows of new states, by what was asked."""

    def made(self, way: Move) -> Move:
        """The way over rows that are looked up: those of the changes' keys, then of theirs.

        What can be computed of them at once is: it tells for which rows to look next, and how few
        rows ask for those of others.
        """
        while True:
            plan, known = self.held.folded(way.plan, way.known)
            way = replace(way, plan=plan, known=known)
            sizes = Sizes(way.known)
            plan, wanted = look_ups(way.plan, self.held.has, partial(self._values_of, sizes))
            if not wanted and self._turned:
                return way
            if not wanted:
                way, self._turned = replace(way, plan=outward(way.plan, sizes)), True
                continue
            found: dict[Scan, Rel] = {}
            for group in self._first(sizes, wanted, found):
                way = self._look_up(way, group, found)
            way = replace(way, plan=without_empties(filled(plan, found)))

    def effort(self, way: Move) -> tuple[float, bool]:
        """How much work a way will be, in rows, with the look-ups that it promises.

        And whether Spark will do some of it: what is neither looked up nor small it must read.
        """
        plan, known, looked, expected = way.plan, way.known, 0.0, set[str]()

        def has(leaf: Scan | Change) -> bool:
            return leaf.table in expected or self.held.has(leaf)

        while True:
            sizes = Sizes(known)
            plan, wanted = look_ups(plan, has, partial(self._values_of, sizes))
            if not wanted:
                leaves = leaves_below(plan)[id(plan)]
                far = not all(has(leaf) or self.held.small(leaf, sizes) for leaf in leaves)
                return looked + effort(plan, sizes, SMALL), far
            found: dict[Scan, Rel] = {}
            asked = set[object]()
            for group in self._first(sizes, wanted, found):
                name = f"{STORED_PREFIX} expected {len(expected)}"
                expected.add(name)
                if group.question not in asked:
                    looked += sizes.rows(group.leaf) * (_ROW + _COLUMN * len(group.leaf.fields))
                asked.add(group.question)
                rows = group.part(sizes, self._count(sizes, group.sources)) * sizes.rows(group.leaf)
                known = with_result(known, name, group.shape, rows)
                found.update(group.filled(name))
            plan = filled(plan, found)

    def _values_of(self, sizes: Sizes, wanted: LookUp) -> float:
        """By how many values a look-up is; endless if it is not worth it."""
        if self.relied.answers(wanted):
            return 0
        rows = sizes.rows(wanted.leaf)
        if not LARGE <= rows < inf or wanted in self._in_vain or not self.work.near:
            return inf
        table, _ = self.held.tables.version(wanted.leaf)
        if not can_look_up(table, wanted.column):
            return inf
        count = self._count(sizes, wanted.sources)
        part = _Group(wanted.leaf, wanted.column, wanted.sources).part(sizes, count)
        return count if part <= A_PART and part * rows <= SMALL else inf

    def _count(self, sizes: Sizes, sources: Sources) -> float:
        """How many values there are, about where they are not in memory yet."""
        if all(table in self.held for table, _ in sources):
            return len(self._of(sources))
        return sum(sizes.known.changed[table] for table, _ in sources)

    def _of(self, sources: Sources) -> pa.Array:
        if sources not in self._values:
            self._values[sources] = self.held.values(sources)
        return self._values[sources]

    def _look_up(self, way: Move, group: _Group, found: dict[Scan, Rel]) -> Move:
        """What some places of the plan want of one table by one column, read at once."""
        values = self._of(group.sources)
        rows = self._rows(group, values)
        if rows is None:
            self._in_vain.update(group.places.values())
            found.update({place: wanted.leaf for place, wanted in group.places.items()})
            return way
        if not rows.num_rows:
            found.update(group.filled(None))
            return way
        types = {f.source: f.type for f in group.leaf.fields}
        name, known = self.held.add(way.known, group.shape, Rows(rows, types))
        found.update(group.filled(name))
        return replace(way, known=known)

    def _rows(self, group: _Group, values: pa.Array) -> pa.Table | None:
        table, version = self.held.tables.version(group.leaf)
        of, by = f"{table.name} at version {version}", f"{len(values)} values of {group.column}"
        if group.in_change:
            rows = self.relied.rows(group.leaf, group.column, values)
            self.ran.append(f"-- {rows.num_rows} rows of {of}, by {by}: those of its change")
            return rows
        before = self._before(group, values)
        if before is not None:
            self.ran.append(f"-- {before.num_rows} rows of {of}, by {by}: back by its change")
            return before
        columns = [f.source for f in group.leaf.fields]
        rows = self.held.tables.pins.lookup_cache.rows(
            table, version, columns, group.column, values, nulls=group.nulls, most=MOST
        )
        if rows is not None:
            rows = group.chosen(rows)
            self.held.tables.opened.add((group.leaf.table, version))
            self.ran.append(f"-- {rows.num_rows} rows of {of}, looked up by {by}")
            if group.leaf.at is At.NEW:
                self._looked[group.question] = rows
        return rows

    def _before(self, group: _Group, values: pa.Array) -> pa.Table | None:
        """Rows of the old state, from those of the new one that were just looked up."""
        columns = {*(f.source for f in group.leaf.fields), group.column}
        new, change = (
            rows if rows is not None and columns <= set(rows.column_names) else None
            for rows in (self._looked.get(group.question), self.held.changes.get(group.leaf.table))
        )
        if group.leaf.at is not At.OLD or new is None or change is None:
            return None
        asked = pc.is_in(change[group.column], value_set=values)
        if group.nulls:
            asked = pc.or_(asked, pc.is_null(change[group.column]))
        gone = group.chosen(change.filter(asked))
        fields = group.shape.fields
        after, between = Scan("after", fields), Change("between", fields)
        back = Unsigned(Union((after, Negate(between)), after.columns))
        try:
            return Memory(lambda leaf: new if leaf is after else gone, MOST).rows(back).table
        except Declined:
            return None

    def values_after(self, name: str, column: str, values: pa.Array) -> pa.Array | None:
        """The values of a column, in the new state, that are among some; None if Spark must tell."""
        if not self.work.near:
            return None
        versions = self.held.tables
        table, version = versions.pins.table(name), versions.new[name]
        rows = look_up(table, version, [column], column, values, nulls=False, most=SMALL)
        return None if rows is None else rows[column].combine_chunks()

    def _first(
        self, sizes: Sizes, wanted: dict[Scan, LookUp], found: dict[Scan, Rel]
    ) -> list[_Group]:
        """Look-ups of the smallest table; its rows may ask for fewer rows of the others."""
        groups = list(self._together(wanted))
        least = min(sizes.rows(group.leaf) for group in groups)
        for group in groups:
            if sizes.rows(group.leaf) > least:
                found.update({place: w.leaf for place, w in group.places.items()})
        chosen = [group for group in groups if sizes.rows(group.leaf) == least]
        self._for_both(chosen)
        return sorted(chosen, key=lambda group: group.leaf.at is At.OLD)

    def _for_both(self, groups: list[_Group]) -> None:
        """Rows of a new state have what is asked of the old one too, which follows from them."""
        after = {group.question: group for group in groups if group.leaf.at is At.NEW}
        for group in groups:
            new = after.get(group.question)
            if new is None or new is group or group.leaf.table not in self.held.changes:
                continue
            key = Field(group.column, group.column, self._type(group))
            both = {f.source: f for f in (*group.leaf.fields, key, *new.leaf.fields)}
            new.leaf = replace(new.leaf, fields=tuple(both.values()))

    def _type(self, group: _Group) -> str:
        table, _ = self.held.tables.version(group.leaf)
        return table.types[group.column.lower()]

    def _together(self, wanted: dict[Scan, LookUp]) -> Iterable[_Group]:
        groups: dict[object, _Group] = {}
        for place, w in wanted.items():
            in_change = self.relied.answers(w)
            empty = _Group(replace(w.leaf, fields=()), w.column, only=w.only, in_change=in_change)
            group = groups.setdefault((w.leaf.table, w.leaf.at, w.column, w.only, in_change), empty)
            own = {f.source: f for f in (*group.leaf.fields, *w.leaf.fields)}
            group.leaf = replace(w.leaf, fields=tuple(own.values()))
            group.sources |= w.sources
            group.nulls |= w.nulls
            group.places[place] = w
        return groups.values()


def plainly(leaf: Scan) -> Scan:
    """A leaf under its table's own names, each column once."""
    own = {f.source: Field(f.source, f.source, f.type) for f in leaf.fields}
    return replace(leaf, fields=tuple(own.values()))


@dataclass
class _Group:
    """The places of a plan that want rows of one table by one column."""

    leaf: Scan
    """With the fields that any of them wants."""
    column: str
    sources: Sources = frozenset()
    nulls: bool = False
    only: Texts = frozenset()
    in_change: bool = False
    """Whether only a change has such rows, by a foreign key."""
    places: dict[Scan, LookUp] = field(default_factory=dict)

    @property
    def question(self) -> object:
        """What is asked of whatever state."""
        return self.leaf.table, self.column, self.sources, self.nulls, self.only, self.in_change

    def chosen(self, rows: pa.Table) -> pa.Table:
        """Of some rows, those that have the texts."""
        for column, text in self.only:
            rows = rows.filter(pc.equal(rows[column], text))
        return rows

    @property
    def shape(self) -> Scan:
        """The leaf under its table's own names."""
        return plainly(self.leaf)

    def part(self, sizes: Sizes, count: float) -> float:
        """The part of the table that so many values are."""
        return count / sizes.values(self.shape, self.column)

    def filled(self, name: str | None) -> dict[Scan, Rel]:
        """What stands in the places: rows under a name, or none."""
        leaves = {place: wanted.leaf for place, wanted in self.places.items()}
        if name is None:
            return {place: Empty(leaf.columns) for place, leaf in leaves.items()}
        return {place: Scan(name, leaf.fields) for place, leaf in leaves.items()}
