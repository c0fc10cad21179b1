"""Updates through a view, applied to its tables; refused with their side effects named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from belvedere.errors import Invalid
from belvedere.lake.offline import ReadableLake
from belvedere.updating.apply.base_changes import Applying, Intent, Overtaken, Part, next_number
from belvedere.updating.reading import LakeSource
from belvedere.updating.request.view_updates import Update
from belvedere.updating.side_effects.check_update import checked
from belvedere.updating.side_effects.checks import Check, Checker, Mode, texted
from belvedere.updating.state import Held
from belvedere.updating.summary.base_tables import Base
from belvedere.updating.summary.domains import plain

ATTEMPTS = 3


@dataclass(frozen=True)
class Done:
    """What an update did: rows deleted and inserted in each table, and view rows besides."""

    tables: tuple[tuple[str, int, int], ...]
    extra: int
    at_least: bool = False
    """Whether there may be more of the latter."""
    rows: tuple[Mapping[str, Any], ...] = ()
    """Some of the latter."""


def done_through(
    lake: ReadableLake,
    applying: Applying,
    name: str,
    fresh: Callable[[], Held],
    update: Update,
    *,
    allowed: bool,
) -> Done:
    """Do an update, all or nothing; refused if it would do more than was asked, unless allowed.

    Its intent stays: the caller moves the view's vector, then forgets it.
    """
    for attempt in range(1, ATTEMPTS + 1):
        held = fresh()
        found, checker = checked(lake, held, update, Mode.AUTO)
        if found.possible != "yes" and not (allowed and found.translation is not None):
            raise refusal(found)
        assert checker is not None
        extra, at_least = _extra(checker, found)
        parts = _parts(lake, held, checker.filter.base, found)
        if not parts:
            return Done((), 0)
        intent = Intent(name, next_number(lake, name, held.shape.tables), parts)
        try:
            applying.apply(intent)
        except Overtaken:
            if attempt == ATTEMPTS:
                raise
            continue
        done = tuple((p.table, len(p.delete), len(p.insert)) for p in parts)
        return Done(done, extra, at_least, found.rows)
    raise Invalid("the tables change too fast", reason="CONCURRENT_CHANGE")


def _extra(checker: Checker, found: Check) -> tuple[int, bool]:
    """How many side effects an update has, and whether there may be more."""
    if found.translation is None or not found.at_least:
        return int(found.extra_rows), False
    counted = checker.extra(found.translation, found.asked)
    return (int(found.extra_rows), True) if counted is None else (counted, False)


def refusal(found: Check) -> Invalid:
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
    rows = "; ".join(f"({texted(r)})" for r in found.rows)
    which = "; ".join(f"{t} ({texted(r)})" for t, r in found.which)
    word = "could" if found.possible == "unknown" else "would"
    return Invalid(
        f"the update {word} change {count} that it does not name",
        detail=f"side effects: {rows}; through base rows: {which}",
        hint="WITH SIDE EFFECTS ALLOWED makes it anyway"
        if found.translation is not None
        else "nothing that was tried does all that was asked, with side effects or without",
        reason="SIDE_EFFECTS",
    )


def _parts(lake: ReadableLake, held: Held, base: Base, found: Check) -> tuple[Part, ...]:
    """What a translation does to each table: whole base rows, each copy."""
    assert found.translation is not None
    source = LakeSource(lake)
    translation = found.translation
    parts = []
    for table in sorted({*translation.changes.gone, *translation.new}):
        types = held.shape.used[table]
        gone = []
        for number in sorted(translation.changes.gone.get(table, ())):
            values = base.values(table, base.tables[table].row(number))
            gone += source.where(table, {c: plain(v, types[c]) for c, v in values.items()})
        new = tuple(translation.new.get(table, ()))
        if gone or new:
            parts.append(Part(table, held.vector[table].version, tuple(gone), new))
    return tuple(parts)
