"""Rows to put in, as a choice of the solver tells them.

Each view row to insert tells of every position what the view shows of it, and the solver says what
it hides. Segments of one table that tell the same key, or of which one tells all that the other
does, are one row; of others the solver says whether they are. What nobody tells of a row is kept from the row that goes in its place: the one
with its declared key, or that of the view row that it replaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from belvedere.updating.request.view_rows import Coder, SegmentOptions
from belvedere.updating.summary.domains import normalize
from belvedere.updating.translate.constraints import BaseRow, TableRules

if TYPE_CHECKING:
    from belvedere.updating.translate.translator import TranslationRequest

Literal = tuple[Any, ...]
"""A choice: ("gone", table, number), ("make", row, position), ("value", row, hidden, value), or
("same", row, position, row, position): the new rows of two segments are one."""


@dataclass
class NewBaseRow:
    """A row to put in: what is known of it, and the choices that it comes from."""

    table: str
    known: BaseRow
    why: list[Literal]
    makers: dict[int, list[Literal]] = field(default_factory=dict)
    """The positions that it is for, and the choices that make it there."""
    instead: list[int] = field(default_factory=list)
    """Rows of the view row that is replaced."""
    kept: set[str] = field(default_factory=set)
    """Columns that are known only because a row that goes has them."""
    unless: list[Literal] = field(default_factory=list)
    """Choices with which the row would tell more than it does."""

    @property
    def given_columns(self) -> set[str]:
        """The columns that view rows tell, or what they hide."""
        return self.known.keys() - self.kept

    def take_in(self, other: NewBaseRow) -> None:
        """Be one row with another."""
        if not other.known.keys() <= self.known.keys():
            less = self.known.keys() <= other.known.keys()
            self.why = other.why if less else [*self.why, *other.why]
            self.known = {**self.known, **other.known}
        self.makers.update(other.makers)
        self.instead += other.instead

    def is_one_with(self, other: NewBaseRow, key: tuple[str, ...] | None) -> bool:
        """Whether another segment of the table tells of the same row."""
        mine, theirs = self.known.keys(), other.known.keys()
        if any(self.known[c] != other.known[c] for c in mine & theirs):
            return False
        keyed = key is not None and set(key) <= mine & theirs
        return keyed or mine <= theirs or theirs <= mine


@dataclass(frozen=True)
class SolverChoice:
    """What the solver chose: which rows go, and which are put in."""

    chosen: frozenset[Literal]
    gone: Mapping[str, frozenset[int]]
    puts: Mapping[str, Sequence[NewBaseRow]]
    inserts: Sequence[Sequence[SegmentOptions]]
    coder: Coder

    def is_gone(self, table: str, row: BaseRow) -> bool:
        """Whether a base row is among those that go."""
        gone = self.gone.get(table, frozenset())
        return bool(gone) and self.coder.number(table, row) in gone

    def leaving(self, table: str, row: BaseRow) -> list[Literal]:
        """The choice that a base row goes; nothing if it is in no table of the view."""
        if table not in self.coder.shape.used:
            return []
        number = self.coder.number(table, row)
        return [] if number is None else [("gone", table, number)]

    def makings(self, table: str, at: BaseRow) -> tuple[list[Literal], list[Literal]]:
        """What keeps this choice from putting in a row with some values, and what else would do it."""
        because: list[Literal] = []
        unless: list[Literal] = []
        types = self.coder.shape.used.get(table, {})
        wanted = {c: normalize(v, types[c]) for c, v in at.items() if c in types}
        for i, options in enumerate(self.inserts):
            for q in self.coder.shape.at(table):
                because += [c for c in self.chosen if c[0] == "same" and (i, q) in (c[1:3], c[3:])]
                if any(options[q].known.get(c, v) != v for c, v in wanted.items()):
                    continue
                if ("make", i, q) not in self.chosen:
                    unless.append(("make", i, q))
                hidden = set(options[q].hidden)
                because += [c for c in self.chosen if c[:2] == ("value", i) and c[2] in hidden]
        return because, unless


def merge_rows(
    puts: Iterable[NewBaseRow], rules: Mapping[str, TableRules]
) -> dict[str, list[NewBaseRow]]:
    """The rows of each table, each once."""
    by_table: dict[str, list[NewBaseRow]] = {}
    for put in puts:
        by_table.setdefault(put.table, []).append(put)
    return {t: _merge_rows_of_table(some, rules[t].key) for t, some in by_table.items()}


def _merge_rows_of_table(
    puts: Sequence[NewBaseRow], key: tuple[str, ...] | None
) -> list[NewBaseRow]:
    """The rows of one table, each once; those that may be one are found by what all of them tell."""
    found: dict[Any, list[NewBaseRow]] = {}
    every = frozenset.intersection(*(frozenset(put.known) for put in puts))
    if key is not None and every.issuperset(key):
        every = frozenset(key)
    for put in puts:
        near = found.setdefault(tuple(put.known[c] for c in sorted(every)), [])
        same = next((o for o in near if o.is_one_with(put, key)), None)
        if same is None:
            near.append(put)
        else:
            same.take_in(put)
    return [put for near in found.values() for put in near]


def keep_unspecified_columns(
    request: TranslationRequest, choice: SolverChoice, pairs: Iterable[Literal]
) -> None:
    """Take what nobody tells of rows from those that go in their place, and note who may tell more.

    `pairs` are all choices of segments that may be one row.
    """
    for table, puts in choice.puts.items():
        used = request.coder.shape.used[table].keys()
        given: set[int] = set()
        for put in puts:
            if not used <= put.known.keys():
                _note_unshown_columns(request, choice, put, pairs)
            _keep_columns_of(request, choice, put, given)


def _note_unshown_columns(
    request: TranslationRequest, choice: SolverChoice, put: NewBaseRow, pairs: Iterable[Literal]
) -> None:
    """Because of what a row has nothing in some used columns: other segments may tell of them."""
    untold = request.coder.shape.used[put.table].keys() - put.known.keys()
    if put.instead or untold & request.rules[put.table].constrained:
        # What is filled in depends on all that is chosen.
        put.why += [c for c in choice.chosen if c[0] != "gone"]
        put.unless += [c for c in pairs if c not in choice.chosen]
        put.unless += [("gone", put.table, n) for n in put.instead]
        return
    for i, options in enumerate(choice.inserts):
        for q in request.coder.shape.at(put.table):
            if untold.isdisjoint(c for c, _ in request.coder.shape.positions[q].columns):
                continue
            hidden = set(options[q].hidden)
            if ("make", i, q) in choice.chosen:
                put.why.append(("make", i, q))
                put.why += [c for c in choice.chosen if c[:2] == ("value", i) and c[2] in hidden]
            else:
                put.unless.append(("make", i, q))
    at = choice.coder.shape.positions
    put.unless += [c for c in pairs if at[c[2]].table == put.table and c not in choice.chosen]


def _keep_columns_of(
    request: TranslationRequest, choice: SolverChoice, put: NewBaseRow, given: set[int]
) -> None:
    rules, gone = request.rules[put.table], choice.gone.get(put.table, frozenset())
    left = [c for c in rules.columns if c not in put.known]
    numbers = _replaced_rows(request, gone, put) if left else []
    if not numbers:
        return
    if not gone.issuperset(numbers):
        # What stays beside a row must not join as it does.
        used = {*request.coder.shape.used[put.table], *(rules.key or ())}
        left = [c for c in left if c not in used]
    elif given & set(numbers):
        # Of two rows in the place of one, the first has what is left of its key.
        left = [c for c in left if c not in (rules.key or ())]
    given.update(numbers)
    rows = [r for n in numbers for r in request.coder.stored(put.table, n) or ()]
    for column in left:
        if rows and all(r[column] == rows[0][column] for r in rows):
            put.known[column] = rows[0][column]
            put.kept.add(column)
    put.why += [("gone", put.table, n) for n in numbers]


def _replaced_rows(request: TranslationRequest, gone: frozenset[int], put: NewBaseRow) -> list[int]:
    """The rows that a row replaces: one that goes with its declared key, or those of the view row."""
    key = request.rules[put.table].key
    if gone and key is not None and all(put.known.get(c) is not None for c in key):
        stored = request.source.where(put.table, {c: put.known[c] for c in key})
        numbers = {request.coder.number(put.table, r) for r in stored} & gone
        if numbers:
            return sorted(n for n in numbers if n is not None)
    return sorted(set(put.instead) & gone) or sorted(set(put.instead))
