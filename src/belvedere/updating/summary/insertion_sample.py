"""Sampled insertions for the choice of a root: view rows that some missing rows would complete.

An effective insertion takes its values from the active domains (Def. 4.3). The sample contains those
that complete something: from a random dangling row along the joins, to a random partner or, by chance
or without a partner, to a new row with its neighbour's key and otherwise random known values. The side
effects of each are computed exactly.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from belvedere.memory import kinds
from belvedere.updating.side_effects.in_memory import (
    BaseChanges,
    NewRow,
    TableState,
    TooManyJoins,
    view_effect,
)
from belvedere.updating.summary.base_tables import BaseTables, RowCodes
from belvedere.updating.summary.domains import NULL, denormalize
from belvedere.updating.summary.estimate import Segment, segments_of
from belvedere.updating.summary.filter import UpdateFilter
from belvedere.updating.summary.loading import selected_rows
from belvedere.updating.summary.roots import RootChoice, choose_root

NEW_ROW_RATE = 0.2
"""How often a row is new although there is a partner."""
FIRST_SAMPLE = 400
LARGEST_SAMPLE = 1600
MOST_STEPS = 200_000
TRIES = 20
_FIRST_UNKNOWN_CODE = -2


@dataclass(frozen=True)
class SampledInsertion:
    """The rows of an insertion at each position, and the numbers of those that exist."""

    rows: tuple[RowCodes, ...]
    numbers: tuple[int | None, ...]
    members: tuple[frozenset[int], ...]
    """For each row, the positions whose selection it satisfies."""


class InsertionSampler:
    """Draws random insertions into a view."""

    def __init__(self, made: UpdateFilter, seed: int = 1) -> None:
        self.made, self.base, self.tree = made, made.base, made.base.tree
        self.dice = random.Random(seed)
        graph = made.graph
        self.dangling = [
            np.flatnonzero(x & ~w) for x, w in zip(graph.extended, graph.whole, strict=True)
        ]
        self.strange = _FIRST_UNKNOWN_CODE

    def sample(self, size: int) -> list[tuple[list[Segment], bool]]:
        """`size` insertions, each with whether it has side effects; fewer if too few can be drawn."""
        insertions: list[tuple[list[Segment], bool]] = []
        for drawn in self._draws(TRIES * size):
            try:
                has_effects = has_side_effects(self.base, drawn)
            except TooManyJoins:
                continue
            insertions.append((segments_of(self.base, drawn.rows, drawn.numbers), has_effects))
            if len(insertions) == size:
                break
        return insertions

    def _draws(self, tries: int) -> Iterator[SampledInsertion]:
        positions = [p for p, rows in enumerate(self.dangling) if len(rows)]
        weights = [len(self.dangling[p]) for p in positions]
        for _ in range(tries if positions else 0):
            p = self.dice.choices(positions, weights)[0]
            drawn = self._around(p, int(self.dice.choice(self.dangling[p])))
            if drawn is None or None not in drawn.numbers:
                continue
            if all(p in members for p, members in enumerate(drawn.members)):
                yield drawn

    def _around(self, p: int, number: int) -> SampledInsertion | None:
        """A view row that contains a given row; None if a NULL or another join prevents it."""
        rows: dict[int, RowCodes] = {p: self.base.rows_at(p).row(number)}
        numbers: dict[int, int | None] = {p: number}
        by_class = self._classes({}, p, rows[p])
        todo = [(p, -1)]
        while todo and by_class is not None:
            position, arrived_by = todo.pop()
            for e in self.tree.around[position]:
                if e != arrived_by and by_class is not None:
                    q = self.tree.edges[e].across(position)
                    numbers[q] = self._partner(
                        q, e, self.base.key(position, e, rows[position]), by_class
                    )
                    rows[q] = self._row(q, numbers[q], by_class)
                    by_class = self._classes(by_class, q, rows[q])
                    todo.append((q, e))
        if by_class is None:
            return None
        all_positions = range(len(self.base.shape.positions))
        return SampledInsertion(
            tuple(rows[q] for q in all_positions),
            tuple(numbers[q] for q in all_positions),
            tuple(self._members(q, rows[q], numbers[q]) for q in all_positions),
        )

    def _members(self, p: int, row: RowCodes, number: int | None) -> frozenset[int]:
        """The positions whose selection a row satisfies, as far as held columns decide it."""
        shape, table = self.base.shape, self.base.shape.positions[p].table
        if number is not None:
            return frozenset(q for q in shape.at(table) if self.base.is_present(q, number))
        held = self.base.held[table]
        values = {
            c: None if code < 0 else denormalize(self.base.domains[table, c].value(code), kind)
            for c, code, kind in zip(held, row, (shape.used[table][c] for c in held), strict=True)
        }
        single_row = pa.table(
            {c: pa.array([v], kinds.arrow(shape.used[table][c])) for c, v in values.items()}
        )
        return frozenset(
            q
            for q in shape.at(table)
            if (
                bool(selected_rows(shape, q, single_row)[0])
                if shape.positions[q].selection.columns <= values.keys()
                else q == p
            )
        )

    def _classes(self, known: dict[int, int], p: int, row: RowCodes) -> dict[int, int] | None:
        """The numbers of join classes together with those of a row; None if they differ or are NULL."""
        codes = dict(known)
        for c, code in zip(self.base.rows_at(p).columns, row, strict=True):
            k = self.base.shape.class_of.get((p, c))
            if k is not None and (code == NULL or codes.setdefault(k, code) != code):
                return None
        return codes

    def _partner(self, p: int, e: int, key: int | None, by_class: dict[int, int]) -> int | None:
        """A random row with a key that agrees with all joins, or None."""
        if self.dice.random() < NEW_ROW_RATE:
            return None
        rows = self.base.rows_at(p)
        partners = [
            n
            for n in self.base.matching(p, e, key)
            if self._classes(by_class, p, rows.row(n)) is not None
        ]
        return self.dice.choice(partners) if partners else None

    def _row(self, p: int, number: int | None, by_class: dict[int, int]) -> RowCodes:
        """An existing row, or a new one: joined as required, otherwise with known values."""
        rows = self.base.rows_at(p)
        if number is not None:
            return rows.row(number)
        template = rows.row(self.dice.randrange(rows.size)) if rows.size else None
        key = self.made.keys.get(self.base.shape.positions[p].table, ())
        codes = []
        for i, c in enumerate(rows.columns):
            k = self.base.shape.class_of.get((p, c))
            if k in by_class:
                codes.append(by_class[k])
            elif template is None or template[i] == NULL or c in key:
                self.strange -= 1
                codes.append(self.strange)
            else:
                codes.append(template[i])
        return tuple(codes)


def has_side_effects(base: BaseTables, drawn: SampledInsertion) -> bool:
    """Whether an insertion has side effects; `TooManyJoins` if that takes too many steps."""
    new: dict[str, list[NewRow]] = {}
    embedding: list[int] = []
    for p, (row, number) in enumerate(zip(drawn.rows, drawn.numbers, strict=True)):
        if number is not None:
            embedding.append(number)
        else:
            table = base.shape.positions[p].table
            new_rows = new.setdefault(table, [])
            new_rows.append(NewRow(row, drawn.members[p]))
            embedding.append(-len(new_rows))
    changes = BaseChanges({}, {t: tuple(rows) for t, rows in new.items()})
    signature = TableState(base, changes).signature(tuple(embedding))
    effect = view_effect(base, changes, expected=[signature], most=1, steps=MOST_STEPS)
    return bool(effect.added.keys() - {signature})


def choose_root_by_sample(
    first_filter: UpdateFilter, share: float, first: int
) -> tuple[UpdateFilter, RootChoice | None]:
    """The filter with the root of least error; `first` if a sample does not separate it from the best.

    If roots differ and the sample does not separate the best from the next, it is doubled, up to a limit.
    """
    insertions, positions = InsertionSampler(first_filter), range(len(first_filter.shape.positions))
    sample = insertions.sample(FIRST_SAMPLE) if len(positions) > 1 else []
    if not sample:
        return first_filter, None
    roots = [first, *(p for p in positions if p != first)]
    filters = {first_filter.base.tree.root: first_filter}
    choice = choose_root(
        roots, lambda r: _filter_from_root(filters, first_filter, r, share), sample
    )
    while not choice.is_settled and len(sample) < LARGEST_SAMPLE:
        further = insertions.sample(len(sample))
        if not further:
            break
        sample += further
        choice = choose_root(
            roots, lambda r: _filter_from_root(filters, first_filter, r, share), sample
        )
    return filters[choice.root], choice


def _filter_from_root(
    filters: dict[int, UpdateFilter], first_filter: UpdateFilter, root: int, share: float
) -> UpdateFilter:
    if root not in filters:
        filters[root] = first_filter.with_root(root, share)
    return filters[root]
