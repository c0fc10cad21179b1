"""The rows that commits brought and took, from the files their log names: no Spark.

    change files       their rows, by what they say of themselves
    a file added       its rows, but those in its deletion vector
    a file removed     likewise, taken away
    both, the same     the rows that only one of its two vectors deletes: of large files a few

delta-rs has a change feed too. It misses rows where a vector grows on a file of several row
groups, and where a file with a vector is removed or restored, so it is not asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from belvedere.lake import log
from belvedere.lake.log import Action, Commit
from belvedere.lake.vectors import NONE, Numbers, deleted
from belvedere.sql.render import SIGN

if TYPE_CHECKING:
    import pyarrow as pa

_INSERTED = ("insert", "update_postimage")


def signed_rows(root: Path, commits: Sequence[Commit], schema: pa.Schema) -> pa.Table:
    """What commits did to the rows of a table: the columns of the schema, and a sign."""
    import pyarrow as pa

    parts = [part for commit in commits for part in _parts(root, commit, schema)]
    shape = schema.append(pa.field(SIGN, pa.int64()))
    return pa.concat_tables([shape.empty_table(), *parts])


def touched_files(commit: Commit) -> tuple[Action, ...]:
    """The files that a commit's changes are read from."""
    if commit.cdcs or not commit.changes_data:
        return commit.cdcs
    return tuple(a for a in (*commit.adds, *commit.removes) if a.get("dataChange", True))


def kept_files(commit: Commit) -> frozenset[str]:
    """The files that a commit leaves in place with another deletion vector."""
    return frozenset(a["path"] for a in commit.adds) & {a["path"] for a in commit.removes}


def _parts(root: Path, commit: Commit, schema: pa.Schema) -> Iterator[pa.Table]:
    if commit.cdcs:
        for action in commit.cdcs:
            yield _told(root, action, schema)
        return
    before = {a["path"]: a for a in commit.removes if a.get("dataChange", True)}
    after = {a["path"]: a for a in commit.adds if a.get("dataChange", True)}
    for path in {**before, **after}:
        old, new = before.get(path), after.get(path)
        if old is not None and new is not None:
            was, now = _deleted(root, old), _deleted(root, new)
            yield _signed(_some(root, new, schema, _only(now, was)), -1)
            yield _signed(_some(root, new, schema, _only(was, now)), 1)
        elif new is not None:
            yield _signed(_whole(root, new, schema), 1)
        elif old is not None:
            yield _signed(_whole(root, old, schema), -1)


def _only(numbers: Numbers, others: Numbers) -> Numbers:
    """The numbers that are not among the others."""
    return np.setdiff1d(numbers, others, assume_unique=True)


def _told(root: Path, action: Action, schema: pa.Schema) -> pa.Table:
    """The rows of a change file, each with its sign."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    raw = pq.ParquetFile(log.data_file(root, action["path"])).read()
    plus = pc.is_in(raw["_change_type"], pa.array(_INSERTED))
    signs = pc.if_else(plus, pa.scalar(1, pa.int64()), pa.scalar(-1, pa.int64()))
    return _shaped(raw, action, schema).append_column(SIGN, signs)


def _whole(root: Path, action: Action, schema: pa.Schema) -> pa.Table:
    """The rows of a file that its vector leaves."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pq.ParquetFile(log.data_file(root, action["path"]))
    rows = file.read(columns=_stored(file, schema))
    kept = np.ones(file.metadata.num_rows, dtype=bool)
    kept[_deleted(root, action)] = False
    # A table without columns forgets how many rows it has when it is filtered.
    shaped = _shaped(rows, action, schema, file.metadata.num_rows)
    return shaped if kept.all() else shaped.take(pa.array(np.flatnonzero(kept)))


def _some(root: Path, action: Action, schema: pa.Schema, numbers: Numbers) -> pa.Table:
    """Some rows of a file by their numbers, in order; one row group in memory at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pq.ParquetFile(log.data_file(root, action["path"]))
    stored = _stored(file, schema)
    parts, first = [], 0
    for group in range(file.num_row_groups):
        count = file.metadata.row_group(group).num_rows
        low, high = np.searchsorted(numbers, (first, first + count))
        if low < high:
            rows = file.read_row_group(group, columns=stored)
            shaped = _shaped(rows, action, schema, count)
            parts.append(shaped.take(pa.array(numbers[low:high] - first)))
        first += count
    return pa.concat_tables([schema.empty_table(), *parts])


def _stored(file: pa.parquet.ParquetFile, schema: pa.Schema) -> list[str]:
    there = set(file.schema_arrow.names)
    return [name for name in schema.names if name in there]


def _shaped(
    rows: pa.Table, action: Action, schema: pa.Schema, count: int | None = None
) -> pa.Table:
    """Rows of a file as the table has them: partition values and NULL for what it does not hold."""
    import pyarrow as pa

    size = rows.num_rows if count is None else count
    values = action.get("partitionValues") or {}
    columns = []
    for field in schema:
        if field.name in rows.column_names:
            columns.append(rows[field.name].cast(field.type))
        else:
            value = pa.scalar(values.get(field.name) or None, pa.string()).cast(field.type)
            columns.append(pa.repeat(value, size))
    return pa.Table.from_arrays(columns, schema=schema)


def _signed(rows: pa.Table, sign: int) -> pa.Table:
    import pyarrow as pa

    return rows.append_column(SIGN, pa.repeat(pa.scalar(sign, pa.int64()), rows.num_rows))


def _deleted(root: Path, action: Action) -> Numbers:
    vector = log.vector_of(action)
    return NONE if vector is None else deleted(root, vector)
