"""Base rows complete and allowed: what nobody tells is filled in, constraints are checked.

What breaks a constraint is told as choices: those because of which it does, and those that would
heal it, as a key that another row has is free once that row goes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from belvedere.errors import Invalid
from belvedere.lake.tables.declared_keys import ForeignKey
from belvedere.updating.side_effects.in_memory import Changes
from belvedere.updating.translate.completion import NoValue, breaks_for_sure, complete
from belvedere.updating.translate.constraints import BaseRow
from belvedere.updating.translate.new_rows import Choice, Literal, Put

if TYPE_CHECKING:
    from belvedere.updating.translate.translator import Request

Rows = Mapping[str, Sequence[BaseRow]]


class Broken(Invalid):
    """A choice that breaks a constraint, because of what, and what would heal it."""

    def __init__(
        self,
        message: str,
        because: Sequence[Literal],
        reason: str,
        unless: Sequence[Sequence[Literal]] = ((),),
        *,
        certain: bool = True,
    ) -> None:
        super().__init__(message, reason=reason)
        self.because = list(because)
        self.unless = unless
        """Of each of these, one choice at least has to be made."""
        self.certain = certain
        """Whether it is broken whatever is filled in."""


def completed(request: Request, choice: Choice) -> dict[str, list[BaseRow]]:
    """New rows with all their columns."""
    full: dict[str, list[BaseRow]] = {}
    for table, puts in choice.puts.items():
        rows = full.setdefault(table, [])
        for i, put in enumerate(puts):
            rows.append(_filled(request, choice, put, rows, puts[:i]))
    return full


def allowed(request: Request, changes: Changes, choice: Choice, full: Rows) -> None:
    """`Broken` if a new row is not allowed, or one that goes is referred to by one that stays."""
    for table, puts in choice.puts.items():
        others: dict[tuple[Any, ...], Put] = {}
        for i, put in enumerate(puts):
            _selected(changes, put, i)
            _keyed(request, choice, put, full[table][i], others)
            _checked(request, put, full[table][i])
            for key in request.rules[table].foreign:
                _refers(request, choice, put, full[table][i], key, full)
    _referring(request, choice, full)


def _filled(
    request: Request, choice: Choice, put: Put, rows: Sequence[BaseRow], others: Sequence[Put]
) -> BaseRow:
    try:
        known = request.coder.knows
        return complete(request.rules[put.table], request.source, known, put, rows)
    except NoValue as none:
        raise Broken(
            f"no new value of type {none.kind} was found for the key column"
            f" {none.column!r} of {put.table!r}",
            [*put.why, *(c for other in others for c in other.why)],
            "NO_NEW_KEY",
            # The value of a row that goes is free.
            certain=none.certain and not choice.gone.get(put.table),
        ) from none


def _selected(changes: Changes, put: Put, i: int) -> None:
    """A row that is put in for a position meets its selection."""
    for p, why in put.makers.items():
        if p not in changes.new[put.table][i].members:
            raise Broken(
                f"a row of {put.table!r} would not meet the view's WHERE", why, "FAILS_WHERE"
            )


def _keyed(
    request: Request, choice: Choice, put: Put, row: BaseRow, others: dict[tuple[Any, ...], Put]
) -> None:
    """A declared key is told, and no other row has it."""
    key = request.rules[put.table].key
    if key is None:
        return
    at = {c: row[c] for c in key}
    certain = put.kept.isdisjoint(key)
    if None in at.values():
        message = f"the key ({', '.join(key)}) of {put.table!r} cannot be NULL"
        raise Broken(message, put.why, "KEY", certain=certain)
    text = ", ".join(f"{c}={v!r}" for c, v in at.items())
    message = f"the key of {put.table!r} has another row with {text}"
    stored = request.source.where(put.table, at)
    same = [r for r in stored if not choice.is_gone(put.table, r)]
    if same:
        unless = [choice.leaving(put.table, r) for r in same]
        raise Broken(message, put.why, "KEY", unless, certain=certain)
    other = others.setdefault(tuple(at.values()), put)
    if other is not put:
        raise Broken(message, [*put.why, *other.why], "KEY", certain=certain)


def _checked(request: Request, put: Put, row: BaseRow) -> None:
    rules = request.rules[put.table]
    broken = rules.broken(row)
    if broken:
        certain = breaks_for_sure(rules, request.source, put, row)
        message = f"a row of {put.table!r} would break {broken}"
        # What is kept of a row that goes is kept only if it does.
        unless = [("gone", put.table, n) for n in put.instead]
        raise Broken(message, put.why, "CHECK", [unless], certain=certain)


def _refers(
    request: Request, choice: Choice, put: Put, row: BaseRow, key: ForeignKey, full: Rows
) -> None:
    """A foreign key of a new row has its parent."""
    at = dict(zip(key.parent_columns, (row[c] for c in key.columns), strict=True))
    if None in at.values():
        return
    stored = request.source.where(key.parent, at)
    if any(not choice.is_gone(key.parent, r) for r in stored) or _again(full, key.parent, at):
        return
    because, unless = choice.makings(key.parent, at)
    gone = [c for r in stored for c in choice.leaving(key.parent, r)]
    raise Broken(
        f"({', '.join(key.columns)}) of {put.table!r} would refer to no row of {key.parent!r}",
        [*put.why, *gone, *because],
        "FOREIGN_KEY",
        [[*unless, *(("gone", put.table, n) for n in put.instead)]],
        certain=_is_refused_for_sure(request, put, key),
    )


def _is_refused_for_sure(request: Request, put: Put, key: ForeignKey) -> bool:
    """Whether no other value, and no parent that could be put in besides, would heal a foreign key.

    Values are looked for among the parents where one position tells of all columns of the key.
    """
    shape = request.coder.shape
    if key.parent in shape.tables or not put.given_columns >= set(key.columns):
        return False
    return any(shape.positions[p].types.keys() >= set(key.columns) for p in put.makers)


def _referring(request: Request, choice: Choice, full: Rows) -> None:
    """`Broken` if a row that goes is referred to by one that stays."""
    for child, rules in request.rules.items():
        for key in rules.foreign:
            for number in choice.gone.get(key.parent, ()):
                for parent in request.coder.stored(key.parent, number) or ():
                    _unreferred(request, choice, child, key, number, parent, full)


def _unreferred(
    request: Request,
    choice: Choice,
    child: str,
    key: ForeignKey,
    number: int,
    parent: BaseRow,
    full: Rows,
) -> None:
    at = {c: parent[c] for c in key.parent_columns}
    if None in at.values() or _again(full, key.parent, at):
        return
    parents = request.source.where(key.parent, at)
    if any(not choice.is_gone(key.parent, r) for r in parents):
        return
    equal = dict(zip(key.columns, at.values(), strict=True))
    staying = [r for r in request.source.where(child, equal) if not choice.is_gone(child, r)]
    if staying:
        because, unless = choice.makings(key.parent, at)
        gone = [c for r in parents for c in choice.leaving(key.parent, r)]
        raise Broken(
            f"a row of {key.parent!r} is referred to by {child!r}",
            [("gone", key.parent, number), *gone, *because],
            "FOREIGN_KEY",
            [[*choice.leaving(child, r), *unless] for r in staying],
            # A row that no view row shows could be put in as the parent.
            certain=not request.insert,
        )


def _again(full: Rows, table: str, at: BaseRow) -> bool:
    """Whether a new row of a table has some values."""
    return any(all(r[c] == v for c, v in at.items()) for r in full.get(table, ()))
