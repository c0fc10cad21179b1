"""Whether a view row can be inserted, as the rules of the tables and then a summary in tables say."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from belvedere.lake.offline import ReadableLake
from belvedere.memory import kinds
from belvedere.updating.reading import LakeFinder, LakeSource
from belvedere.updating.request.view_rows import ViewRow
from belvedere.updating.side_effects.checks import Check, already_there, fast, refused_by_rules
from belvedere.updating.side_effects.fast_check import Rules
from belvedere.updating.side_effects.in_memory import told
from belvedere.updating.side_effects.lake_rules import table_rules
from belvedere.updating.side_effects.neighbours import is_there
from belvedere.updating.state import Held
from belvedere.updating.summary.base_tables import Base, held_columns
from belvedere.updating.summary.estimate import Estimate
from belvedere.updating.summary.in_tables.summary import Tabled
from belvedere.updating.summary.loading import load
from belvedere.updating.translate.translator import Request


def estimated(lake: ReadableLake, held: Held, tabled: Tabled, row: ViewRow) -> Check:
    """What the rules of the tables, and then a summary in tables, say of an insertion."""
    rules = {t: table_rules(lake, t) for t in held.shape.tables}
    request = Request(_no_rows(held), rules, LakeSource(lake), (), (row,))
    there = segments_there(lake, held, row)
    if all(there) and _shows_stored(request, row):
        raise already_there(row)
    broken = Rules(request).refused([request.coder.known(p, row) for p in range(len(there))])
    if broken is not None:
        return refused_by_rules(broken)
    return fast(estimate_in_tables(held, tabled, row, there))


def segments_there(lake: ReadableLake, held: Held, row: ViewRow) -> list[bool]:
    """Which segments of a view row the tables have, as far as a summary knows them."""
    shape, columns = held.shape, held_columns(held.shape, held.keys)
    finder = LakeFinder(lake, shape, held.vector)
    places = range(len(shape.positions))
    return [is_there(shape, p, columns, finder, row.told_of(shape, p)) for p in places]


def estimate_in_tables(held: Held, tabled: Tabled, row: ViewRow, there: Sequence[bool]) -> Estimate:
    """What a summary in tables says of an insertion."""
    tree, columns = held.tree, held_columns(held.shape, held.keys)
    tells = [row.told_of(held.shape, p) for p in range(len(there))]
    keys = {(p, e): tuple(tells[p][c] for c in tree.columns(p, e)) for p, e in tree.directed_edges}
    known = {at: None if None in key else key for at, key in keys.items()}
    held_of = [columns[at.table] for at in held.shape.positions]
    rows = [tuple(tells[p][c] for c in held_of[p]) if there[p] else None for p in range(len(there))]
    return tabled.estimate(known, rows)


def _no_rows(held: Held) -> Base:
    """The tables of a view as if they had no rows."""
    types = {t: {c: kinds.arrow(k) for c, k in used.items()} for t, used in held.shape.used.items()}
    empty = {t: pa.schema(columns).empty_table() for t, columns in types.items()}
    return load(held.tree, held_columns(held.shape, held.keys), empty)


def _shows_stored(request: Request, row: ViewRow) -> bool:
    """Whether a view row shows the contents that stored rows of its keys have."""
    return not any(request.coder.signature(row)[len(told(request.base)) :])
