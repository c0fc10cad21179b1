"""Updates through a view: checked, translated, applied, and refused with their side effects named."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from belvedere.errors import BelvedereError, Invalid
from belvedere.lake.keys import foreign_keys
from belvedere.lake.shelf import Tables
from belvedere.updating.applying import Applying, Intent, Overtaken, Part, next_number
from belvedere.updating.asked import ViewRow
from belvedere.updating.base import Base, held_columns
from belvedere.updating.checks import Check, Checker, Mode, already_there, fast
from belvedere.updating.constraints import TableRules, rules_of
from belvedere.updating.domains import plain
from belvedere.updating.engines import checks_by, engine_of
from belvedere.updating.exact import TooMuch
from belvedere.updating.filter import Lookups
from belvedere.updating.near import is_there, near
from belvedere.updating.normal import Place, Shape
from belvedere.updating.reading import LakeFinder, LakeSource
from belvedere.updating.state import Held, shown_columns
from belvedere.updating.tabled import Tabled
from belvedere.views.catalog import canonical_name, is_view

ATTEMPTS = 3


@dataclass(frozen=True)
class Update:
    """View rows to delete and to insert, all together."""

    delete: tuple[Mapping[str, Any], ...] = ()
    insert: tuple[Mapping[str, Any], ...] = ()

    @staticmethod
    def of(insert: Any, delete: Any, update: Any) -> Update:
        """An update as a user gives it: rows, lists of rows, a pair of old and new."""
        old, new = _pair(update) if update is not None else ((), ())
        found = Update((*_rows(delete), *_rows(old)), (*_rows(insert), *_rows(new)))
        if not found.delete and not found.insert:
            hint = "give insert=, delete= or update="
            raise Invalid("nothing was asked for", hint=hint, reason="ROWS")
        return found


@dataclass(frozen=True)
class Done:
    """What an update did: rows deleted and inserted in each table, and view rows besides."""

    tables: tuple[tuple[str, int, int], ...]
    extra: int


def run_check(lake: Tables, held: Held, update: Update, mode: str) -> Check:
    """Whether an update can be done as asked."""
    try:
        chosen = Mode(str(mode).upper())
    except ValueError:
        listed = ", ".join(m.value for m in Mode)
        hint = f"the modes are {listed}"
        raise Invalid(f"no mode {mode!r}", hint=hint, reason="MODE") from None
    return checked(lake, held, update, chosen)[0]


def checked(lake: Tables, held: Held, update: Update, mode: Mode) -> tuple[Check, Checker | None]:
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
    return checker.check(delete, insert, mode), checker


def rows_beside(
    lake: Tables, held: Held, delete: Sequence[ViewRow], insert: Sequence[ViewRow]
) -> Lookups:
    """What a view whose rows stay in the tables needs of them for some view rows."""
    finder = LakeFinder(lake, held.shape, held.vector)
    columns = held_columns(held.shape, held.keys)
    return near(held.tree, columns, held.keys, finder, delete, insert)


def estimated(lake: Tables, held: Held, tabled: Tabled, row: ViewRow) -> Check:
    """What a summary in tables says of an insertion."""
    tree, columns = held.tree, held_columns(held.shape, held.keys)
    finder = LakeFinder(lake, held.shape, held.vector)
    told = [row.told_of(held.shape, p) for p in range(len(held.shape.positions))]
    there = [is_there(held.shape, p, columns, finder, told[p]) for p in range(len(told))]
    if all(there):
        raise already_there(row)
    keys = {(p, e): tuple(told[p][c] for c in tree.columns(p, e)) for p, e in tree.ways}
    known = {at: None if None in key else key for at, key in keys.items()}
    held_of = [columns[at.table] for at in held.shape.positions]
    rows = [tuple(told[p][c] for c in held_of[p]) if there[p] else None for p in range(len(told))]
    return fast(tabled.estimate(known, rows))


def _referring(lake: Tables, tables: Collection[str]) -> dict[str, TableRules]:
    """The rules of tables outside a view that refer to one of its tables by a foreign key."""
    found = {}
    for name in (canonical_name(lake, n) for n in lake.names()):
        if name in tables or is_view(lake, name):
            continue
        # What stands under a name without being a table of the lake has no foreign keys.
        with suppress(BelvedereError):
            table = lake.table(name)
            if any(key.parent in tables for key in foreign_keys(table)):
                found[name] = rules_of(table)
    return found


def _rules(lake: Tables, name: str) -> TableRules:
    from deltalake import DeltaTable

    table = lake.table(name)
    required: frozenset[str] = frozenset()
    if table.root is not None:
        fields = DeltaTable(str(table.root)).schema().fields
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
    lake: Tables,
    applying: Applying,
    name: str,
    fresh: Callable[[], Held],
    update: Update,
    *,
    allowed: bool,
) -> Done:
    """Do an update, all or nothing; refused if it would do more than was asked, unless allowed."""
    for attempt in range(1, ATTEMPTS + 1):
        held = fresh()
        found, checker = checked(lake, held, update, Mode.AUTO)
        if found.possible != "yes" and not (allowed and found.translation is not None):
            raise refusal(found)
        assert checker is not None
        extra = _extra(checker, found, update)
        parts = _parts(lake, held, checker.filter.base, found)
        intent = Intent(name, next_number(lake, name, held.shape.tables), parts)
        try:
            applying.apply(intent)
        except Overtaken:
            if attempt == ATTEMPTS:
                raise
            continue
        applying.forget(name)
        done = tuple((p.table, len(p.delete), len(p.insert)) for p in parts)
        return Done(done, extra)
    raise Invalid("the tables change too fast", reason="CONCURRENT_CHANGE")


def _extra(checker: Checker, found: Check, update: Update) -> int:
    """How many side effects an update has: all of them, where a check stopped at the first."""
    if found.possible == "yes" or found.translation is None:
        return 0
    asked = len(update.delete) + len(update.insert)
    counted = checker.extra(found.translation, asked)
    return int(found.extra_rows) if counted is None else counted


def refusal(found: Check) -> Invalid:
    """The error of an update that would do more than was asked, or break a constraint."""
    if found.reason and not found.rows:
        return Invalid(f"the update cannot be made: {found.reason}", reason="NOT_TRANSLATABLE")
    count = f"{found.extra_rows:g}"
    rows = "; ".join("(" + ", ".join(f"{c}={v!r}" for c, v in r.items()) + ")" for r in found.rows)
    which = "; ".join(
        f"{t} (" + ", ".join(f"{c}={v!r}" for c, v in r.items()) + ")" for t, r in found.which
    )
    word = "could" if found.possible == "unknown" else "would"
    return Invalid(
        f"the update {word} change {count} or more view rows that it does not name",
        detail=f"side effects: {rows}; through base rows: {which}",
        hint="WITH SIDE EFFECTS ALLOWED makes it anyway",
        reason="SIDE_EFFECTS",
    )


def _parts(lake: Tables, held: Held, base: Base, found: Check) -> tuple[Part, ...]:
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
