"""Check an update of a view on a lake: find its rows, the rules of its tables, and an engine for large joins."""

from __future__ import annotations

from collections.abc import Sequence

from belvedere.errors import Invalid
from belvedere.lake.offline import ReadableLake
from belvedere.updating.reading import LakeRowFinder, LakeRowSource
from belvedere.updating.request.view_rows import ViewRow
from belvedere.updating.request.view_updates import ViewUpdate, typed_rows
from belvedere.updating.side_effects.checks import CheckMode, UpdateCheck, UpdateChecker
from belvedere.updating.side_effects.in_memory import TooManyJoins
from belvedere.updating.side_effects.lake_rules import referring_rules, table_rules
from belvedere.updating.side_effects.neighbours import load_neighbours
from belvedere.updating.side_effects.spark_engine import join_engine
from belvedere.updating.side_effects.summary_check import check_by_summary
from belvedere.updating.state import UpdatableState
from belvedere.updating.summary.base_tables import held_columns
from belvedere.updating.summary.filter import RowLookups


def check_in_mode(
    lake: ReadableLake, state: UpdatableState, update: ViewUpdate, mode: str
) -> UpdateCheck:
    """Whether an update can be done as asked, in a mode given by name."""
    try:
        chosen = CheckMode(str(mode).upper())
    except ValueError:
        listed = ", ".join(m.value for m in CheckMode)
        hint = f"the modes are {listed}"
        raise Invalid(f"no mode {mode!r}", hint=hint, reason="MODE") from None
    return check_update(lake, state, update, chosen)[0]


def check_update(
    lake: ReadableLake, state: UpdatableState, update: ViewUpdate, mode: CheckMode
) -> tuple[UpdateCheck, UpdateChecker | None]:
    """Whether an update can be done as asked, with the checker; None if there are too many rows to check."""
    delete, insert = (typed_rows(state.shape, rows) for rows in (update.delete, update.insert))
    if mode is CheckMode.FAST and state.tabled is not None and len(insert) == 1 and not delete:
        return check_by_summary(lake, state, state.tabled, insert[0]), None
    try:
        lookups = state.rows or neighbouring_rows(lake, state, delete, insert)
    except TooManyJoins as error:
        return UpdateCheck("unknown", 0, how="lookups in the tables", reason=error.message), None
    rules = {t: table_rules(lake, t) for t in state.shape.tables}
    if update.delete:
        rules |= referring_rules(lake, state.shape.tables)
    engine = join_engine(lake, state.vector)
    checker = UpdateChecker(lookups, rules, LakeRowSource(lake), engine=engine)
    return checker.check(delete, insert, mode, update.replaces), checker


def neighbouring_rows(
    lake: ReadableLake, state: UpdatableState, delete: Sequence[ViewRow], insert: Sequence[ViewRow]
) -> RowLookups:
    """The rows that a request needs of a view whose rows stay in the tables."""
    finder = LakeRowFinder(lake, state.shape, state.vector)
    columns = held_columns(state.shape, state.keys)
    return load_neighbours(state.tree, columns, state.keys, finder, delete, insert)
