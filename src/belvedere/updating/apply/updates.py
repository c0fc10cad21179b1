"""Apply updates of a view to its base tables, or refuse them with their side effects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from belvedere.errors import Invalid
from belvedere.lake.offline import ReadableLake
from belvedere.updating.apply.base_changes import (
    Intent,
    TableChanged,
    TableCommit,
    UpdateApplier,
    next_number,
)
from belvedere.updating.reading import LakeRowSource
from belvedere.updating.request.view_updates import ViewUpdate
from belvedere.updating.side_effects.check_update import check_update
from belvedere.updating.side_effects.checks import CheckMode, UpdateCheck, UpdateChecker, row_text
from belvedere.updating.state import UpdatableState
from belvedere.updating.summary.base_tables import BaseTables
from belvedere.updating.summary.domains import denormalize

ATTEMPTS = 3


@dataclass(frozen=True)
class AppliedUpdate:
    """The result of an update: rows deleted and inserted in each table, and its side effects."""

    tables: tuple[tuple[str, int, int], ...]
    extra: int
    at_least: bool = False
    """Whether there may be more side effects than `extra`."""
    rows: tuple[Mapping[str, Any], ...] = ()
    """Some of the side effects."""


def apply_update(
    lake: ReadableLake,
    applying: UpdateApplier,
    name: str,
    fresh: Callable[[], UpdatableState],
    update: ViewUpdate,
    *,
    allowed: bool,
) -> AppliedUpdate:
    """Apply an update, all or nothing; refuse it if it has side effects, unless they are allowed.

    The intent stays: the caller moves the view's vector, then removes the intent.
    """
    for attempt in range(1, ATTEMPTS + 1):
        state = fresh()
        check, checker = check_update(lake, state, update, CheckMode.AUTO)
        if check.possible != "yes" and not (allowed and check.translation is not None):
            raise refusal_error(check)
        assert checker is not None
        extra, at_least = _count_side_effects(checker, check)
        commits = _table_commits(lake, state, checker.filter.base, check)
        if not commits:
            return AppliedUpdate((), 0)
        intent = Intent(name, next_number(lake, name, state.shape.tables), commits)
        try:
            applying.apply(intent)
        except TableChanged:
            if attempt == ATTEMPTS:
                raise
            continue
        done = tuple((p.table, len(p.delete), len(p.insert)) for p in commits)
        return AppliedUpdate(done, extra, at_least, check.rows)
    raise Invalid("the tables change too fast", reason="CONCURRENT_CHANGE")


def _count_side_effects(checker: UpdateChecker, check: UpdateCheck) -> tuple[int, bool]:
    """The number of side effects, and whether it is a lower bound."""
    if check.translation is None or not check.at_least:
        return int(check.extra_rows), False
    counted = checker.extra(check.translation, check.asked)
    return (int(check.extra_rows), True) if counted is None else (counted, False)


def refusal_error(check: UpdateCheck) -> Invalid:
    """The error for an update that has side effects or breaks a constraint."""
    if check.reason and not check.rows:
        unknown = check.possible == "unknown"
        summary = "no way to make the update was found" if unknown else "the update cannot be made"
        return Invalid(
            f"{summary}: {check.reason}",
            hint="use EXPLAIN or lake.check for details, or write the base tables",
            reason="NOT_TRANSLATABLE",
        )
    plural = "" if check.extra_rows == 1 and not check.at_least else "s"
    count = f"{'at least ' if check.at_least else ''}{check.extra_rows:g} view row{plural}"
    rows = "; ".join(f"({row_text(r)})" for r in check.rows)
    base_rows = "; ".join(f"{t} ({row_text(r)})" for t, r in check.which)
    verb = "could" if check.possible == "unknown" else "would"
    return Invalid(
        f"the update {verb} change {count} that it does not name",
        detail=f"side effects: {rows}; through base rows: {base_rows}",
        hint="add WITH SIDE EFFECTS ALLOWED to apply it anyway"
        if check.translation is not None
        else "nothing that was tried does all that was asked, with side effects or without",
        reason="SIDE_EFFECTS",
    )


def _table_commits(
    lake: ReadableLake, state: UpdatableState, base: BaseTables, check: UpdateCheck
) -> tuple[TableCommit, ...]:
    """The commit of each table that a translation touches: whole base rows, every copy."""
    assert check.translation is not None
    source = LakeRowSource(lake)
    translation = check.translation
    commits = []
    for table in sorted({*translation.changes.gone, *translation.new}):
        types = state.shape.used[table]
        deleted = []
        for number in sorted(translation.changes.gone.get(table, ())):
            values = base.values(table, base.tables[table].row(number))
            deleted += source.where(table, {c: denormalize(v, types[c]) for c, v in values.items()})
        inserted = tuple(translation.new.get(table, ()))
        if deleted or inserted:
            commits.append(
                TableCommit(table, state.vector[table].version, tuple(deleted), inserted)
            )
    return tuple(commits)
