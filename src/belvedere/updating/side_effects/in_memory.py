"""The effect of base changes on a view, computed exactly in memory.

A *state* is the tables in memory with some rows deleted and some inserted; inserted rows have numbers
below zero. An *embedding* is a row for every position such that all join; it shows a view row. View
rows differ by the numbers of the shown columns that are held in memory. Where a declared key stands
for the rest of a row, a *tag* separates an inserted row from the stored row of the same key, whose tag
is 0. Only embeddings through changed rows are enumerated:

    added     = shown by an embedding of the new state through an inserted row, and not shown before
    removed   = shown by an embedding of the old state through a deleted row, and not shown after
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from belvedere.errors import BelvedereError
from belvedere.joins.normal_form import ColumnRef
from belvedere.updating.summary.base_tables import BaseTables, RowCodes
from belvedere.updating.summary.domains import NULL

Embedding = tuple[int, ...]
"""The number of a row for each position."""
Signature = tuple[int, ...]
"""The numbers of a view row's columns held in memory, then the tags of its rows."""

MOST_STEPS = 2_000_000


class TooManyJoins(BelvedereError):
    """The update involves more joins than are enumerated in memory."""


@dataclass(frozen=True)
class NewRow:
    """An inserted row: its numbers, and the positions whose selection it satisfies."""

    row: RowCodes
    members: frozenset[int]
    tags: tuple[tuple[int, int], ...] = ()
    """For a position that shows more than is held in memory, the tag of the row's contents."""


@dataclass
class BaseChanges:
    """Deleted rows by number and inserted rows, for each table."""

    gone: Mapping[str, frozenset[int]] = field(default_factory=dict)
    new: Mapping[str, tuple[NewRow, ...]] = field(default_factory=dict)


@dataclass
class ViewEffect:
    """The view rows that base changes add and remove, each with an embedding."""

    added: dict[Signature, Embedding] = field(default_factory=dict)
    removed: dict[Signature, Embedding] = field(default_factory=dict)
    complete: bool = True
    """False if only the first few were enumerated."""


class TableState:
    """The tables in memory with changes applied; enumerates embeddings."""

    def __init__(
        self, base: BaseTables, changes: BaseChanges, budget: list[int] | None = None
    ) -> None:
        self.base, self.tree, self.shape = base, base.tree, base.shape
        self.gone = changes.gone
        self.new = changes.new
        self.budget = budget if budget is not None else [MOST_STEPS]
        self._completes: dict[tuple[int, int, int], bool] = {}
        self._partners: dict[tuple[int, int, int], list[int]] = {}

    @cached_property
    def checks(self) -> list[list[ColumnRef]]:
        """Join classes that the join tree does not imply; checked on whole embeddings."""
        return [list(self.shape.classes[k]) for k in self.tree.dropped]

    def row(self, p: int, number: int) -> RowCodes:
        """The numbers of a row of a position."""
        table = self.shape.positions[p].table
        return (
            self.new[table][-1 - number].row if number < 0 else self.base.tables[table].row(number)
        )

    def code(self, p: int, number: int, column: str) -> int:
        """The number of one column of a row."""
        table = self.shape.positions[p].table
        place = self.base.held[table].index(column)
        if number < 0:
            return self.new[table][-1 - number].row[place]
        return int(self.base.tables[table].codes[place][number])

    def has(self, p: int, number: int) -> bool:
        """Whether a row exists and satisfies the selection of a position."""
        table = self.shape.positions[p].table
        if number < 0:
            return p in self.new[table][-1 - number].members
        return number not in self.gone.get(table, ()) and self.base.is_present(p, number)

    def partners(self, p: int, number: int, edge: int) -> list[int]:
        """The rows at the other end of an edge that a row joins with."""
        partners = self._partners.get((p, number, edge))
        if partners is None:
            partners = self._found(p, number, edge)
            self._partners[p, number, edge] = partners
            self.budget[0] -= 1 + len(partners)
            if self.budget[0] < 0:
                raise TooManyJoins(
                    "this update touches too many rows to be checked in memory", reason="TOO_MUCH"
                )
        return partners

    def _found(self, p: int, number: int, edge: int) -> list[int]:
        q = self.tree.edges[edge].across(p)
        table = self.shape.positions[q].table
        if number < 0:
            key = self.base.key(p, edge, self.row(p, number))
        else:
            key = int(self.base.keys(p, edge)[number])
        rows = self.base.matching(q, edge, key)
        if gone := self.gone.get(table):
            rows = [n for n in rows if n not in gone]
        return rows + self._new_partners(p, number, edge) if self.new.get(table) else rows

    def _new_partners(self, p: int, number: int, edge: int) -> list[int]:
        q = self.tree.edges[edge].across(p)
        mine = [self.code(p, number, c) for c in self.tree.columns(p, edge)]
        theirs = self.tree.columns(q, edge)
        return [
            -1 - i
            for i, new in enumerate(self.new[self.shape.positions[q].table])
            if q in new.members
            and NULL not in mine
            and mine == [self.code(q, -1 - i, c) for c in theirs]
        ]

    def completes(self, p: int, number: int, came: int) -> bool:
        """Whether a row has partners, and they have theirs, on every edge but the one it was reached by."""
        key = p, number, came
        complete = self._completes.get(key)
        if complete is None:
            complete = all(
                any(
                    self.completes(self.tree.edges[e].across(p), other, e)
                    for other in self.partners(p, number, e)
                )
                for e in self.tree.around[p]
                if e != came
            )
            self._completes[key] = complete
        return complete

    def embeddings_through(
        self, p: int, number: int, fits: Callable[[int, int], bool] | None = None
    ) -> Iterator[Embedding]:
        """The embeddings with a given row at a position, of rows that fit."""
        if not self.has(p, number) or (fits is not None and not fits(p, number)):
            return
        blank = [0] * len(self.shape.positions)
        for _ in self._sides(p, number, -1, fits, blank):
            embedding = tuple(blank)
            if not self.checks or self._meets(embedding):
                yield embedding

    def _sides(
        self,
        p: int,
        number: int,
        came: int,
        fits: Callable[[int, int], bool] | None,
        into: list[int],
    ) -> Iterator[None]:
        """Fill in a row and, in every possible way, the rows beyond it."""
        if not self.completes(p, number, came):
            return
        into[p] = number
        yield from self._behind(
            [e for e in self.tree.around[p] if e != came], p, number, fits, into
        )

    def _behind(
        self,
        edges: list[int],
        p: int,
        number: int,
        fits: Callable[[int, int], bool] | None,
        into: list[int],
    ) -> Iterator[None]:
        if not edges:
            yield None
            return
        first, *others = edges
        q = self.tree.edges[first].across(p)
        for other in self.partners(p, number, first):
            if fits is not None and not fits(q, other):
                continue
            for _ in self._sides(q, other, first, fits, into):
                yield from self._behind(others, p, number, fits, into)

    def _meets(self, embedding: Embedding) -> bool:
        self.budget[0] -= 1
        if self.budget[0] < 0:
            raise TooManyJoins("this update joins too many rows in memory", reason="TOO_MUCH")
        for members in self.checks:
            codes = {self.code(p, embedding[p], c) for p, c in members}
            if len(codes) > 1 or NULL in codes:
                return False
        return True

    def signature(self, embedding: Embedding) -> Signature:
        """The signature of the view row that an embedding shows."""
        codes = [self.code(p, embedding[p], c) for p, c in shown_held_columns(self.base)]
        return (*codes, *(self.tag(p, embedding[p]) for p in tagged_positions(self.base)))

    def tag(self, p: int, number: int) -> int:
        """The tag of a row: which contents it has beyond the columns held in memory."""
        if number >= 0:
            return 0
        new = self.new[self.shape.positions[p].table][-1 - number]
        return dict(new.tags).get(p, 0)

    def embedding_of(self, signature: Signature) -> Embedding | None:
        """An embedding that shows a view row; None if the view does not have it."""
        return next(self.embeddings_of(signature), None)

    def embeddings_of(self, signature: Signature) -> Iterator[Embedding]:
        """The embeddings that show a view row."""
        codes_by_position: dict[int, dict[str, int]] = {}
        columns = shown_held_columns(self.base)
        for (p, c), code in zip(columns, signature, strict=False):
            codes_by_position.setdefault(p, {})[c] = code
        tags = dict(zip(tagged_positions(self.base), signature[len(columns) :], strict=True))

        def fits(p: int, number: int) -> bool:
            same = all(
                self.code(p, number, c) == v for c, v in codes_by_position.get(p, {}).items()
            )
            return same and (p not in tags or self.tag(p, number) == tags[p])

        start, rows = self._start(codes_by_position)
        for number in rows:
            yield from self.embeddings_through(start, number, fits)

    def _start(self, codes_by_position: Mapping[int, Mapping[str, int]]) -> tuple[int, list[int]]:
        """A position to begin with and its rows that may fit, found by key if possible."""
        by_class = {
            self.shape.class_of[p, c]: code
            for p, codes in codes_by_position.items()
            for c, code in codes.items()
            if (p, c) in self.shape.class_of
        }
        for e, edge in enumerate(self.tree.edges):
            if all(k in by_class for k in edge.classes):
                position = min(edge.ends, key=lambda p: -len(codes_by_position.get(p, {})))
                return position, self._by_classes(position, e, by_class)
        p = max(range(len(self.shape.positions)), key=lambda p: len(codes_by_position.get(p, {})))
        return p, self._scanned(p, codes_by_position.get(p, {}))

    def _by_classes(self, p: int, edge: int, by_class: Mapping[int, int]) -> list[int]:
        table = self.shape.positions[p].table
        codes = dict(
            zip(
                self.tree.columns(p, edge),
                (by_class[k] for k in self.tree.edges[edge].classes),
                strict=True,
            )
        )
        row = tuple(codes.get(c, NULL) for c in self.base.held[table])
        key = self.base.key(p, edge, row)
        gone = self.gone.get(table, frozenset())
        rows = [n for n in self.base.matching(p, edge, key) if n not in gone]
        return rows + [-1 - i for i in range(len(self.new.get(table, ())))]

    def _scanned(self, p: int, codes: Mapping[str, int]) -> list[int]:
        table = self.shape.positions[p].table
        rows = self.base.tables[table]
        fit = self.base.present(p).copy()
        for column, code in codes.items():
            fit &= rows.column(column) == code
        gone = self.gone.get(table, frozenset())
        numbers = [n for n in np.flatnonzero(fit).tolist() if n not in gone]
        return numbers + [-1 - i for i in range(len(self.new.get(table, ())))]


def shown_held_columns(base: BaseTables) -> tuple[ColumnRef, ...]:
    """The columns that the view shows and memory holds, in the order of the view."""
    held = {
        (p, c) for p, position in enumerate(base.shape.positions) for c in base.held[position.table]
    }
    columns = [place for _, place in base.shape.column_outputs if place in held]
    return tuple(dict.fromkeys(columns))


def tagged_positions(base: BaseTables) -> tuple[int, ...]:
    """The positions of which the view shows more than memory holds."""
    shape = base.shape
    return tuple(p for p in range(len(shape.positions)) if shown_unheld_columns(base, p))


def shown_unheld_columns(base: BaseTables, p: int) -> tuple[str, ...]:
    """The columns of a position that the view shows and memory does not hold."""
    held = base.held[base.shape.positions[p].table]
    columns = dict.fromkeys(c for c, _ in base.shape.positions[p].columns)
    return tuple(c for c in columns if c not in held and (p, c) in base.shape.output_of)


def view_effect(
    base: BaseTables,
    changes: BaseChanges,
    *,
    expected: Iterable[Signature] = (),
    most: int | None = None,
    steps: int = MOST_STEPS,
) -> ViewEffect:
    """The effect of base changes on the view, with at most `most` rows that are not expected."""
    budget = [steps]
    old, new = TableState(base, BaseChanges(), budget), TableState(base, changes, budget)
    effect, expected_set = ViewEffect(), frozenset(expected)
    for embeddings, before, after in ((effect.added, new, old), (effect.removed, old, new)):
        for embedding in _embeddings_through_changes(before, changes, put_in=before is new):
            signature = before.signature(embedding)
            if signature in embeddings or after.embedding_of(signature) is not None:
                continue
            embeddings[signature] = embedding
            if most is not None and len(embeddings.keys() - expected_set) >= most:
                effect.complete = False
                break
    return effect


def _embeddings_through_changes(
    state: TableState, changes: BaseChanges, *, put_in: bool
) -> Iterator[Embedding]:
    """The embeddings of a state through inserted rows, or through deleted ones."""
    for p, position in enumerate(state.shape.positions):
        table = position.table
        if put_in:
            numbers = [-1 - i for i in range(len(changes.new.get(table, ())))]
        else:
            numbers = sorted(changes.gone.get(table, ()))
        for number in numbers:
            yield from state.embeddings_through(p, number)
