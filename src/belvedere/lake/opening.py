"""A version of a table as a frame.

Delta lists the files of a version by a job of its own for every scan of every query. Where a
table's files hold its rows as they are, the log is read here instead and Spark reads the files;
a few deleted rows are left out by their numbers. Anything else is read as VERSION AS OF.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from belvedere.lake import tables
from belvedere.lake.files import File, files
from belvedere.lake.names import literal, quote
from belvedere.lake.tables import Table
from belvedere.lake.vectors import deleted

if TYPE_CHECKING:
    from belvedere.lake.work import Work

DELETED_AT_MOST = 10_000
_GLOB = set("*?[]{}\\")


def open_version(work: Work, table: Table, version: int) -> DataFrame:
    """The rows of a version."""
    root = table.root if table.plain else None
    found = files(root, version) if root is not None else None
    if root is None or found is None:
        return _as_of(work, table, version)
    then = table if version == table.version else tables.read(table.name, root, version)
    few = sum(f.deleted for f in found) <= DELETED_AT_MOST
    if not (then.plain and few) or _GLOB & set("".join(f.path for f in found)):
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
        frames.append(_parquet(work, table, holed).where(f"NOT ({_deleted(root, holed)})"))
    return reduce(DataFrame.unionAll, frames)


def _parquet(work: Work, table: Table, found: Sequence[File]) -> DataFrame:
    if not found:
        return work.empty(table.columns)
    schema = ", ".join(f"{quote(name)} {kind}" for name, kind in table.columns)
    reader = work.spark.read.schema(schema).option("recursiveFileLookup", "true")
    return reader.parquet(*(f.path for f in found))


def _deleted(root: Path, found: Sequence[File]) -> str:
    """Whether a row is deleted, by the name of its file and its number in it."""
    cases = []
    for file in found:
        assert file.vector is not None
        numbers = ", ".join(map(str, deleted(root, file.vector)))
        cases.append(
            f"WHEN {literal(Path(file.path).name)} THEN _metadata.row_index IN ({numbers})"
        )
    return f"CASE _metadata.file_name {' '.join(cases)} ELSE false END"
