"""Load the rows beside a request from the tables, for a view whose rows are not held in memory.

The view shows every column that would be held in memory, so that a view row gives its segments and
their keys on every edge of the join tree. Segments that may be inserted or deleted are *origins*: for
an insertion those that no table has, otherwise all. From each origin the joins are followed outwards,
all keys of an edge in one look-up:

    keys(p → q)  =  keys of the rows at p, which are the origin's or were loaded before

An embedding through an origin consists of segments and rows loaded from it, and one view row has one
embedding. So the exact check answers from these rows as it would from all rows.

If an origin has too many rows beside it (every order of a country, if the country were deleted), the
first of them are loaded and the table of the origin is *truncated*: a side effect that these rows show
is one, but that they show none proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from belvedere.joins.equijoin_tree import EquijoinTree, Keys
from belvedere.joins.normal_form import JoinBlock
from belvedere.memory import kinds
from belvedere.updating.request.view_rows import ViewRow
from belvedere.updating.side_effects.in_memory import TooManyJoins
from belvedere.updating.summary.base_tables import BaseTables, Mask
from belvedere.updating.summary.filter import RowLookups
from belvedere.updating.summary.loading import encode_rows, load_base, selected_rows

MOST_NEIGHBOURS = 100_000
"""Rows that are loaded from one origin."""
MOST_KEYS = 10_000
"""Keys that are looked up at once."""
MOST_FOLLOWED = 1_000
"""How many keys, or rows, are followed if there are more than that."""


class RowFinder(Protocol):
    """Finds rows of the tables by value."""

    def find(self, table: str, values: pa.Table, most: int) -> pa.Table | None:
        """The used columns of all rows that equal one of `values` on its columns; NULL equals NULL.

        Returns `most` + 1 rows if there are more, or None if those rows cannot be determined.
        """


def hidden_held_columns(shape: JoinBlock, held: Mapping[str, Sequence[str]]) -> list[str]:
    """The columns, with their tables, that the view would have to show for its rows to be looked up."""
    return [
        f"{position.table}.{c}"
        for p, position in enumerate(shape.positions)
        for c in held[position.table]
        if (p, c) not in shape.output_of
    ]


def load_neighbours(
    tree: EquijoinTree,
    held: Mapping[str, tuple[str, ...]],
    keys: Keys,
    finder: RowFinder,
    delete: Sequence[ViewRow],
    insert: Sequence[ViewRow],
) -> RowLookups:
    """The rows beside view rows to delete and insert; `TooManyJoins` if a row has too many copies."""
    search = _NeighbourSearch(tree, held, finder, delete, insert)
    rows_by_table = search.found()
    tables = {t: pa.concat_tables(rows) for t, rows in rows_by_table.items()}
    base = load_base(tree, held, tables)
    for table, rows in rows_by_table.items():
        _count_copies(base, table, rows)
    base.truncated = frozenset(search.truncated)
    return RowLookups(base, keys)


def segment_exists(
    shape: JoinBlock,
    p: int,
    held: Mapping[str, tuple[str, ...]],
    finder: RowFinder,
    values: Mapping[str, Any],
) -> bool:
    """Whether the table of a position has a segment, and the segment satisfies the selection."""
    table = shape.positions[p].table
    rows = finder.find(table, _segment_table(shape, table, held[table], [values]), MOST_NEIGHBOURS)
    return rows is None or bool(selected_rows(shape, p, rows).any())


def _segment_table(
    shape: JoinBlock, table: str, columns: Sequence[str], segments: Sequence[Mapping[str, Any]]
) -> pa.Table:
    types = shape.used[table]
    return pa.table(
        {c: pa.array([segment[c] for segment in segments], kinds.arrow(types[c])) for c in columns}
    )


def _count_copies(base: BaseTables, table: str, finds: Iterable[pa.Table]) -> None:
    """Count the copies of rows: every look-up that finds a row finds all its copies."""
    stored_rows = base.tables[table]
    counts = np.zeros(stored_rows.size, dtype=np.int64)
    for rows in finds:
        numbers = stored_rows.numbers(encode_rows(base, table, rows))
        np.maximum(counts, np.bincount(numbers, minlength=stored_rows.size), out=counts)
    stored_rows.counts = counts


class _NeighbourSearch:
    def __init__(
        self,
        tree: EquijoinTree,
        held: Mapping[str, tuple[str, ...]],
        finder: RowFinder,
        delete: Sequence[ViewRow],
        insert: Sequence[ViewRow],
    ) -> None:
        self.tree, self.shape, self.held, self.finder = tree, tree.block, held, finder
        self.only_inserts = not delete
        self.segments = {t: self._segments(t, [*delete, *insert]) for t in self.shape.tables}
        self.by_table: dict[str, list[pa.Table]] = {t: [] for t in self.shape.tables}
        self.truncated: set[str] = set()

    def found(self) -> dict[str, list[pa.Table]]:
        """The loaded rows of each table, one batch for each look-up."""
        origins = {t: self._stored(t, segments) for t, segments in self.segments.items()}
        for table, rows in origins.items():
            for p in self.shape.at(table):
                self._outwards(p, rows)
        return self.by_table

    def _segments(self, table: str, view_rows: Sequence[ViewRow]) -> pa.Table:
        """The segments of view rows in a table, over all its positions."""
        segments = [row.values_at(self.shape, p) for p in self.shape.at(table) for row in view_rows]
        return _distinct(_segment_table(self.shape, table, self.held[table], segments))

    def _stored(self, table: str, segments: pa.Table) -> pa.Table:
        """Load the segments that a table has; return the origins among them."""
        rows = self.finder.find(table, segments, MOST_NEIGHBOURS)
        if rows is None or rows.num_rows > MOST_NEIGHBOURS:
            raise TooManyJoins(
                f"{table!r} has more than {MOST_NEIGHBOURS} copies of a row", reason="TOO_MUCH"
            )
        self.by_table[table].append(rows)
        if not self.only_inserts:
            return segments
        members = rows
        for p in self.shape.at(table):
            members = members.filter(pa.array(selected_rows(self.shape, p, members)))
        return segments.filter(
            pa.array(~agreeing_rows(segments, members.select(segments.column_names)))
        )

    def _outwards(self, origin: int, rows: pa.Table) -> None:
        """Follow the joins from rows of a position, each edge away from it."""
        rows_left, todo = MOST_NEIGHBOURS, [(origin, -1, rows)]
        while todo:
            p, came, rows_here = todo.pop()
            for e in self.tree.around[p]:
                keys = _distinct(rows_here.select(list(self.tree.columns(p, e))).drop_null())
                if e == came or not keys.num_rows:
                    continue
                q = self.tree.edges[e].across(p)
                table = self.shape.positions[q].table
                keys = keys.rename_columns(list(self.tree.columns(q, e)))
                truncated = keys.num_rows > MOST_KEYS
                partners = self.finder.find(
                    table, keys.slice(0, MOST_FOLLOWED) if truncated else keys, rows_left
                )
                if partners is None or partners.num_rows > rows_left:
                    truncated, partners = (
                        True,
                        self._none(table) if partners is None else partners[:MOST_FOLLOWED],
                    )
                if truncated:
                    self.truncated.add(self.shape.positions[origin].table)
                rows_left = max(rows_left - partners.num_rows, MOST_FOLLOWED)
                self.by_table[table].append(partners)
                members = pa.array(selected_rows(self.shape, q, partners))
                todo.append((q, e, partners.filter(members)))

    def _none(self, table: str) -> pa.Table:
        types = self.shape.used[table]
        return pa.schema({c: kinds.arrow(k) for c, k in types.items()}).empty_table()


def _distinct(rows: pa.Table) -> pa.Table:
    return rows.group_by(rows.column_names).aggregate([])


def agreeing_rows(rows: pa.Table, values: pa.Table) -> Mask:
    """Which rows equal one of `values` on all its columns; NULL equals NULL."""
    from belvedere.kernels.hashes.interning import Interner

    codes = []
    for name in values.column_names:
        chunks = pa.chunked_array([*values[name].chunks, *rows[name].chunks], values[name].type)
        column = pa.concat_arrays(chunks.chunks)
        indices = pc.dictionary_encode(column, null_encoding="encode").indices
        codes.append(indices.to_numpy(zero_copy_only=False).astype(np.int64))
    numbers = Interner(len(codes)).ids(np.stack(codes, axis=1))
    agreeing: Mask = np.isin(numbers[values.num_rows :], numbers[: values.num_rows])
    return agreeing
