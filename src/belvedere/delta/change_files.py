"""The rows that commits brought and took, from the files their log names: no Spark.

    change files       their rows, by what they say of themselves
    a file added       its rows, but those in its deletion vector
    a file removed     likewise, taken away
    both, the same     the rows that only one of its two vectors deletes: of large files a few

delta-rs has a change feed too. It misses rows where a vector grows on a file of several row
groups, and where a file with a vector is removed or restored, so it is not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from belvedere.delta import log
from belvedere.delta.data_files import DataFile
from belvedere.delta.deletion_vectors import NONE, Numbers, deleted
from belvedere.delta.log import Action, Commit
from belvedere.sql.render import SIGN
from belvedere.storage.store import ObjectStore

if TYPE_CHECKING:
    import pyarrow as pa

_INSERTED = ("insert", "update_postimage")


def signed_rows(store: ObjectStore, commits: Sequence[Commit], schema: pa.Schema) -> pa.Table:
    """What commits did to the rows of a table: the columns of the schema, and a sign."""
    import pyarrow as pa

    reads = [read for commit in commits for read in _reads(store, commit, schema)]
    with ThreadPoolExecutor(store.parallel_reads) as pool:
        parts = list(pool.map(lambda read: read(), reads))
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


def _reads(
    store: ObjectStore, commit: Commit, schema: pa.Schema
) -> Iterator[Callable[[], pa.Table]]:
    """How to read what a commit did, a file at a time."""
    if commit.cdcs:
        yield from (partial(_change_rows, store, action, schema) for action in commit.cdcs)
        return
    before = {a["path"]: a for a in commit.removes if a.get("dataChange", True)}
    after = {a["path"]: a for a in commit.adds if a.get("dataChange", True)}
    for path in {**before, **after}:
        old, new = before.get(path), after.get(path)
        if old is not None and new is not None:
            yield partial(_between, store, old, new, schema, -1)
            yield partial(_between, store, new, old, schema, 1)
        elif new is not None:
            yield partial(_whole, store, new, schema, 1)
        elif old is not None:
            yield partial(_whole, store, old, schema, -1)


def _between(
    store: ObjectStore, one: Action, other: Action, schema: pa.Schema, sign: int
) -> pa.Table:
    """The rows of a file that the other vector deletes and the one does not."""
    numbers = _only(_deleted(store, other), _deleted(store, one))
    return _signed(_file(store, one).some(schema, numbers), sign)


def _only(numbers: Numbers, others: Numbers) -> Numbers:
    """The numbers that are not among the others."""
    return np.setdiff1d(numbers, others, assume_unique=True)


def _change_rows(store: ObjectStore, action: Action, schema: pa.Schema) -> pa.Table:
    """The rows of a change file, each with its sign."""
    import pyarrow as pa
    import pyarrow.compute as pc

    file = _file(store, action)
    raw = file.read()
    plus = pc.is_in(raw["_change_type"], pa.array(_INSERTED))
    signs = pc.if_else(plus, pa.scalar(1, pa.int64()), pa.scalar(-1, pa.int64()))
    return file.shaped(raw, schema).append_column(SIGN, signs)


def _whole(store: ObjectStore, action: Action, schema: pa.Schema, sign: int) -> pa.Table:
    return _signed(_file(store, action).whole(schema, _deleted(store, action)), sign)


def _file(store: ObjectStore, action: Action) -> DataFile:
    return DataFile(store, log.data_path(action["path"]), action.get("partitionValues") or {})


def _signed(rows: pa.Table, sign: int) -> pa.Table:
    import pyarrow as pa

    return rows.append_column(SIGN, pa.repeat(pa.scalar(sign, pa.int64()), rows.num_rows))


def _deleted(store: ObjectStore, action: Action) -> Numbers:
    vector = log.vector_of(action)
    return NONE if vector is None else deleted(store, vector)
