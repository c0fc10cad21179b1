"""Updates through a view: checked, translated, applied, and refused with their side effects named."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from belvedere.delta.delta_rs import open_table
from belvedere.errors import BelvedereError, Invalid
from belvedere.joins.normal_form import Place, Shape
from belvedere.lake.capabilities import reads_files
from belvedere.lake.offline import ReadableLake
from belvedere.lake.tables.declared_keys import foreign_keys
from belvedere.memory import kinds
from belvedere.sql.names import quote
from belvedere.updating.apply.base_changes import Applying, Intent, Overtaken, Part, next_number
from belvedere.updating.reading import LakeFinder, LakeSource
from belvedere.updating.request.view_rows import ViewRow
from belvedere.updating.side_effects.checks import (
    Check,
    Checker,
    Mode,
    already_there,
    fast,
    refused_by_rules,
    texted,
)
from belvedere.updating.side_effects.fast_check import Rules
from belvedere.updating.side_effects.in_memory import TooMuch, told
from belvedere.updating.side_effects.neighbours import is_there, near
from belvedere.updating.side_effects.spark_engine import checks_by, engine_of
from belvedere.updating.state import Held, shown_columns
from belvedere.updating.summary.base_tables import Base, held_columns
from belvedere.updating.summary.domains import plain
from belvedere.updating.summary.estimate import Estimate
from belvedere.updating.summary.filter import Lookups
from belvedere.updating.summary.in_tables.summary import Tabled
from belvedere.updating.summary.loading import load
from belvedere.updating.translate.constraints import TableRules, rules_of
from belvedere.updating.translate.translator import Request
from belvedere.views.catalog import canonical_name, is_view

ATTEMPTS = 3


@dataclass(frozen=True)
class Update:
    """View rows to delete and to insert, all together."""

    delete: tuple[Mapping[str, Any], ...] = ()
    insert: tuple[Mapping[str, Any], ...] = ()
    replaced: int = 0
    """Of how many rows, the last of both, each to insert replaces the one to delete at its place."""

    @property
    def instead(self) -> dict[int, int]:
        """For rows to insert that replace one: which of those to delete."""
        first, last = len(self.insert) - self.replaced, len(self.delete) - self.replaced
        return {first + i: last + i for i in range(self.replaced)}

    @staticmethod
    def of(insert: Any, delete: Any, update: Any) -> Update:
        """An update as a user gives it: rows, lists of rows, a pair of old and new."""
        old, new = _pair(update) if update is not None else ((), ())
        going, coming = _rows(old), _rows(new)
        pairs = len(coming) if len(going) == len(coming) else 0
        found = Update((*_rows(delete), *going), (*_rows(insert), *coming), pairs)
        if not found.delete and not found.insert:
            hint = "give insert=, delete= or update="
            raise Invalid("nothing was asked for", hint=hint, reason="ROWS")
        return found


@dataclass(frozen=True)
class Done:
    """What an update did: rows deleted and inserted in each table, and view rows besides."""

    tables: tuple[tuple[str, int, int], ...]
    extra: int
    at_least: bool = False
    """Whether there may be more of the latter."""
    rows: tuple[Mapping[str, Any], ...] = ()
    """Some of the latter."""


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
    delete, insert = (typed_rows(held, rows) for rows in (update.delete, update.insert))
    if mode is Mode.FAST and held.tabled is not None and len(insert) == 1 and not delete:
        return estimated(lake, held, held.tabled, insert[0]), None
    try:
        lookups = held.rows or rows_beside(lake, held, delete, insert)
    except TooMuch as much:
        return Check("unknown", 0, how="lookups in the tables", reason=much.message), None
    rules = {t: _rules(lake, t) for t in held.shape.tables}
    if update.delete:
        rules |= _referring(lake, held.shape.tables)
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


def estimated(lake: ReadableLake, held: Held, tabled: Tabled, row: ViewRow) -> Check:
    """What the rules of the tables, and then a summary in tables, say of an insertion."""
    rules = {t: _rules(lake, t) for t in held.shape.tables}
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
    keys = {(p, e): tuple(tells[p][c] for c in tree.columns(p, e)) for p, e in tree.ways}
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


def _referring(lake: ReadableLake, tables: Collection[str]) -> dict[str, TableRules]:
    """The rules of tables outside a view that refer to one of its tables by a foreign key."""
    found = {}
    for shown in lake.names():
        # What stands under a name without being a table of the lake has no foreign keys.
        with suppress(BelvedereError):
            name = canonical_name(lake, quote(shown))
            if name in tables or is_view(lake, name):
                continue
            table = lake.table(name)
            if any(key.parent in tables for key in foreign_keys(table)):
                found[name] = rules_of(table)
    return found


def _rules(lake: ReadableLake, name: str) -> TableRules:
    table = lake.table(name)
    required: frozenset[str] = frozenset()
    if reads_files(table):
        fields = open_table(table.store).schema().fields
        required = frozenset(f.name for f in fields if not f.nullable)
    return rules_of(table, required, checks_by(lake, table))


def typed_rows(held: Held, rows: Sequence[Mapping[str, Any]]) -> list[ViewRow]:
    """Rows with all of the view's columns and values of their types; `Invalid` otherwise."""
    columns = shown_columns(held.shape)
    typed = [_typed(dict(columns), row) for row in rows]
    for row in typed:
        _agreeing(held.shape, row)
    return [ViewRow(row) for row in typed]


def _agreeing(shape: Shape, row: Mapping[str, Any]) -> None:
    """Columns of the view that show one column of a table have one value."""
    first: dict[Place, str] = {}
    for name, place in shape.outputs:
        other = first.setdefault(place, name)
        if row[other] != row[name]:
            raise Invalid(
                f"{other}={row[other]!r} and {name}={row[name]!r} cannot be in one row of the view",
                detail=f"both show {shape.positions[place[0]].table}.{place[1]}",
                hint="give them one value",
                reason="CONTRADICTION",
            )


def _typed(columns: Mapping[str, str], row: Mapping[str, Any]) -> dict[str, Any]:
    given = {name.lower(): value for name, value in row.items()}
    spelled = {name.lower(): name for name in columns}
    unknown = [name for name in row if name.lower() not in spelled]
    missing = [name for name in columns if name.lower() not in given]
    wrong = ""
    if unknown or missing:
        wrong = f"has no column {unknown[0]!r}" if unknown else f"needs a value of {missing[0]!r}"
    elif len(given) < len(row):
        wrong = f"is given a column twice: {', '.join(row)}"
    if wrong:
        raise Invalid(
            f"the view {wrong}", hint=f"its columns: {', '.join(columns)}", reason="COLUMNS"
        )
    return {name: _value(name, given[name.lower()], kind) for name, kind in columns.items()}


def _value(name: str, value: Any, kind: str) -> Any:
    """A value of a type; what Arrow does not take for one, or only changed, is refused."""
    import pyarrow as pa

    from belvedere.memory import kinds

    if value is None:
        return None
    try:
        found = pa.array([value], kinds.arrow(kind))[0].as_py()
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as why:
        raise _mistyped(name, value, kind, str(why)) from why
    if not _is_same(value, found):
        raise _mistyped(name, value, kind, f"it would become {found!r}")
    return found


def _is_same(given: Any, found: Any) -> bool:
    """Whether a value is what it became: not cut off, not of another kind."""
    if isinstance(given, (bool, np.bool_)) != isinstance(found, bool):
        return False
    if isinstance(given, datetime.datetime) and isinstance(found, datetime.datetime):
        # Without a zone it is taken for one of UTC.
        found = found if given.tzinfo else found.replace(tzinfo=None)
    return bool(given == found)


def _mistyped(name: str, value: Any, kind: str, detail: str) -> Invalid:
    return Invalid(
        f"{value!r} is not a value of column {name!r}, which has type {kind}",
        detail=detail,
        hint=f"give a value of type {kind}, or NULL",
        reason="TYPE",
    )


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


def _rows(given: Any) -> tuple[Mapping[str, Any], ...]:
    if given is None:
        return ()
    rows = (given,) if isinstance(given, Mapping) else given
    listed = isinstance(rows, Iterable) and not isinstance(rows, (str, bytes))
    found = tuple(rows) if listed else (rows,)
    wrong = [row for row in found if not isinstance(row, Mapping) or not _named(row)]
    if wrong:
        raise Invalid(
            f"{wrong[0]!r} is not a row of a view",
            hint="a row is a mapping from columns to values, several rows are a list of them",
            reason="ROWS",
        )
    return found


def _named(row: Mapping[Any, Any]) -> bool:
    """Whether a row's columns are named by texts."""
    return all(isinstance(name, str) for name in row)


def _pair(update: Any) -> tuple[Any, Any]:
    if isinstance(update, Sequence) and not isinstance(update, str) and len(update) == 2:
        return update[0], update[1]
    raise Invalid(
        f"{update!r} is not a pair of old and new rows",
        hint="update=(old, new), each a row or a list of rows",
        reason="ROWS",
    )
