"""Updates through a view, applied to its tables; refused with their side effects named."""

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
    """What an update did: rows deleted and inserted in each table, and view rows besides."""

    tables: tuple[tuple[str, int, int], ...]
    extra: int
    at_least: bool = False
    """Whether there may be more of the latter."""
    rows: tuple[Mapping[str, Any], ...] = ()
    """Some of the latter."""


def apply_update(
    lake: ReadableLake,
    applying: UpdateApplier,
    name: str,
    fresh: Callable[[], UpdatableState],
    update: ViewUpdate,
    *,
    allowed: bool,
) -> AppliedUpdate:
    """Do an update, all or nothing; refused if it would do more than was asked, unless allowed.

    Its intent stays: the caller moves the view's vector, then forgets it.
    """
    for attempt in range(1, ATTEMPTS + 1):
        held = fresh()
        found, checker = check_update(lake, held, update, CheckMode.AUTO)
        if found.possible != "yes" and not (allowed and found.translation is not None):
            raise refusal_error(found)
        assert checker is not None
        extra, at_least = _count_side_effects(checker, found)
        parts = _table_commits(lake, held, checker.filter.base, found)
        if not parts:
            return AppliedUpdate((), 0)
        intent = Intent(name, next_number(lake, name, held.shape.tables), parts)
        try:
            applying.apply(intent)
        except TableChanged:
            if attempt == ATTEMPTS:
                raise
            continue
        done = tuple((p.table, len(p.delete), len(p.insert)) for p in parts)
        return AppliedUpdate(done, extra, at_least, found.rows)
    raise Invalid("the tables change too fast", reason="CONCURRENT_CHANGE")


def _count_side_effects(checker: UpdateChecker, found: UpdateCheck) -> tuple[int, bool]:
    """How many side effects an update has, and whether there may be more."""
    if found.translation is None or not found.at_least:
        return int(found.extra_rows), False
    counted = checker.extra(found.translation, found.asked)
    return (int(found.extra_rows), True) if counted is None else (counted, False)


def refusal_error(found: UpdateCheck) -> Invalid:
    """The error of an update that would do more than was asked, or break a constraint."""
    if found.reason and not found.rows:
        unknown = found.possible == "unknown"
        known = "no way to make the update was found" if unknown else "the update cannot be made"
        return Invalid(
            f"{known}: {found.reason}",
            hint="EXPLAIN, or lake.check, tells more; base tables can be written directly",
            reason="NOT_TRANSLATABLE",
        )
    many = "" if found.extra_rows == 1 and not found.at_least else "s"
    count = f"{'at least ' if found.at_least else ''}{found.extra_rows:g} view row{many}"
    rows = "; ".join(f"({row_text(r)})" for r in found.rows)
    which = "; ".join(f"{t} ({row_text(r)})" for t, r in found.which)
    word = "could" if found.possible == "unknown" else "would"
    return Invalid(
        f"the update {word} change {count} that it does not name",
        detail=f"side effects: {rows}; through base rows: {which}",
        hint="WITH SIDE EFFECTS ALLOWED makes it anyway"
        if found.translation is not None
        else "nothing that was tried does all that was asked, with side effects or without",
        reason="SIDE_EFFECTS",
    )


def _table_commits(
    lake: ReadableLake, held: UpdatableState, base: BaseTables, found: UpdateCheck
) -> tuple[TableCommit, ...]:
    """What a translation does to each table: whole base rows, each copy."""
    assert found.translation is not None
    source = LakeRowSource(lake)
    translation = found.translation
    parts = []
    for table in sorted({*translation.changes.gone, *translation.new}):
        types = held.shape.used[table]
        gone = []
        for number in sorted(translation.changes.gone.get(table, ())):
            values = base.values(table, base.tables[table].row(number))
            gone += source.where(table, {c: denormalize(v, types[c]) for c, v in values.items()})
        new = tuple(translation.new.get(table, ()))
        if gone or new:
            parts.append(TableCommit(table, held.vector[table].version, tuple(gone), new))
    return tuple(parts)
