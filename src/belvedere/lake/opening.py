"""A version of a table as a frame.

Delta lists the files of a version by a job of its own for every scan of every query. Where a
table's files hold its rows as they are, the log is read here instead and Spark reads the files;
deleted rows are left out by their places, which costs less than Delta's own filter. Anything
else is read as VERSION AS OF.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from belvedere.lake import tables
from belvedere.lake.files import File, files
from belvedere.lake.names import literal, quote
from belvedere.lake.tables import Table
from belvedere.lake.vectors import deleted

if TYPE_CHECKING:
    from belvedere.lake.work import Work

DELETED_AT_MOST = 2_000_000
_GLOB = set("*?[]{}\\")
_PLACE, _GONE = "__place", "__gone"
_ROW_BITS = 40


def open_version(work: Work, table: Table, version: int) -> DataFrame:
    """The rows of a version."""
    root = table.root if table.plain else None
    found = files(root, version) if root is not None else None
    if root is None or found is None:
        return _as_of(work, table, version)
    then = table if version == table.version else tables.read(table.name, root, version)
    few = sum(f.deleted for f in found) <= DELETED_AT_MOST
    taken = {"_metadata", _PLACE} & {name.lower() for name, _ in then.columns}
    if not (then.plain and few) or taken or _GLOB & set("".join(f.path for f in found)):
        return _as_of(work, table, version)
    return _direct(work, root, then, found)


def _as_of(work: Work, table: Table, version: int) -> DataFrame:
    return work.query(f"SELECT * FROM {table.at(version)}")


def _direct(work: Work, root: Path, table: Table, found: Sequence[File]) -> DataFrame:
    whole = [f for f in found if f.vector is None]
    holed = [f for f in found if f.vector is not None]
    frames = []
    if whole or not holed:
        frames.append(_parquet(work, table, whole))
    if holed:
        frames.append(_without_deleted(work, root, holed, _parquet(work, table, holed)))
    return reduce(DataFrame.unionAll, frames)


def _parquet(work: Work, table: Table, found: Sequence[File]) -> DataFrame:
    if not found:
        return work.empty(table.columns)
    schema = ", ".join(f"{quote(name)} {kind}" for name, kind in table.columns)
    reader = work.spark.read.schema(schema).option("recursiveFileLookup", "true")
    return reader.parquet(*(f.path for f in found))


def _without_deleted(work: Work, root: Path, found: Sequence[File], frame: DataFrame) -> DataFrame:
    """The rows of files whose places are not in the files' deletion vectors."""
    names = [literal(Path(f.path).name) for f in found]
    cases = " ".join(f"WHEN {name} THEN {i}L" for i, name in enumerate(names))
    file = f"shiftleft(CASE _metadata.file_name {cases} END, {_ROW_BITS})"
    gone = [deleted(root, f.vector) + (i << _ROW_BITS) for i, f in enumerate(found) if f.vector]
    places = work.spark.createDataFrame(pa.table({_GONE: np.concatenate(gone)})).hint("broadcast")
    placed = frame.selectExpr("*", f"{file} + _metadata.row_index AS {_PLACE}")
    kept = placed.join(places, placed[_PLACE] == places[_GONE], "left_anti")
    return kept.drop(_PLACE)
