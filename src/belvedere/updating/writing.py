"""Base rows complete and allowed: what the view does not know is filled in, constraints are checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from belvedere.errors import Invalid
from belvedere.updating.constraints import BaseRow
from belvedere.updating.exact import Changes

if TYPE_CHECKING:
    from belvedere.updating.search import Literal, Request


class Broken(Invalid):
    """A choice that breaks a constraint, and what of it does."""

    def __init__(self, message: str, literals: Sequence[Literal], reason: str) -> None:
        super().__init__(message, reason=reason)
        self.literals = list(literals)


def completed(
    request: Request,
    changes: Changes,
    new: Mapping[str, list[BaseRow]],
    origin: Mapping[tuple[str, int], list[Literal]],
) -> dict[str, list[BaseRow]]:
    """New rows with all their columns; `Broken` if one is not allowed."""
    full = {
        t: [_filled(request, t, row, i) for i, row in enumerate(rows)] for t, rows in new.items()
    }
    for table, rows in full.items():
        for i, row in enumerate(rows):
            why = origin[table, -1 - i]
            _selected(changes, table, i, why)
            _checked(request, changes, table, row, rows[:i], why)
            _refers(request, changes, table, row, full, why)
    return full


def _filled(request: Request, table: str, row: BaseRow, number: int) -> BaseRow:
    """What the view does not use is NULL; of a key, a value that no row has."""
    rules = request.rules[table]
    full = {c: row.get(c) for c in rules.columns}
    for column in rules.key or ():
        if column not in row:
            full[column] = _unused(request, table, column, rules.columns[column], number)
    return full


def _unused(request: Request, table: str, column: str, kind: str, number: int) -> Any:
    """A value that no row has in a key column; each of several new rows has its own number."""
    source = request.source
    if kind in ("tinyint", "smallint", "int", "bigint"):
        return source.largest(table, column) + 1 + number
    if kind == "string":
        texts = (f"new {1 << i}" + (f"-{number}" if number else "") for i in count())
        return next(t for t in texts if not source.where(table, {column: t}))
    raise Broken(f"no new value for the key column {column!r} of {table!r}", [], "NO_NEW_KEY")


def _selected(changes: Changes, table: str, i: int, why: Sequence[Literal]) -> None:
    """A row that is put in for a position meets its selection."""
    positions = {literal[2] for literal in why if literal[0] == "make"}
    if not positions <= changes.new[table][i].members:
        raise Broken(f"a row of {table!r} would not meet the view's WHERE", why, "FAILS_WHERE")


def _checked(
    request: Request,
    changes: Changes,
    table: str,
    row: BaseRow,
    others: Sequence[BaseRow],
    why: Sequence[Literal],
) -> None:
    rules = request.rules[table]
    broken = rules.broken(row)
    if broken:
        raise Broken(f"a row of {table!r} would break {broken}", why, "CHECK")
    key = rules.key
    if key is None:
        return
    at = {c: row[c] for c in key}
    if None in at.values():
        raise Broken(f"the key ({', '.join(key)}) of {table!r} cannot be NULL", why, "KEY")
    same = [r for r in request.source.where(table, at) if not _is_gone(request, changes, table, r)]
    if same or any(all(o[c] == row[c] for c in key) for o in others):
        text = ", ".join(f"{c}={v!r}" for c, v in at.items())
        raise Broken(f"the key of {table!r} has another row with {text}", why, "KEY")


def _refers(
    request: Request,
    changes: Changes,
    table: str,
    row: BaseRow,
    full: Mapping[str, list[BaseRow]],
    why: Sequence[Literal],
) -> None:
    """Every foreign key of a new row has its parent."""
    for key in request.rules[table].foreign:
        at = dict(zip(key.parent_columns, (row[c] for c in key.columns), strict=True))
        if None in at.values():
            continue
        there = [
            r
            for r in request.source.where(key.parent, at)
            if not _is_gone(request, changes, key.parent, r)
        ]
        made = (r for r in full.get(key.parent, ()) if all(r[c] == v for c, v in at.items()))
        if not there and next(made, None) is None:
            raise Broken(
                f"({', '.join(key.columns)}) of {table!r} would refer to no row of {key.parent!r}",
                why,
                "FOREIGN_KEY",
            )


def referring(request: Request, changes: Changes, full: Mapping[str, list[BaseRow]]) -> None:
    """`Broken` if a row that goes is referred to by one that stays."""
    for child, rules in request.rules.items():
        for key in rules.foreign:
            for number in changes.gone.get(key.parent, ()):
                for parent in _stored(request, key.parent, number):
                    at = [parent[c] for c in key.parent_columns]
                    if _again(full.get(key.parent, ()), key.parent_columns, at):
                        continue
                    found = request.source.where(child, dict(zip(key.columns, at, strict=True)))
                    if any(not _is_gone(request, changes, child, r) for r in found):
                        raise Broken(
                            f"a row of {key.parent!r} is referred to by {child!r}",
                            [("gone", key.parent, number)],
                            "FOREIGN_KEY",
                        )


def _again(rows: Sequence[BaseRow], columns: Sequence[str], values: Sequence[Any]) -> bool:
    return any([r[c] for c in columns] == list(values) for r in rows)


def _stored(request: Request, table: str, number: int) -> list[BaseRow]:
    """The base rows that a row in memory stands for."""
    from belvedere.updating.domains import plain

    base = request.base
    types = base.shape.used[table]
    values = base.values(table, base.tables[table].row(number))
    return request.source.where(table, {c: plain(v, types[c]) for c, v in values.items()})


def _is_gone(request: Request, changes: Changes, table: str, row: BaseRow) -> bool:
    """Whether a base row is among those that go."""
    gone = changes.gone.get(table, frozenset())
    return bool(gone) and request.coder.number(table, row) in gone
