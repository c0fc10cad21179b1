"""Clustering: the files of a table in the order of the column that a sketch cuts it by.

A sketch skips what files and row groups have no row of its fragments; where rows that are near each
other in the column are far from each other in the files, that is nothing. `OPTIMIZE … ZORDER BY` puts
them together, in files small enough for some to be skipped; no row changes by it.
"""

from __future__ import annotations

from dataclasses import dataclass

from belvedere.delta.files import files
from belvedere.joins.partitions import Bitmap, Partition
from belvedere.lake.pins import Pins
from belvedere.lake.tables.table import Table
from belvedere.sketches.live import Live
from belvedere.sketches.use.rewrite import Skipped, share, skipped
from belvedere.sql.names import quote

FILES = 64
"""Into about how many files a table is put together."""
_SMALLEST, _LARGEST = 1_000_000, 128_000_000
"""Bytes of a file: smaller ones cost more to open than they save, larger ones are never skipped."""
_FILE_SIZE = "spark.databricks.delta.optimize.maxFileSize"
_WORTH_IT = 2.0
"""How many times less than now would have to be read for clustering to be offered."""


@dataclass(frozen=True)
class Clustered:
    """What a sketch lets queries skip of a table, before it was clustered and after."""

    table: str
    column: str
    before: Skipped | None
    after: Skipped | None

    def __str__(self) -> str:
        told = (
            "not known" if s is None else f"{s.files} of {s.of_files} files, {_percent(s)} of bytes"
            for s in (self.before, self.after)
        )
        before, after = told
        return f"{self.table} by {self.column}: skipped {before} before, {after} after"


def cluster(pins: Pins, live: Live) -> list[Clustered]:
    """Put the tables that a sketch cuts into the order of its columns."""
    done = []
    for partition, bitmap in zip(live.definition.partitions, live.bitmaps, strict=True):
        table = pins.table(partition.table)
        before = _skipped(table, partition, bitmap)
        work = pins.work({**live.definition.settings, _FILE_SIZE: str(file_size(table))})
        work.query(f"OPTIMIZE {table.reference} ZORDER BY ({quote(partition.column)})")
        pins.forget(partition.table)
        after = _skipped(pins.table(partition.table), partition, bitmap)
        done.append(Clustered(partition.table, partition.column, before, after))
    return done


def offered(table: Table, partition: Partition, bitmap: Bitmap) -> str:
    """What clustering a table promises, if it does; "" if there is little to gain."""
    found = _skipped(table, partition, bitmap)
    kept = share(partition, bitmap)
    if found is None or not found.of_bytes or found.of_bytes < _SMALLEST:
        return ""
    read = 1 - found.bytes / found.of_bytes
    if read < _WORTH_IT * max(kept, file_size(table) / found.of_bytes):
        return ""
    return (
        f"{partition.table} is read for {read:.0%} of its bytes, for {kept:.1%} of its fragments: "
        f"CLUSTER SKETCH puts it in the order of {partition.column}"
    )


def file_size(table: Table) -> int:
    """How large the files of a clustered table are to be."""
    some = files(table.store, table.version)
    whole = sum(f.size for f in some) if some else FILES * _LARGEST
    return min(max(whole // FILES, _SMALLEST), _LARGEST)


def _skipped(table: Table, partition: Partition, bitmap: Bitmap) -> Skipped | None:
    return skipped(table, table.version, partition, bitmap)


def _percent(told: Skipped) -> str:
    return f"{100 * told.bytes / max(told.of_bytes, 1):.0f} %"
