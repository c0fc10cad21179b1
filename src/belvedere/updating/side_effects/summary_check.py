"""One insertion checked by the rules of the tables, then estimated from a summary in tables."""

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
from belvedere.updating.translate.translation_request import TranslationRequest


def check_by_summary(
    lake: ReadableLake, state: UpdatableState, tabled: StoredSummary, row: ViewRow
) -> UpdateCheck:
    """The answer of the tables' rules, then of a summary in tables, for one insertion."""
    rules = {t: table_rules(lake, t) for t in state.shape.tables}
    request = TranslationRequest(_empty_base(state), rules, LakeRowSource(lake), (), (row,))
    existing = existing_segments(lake, state, row)
    if all(existing) and _shows_stored_contents(request, row):
        raise already_there_error(row)
    broken = SegmentRules(request).refused(
        [request.coder.shown_values(p, row) for p in range(len(existing))]
    )
    if broken is not None:
        return check_from_constraint(broken)
    return check_from_estimate(estimate_by_summary(state, tabled, row, existing))


def existing_segments(lake: ReadableLake, state: UpdatableState, row: ViewRow) -> list[bool]:
    """For each segment of a view row, whether its table has it."""
    shape, columns = state.shape, held_columns(state.shape, state.keys)
    finder = LakeRowFinder(lake, shape, state.vector)
    positions = range(len(shape.positions))
    return [segment_exists(shape, p, columns, finder, row.values_at(shape, p)) for p in positions]


def estimate_by_summary(
    state: UpdatableState, tabled: StoredSummary, row: ViewRow, existing: Sequence[bool]
) -> InsertionEstimate:
    """The estimate of a summary in tables for one insertion."""
    tree, columns = state.tree, held_columns(state.shape, state.keys)
    segments = [row.values_at(state.shape, p) for p in range(len(existing))]
    keys = {
        (p, e): tuple(segments[p][c] for c in tree.columns(p, e)) for p, e in tree.directed_edges
    }
    non_null_keys = {at: None if None in key else key for at, key in keys.items()}
    held_of = [columns[at.table] for at in state.shape.positions]
    rows = [
        tuple(segments[p][c] for c in held_of[p]) if existing[p] else None
        for p in range(len(existing))
    ]
    return tabled.estimate(non_null_keys, rows)


def _empty_base(state: UpdatableState) -> BaseTables:
    """The base of a view with empty tables."""
    types = {
        t: {c: kinds.arrow(k) for c, k in used.items()} for t, used in state.shape.used.items()
    }
    empty = {t: pa.schema(columns).empty_table() for t, columns in types.items()}
    return load_base(state.tree, held_columns(state.shape, state.keys), empty)


def _shows_stored_contents(request: TranslationRequest, row: ViewRow) -> bool:
    """Whether the view row agrees with the stored rows of its keys in every shown column."""
    return not any(request.coder.signature(row)[len(shown_held_columns(request.base)) :])
