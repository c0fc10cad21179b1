"""Extrema that stay: the minimum or maximum of all rows, when rows go that did not hold it.

Let m be the minimum that is stored, c the least value that came and g the least that went, net of
what cancels. Then, as long as one of them holds,

    c ≤ m    the minimum is c: it is there now, and nothing was less
    g > m    the minimum is m or c: whatever held m is still there

the change is merged and nothing else is read. Otherwise the extremum may be lost (LOST_EXTREMUM).
Then all values are m or more. If x, of which it is the minimum, is a column of one table T, the
next one is the least x that the plan has over the first rows of T by x, from m on, if there is one
among them: a few thousand are tried (rule U5). Only else are all rows gone through. Of a maximum,
the other way round.

Only for aggregates without a key: they would be computed from everything, where touched groups
are not. And only in memory: what Spark must compute it may as well compute once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.algebra.relations import (
    Agg,
    Aggregate,
    Change,
    Empty,
    Field,
    Output,
    Project,
    Rel,
    Scan,
)
from belvedere.algebra.scalars import Scalar, col
from belvedere.analyses.sizes import Statistics
from belvedere.analyses.types import Types
from belvedere.delta.first_rows import foremost
from belvedere.execution.in_memory import MOST, Held
from belvedere.execution.lookups import LookUps, plainly
from belvedere.memory.declined import Declined
from belvedere.memory.plans import Memory, Rows, netted
from belvedere.rules.delta import Delta
from belvedere.rules.lookups import leaf_of, onto
from belvedere.sql.render import SIGN
from belvedere.views.maintenance import Move, additive, turned
from belvedere.views.state import Combine, Grouped, Part, physical

TRIED = (1000, 30_000)
"""Rows among which the next extremum is looked for, at first and then."""
_NEXT = "__next"

FindNext = Callable[[Part, Any], Any]
"""The extremum after one that was lost; None if it is not found."""


def values_that_move(
    state: Grouped, moving: Collection[str], types: Types, known: Statistics
) -> Move:
    """The way to the values that an aggregate gains and loses, signed, and to what is written."""
    outputs = tuple(Output(name, value) for value, name in _arguments(state).items())
    change = Project(Delta(moving, types).of(state.child), outputs)
    merge = additive(state, moving, types, known).merge
    return Move(turned(change, moving, known), merge, known)


@dataclass(frozen=True)
class Kept:
    """The row to merge into the one that is stored."""

    row: pa.Table
    anew: frozenset[str] = frozenset()
    """Columns that were found anew, and are not joined with what is stored."""


def kept(state: Grouped, change: Rows, stored: pa.Table, find_next: FindNext) -> Kept | None:
    """What to merge; None if an extremum may be lost, and no other one was found."""
    try:
        return _kept(state, change, stored, find_next)
    except Declined:
        return None


def _kept(state: Grouped, change: Rows, stored: pa.Table, find_next: FindNext) -> Kept | None:
    # Rows without signs all came, each as often as it is there.
    net, counts = netted(change.with_signs(change.signs), tuple(change.types))
    rows = net.with_signs(None)
    came, gone = (_of(state, rows.where(pa.array(some)), None) for some in (counts > 0, counts < 0))
    gained = _of(state, rows, counts)
    names, row, anew = physical(state), dict[str, pa.ChunkedArray](), set[str]()
    for part in state.parts:
        name = part.agg.name
        if part.combine is Combine.ADD:
            row[names[name]] = gained.table[name]
            continue
        kind = stored.schema.field(names[name]).type
        held = _named(stored[names[name]][0])
        new, old = (_named(side.table[name].cast(kind)[0]) for side in (came, gone))
        if _lost(part.combine, held, new, old):
            # What went was never beyond it, unless the stored row is not what its vector says.
            new = find_next(part, held) if held is not None and old == held else None
            if new is None:
                return None
            anew.add(names[name])
        row[names[name]] = pa.chunked_array([pa.array([new], kind)])
    return Kept(pa.table(row), frozenset(anew))


def _named(value: pa.Scalar) -> Any:
    """A value in Python, which has no name for days after the year 9999."""
    try:
        return value.as_py()
    except (OverflowError, ValueError) as error:
        raise Declined(str(error)) from error


@dataclass(frozen=True)
class Next:
    """Finds the next extremum in the new state of what is aggregated (U5)."""

    state: Grouped
    moving: Collection[str]
    types: Types
    way: Move
    """That of the change; what is known is known for this one, too."""
    look_ups: LookUps

    def __call__(self, part: Part, lost: Any) -> Any:
        child = Delta(self.moving, self.types).new(self.state.child)
        column = part.agg.args[0].column
        at = leaf_of(child, column) if column else None
        if column is None or at is None or not self.look_ups.work.near:
            return None
        least = part.combine is Combine.LEAST
        leaf, source = at
        for rows in self._first(leaf, source, lost, least=least):
            values = self._values(child, column, leaf, rows)
            found = None if values is None else _named((pc.min if least else pc.max)(values))
            if found is not None or values is None:
                return found
        return None

    def _first(self, leaf: Scan, source: str, lost: Any, *, least: bool) -> Iterator[pa.Table]:
        """The first rows of a table from a value on: a few, then more, as long as there are any."""
        table, version = self.look_ups.held.tables.version(leaf)
        columns = plainly(leaf).columns
        for count in TRIED:
            rows = foremost(table, version, columns, source, lost, count, least=least)
            if rows is None or not rows.num_rows:
                return
            self.look_ups.held.tables.opened.add((leaf.table, version))
            which = f"the first by {source} from {lost} on"
            of = f"{table.name} at version {version}"
            self.look_ups.ran.append(f"-- {rows.num_rows} rows of {of}: {which}")
            yield rows
            if rows.num_rows < count:
                return

    def _values(self, child: Rel, column: str, leaf: Scan, rows: pa.Table) -> pa.Array | None:
        """A column of the plan over some rows of a table; None if Spark must compute it."""
        before = self.look_ups.held
        held = Held(before.tables, before.changes, before.types)
        look_ups = LookUps(self.look_ups.work, held, self.look_ups.ran)
        shape = plainly(leaf)
        types = {f.name: f.type for f in shape.fields}
        name, known = held.add(self.way.known, shape, Rows(rows, types))
        plan = onto(child, column, Scan(name, leaf.fields))
        plan = turned(Project(plan, (Output(_NEXT, col(column)),)), self.moving, known)
        made = look_ups.made(replace(self.way, plan=plan, known=known)).plan
        if isinstance(made, Empty):
            return pa.array([], pa.null())
        found = held.result(made)
        return None if found is None else found.table[_NEXT]


def _lost(combine: Combine, held: Any, came: Any, gone: Any) -> bool:
    """Whether an extremum may not be there any more, nor a better one have come."""
    if gone is None:
        return False
    if held is None:
        return True
    if combine is Combine.LEAST:
        return not (gone > held or (came is not None and came <= held))
    return not (gone < held or (came is not None and came >= held))


def _of(state: Grouped, rows: Rows, counts: Any | None) -> Rows:
    """The parts of an aggregate over rows; of signed ones those that add, of others the extrema."""
    fields = tuple(Field(c, c, kind) for c, kind in rows.types.items())
    table = rows.table if counts is None else rows.table.append_column(SIGN, [counts])
    leaf: Rel = Scan("rows", fields) if counts is None else Change("rows", fields)
    adds = counts is not None
    parts = [p for p in state.parts if (p.combine is Combine.ADD) == adds]
    aggregates = tuple(_over(p.agg, _arguments(state)) for p in parts)
    return Memory(lambda _: table, MOST).rows(Aggregate(leaf, (), aggregates))


def _over(agg: Agg, names: dict[Scalar, str]) -> Agg:
    """An aggregate over the columns that its arguments were put into."""
    return replace(agg, args=tuple(col(names[a]) for a in agg.args))


def _arguments(state: Grouped) -> dict[Scalar, str]:
    """What the parts of an aggregate are computed from, each once under a name."""
    every = dict.fromkeys(a for p in state.parts for a in p.agg.args)
    return {value: f"__a{number}" for number, value in enumerate(every, start=1)}
