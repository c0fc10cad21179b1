"""The base tables in memory, as far as a view compares them: values as numbers, rows as a set.

Of each table, memory holds the columns that the view joins on and those that identify a row: the
declared key if the view shows it, otherwise every column that the view uses. Rows that agree on these
columns are one row with a count. A table is held once, however often the view lists it; for each
position, `members` says which rows satisfy the position's selection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from belvedere.errors import Internal
from belvedere.joins.equijoin_tree import EquijoinTree
from belvedere.joins.normal_form import JoinBlock
from belvedere.updating.summary.domains import NULL, Codes, Domain

if TYPE_CHECKING:
    from belvedere.kernels.hashes.interning import Interner
    from belvedere.kernels.postings import Postings

RowCodes = tuple[int, ...]
"""A row of a table: the numbers of its held columns, in their order."""

Mask = npt.NDArray[np.bool_]
_SHIFT = 32


class RowNotHeld(Internal):
    """A row is deleted that is not held: the rows in memory do not match their vector."""

    def __init__(self, table: str) -> None:
        super().__init__(f"a row went from {table!r} that is not held", reason="STATE_MISMATCH")
        self.table = table


def held_columns(
    shape: JoinBlock, keys: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """The columns of each table that are held in memory."""
    held = {}
    for table in shape.tables:
        used = tuple(shape.used[table])
        positions = shape.at(table)
        key = keys.get(table)
        shown = key is not None and all((p, c) in shape.output_of for p in positions for c in key)
        if key is None or not shown:
            held[table] = used
            continue
        joined = {c for p in positions for c in used if (p, c) in shape.class_of}
        held[table] = tuple(c for c in used if c in joined or c in key)
    return held


@dataclass
class TableRows:
    """The rows of one table."""

    columns: tuple[str, ...]
    codes: list[Codes]
    """One array for each held column, with spare room at the end like every array of rows."""
    counts: Codes
    """How many base rows each row stands for; 0 if it is deleted."""
    size: int
    members: dict[int, Mask]
    """For each position of the table, which rows satisfy its selection."""
    interner: Interner | None = None
    """Finds rows by their numbers; None until the first look-up."""

    def numbers(self, rows: Codes) -> Codes:
        """The row numbers of an array of rows; unknown rows get the next numbers."""
        if self.interner is None:
            from belvedere.kernels.hashes.interning import Interner

            self.interner = Interner(len(self.columns))
            self.interner.ids(np.stack([c[: self.size] for c in self.codes], axis=1))
        return self.interner.ids(rows).astype(np.int64)

    def row(self, number: int) -> RowCodes:
        """A row by its number."""
        return tuple(int(c[number]) for c in self.codes)

    def column(self, name: str) -> Codes:
        """The numbers of one column."""
        return self.codes[self.columns.index(name)][: self.size]


class BaseTables:
    """The rows of all tables of a view, and indexes on the keys of its join tree."""

    def __init__(
        self,
        tree: EquijoinTree,
        held: Mapping[str, tuple[str, ...]],
        domains: Mapping[tuple[str, str], Domain],
    ) -> None:
        self.tree, self.shape, self.held = tree, tree.block, dict(held)
        self.domains: dict[tuple[str, str], Domain] = dict(domains)
        self.tables: dict[str, TableRows] = {}
        self.truncated: frozenset[str] = frozenset()
        """Tables whose segments join with more rows than were loaded."""
        self.pairs: dict[int, Domain] = {
            e: Domain(np.zeros(0, dtype=np.int64), True)
            for e, edge in enumerate(tree.edges)
            if len(edge.classes) > 1
        }
        self._indexes: dict[tuple[int, int], Postings] = {}
        self._keys: dict[tuple[int, int], Codes] = {}
        self._numbered: dict[tuple[int, int], int] = {}

    def with_root(self, root: int) -> BaseTables:
        """The same rows with another root of the join tree."""
        other = BaseTables(self.tree.rooted(root), self.held, self.domains)
        other.tables, other.pairs = self.tables, self.pairs
        other._indexes, other._keys, other._numbered = self._indexes, self._keys, self._numbered
        return other

    def rows_at(self, position: int) -> TableRows:
        """The rows of a position's table."""
        return self.tables[self.shape.positions[position].table]

    def present(self, position: int) -> Mask:
        """Which rows exist and satisfy the position's selection."""
        rows = self.rows_at(position)
        present: Mask = rows.members[position][: rows.size] & (rows.counts[: rows.size] > 0)
        return present

    def is_present(self, position: int, number: int) -> bool:
        """Whether a row exists and satisfies the position's selection."""
        rows = self.rows_at(position)
        return bool(rows.counts[number] > 0 and rows.members[position][number])

    def width(self, edge: int) -> int:
        """The number of keys of an edge."""
        if edge in self.pairs:
            return len(self.pairs[edge])
        p = self.tree.edges[edge].left
        column = self.tree.columns(p, edge)[0]
        return len(self.domains[self.shape.positions[p].table, column])

    def keys(self, position: int, edge: int) -> Codes:
        """The key on an edge of every row of a position; -1 if a part of it is NULL."""
        rows = self.rows_at(position)
        keys = self._keys.get((position, edge))
        numbered = 0 if keys is None else self._numbered[position, edge]
        if keys is None or numbered < rows.size:
            parts = [rows.column(c)[numbered:] for c in self.tree.columns(position, edge)]
            keys = resized(np.zeros(0, np.int64) if keys is None else keys, rows.size)
            keys[numbered : rows.size] = self._combined(edge, parts)
            self._keys[position, edge] = keys
            self._numbered[position, edge] = rows.size
        return keys[: rows.size]

    def number_keys(self) -> None:
        """Number the keys of all rows, then sort rows by key. A key without a number joins with nothing."""
        ends = [(p, e) for p, around in enumerate(self.tree.around) for e in around]
        for position, edge in ends:
            self.keys(position, edge)
        for position, edge in ends:
            self.index(position, edge)

    def key(self, position: int, edge: int, row: RowCodes) -> int | None:
        """The key of a row that need not exist; None if no row has it."""
        columns = self.rows_at(position).columns
        parts = [row[columns.index(c)] for c in self.tree.columns(position, edge)]
        if NULL in parts:
            return NULL
        if edge not in self.pairs:
            return parts[0]
        key = parts[0]
        for part in parts[1:]:
            code = self.pairs[edge].code(key << _SHIFT | part)
            if code is None:
                return None
            key = code
        return key

    def _combined(self, edge: int, parts: Sequence[Codes]) -> Codes:
        combined = np.array(parts[0], dtype=np.int64)
        for part in parts[1:]:
            null = (combined < 0) | (part < 0)
            both = np.where(null, 0, combined << _SHIFT | np.maximum(part, 0))
            domain = self.pairs[edge]
            if len(domain) == 0:
                self.pairs[edge] = domain = Domain.of_integers(both[~null])
            coded = np.full(len(both), NULL, dtype=np.int64)
            coded[~null] = domain.codes_of(both[~null])
            combined = coded
        return combined

    def index(self, position: int, edge: int) -> Postings:
        """The rows of a position by their keys on an edge, including deleted rows."""
        postings = self._indexes.get((position, edge))
        if postings is None:
            from belvedere.kernels.postings import Postings

            postings = Postings(self.keys(position, edge), self.width(edge))
            self._indexes[position, edge] = postings
        return postings

    def matching(self, position: int, edge: int, key: int | None) -> list[int]:
        """The rows that exist, satisfy the position's selection and have a key on an edge."""
        if key is None or key < 0:
            return []
        rows = self.rows_at(position)
        member, counts = rows.members[position], rows.counts
        return [n for n in self.index(position, edge).rows(key) if counts[n] > 0 and member[n]]

    def find(self, table: str, row: RowCodes) -> int | None:
        """The number of a row, existing or deleted; None if it never existed."""
        rows = self.tables[table]
        edge, position = self._finest(table)
        if edge is None:
            same = np.ones(rows.size, dtype=bool)
            for column, code in zip(rows.codes, row, strict=True):
                same &= column[: rows.size] == code
            matching = np.flatnonzero(same)
            return int(matching[0]) if len(matching) else None
        key = self.key(position, edge, row)
        if key is None:
            return None
        numbers = np.asarray(self._with_key(position, edge, key), dtype=np.int64)
        for column, code in zip(rows.codes, row, strict=True):
            numbers = numbers[column[numbers] == code]
        return int(numbers[0]) if len(numbers) else None

    def _with_key(self, position: int, edge: int, key: int) -> Sequence[int]:
        if key >= 0:
            return self.index(position, edge).rows(key)
        return np.flatnonzero(self.keys(position, edge) < 0).tolist()

    def _finest(self, table: str) -> tuple[int | None, int]:
        """The edge with the most keys, by which rows of a table are found fastest."""
        edges = [(e, p) for p in self.shape.at(table) for e in self.tree.around[p]]
        if not edges:
            return None, -1
        return max(edges, key=lambda pair: self.width(pair[0]))

    def number_rows(self, table: str, rows: Codes) -> Codes:
        """The numbers of rows of a table; new rows are added with count 0."""
        stored = self.tables[table]
        numbers = stored.numbers(rows)
        assert stored.interner is not None
        if stored.interner.size > stored.size:
            self._append(table, stored.interner.keys[stored.size : stored.interner.size])
        return numbers

    def _append(self, table: str, new: Codes) -> None:
        rows = self.tables[table]
        first, size = rows.size, rows.size + len(new)
        rows.codes = [resized(c, size) for c in rows.codes]
        for column, codes in zip(rows.codes, new.T, strict=True):
            column[first:size] = codes
        rows.counts = resized(rows.counts, size)
        rows.members = {p: resized(m, size) for p, m in rows.members.items()}
        rows.size = size
        numbers = np.arange(first, size)
        for p in self.shape.at(table):
            for e in self.tree.around[p]:
                self._index_late(p, e, numbers)

    def _index_late(self, position: int, edge: int, numbers: Codes) -> None:
        keys = self.keys(position, edge)[numbers]
        index = self._indexes.get((position, edge))
        if index is not None:
            index.add(numbers, keys, self.width(edge))
            if index.stale:
                del self._indexes[position, edge]

    def change_counts(
        self, table: str, numbers: Codes, signs: Codes, members: Mapping[int, Mask]
    ) -> None:
        """Change the counts of rows; `RowNotHeld` if a row is deleted that does not exist."""
        rows = self.tables[table]
        np.add.at(rows.counts, numbers, signs)
        if (rows.counts[numbers] < 0).any():
            raise RowNotHeld(table)
        came = signs > 0
        # A selection may use columns that are not held, so a row that returns may satisfy it or not.
        for p, member in members.items():
            rows.members[p][numbers[came]] = member[came]

    def are_present(self, position: int, numbers: Codes) -> Mask:
        """Which of some rows exist and satisfy the position's selection."""
        rows = self.rows_at(position)
        present: Mask = (rows.counts[numbers] > 0) & rows.members[position][numbers]
        return present

    def values(self, table: str, row: RowCodes) -> dict[str, int | str | None]:
        """The values of a row, normalized."""
        return {
            c: self.domains[table, c].value(code)
            for c, code in zip(self.held[table], row, strict=True)
        }

    @property
    def bytes(self) -> int:
        """The memory that rows take: the look-up part of a summary."""
        return sum(
            sum(c.nbytes for c in rows.codes) + rows.counts.nbytes for rows in self.tables.values()
        )


def with_spare_room(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array with spare room after it, so that the first change need not allocate."""
    return resized(array, len(array) + 1)[: len(array)]


def resized(array: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    """An array that begins with `known` and has room for `size` numbers and some more."""
    if len(array) >= size:
        return array
    larger = np.empty(size + size // 8 + 16, dtype=array.dtype)
    larger[: len(array)] = array
    larger[len(array) :] = 0
    return larger
