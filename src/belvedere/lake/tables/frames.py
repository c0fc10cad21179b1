"""A version of a table as a frame.

Delta lists the files of a version by a job of its own for every scan of every query. Where a
table's files hold its rows as they are, the log is read here instead and Spark reads the files;
deleted rows are left out by their places, which costs less than Delta's own filter. Anything
else is read as VERSION AS OF.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from belvedere.delta import snapshots
from belvedere.delta.deletion_vectors import deleted
from belvedere.delta.files import File, files
from belvedere.delta.snapshots import Snapshot
from belvedere.lake.tables.table import Table
from belvedere.sql.names import literal, quote
from belvedere.storage.store import ObjectStore

if TYPE_CHECKING:
    from belvedere.lake.sessions.workspace import Workspace

DELETED_AT_MOST = 100_000
"""Delta's own filter costs about a second for six million rows; to hand out so many places, half of it."""
_GLOB = set("*?[]{}\\")
_PLACE, _GONE = "__place", "__gone"
_ROW_BITS, _FILE_BITS = 30, 33


def open_version(
    work: Workspace, table: Table, version: int, needed: Callable[[File], bool] | None = None
) -> DataFrame:
    """The rows of a version; those of files that are not needed may be left out."""
    some = files(table.store, version) if table.plain else None
    if some is None:
        return _as_of(work, table, version)
    if needed is not None:
        some = [f for f in some if needed(f)]
    then = table if version == table.version else snapshots.read(table.store, version)
    reserved = {"_metadata", _PLACE} & {name.lower() for name, _ in then.columns}
    if (
        not (then.plain and _can_be_placed(some))
        or reserved
        or _GLOB & set("".join(then.store.url(f.path) for f in some))
    ):
        return _as_of(work, table, version)
    return _direct(work, then, some)


def _as_of(work: Workspace, table: Table, version: int) -> DataFrame:
    return work.query(f"SELECT * FROM {table.at(version)}")


def _direct(work: Workspace, table: Snapshot, some: Sequence[File]) -> DataFrame:
    if not some:
        return work.empty(table.columns)
    schema = ", ".join(f"{quote(name)} {kind}" for name, kind in table.columns)
    reader = work.spark.read.schema(schema).option("recursiveFileLookup", "true")
    frame = reader.parquet(*(table.store.url(f.path) for f in some))
    return (
        _without_deleted(work, table.store, some, frame) if any(f.vector for f in some) else frame
    )


def _can_be_placed(some: Sequence[File]) -> bool:
    """Whether few rows are deleted, and a number of 63 bits tells where each of them is."""
    deleted_rows = sum(f.deleted for f in some)
    return not deleted_rows or (
        deleted_rows <= DELETED_AT_MOST
        and all(f.size < 1 << _FILE_BITS for f in some)
        and all(f.rows is not None and f.rows + f.deleted < 1 << _ROW_BITS for f in some)
    )


def _without_deleted(
    work: Workspace, store: ObjectStore, some: Sequence[File], frame: DataFrame
) -> DataFrame:
    """The rows of files whose places are not in the files' deletion vectors.

    A place is a file's number and a row's. Spark knows a file's size, so that is its number; of
    two files of one size, those with deleted rows are numbered by their names, below zero.
    """
    sizes = {f.path: store.head(f.path).size for f in some}
    alike = Counter(sizes.values())
    named = [f for f in some if f.vector and alike[sizes[f.path]] > 1]
    numbers = {**sizes, **{f.path: -i for i, f in enumerate(named, 1)}}
    gone = [deleted(store, f.vector) + (numbers[f.path] << _ROW_BITS) for f in some if f.vector]
    names = {f.path: literal(f.path.rpartition("/")[2]) for f in named}
    cases = [f"WHEN {name} THEN {numbers[path]}L" for path, name in names.items()]
    size = "_metadata.file_size"
    file = f"CASE _metadata.file_name {' '.join(cases)} ELSE {size} END" if cases else size
    places = work.spark.createDataFrame(pa.table({_GONE: np.concatenate(gone)})).hint("broadcast")
    placed = frame.selectExpr(
        "*", f"shiftleft({file}, {_ROW_BITS}) + _metadata.row_index AS {_PLACE}"
    )
    kept = placed.join(places, placed[_PLACE] == places[_GONE], "left_anti")
    return kept.drop(_PLACE)
