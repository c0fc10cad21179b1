"""Whether an update of a view can be done as asked, on a lake: rows, rules and engine brought together."""

from __future__ import annotations

from collections.abc import Sequence

from belvedere.errors import Invalid
from belvedere.lake.offline import ReadableLake
from belvedere.updating.reading import LakeFinder, LakeSource
from belvedere.updating.request.view_rows import ViewRow
from belvedere.updating.request.view_updates import Update, typed_rows
from belvedere.updating.side_effects.checks import Check, Checker, Mode
from belvedere.updating.side_effects.in_memory import TooMuch
from belvedere.updating.side_effects.lake_rules import referring_rules, table_rules
from belvedere.updating.side_effects.neighbours import near
from belvedere.updating.side_effects.spark_engine import engine_of
from belvedere.updating.side_effects.summary_check import estimated
from belvedere.updating.state import Held
from belvedere.updating.summary.base_tables import held_columns
from belvedere.updating.summary.filter import Lookups


def run_check(lake: ReadableLake, held: Held, update: Update, mode: str) -> Check:
    """Whether an update can be done as asked."""
    try:
        chosen = Mode(str(mode).upper())
    except ValueError:
        listed = ", ".join(m.value for m in Mode)
        hint = f"the modes are {listed}"
        raise Invalid(f"no mode {mode!r}", hint=hint, reason="MODE") from None
    return checked(lake, held, update, chosen)[0]


def checked(
    lake: ReadableLake, held: Held, update: Update, mode: Mode
) -> tuple[Check, Checker | None]:
    """Whether an update can be done as asked, and who found out; nobody if rows are too many."""
    delete, insert = (typed_rows(held.shape, rows) for rows in (update.delete, update.insert))
    if mode is Mode.FAST and held.tabled is not None and len(insert) == 1 and not delete:
        return estimated(lake, held, held.tabled, insert[0]), None
    try:
        lookups = held.rows or rows_beside(lake, held, delete, insert)
    except TooMuch as much:
        return Check("unknown", 0, how="lookups in the tables", reason=much.message), None
    rules = {t: table_rules(lake, t) for t in held.shape.tables}
    if update.delete:
        rules |= referring_rules(lake, held.shape.tables)
    engine = engine_of(lake, held.vector)
    checker = Checker(lookups, rules, LakeSource(lake), engine=engine)
    return checker.check(delete, insert, mode, update.instead), checker


def rows_beside(
    lake: ReadableLake, held: Held, delete: Sequence[ViewRow], insert: Sequence[ViewRow]
) -> Lookups:
    """What a view whose rows stay in the tables needs of them for some view rows."""
    finder = LakeFinder(lake, held.shape, held.vector)
    columns = held_columns(held.shape, held.keys)
    return near(held.tree, columns, held.keys, finder, delete, insert)
