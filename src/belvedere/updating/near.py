"""The rows beside a request, found in the tables: for a view whose rows are not held in memory.

Where a view shows all that would be held, a view row that is asked for tells what its segments are
and which keys they have on every edge of the join tree. From there joins lead outwards, every edge
both ways, all keys of a way at once:

    keys(p → q)  =  of the segments at p  ∪  of the rows that ways to p from elsewhere than q found

An embedding through a segment has nothing but segments and rows that were found so, and a view row
is shown by one embedding alone. So whatever the search asks of these rows, all rows would answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.memory import kinds
from belvedere.updating.asked import ViewRow
from belvedere.updating.base import Base, Mask
from belvedere.updating.exact import TooMuch
from belvedere.updating.filter import Lookups
from belvedere.updating.loading import coded, load, members_of
from belvedere.updating.normal import Shape
from belvedere.updating.trees import Keys, Tree

MOST_NEAR = 1_000_000
"""Rows that are found for one request."""


class Finder(Protocol):
    """Who finds rows of the tables by value."""

    def find(self, table: str, values: pa.Table, most: int) -> pa.Table | None:
        """The used columns of all rows that agree with one of some on their columns, NULL with NULL.

        None if they are more than `most`.
        """


def unseen(shape: Shape, held: Mapping[str, Sequence[str]]) -> list[str]:
    """What a view would have to show for its rows to be found by its own: columns, with tables."""
    return [
        f"{at.table}.{c}"
        for p, at in enumerate(shape.positions)
        for c in held[at.table]
        if (p, c) not in shape.shown
    ]


def near(
    tree: Tree,
    held: Mapping[str, tuple[str, ...]],
    keys: Keys,
    finder: Finder,
    asked: Sequence[ViewRow],
) -> Lookups:
    """The rows beside some view rows; `TooMuch` if they are too many."""
    found = _Walk(tree, held, finder, asked).found()
    tables = {t: pa.concat_tables(some) for t, some in found.items()}
    base = load(tree, held, tables)
    for table, some in found.items():
        _count(base, table, some)
    return Lookups(base, keys)


def _count(base: Base, table: str, found: Iterable[pa.Table]) -> None:
    """How often rows are there: whoever found one found all its copies."""
    rows = base.tables[table]
    counts = np.zeros(rows.size, dtype=np.int64)
    for some in found:
        numbers = rows.numbers(coded(base, table, some))
        np.maximum(counts, np.bincount(numbers, minlength=rows.size), out=counts)
    rows.counts = counts


class _Walk:
    def __init__(
        self,
        tree: Tree,
        held: Mapping[str, tuple[str, ...]],
        finder: Finder,
        asked: Sequence[ViewRow],
    ) -> None:
        self.tree, self.shape, self.held, self.finder = tree, tree.shape, held, finder
        self.left = MOST_NEAR
        self.segments = {t: self._segments(t, asked) for t in self.shape.tables}
        self.by_table: dict[str, list[pa.Table]] = {t: [] for t in self.shape.tables}
        self.arrived: dict[int, dict[int, pa.Table]] = {p: {} for p in range(len(tree.around))}

    def found(self) -> dict[str, list[pa.Table]]:
        """What was found of each table, by whom it was found."""
        for table, segments in self.segments.items():
            self._find(table, segments)
        for p, e in self.tree.ways:
            q = self.tree.edges[e].across(p)
            columns = self.tree.columns(q, e)
            rows = self._find(self.shape.positions[q].table, self._leaving(p, e, columns))
            self.arrived[q][e] = rows.filter(pa.array(members_of(self.shape, q, rows)))
        return self.by_table

    def _segments(self, table: str, asked: Sequence[ViewRow]) -> pa.Table:
        """What view rows say of a table's rows, at any of its positions."""
        told = [row.told_of(self.shape, p) for p in self.shape.at(table) for row in asked]
        columns = {
            c: pa.array([some[c] for some in told], kinds.arrow(self.shape.used[table][c]))
            for c in self.held[table]
        }
        return _distinct(pa.table(columns))

    def _leaving(self, p: int, e: int, names: Sequence[str]) -> pa.Table:
        """The keys of a way, under the names that they have at its end."""
        columns = list(self.tree.columns(p, e))
        others = [rows for f, rows in self.arrived[p].items() if f != e]
        segments = self.segments[self.shape.positions[p].table]
        every = pa.concat_tables([rows.select(columns) for rows in (segments, *others)])
        return _distinct(every.rename_columns(list(names)).drop_null())

    def _find(self, table: str, values: pa.Table) -> pa.Table:
        rows = self.finder.find(table, values, self.left) if values.num_rows else None
        if rows is None and values.num_rows:
            raise TooMuch(
                f"this update joins more than {MOST_NEAR} rows, too many to be found in the tables",
                reason="TOO_MUCH",
            )
        if rows is None:
            types = self.shape.used[table]
            rows = pa.schema({c: kinds.arrow(k) for c, k in types.items()}).empty_table()
        self.left -= rows.num_rows
        self.by_table[table].append(rows)
        return rows


def _distinct(rows: pa.Table) -> pa.Table:
    return rows.group_by(rows.column_names).aggregate([])


def agreeing(rows: pa.Table, values: pa.Table) -> Mask:
    """Which rows agree with one of some on all their columns, NULL with NULL."""
    from belvedere.kernels.interning import Interner

    codes = []
    for name in values.column_names:
        both = pa.chunked_array([*values[name].chunks, *rows[name].chunks], values[name].type)
        whole = pa.concat_arrays(both.chunks)
        indices = pc.dictionary_encode(whole, null_encoding="encode").indices
        codes.append(indices.to_numpy(zero_copy_only=False).astype(np.int64))
    numbers = Interner(len(codes)).ids(np.stack(codes, axis=1))
    found: Mask = np.isin(numbers[values.num_rows :], numbers[: values.num_rows])
    return found
