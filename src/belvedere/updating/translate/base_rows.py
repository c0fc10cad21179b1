"""Complete new base rows with all their columns, and check the constraints of their tables.

A broken constraint is reported as literals of the solver: the choices that cause it, and those that
would resolve it. For example, a key that another row has is free once that row is deleted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from belvedere.errors import Invalid
from belvedere.lake.tables.declared_keys import ForeignKey
from belvedere.updating.side_effects.in_memory import BaseChanges
from belvedere.updating.translate.completion import NoFreeValue, complete_row, is_certainly_broken
from belvedere.updating.translate.constraints import BaseRow
from belvedere.updating.translate.new_rows import Literal, NewBaseRow, SolverChoice
from belvedere.updating.translate.translation_request import TranslationRequest

RowsByTable = Mapping[str, Sequence[BaseRow]]


class BrokenConstraint(Invalid):
    """A choice breaks a constraint: the literals that cause it, and those that would resolve it."""

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
        """From each of these lists, at least one literal has to hold."""
        self.certain = certain
        """Whether the constraint is broken however unspecified columns are filled."""


def complete_rows(request: TranslationRequest, choice: SolverChoice) -> dict[str, list[BaseRow]]:
    """The new rows with all their columns."""
    full: dict[str, list[BaseRow]] = {}
    for table, new_rows in choice.new_rows.items():
        rows = full.setdefault(table, [])
        for i, new_row in enumerate(new_rows):
            rows.append(_complete_row(request, choice, new_row, rows, new_rows[:i]))
    return full


def check_constraints(
    request: TranslationRequest, changes: BaseChanges, choice: SolverChoice, full: RowsByTable
) -> None:
    """Raise `BrokenConstraint` if a new row is invalid, or a deleted row is still referred to."""
    for table, new_rows in choice.new_rows.items():
        by_key: dict[tuple[Any, ...], NewBaseRow] = {}
        for i, new_row in enumerate(new_rows):
            _check_selection(changes, new_row, i)
            _check_key(request, choice, new_row, full[table][i], by_key)
            _check_conditions(request, new_row, full[table][i])
            for key in request.rules[table].foreign:
                _check_parent(request, choice, new_row, full[table][i], key, full)
    _check_children(request, choice, full)


def _complete_row(
    request: TranslationRequest,
    choice: SolverChoice,
    new_row: NewBaseRow,
    rows: Sequence[BaseRow],
    other_rows: Sequence[NewBaseRow],
) -> BaseRow:
    try:
        is_known = request.coder.is_known_value
        return complete_row(request.rules[new_row.table], request.source, is_known, new_row, rows)
    except NoFreeValue as none:
        raise BrokenConstraint(
            f"no new value of type {none.kind} was found for the key column"
            f" {none.column!r} of {new_row.table!r}",
            [*new_row.causes, *(c for other in other_rows for c in other.causes)],
            "NO_NEW_KEY",
            # Deleting a row frees its key.
            certain=none.certain and not choice.gone.get(new_row.table),
        ) from none


def _check_selection(changes: BaseChanges, new_row: NewBaseRow, i: int) -> None:
    """A new row satisfies the selection of every position that it is made for."""
    for p, why in new_row.causes_by_position.items():
        if p not in changes.new[new_row.table][i].members:
            raise BrokenConstraint(
                f"a row of {new_row.table!r} would not meet the view's WHERE", why, "FAILS_WHERE"
            )


def _check_key(
    request: TranslationRequest,
    choice: SolverChoice,
    new_row: NewBaseRow,
    row: BaseRow,
    by_key: dict[tuple[Any, ...], NewBaseRow],
) -> None:
    """A declared key is not NULL, and no other row has it."""
    key = request.rules[new_row.table].key
    if key is None:
        return
    key_values = {c: row[c] for c in key}
    certain = new_row.kept_columns.isdisjoint(key)
    if None in key_values.values():
        message = f"the key ({', '.join(key)}) of {new_row.table!r} cannot be NULL"
        raise BrokenConstraint(message, new_row.causes, "KEY", certain=certain)
    text = ", ".join(f"{c}={v!r}" for c, v in key_values.items())
    message = f"the key of {new_row.table!r} has another row with {text}"
    stored = request.source.where(new_row.table, key_values)
    same = [r for r in stored if not choice.is_gone(new_row.table, r)]
    if same:
        unless = [choice.deletion_of(new_row.table, r) for r in same]
        raise BrokenConstraint(message, new_row.causes, "KEY", unless, certain=certain)
    first_row = by_key.setdefault(tuple(key_values.values()), new_row)
    if first_row is not new_row:
        raise BrokenConstraint(
            message, [*new_row.causes, *first_row.causes], "KEY", certain=certain
        )


def _check_conditions(request: TranslationRequest, new_row: NewBaseRow, row: BaseRow) -> None:
    rules = request.rules[new_row.table]
    broken = rules.violation(row)
    if broken:
        certain = is_certainly_broken(rules, request.source, new_row, row)
        message = f"a row of {new_row.table!r} would break {broken}"
        # Columns kept from a replaced row are kept only while that row is deleted.
        unless = [("gone", new_row.table, n) for n in new_row.replaces]
        raise BrokenConstraint(message, new_row.causes, "CHECK", [unless], certain=certain)


def _check_parent(
    request: TranslationRequest,
    choice: SolverChoice,
    new_row: NewBaseRow,
    row: BaseRow,
    key: ForeignKey,
    full: RowsByTable,
) -> None:
    """The parent of a foreign key exists."""
    parent_values = dict(zip(key.parent_columns, (row[c] for c in key.columns), strict=True))
    if None in parent_values.values():
        return
    stored = request.source.where(key.parent, parent_values)
    if any(not choice.is_gone(key.parent, r) for r in stored) or _is_among_new_rows(
        full, key.parent, parent_values
    ):
        return
    because, unless = choice.ways_to_create(key.parent, parent_values)
    gone = [c for r in stored for c in choice.deletion_of(key.parent, r)]
    raise BrokenConstraint(
        f"({', '.join(key.columns)}) of {new_row.table!r} would refer to no row of {key.parent!r}",
        [*new_row.causes, *gone, *because],
        "FOREIGN_KEY",
        [[*unless, *(("gone", new_row.table, n) for n in new_row.replaces)]],
        certain=_has_no_other_parent(request, new_row, key),
    )


def _has_no_other_parent(request: TranslationRequest, new_row: NewBaseRow, key: ForeignKey) -> bool:
    """Whether neither another value nor a further new parent could resolve a broken foreign key.

    Other values are searched among the parents if one position knows all columns of the key.
    """
    shape = request.coder.shape
    if key.parent in shape.tables or not new_row.given_columns >= set(key.columns):
        return False
    return any(
        shape.positions[p].types.keys() >= set(key.columns) for p in new_row.causes_by_position
    )


def _check_children(request: TranslationRequest, choice: SolverChoice, full: RowsByTable) -> None:
    """Raise `BrokenConstraint` if a deleted row is still referred to."""
    for child, rules in request.rules.items():
        for key in rules.foreign:
            for number in choice.gone.get(key.parent, ()):
                for parent in request.coder.base_rows_of(key.parent, number) or ():
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
    parent_values = {c: parent[c] for c in key.parent_columns}
    if None in parent_values.values() or _is_among_new_rows(full, key.parent, parent_values):
        return
    parents = request.source.where(key.parent, parent_values)
    if any(not choice.is_gone(key.parent, r) for r in parents):
        return
    child_values = dict(zip(key.columns, parent_values.values(), strict=True))
    children_left = [
        r for r in request.source.where(child, child_values) if not choice.is_gone(child, r)
    ]
    if children_left:
        because, unless = choice.ways_to_create(key.parent, parent_values)
        gone = [c for r in parents for c in choice.deletion_of(key.parent, r)]
        raise BrokenConstraint(
            f"a row of {key.parent!r} is referred to by {child!r}",
            [("gone", key.parent, number), *gone, *because],
            "FOREIGN_KEY",
            [[*choice.deletion_of(child, r), *unless] for r in children_left],
            # A row outside the request could be inserted as the parent.
            certain=not request.insert,
        )


def _is_among_new_rows(full: RowsByTable, table: str, values: BaseRow) -> bool:
    """Whether a new row of a table has some values."""
    return any(all(r[c] == v for c, v in values.items()) for r in full.get(table, ()))
