"""Whether a view row can be inserted, as the rules of the tables and then a summary in tables say."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from belvedere.lake.offline import ReadableLake
from belvedere.memory import kinds
from belvedere.updating.reading import LakeRowFinder, LakeRowSource
from belvedere.updating.request.view_rows import ViewRow
from belvedere.updating.side_effects.checks import (
    UpdateCheck,
    already_there_error,
    check_from_constraint,
    check_from_estimate,
)
from belvedere.updating.side_effects.fast_check import SegmentRules
from belvedere.updating.side_effects.in_memory import shown_held_columns
from belvedere.updating.side_effects.lake_rules import table_rules
from belvedere.updating.side_effects.neighbours import segment_exists
from belvedere.updating.state import UpdatableState
from belvedere.updating.summary.base_tables import BaseTables, held_columns
from belvedere.updating.summary.estimate import InsertionEstimate
from belvedere.updating.summary.in_tables.summary import StoredSummary
from belvedere.updating.summary.loading import load_base
from belvedere.updating.translate.translator import TranslationRequest


def check_by_summary(
    lake: ReadableLake, held: UpdatableState, tabled: StoredSummary, row: ViewRow
) -> UpdateCheck:
    """What the rules of the tables, and then a summary in tables, say of an insertion."""
    rules = {t: table_rules(lake, t) for t in held.shape.tables}
    request = TranslationRequest(_empty_base(held), rules, LakeRowSource(lake), (), (row,))
    there = existing_segments(lake, held, row)
    if all(there) and _shows_stored_contents(request, row):
        raise already_there_error(row)
    broken = SegmentRules(request).refused([request.coder.known(p, row) for p in range(len(there))])
    if broken is not None:
        return check_from_constraint(broken)
    return check_from_estimate(estimate_by_summary(held, tabled, row, there))


def existing_segments(lake: ReadableLake, held: UpdatableState, row: ViewRow) -> list[bool]:
    """Which segments of a view row the tables have, as far as a summary knows them."""
    shape, columns = held.shape, held_columns(held.shape, held.keys)
    finder = LakeRowFinder(lake, shape, held.vector)
    places = range(len(shape.positions))
    return [segment_exists(shape, p, columns, finder, row.told_of(shape, p)) for p in places]


def estimate_by_summary(
    held: UpdatableState, tabled: StoredSummary, row: ViewRow, there: Sequence[bool]
) -> InsertionEstimate:
    """What a summary in tables says of an insertion."""
    tree, columns = held.tree, held_columns(held.shape, held.keys)
    tells = [row.told_of(held.shape, p) for p in range(len(there))]
    keys = {(p, e): tuple(tells[p][c] for c in tree.columns(p, e)) for p, e in tree.directed_edges}
    known = {at: None if None in key else key for at, key in keys.items()}
    held_of = [columns[at.table] for at in held.shape.positions]
    rows = [tuple(tells[p][c] for c in held_of[p]) if there[p] else None for p in range(len(there))]
    return tabled.estimate(known, rows)


def _empty_base(held: UpdatableState) -> BaseTables:
    """The tables of a view as if they had no rows."""
    types = {t: {c: kinds.arrow(k) for c, k in used.items()} for t, used in held.shape.used.items()}
    empty = {t: pa.schema(columns).empty_table() for t, columns in types.items()}
    return load_base(held.tree, held_columns(held.shape, held.keys), empty)


def _shows_stored_contents(request: TranslationRequest, row: ViewRow) -> bool:
    """Whether a view row shows the contents that stored rows of its keys have."""
    return not any(request.coder.signature(row)[len(shown_held_columns(request.base)) :])
