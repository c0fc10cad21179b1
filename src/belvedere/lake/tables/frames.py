"""A version of a table as a frame.

Delta lists the files of a version by a job of its own for every scan of every query. Where a
table's files hold its rows as they are, the log is read here instead and Spark reads the files;
deleted rows are left out by their places, which costs less than Delta's own filter. Anything
else is read as VERSION AS OF.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from belvedere.delta import tables
from belvedere.delta.deletion_vectors import deleted
from belvedere.delta.files import File, files
from belvedere.delta.tables import Table
from belvedere.sql.names import literal, quote

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
    root = table.root if table.plain else None
    found = files(root, version) if root is not None else None
    if root is None or found is None:
        return _as_of(work, table, version)
    if needed is not None:
        found = [f for f in found if needed(f)]
    then = table if version == table.version else tables.read(table.name, root, version)
    taken = {"_metadata", _PLACE} & {name.lower() for name, _ in then.columns}
    if (
        not (then.plain and _can_be_placed(found))
        or taken
        or _GLOB & set("".join(f.path for f in found))
    ):
        return _as_of(work, table, version)
    return _direct(work, root, then, found)


def _as_of(work: Workspace, table: Table, version: int) -> DataFrame:
    return work.query(f"SELECT * FROM {table.at(version)}")


def _direct(work: Workspace, root: Path, table: Table, found: Sequence[File]) -> DataFrame:
    if not found:
        return work.empty(table.columns)
    schema = ", ".join(f"{quote(name)} {kind}" for name, kind in table.columns)
    reader = work.spark.read.schema(schema).option("recursiveFileLookup", "true")
    frame = reader.parquet(*(f.path for f in found))
    return _without_deleted(work, root, found, frame) if any(f.vector for f in found) else frame


def _can_be_placed(found: Sequence[File]) -> bool:
    """Whether few rows are deleted, and a number of 63 bits tells where each of them is."""
    deleted_rows = sum(f.deleted for f in found)
    return not deleted_rows or (
        deleted_rows <= DELETED_AT_MOST
        and all(f.size < 1 << _FILE_BITS for f in found)
        and all(f.rows is not None and f.rows + f.deleted < 1 << _ROW_BITS for f in found)
    )


def _without_deleted(
    work: Workspace, root: Path, found: Sequence[File], frame: DataFrame
) -> DataFrame:
    """The rows of files whose places are not in the files' deletion vectors.

    A place is a file's number and a row's. Spark knows a file's size, so that is its number; of
    two files of one size, those with deleted rows are numbered by their names, below zero.
    """
    sizes = {f.path: Path(f.path).stat().st_size for f in found}
    alike = Counter(sizes.values())
    named = [f for f in found if f.vector and alike[sizes[f.path]] > 1]
    numbers = {**sizes, **{f.path: -i for i, f in enumerate(named, 1)}}
    gone = [deleted(root, f.vector) + (numbers[f.path] << _ROW_BITS) for f in found if f.vector]
    cases = [f"WHEN {literal(Path(f.path).name)} THEN {numbers[f.path]}L" for f in named]
    size = "_metadata.file_size"
    file = f"CASE _metadata.file_name {' '.join(cases)} ELSE {size} END" if cases else size
    places = work.spark.createDataFrame(pa.table({_GONE: np.concatenate(gone)})).hint("broadcast")
    placed = frame.selectExpr(
        "*", f"shiftleft({file}, {_ROW_BITS}) + _metadata.row_index AS {_PLACE}"
    )
    kept = placed.join(places, placed[_PLACE] == places[_GONE], "left_anti")
    return kept.drop(_PLACE)
