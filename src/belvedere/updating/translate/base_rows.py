"""Base rows complete and allowed: what nobody tells is filled in, constraints are checked.

What breaks a constraint is told as choices: those because of which it does, and those that would
heal it, as a key that another row has is free once that row goes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from belvedere.errors import Invalid
from belvedere.lake.tables.declared_keys import ForeignKey
from belvedere.updating.side_effects.in_memory import BaseChanges
from belvedere.updating.translate.completion import NoFreeValue, complete_row, is_certainly_broken
from belvedere.updating.translate.constraints import BaseRow
from belvedere.updating.translate.new_rows import Literal, NewBaseRow, SolverChoice

if TYPE_CHECKING:
    from belvedere.updating.translate.translator import TranslationRequest

RowsByTable = Mapping[str, Sequence[BaseRow]]


class BrokenConstraint(Invalid):
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


def complete_rows(request: TranslationRequest, choice: SolverChoice) -> dict[str, list[BaseRow]]:
    """New rows with all their columns."""
    full: dict[str, list[BaseRow]] = {}
    for table, puts in choice.puts.items():
        rows = full.setdefault(table, [])
        for i, put in enumerate(puts):
            rows.append(_complete_row(request, choice, put, rows, puts[:i]))
    return full


def check_constraints(
    request: TranslationRequest, changes: BaseChanges, choice: SolverChoice, full: RowsByTable
) -> None:
    """`BrokenConstraint` if a new row is not allowed, or one that goes is referred to by one that stays."""
    for table, puts in choice.puts.items():
        others: dict[tuple[Any, ...], NewBaseRow] = {}
        for i, put in enumerate(puts):
            _check_selection(changes, put, i)
            _check_key(request, choice, put, full[table][i], others)
            _check_conditions(request, put, full[table][i])
            for key in request.rules[table].foreign:
                _check_parent(request, choice, put, full[table][i], key, full)
    _check_children(request, choice, full)


def _complete_row(
    request: TranslationRequest,
    choice: SolverChoice,
    put: NewBaseRow,
    rows: Sequence[BaseRow],
    others: Sequence[NewBaseRow],
) -> BaseRow:
    try:
        known = request.coder.knows
        return complete_row(request.rules[put.table], request.source, known, put, rows)
    except NoFreeValue as none:
        raise BrokenConstraint(
            f"no new value of type {none.kind} was found for the key column"
            f" {none.column!r} of {put.table!r}",
            [*put.why, *(c for other in others for c in other.why)],
            "NO_NEW_KEY",
            # The value of a row that goes is free.
            certain=none.certain and not choice.gone.get(put.table),
        ) from none


def _check_selection(changes: BaseChanges, put: NewBaseRow, i: int) -> None:
    """A row that is put in for a position meets its selection."""
    for p, why in put.makers.items():
        if p not in changes.new[put.table][i].members:
            raise BrokenConstraint(
                f"a row of {put.table!r} would not meet the view's WHERE", why, "FAILS_WHERE"
            )


def _check_key(
    request: TranslationRequest,
    choice: SolverChoice,
    put: NewBaseRow,
    row: BaseRow,
    others: dict[tuple[Any, ...], NewBaseRow],
) -> None:
    """A declared key is told, and no other row has it."""
    key = request.rules[put.table].key
    if key is None:
        return
    at = {c: row[c] for c in key}
    certain = put.kept.isdisjoint(key)
    if None in at.values():
        message = f"the key ({', '.join(key)}) of {put.table!r} cannot be NULL"
        raise BrokenConstraint(message, put.why, "KEY", certain=certain)
    text = ", ".join(f"{c}={v!r}" for c, v in at.items())
    message = f"the key of {put.table!r} has another row with {text}"
    stored = request.source.where(put.table, at)
    same = [r for r in stored if not choice.is_gone(put.table, r)]
    if same:
        unless = [choice.leaving(put.table, r) for r in same]
        raise BrokenConstraint(message, put.why, "KEY", unless, certain=certain)
    other = others.setdefault(tuple(at.values()), put)
    if other is not put:
        raise BrokenConstraint(message, [*put.why, *other.why], "KEY", certain=certain)


def _check_conditions(request: TranslationRequest, put: NewBaseRow, row: BaseRow) -> None:
    rules = request.rules[put.table]
    broken = rules.broken(row)
    if broken:
        certain = is_certainly_broken(rules, request.source, put, row)
        message = f"a row of {put.table!r} would break {broken}"
        # What is kept of a row that goes is kept only if it does.
        unless = [("gone", put.table, n) for n in put.instead]
        raise BrokenConstraint(message, put.why, "CHECK", [unless], certain=certain)


def _check_parent(
    request: TranslationRequest,
    choice: SolverChoice,
    put: NewBaseRow,
    row: BaseRow,
    key: ForeignKey,
    full: RowsByTable,
) -> None:
    """A foreign key of a new row has its parent."""
    at = dict(zip(key.parent_columns, (row[c] for c in key.columns), strict=True))
    if None in at.values():
        return
    stored = request.source.where(key.parent, at)
    if any(not choice.is_gone(key.parent, r) for r in stored) or _is_among_new_rows(
        full, key.parent, at
    ):
        return
    because, unless = choice.makings(key.parent, at)
    gone = [c for r in stored for c in choice.leaving(key.parent, r)]
    raise BrokenConstraint(
        f"({', '.join(key.columns)}) of {put.table!r} would refer to no row of {key.parent!r}",
        [*put.why, *gone, *because],
        "FOREIGN_KEY",
        [[*unless, *(("gone", put.table, n) for n in put.instead)]],
        certain=_has_no_other_parent(request, put, key),
    )


def _has_no_other_parent(request: TranslationRequest, put: NewBaseRow, key: ForeignKey) -> bool:
    """Whether no other value, and no parent that could be put in besides, would heal a foreign key.

    Values are looked for among the parents where one position tells of all columns of the key.
    """
    shape = request.coder.shape
    if key.parent in shape.tables or not put.given_columns >= set(key.columns):
        return False
    return any(shape.positions[p].types.keys() >= set(key.columns) for p in put.makers)


def _check_children(request: TranslationRequest, choice: SolverChoice, full: RowsByTable) -> None:
    """`BrokenConstraint` if a row that goes is referred to by one that stays."""
    for child, rules in request.rules.items():
        for key in rules.foreign:
            for number in choice.gone.get(key.parent, ()):
                for parent in request.coder.stored(key.parent, number) or ():
                    _check_children_of(request, choice, child, key, number, parent, full)


def _check_children_of(
    request: TranslationRequest,
    choice: SolverChoice,
    child: str,
    key: ForeignKey,
    number: int,
    parent: BaseRow,
    full: RowsByTable,
) -> None:
    at = {c: parent[c] for c in key.parent_columns}
    if None in at.values() or _is_among_new_rows(full, key.parent, at):
        return
    parents = request.source.where(key.parent, at)
    if any(not choice.is_gone(key.parent, r) for r in parents):
        return
    equal = dict(zip(key.columns, at.values(), strict=True))
    staying = [r for r in request.source.where(child, equal) if not choice.is_gone(child, r)]
    if staying:
        because, unless = choice.makings(key.parent, at)
        gone = [c for r in parents for c in choice.leaving(key.parent, r)]
        raise BrokenConstraint(
            f"a row of {key.parent!r} is referred to by {child!r}",
            [("gone", key.parent, number), *gone, *because],
            "FOREIGN_KEY",
            [[*choice.leaving(child, r), *unless] for r in staying],
            # A row that no view row shows could be put in as the parent.
            certain=not request.insert,
        )


def _is_among_new_rows(full: RowsByTable, table: str, at: BaseRow) -> bool:
    """Whether a new row of a table has some values."""
    return any(all(r[c] == v for c, v in at.items()) for r in full.get(table, ()))
