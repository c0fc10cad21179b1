"""Look-ups of a refresh: which are worth it, and their rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa

from belvedere.algebra.relations import Empty, Field, Rel, Scan
from belvedere.analyses.sizes import Sizes
from belvedere.analyses.values import Sources
from belvedere.lake.lookup import can_look_up, look_up
from belvedere.lake.work import Work
from belvedere.rules.empties import without_empties
from belvedere.rules.lookups import LookUp, filled, look_ups
from belvedere.rules.outward import SMALL
from belvedere.views.held import Held
from belvedere.views.maintenance import Move

LARGE = 50_000
"""Rows of a table from which on it is not simply read."""
A_PART = 0.25
"""Of the values of a column, above which its table is as well read whole."""


@dataclass
class LookUps:
    """The look-ups of one refresh; `ran` gathers what was looked up."""

    work: Work
    held: Held
    ran: list[str]
    _values: dict[Sources, pa.Array] = field(default_factory=dict)
    _in_vain: set[LookUp] = field(default_factory=set)

    def made(self, way: Move) -> Move:
        """The way over rows that are looked up: those of the changes' keys, then of theirs."""
        while True:
            worth = partial(self._worth, Sizes(way.known))
            plan, wanted = look_ups(way.plan, self.held.has, worth)
            if not wanted:
                return way
            found: dict[Scan, Rel] = {}
            for group in _together(wanted):
                way = self._look_up(way, {place: wanted[place] for place in group}, found)
            way = replace(way, plan=without_empties(filled(plan, found)))

    def _worth(self, sizes: Sizes, wanted: LookUp) -> bool:
        leaf, column = wanted.leaf, wanted.column
        rows = sizes.rows(leaf)
        if not LARGE <= rows < float("inf") or wanted in self._in_vain:
            return False
        table, _ = self.held.tables.version(leaf)
        values = self._of(wanted.sources)
        if not (self.work.near and can_look_up(table, column, values.type)):
            return False
        name = next(f.name for f in leaf.fields if f.source == column)
        part = len(values) / sizes.values(leaf, name)
        return part <= A_PART and part * rows <= SMALL

    def _of(self, sources: Sources) -> pa.Array:
        if sources not in self._values:
            self._values[sources] = self.held.values(sources)
        return self._values[sources]

    def _look_up(self, way: Move, places: dict[Scan, LookUp], found: dict[Scan, Rel]) -> Move:
        """What some places of the plan want of one table by one column, read at once."""
        all_wanted = list(places.values())
        fields = {f.source: f for w in all_wanted for f in w.leaf.fields}
        leaf = replace(all_wanted[0].leaf, fields=tuple(fields.values()))
        column = all_wanted[0].column
        values = self._of(frozenset().union(*(w.sources for w in all_wanted)))
        table, version = self.held.tables.version(leaf)
        rows = look_up(
            table,
            version,
            list(fields),
            column,
            values,
            nulls=any(w.nulls for w in all_wanted),
            most=SMALL,
        )
        if rows is None:
            self._in_vain.update(all_wanted)
            found.update({place: wanted.leaf for place, wanted in places.items()})
            return way
        self.held.tables.opened.add((leaf.table, version))
        self.ran.append(
            f"-- {rows.num_rows} rows of {table.name} at version {version}, looked up"
            f" by {len(values)} values of {column}"
        )
        schema = self.work.empty((f.source, f.type) for f in leaf.fields).schema
        view = self.work.hold("rows", rows, schema)
        shape = replace(leaf, fields=tuple(Field(f.source, f.source, f.type) for f in leaf.fields))
        name, known = self.held.add(way.known, shape, rows, view)
        for place, wanted in places.items():
            some = Scan(name, wanted.leaf.fields)
            found[place] = some if rows.num_rows else Empty(some.columns)
        return replace(way, known=known)


def _together(wanted: dict[Scan, LookUp]) -> Iterable[list[Scan]]:
    """The places that want rows of the same table by the same column."""
    groups: dict[object, list[Scan]] = {}
    for place, w in wanted.items():
        groups.setdefault((w.leaf.table, w.leaf.at, w.column), []).append(place)
    return groups.values()
