"""Rows of a table whose column has one of a few values: no Spark.

Spark reads every column that a query needs of every row before it joins them with the few keys
of a change. Here the key column is gone through first, and of the others only the batches that
hold a row of it are kept.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa

from belvedere.algebra.types import BIGINT, DATE, INT, SMALLINT, STRING, TINYINT, parse
from belvedere.delta import snapshots
from belvedere.delta.data_files import DataFile
from belvedere.delta.deletion_vectors import NONE, Numbers, deleted
from belvedere.delta.files import File, files
from belvedere.delta.small_changes import arrow_schema
from belvedere.delta.snapshots import Snapshot
from belvedere.delta.stamps import Position
from belvedere.delta.statistics import column_facts
from belvedere.memory.kinds import is_exact
from belvedere.storage.store import ObjectStore

KEYS = frozenset((TINYINT, SMALLINT, INT, BIGINT, DATE, STRING))
"""Types of columns that rows are looked up by: equal in Arrow where they are in SQL."""
_TIMES = frozenset(("date", "timestamp"))
HELD_BYTES = 64_000_000
"""Of small tables that were read whole, how much stays in memory."""


def look_up(
    table: Snapshot,
    version: int,
    columns: Sequence[str],
    column: str,
    values: pa.Array,
    *,
    nulls: bool,
    most: int,
) -> pa.Table | None:
    """Some columns of the rows that have one of the values in a column, or NULL if asked for.

    None if they are more than `most`, a file is gone, or Arrow is not the one to read them.
    """
    legible = legible_files(table, version, [*columns, column])
    if legible is None or not can_look_up(table, column):
        return None
    then, some = legible
    if arrow_schema({column: then.types[column.lower()]}).types != [values.type]:
        return None
    try:
        return _rows(then, some, columns, column, values, nulls=nulls, most=most)
    except FileNotFoundError:
        return None


def read_whole(table: Snapshot, version: int, columns: Sequence[str], most: int) -> pa.Table | None:
    """Some columns of all rows; None if they are more than `most` or Arrow is not to read them.

    What was read last stays in memory: a small table is joined with by every refresh.
    """
    # Without a mark, another version of the same number could not be told from this one.
    if not table.mark or version != table.version:
        return _whole(table, version, columns, most)
    place = (table.store, tuple(columns))
    with _holding:
        held = _held.get(place, {}).get(table.position)
    if held is not None:
        return held if held.num_rows <= most else None
    rows = _whole(table, version, columns, most)
    if rows is not None and rows.nbytes <= HELD_BYTES:
        _hold(place, table.position, rows)
    return rows


def _hold(place: _Place, at: Position, rows: pa.Table) -> None:
    """Keep them beside the version before them alone: earlier ones are not asked for again."""
    with _holding:
        before = list(_held.pop(place, {}).items())
        _held[place] = dict([*before[-1:], (at, rows)])
        while sum(r.nbytes for versions in _held.values() for r in versions.values()) > HELD_BYTES:
            _held.popitem(last=False)


_Place = tuple[ObjectStore, tuple[str, ...]]
_held: OrderedDict[_Place, dict[Position, pa.Table]] = OrderedDict()
_holding = threading.Lock()


def _whole(table: Snapshot, version: int, columns: Sequence[str], most: int) -> pa.Table | None:
    legible = legible_files(table, version, columns)
    if legible is None or any(f.rows is None for f in legible[1]):
        return None
    then, some = legible
    if sum(f.rows or 0 for f in some) > most:
        return None
    schema = schema_of(then, columns)
    try:
        parts = [DataFile(then.store, f.path).whole(schema, deleted_rows(then, f)) for f in some]
    except FileNotFoundError:
        return None
    return pa.concat_tables([schema.empty_table(), *parts]).rename_columns(list(columns))


def stream_whole(
    table: Snapshot, version: int, columns: Sequence[str]
) -> Iterator[pa.Table] | None:
    """Some columns of all rows, a file at a time; None if Arrow is not to read them."""
    legible = legible_files(table, version, columns)
    if legible is None or not all(table.store.exists(f.path) for f in legible[1]):
        return None
    then, some = legible
    schema = schema_of(then, columns)
    parts = (DataFile(then.store, f.path).whole(schema, deleted_rows(then, f)) for f in some)
    return (rows.rename_columns(list(columns)) for rows in parts)


def _rows(
    then: Snapshot,
    some: Sequence[File],
    columns: Sequence[str],
    column: str,
    values: pa.Array,
    *,
    nulls: bool,
    most: int,
) -> pa.Table | None:
    schema, by = schema_of(then, columns), schema_of(then, [column]).names[0]
    some = _with_room(then, some, by, values, nulls=nulls)
    with ThreadPoolExecutor(then.store.parallel_reads) as pool:
        opened = [DataFile(then.store, f.path) for f in some]
        numbers = list(pool.map(lambda f: f.where(by, values, nulls=nulls), opened))
        kept = [_kept(then, *pair) for pair in zip(some, numbers, strict=True)]
        if sum(map(len, kept)) > most:
            return None
        parts = pool.map(lambda f, n: f.some(schema, n), opened, kept)
        rows = pa.concat_tables([schema.empty_table(), *parts])
    return rows.rename_columns(list(columns))


def _with_room(
    table: Snapshot, some: Sequence[File], column: str, values: pa.Array, *, nulls: bool
) -> Sequence[File]:
    """The files whose bounds in the log leave room for one of the values: the others stay closed."""
    if not pa.types.is_integer(values.type):
        return some
    wanted = np.unique(values.drop_null().to_numpy(zero_copy_only=False))

    def has_room(file: File) -> bool:
        facts = column_facts(table, file, column)
        if facts.bounds is None or (nulls and facts.may_have_nulls):
            return True
        low, high = facts.bounds
        return bool(np.searchsorted(wanted, low) < np.searchsorted(wanted, high, "right"))

    return [file for file in some if has_room(file)]


def can_look_up(table: Snapshot, column: str) -> bool:
    """Whether rows may be found by the values of a column."""
    return table.plain and parse(table.types.get(column.lower(), "")) in KEYS


def legible_files(
    table: Snapshot, version: int, columns: Sequence[str]
) -> tuple[Snapshot, Sequence[File]] | None:
    """A version and its files, if they hold these columns as Arrow reads them."""
    some = files(table.store, version) if table.plain else None
    if some is None:
        return None
    then = table if version == table.version else snapshots.read(table.store, version)
    kinds = [then.types.get(c.lower(), "") for c in columns]
    if not then.plain or not all(map(is_exact, kinds)):
        return None
    opened = (DataFile(table.store, f.path) for f in some)
    if _TIMES & set(kinds) and any(f.hides_times(kinds) for f in opened):
        return None
    return then, some


def schema_of(table: Snapshot, columns: Sequence[str]) -> pa.Schema:
    """Columns in Arrow, as the table spells them."""
    spelled = {name.lower(): name for name, _ in table.columns}
    return arrow_schema({spelled[c.lower()]: table.types[c.lower()] for c in columns})


def _kept(table: Snapshot, file: File, numbers: np.ndarray) -> np.ndarray:
    """The numbers of rows that are not deleted."""
    if file.vector is None or not len(numbers):
        return numbers
    return numbers[~np.isin(numbers, deleted_rows(table, file), assume_unique=True)]


def deleted_rows(table: Snapshot, file: File) -> Numbers:
    """The numbers of rows that are deleted."""
    return NONE if file.vector is None else deleted(table.store, file.vector)
