"""The new base rows of a choice of the solver.

A view row to insert shows some columns of each segment; the solver chooses the hidden ones. Segments of
one table with the same key, or one of which shows all that the other shows, are one row; for other
segments the solver chooses whether they are. Unspecified columns are copied from the deleted row that
the new row replaces: the one with the same declared key, or that of the replaced view row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from belvedere.updating.request.view_rows import Coder, SegmentOptions
from belvedere.updating.summary.domains import normalize
from belvedere.updating.translate.constraints import BaseRow, TableRules
from belvedere.updating.translate.translation_request import TranslationRequest

Literal = tuple[Any, ...]
"""A choice: ("gone", table, number), ("make", row, position), ("value", row, hidden, value), or
("same", row, position, row, position): the new rows of two segments are one.
"""


@dataclass
class NewBaseRow:
    """A base row to insert: its known values and the choices that cause them."""

    table: str
    values: BaseRow
    causes: list[Literal]
    causes_by_position: dict[int, list[Literal]] = field(default_factory=dict)
    """For each position that the row is made for, the choices that make it."""
    replaces: list[int] = field(default_factory=list)
    """Base rows of the replaced view row."""
    kept_columns: set[str] = field(default_factory=set)
    """Columns copied from a deleted row."""
    unless: list[Literal] = field(default_factory=list)
    """Choices under which the row would have more values."""

    @property
    def given_columns(self) -> set[str]:
        """The columns that view rows show, and their chosen hidden values."""
        return self.values.keys() - self.kept_columns

    def merge(self, other: NewBaseRow) -> None:
        """Merge with another segment of the same row."""
        if not other.values.keys() <= self.values.keys():
            less = self.values.keys() <= other.values.keys()
            self.causes = other.causes if less else [*self.causes, *other.causes]
            self.values = {**self.values, **other.values}
        self.causes_by_position.update(other.causes_by_position)
        self.replaces += other.replaces

    def is_same_row(self, other: NewBaseRow, key: tuple[str, ...] | None) -> bool:
        """Whether another segment of the table is the same row."""
        mine, theirs = self.values.keys(), other.values.keys()
        if any(self.values[c] != other.values[c] for c in mine & theirs):
            return False
        keyed = key is not None and set(key) <= mine & theirs
        return keyed or mine <= theirs or theirs <= mine


@dataclass(frozen=True)
class SolverChoice:
    """The solver's choice: deleted rows and new rows."""

    chosen: frozenset[Literal]
    gone: Mapping[str, frozenset[int]]
    new_rows: Mapping[str, Sequence[NewBaseRow]]
    inserts: Sequence[Sequence[SegmentOptions]]
    coder: Coder

    def is_gone(self, table: str, row: BaseRow) -> bool:
        """Whether a base row is deleted."""
        gone = self.gone.get(table, frozenset())
        return bool(gone) and self.coder.row_number(table, row) in gone

    def deletion_of(self, table: str, row: BaseRow) -> list[Literal]:
        """The literal that deletes a base row; none if its table is not in the view."""
        if table not in self.coder.shape.used:
            return []
        number = self.coder.row_number(table, row)
        return [] if number is None else [("gone", table, number)]

    def ways_to_create(self, table: str, values: BaseRow) -> tuple[list[Literal], list[Literal]]:
        """The choices that keep a row with some values from being made, and those that would make it."""
        because: list[Literal] = []
        unless: list[Literal] = []
        types = self.coder.shape.used.get(table, {})
        codes = {c: normalize(v, types[c]) for c, v in values.items() if c in types}
        for i, options in enumerate(self.inserts):
            for q in self.coder.shape.at(table):
                because += [c for c in self.chosen if c[0] == "same" and (i, q) in (c[1:3], c[3:])]
                if any(options[q].shown.get(c, v) != v for c, v in codes.items()):
                    continue
                if ("make", i, q) not in self.chosen:
                    unless.append(("make", i, q))
                hidden = set(options[q].hidden)
                because += [c for c in self.chosen if c[:2] == ("value", i) and c[2] in hidden]
        return because, unless


def merge_rows(
    new_rows: Iterable[NewBaseRow], rules: Mapping[str, TableRules]
) -> dict[str, list[NewBaseRow]]:
    """The new rows of each table, each once."""
    by_table: dict[str, list[NewBaseRow]] = {}
    for row in new_rows:
        by_table.setdefault(row.table, []).append(row)
    return {t: _merge_rows_of_table(rows, rules[t].key) for t, rows in by_table.items()}


def _merge_rows_of_table(
    new_rows: Sequence[NewBaseRow], key: tuple[str, ...] | None
) -> list[NewBaseRow]:
    """The new rows of one table, each once. Rows that may be the same agree on the columns common to all."""
    by_shared_values: dict[Any, list[NewBaseRow]] = {}
    shared_columns = frozenset.intersection(*(frozenset(row.values) for row in new_rows))
    if key is not None and shared_columns.issuperset(key):
        shared_columns = frozenset(key)
    for row in new_rows:
        similar = by_shared_values.setdefault(
            tuple(row.values[c] for c in sorted(shared_columns)), []
        )
        same_row = next((o for o in similar if o.is_same_row(row, key)), None)
        if same_row is None:
            similar.append(row)
        else:
            same_row.merge(row)
    return [row for similar in by_shared_values.values() for row in similar]


def keep_unspecified_columns(
    request: TranslationRequest, choice: SolverChoice, pairs: Iterable[Literal]
) -> None:
    """Copy unspecified columns from replaced rows, and record which choices could specify them.

    `pairs` are all choices of two segments to be one row.
    """
    for table, new_rows in choice.new_rows.items():
        used = request.coder.shape.used[table].keys()
        replaced: set[int] = set()
        for new_row in new_rows:
            if not used <= new_row.values.keys():
                _note_unshown_columns(request, choice, new_row, pairs)
            _keep_columns_of(request, choice, new_row, replaced)


def _note_unshown_columns(
    request: TranslationRequest, choice: SolverChoice, new_row: NewBaseRow, pairs: Iterable[Literal]
) -> None:
    """Record the choices because of which used columns are unspecified: other segments may show them."""
    unshown = request.coder.shape.used[new_row.table].keys() - new_row.values.keys()
    if new_row.replaces or unshown & request.rules[new_row.table].constrained:
        # Filled-in values depend on the whole choice.
        new_row.causes += [c for c in choice.chosen if c[0] != "gone"]
        new_row.unless += [c for c in pairs if c not in choice.chosen]
        new_row.unless += [("gone", new_row.table, n) for n in new_row.replaces]
        return
    for i, options in enumerate(choice.inserts):
        for q in request.coder.shape.at(new_row.table):
            if unshown.isdisjoint(c for c, _ in request.coder.shape.positions[q].columns):
                continue
            hidden = set(options[q].hidden)
            if ("make", i, q) in choice.chosen:
                new_row.causes.append(("make", i, q))
                new_row.causes += [
                    c for c in choice.chosen if c[:2] == ("value", i) and c[2] in hidden
                ]
            else:
                new_row.unless.append(("make", i, q))
    positions = choice.coder.shape.positions
    new_row.unless += [
        c for c in pairs if positions[c[2]].table == new_row.table and c not in choice.chosen
    ]


def _keep_columns_of(
    request: TranslationRequest, choice: SolverChoice, new_row: NewBaseRow, replaced: set[int]
) -> None:
    rules, gone = request.rules[new_row.table], choice.gone.get(new_row.table, frozenset())
    unspecified = [c for c in rules.columns if c not in new_row.values]
    numbers = _replaced_rows(request, gone, new_row) if unspecified else []
    if not numbers:
        return
    if not gone.issuperset(numbers):
        # The new row must not join as the row that stays beside it.
        used = {*request.coder.shape.used[new_row.table], *(rules.key or ())}
        unspecified = [c for c in unspecified if c not in used]
    elif replaced & set(numbers):
        # If two rows replace one, only the first copies its key.
        unspecified = [c for c in unspecified if c not in (rules.key or ())]
    replaced.update(numbers)
    rows = [r for n in numbers for r in request.coder.base_rows_of(new_row.table, n) or ()]
    for column in unspecified:
        if rows and all(r[column] == rows[0][column] for r in rows):
            new_row.values[column] = rows[0][column]
            new_row.kept_columns.add(column)
    new_row.causes += [("gone", new_row.table, n) for n in numbers]


def _replaced_rows(
    request: TranslationRequest, gone: frozenset[int], new_row: NewBaseRow
) -> list[int]:
    """The rows that a new row replaces: the deleted row with its declared key, or those of the view row."""
    key = request.rules[new_row.table].key
    if gone and key is not None and all(new_row.values.get(c) is not None for c in key):
        stored = request.source.where(new_row.table, {c: new_row.values[c] for c in key})
        numbers = {request.coder.row_number(new_row.table, r) for r in stored} & gone
        if numbers:
            return sorted(n for n in numbers if n is not None)
    return sorted(set(new_row.replaces) & gone) or sorted(set(new_row.replaces))
