"""Extrema that stay: the minimum or maximum of all rows, when rows go that did not hold it.

Let m be the minimum that is stored, c the least value that came and g the least that went, net of
what cancels. Then, as long as one of them holds,

    c ≤ m    the minimum is c: it is there now, and nothing was less
    g > m    the minimum is m or c: whatever held m is still there

the change is merged and nothing else is read. Otherwise the extremum may be lost (LOST_EXTREMUM)
and all rows are gone through. Of a maximum, the other way round.

Only for aggregates without a key: they would be computed from everything, where touched groups
are not. And only in memory: what Spark must compute it may as well compute once.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pyarrow as pa

from belvedere.algebra.relations import Agg, Aggregate, Change, Field, Output, Project, Rel, Scan
from belvedere.algebra.scalars import Scalar, col
from belvedere.analyses.sizes import Statistics
from belvedere.analyses.types import Types
from belvedere.memory.declined import Declined
from belvedere.memory.plans import Memory, Rows, netted
from belvedere.rules.delta import Delta
from belvedere.sql.render import SIGN
from belvedere.views.held import MOST
from belvedere.views.maintenance import Move, additive, turned
from belvedere.views.state import Combine, Grouped, physical


def values_that_move(
    state: Grouped, moving: Collection[str], types: Types, known: Statistics
) -> Move:
    """The way to the values that an aggregate gains and loses, signed, and to what is written."""
    outputs = tuple(Output(name, value) for value, name in _arguments(state).items())
    change = Project(Delta(moving, types).of(state.child), outputs)
    merge = additive(state, moving, types, known).merge
    return Move(turned(change, moving, known), merge, known)


def kept(state: Grouped, change: Rows, stored: pa.Table) -> pa.Table | None:
    """The row to merge into the one that is stored; None if an extremum may be lost."""
    try:
        net, counts = netted(change, tuple(change.types))
        rows = net.with_signs(None)
        came, gone = (
            _of(state, rows.where(pa.array(some)), None) for some in (counts > 0, counts < 0)
        )
        gained = _of(state, rows, counts)
    except Declined:
        return None
    names, row = physical(state), dict[str, pa.ChunkedArray]()
    for part in state.parts:
        name = part.agg.name
        if part.combine is Combine.ADD:
            row[names[name]] = gained.table[name]
            continue
        kind = stored.schema.field(names[name]).type
        new, old = (side.table[name].cast(kind)[0].as_py() for side in (came, gone))
        if _lost(part.combine, stored[names[name]][0].as_py(), new, old):
            return None
        row[names[name]] = came.table[name].cast(kind)
    return pa.table(row)


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
