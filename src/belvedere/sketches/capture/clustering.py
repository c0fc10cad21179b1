"""Clustering: the files of a table in the order of the column that a sketch partitions it by.

A sketch skips files and row groups without rows of its fragments. If near values of the column are spread
over all files, none is skipped. `OPTIMIZE … ZORDER BY` puts near values into the same files, which are
small enough to be skipped. It changes no row.
"""

from __future__ import annotations

from dataclasses import dataclass

from belvedere.delta.files import files
from belvedere.joins.partitions import Bitmap, Partition
from belvedere.lake.pins import Pins
from belvedere.lake.tables.table import Table
from belvedere.sketches.live import Live
from belvedere.sketches.use.rewrite import SkippedFiles, fragment_share, skipped_files
from belvedere.sql.names import quote

FILES = 64
"""The number of files, about, of a clustered table."""
_SMALLEST, _LARGEST = 1_000_000, 128_000_000
"""Bytes of a file: smaller files cost more to open than they save, larger files are never skipped."""
_FILE_SIZE = "spark.databricks.delta.optimize.maxFileSize"
_WORTH_IT = 2.0
"""Clustering is offered if it divides the bytes to read by so much."""


@dataclass(frozen=True)
class Clustered:
    """The files of a table that queries through a sketch skip, before and after clustering."""

    table: str
    column: str
    before: SkippedFiles | None
    after: SkippedFiles | None

    def __str__(self) -> str:
        texts = (
            "not known" if s is None else f"{s.files} of {s.of_files} files, {_percent(s)} of bytes"
            for s in (self.before, self.after)
        )
        before, after = texts
        return f"{self.table} by {self.column}: skipped {before} before, {after} after"


def cluster(pins: Pins, live: Live) -> list[Clustered]:
    """Cluster the tables of a sketch by its columns."""
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


def clustering_advice(table: Table, partition: Partition, bitmap: Bitmap) -> str:
    """A sentence on what clustering a table saves; "" if that is little."""
    now = _skipped(table, partition, bitmap)
    kept = fragment_share(partition, bitmap)
    if now is None or not now.of_bytes or now.of_bytes < _SMALLEST:
        return ""
    read = 1 - now.bytes / now.of_bytes
    if read < _WORTH_IT * max(kept, file_size(table) / now.of_bytes):
        return ""
    return (
        f"{partition.table} is read for {read:.0%} of its bytes, for {kept:.1%} of its fragments: "
        f"CLUSTER SKETCH puts it in the order of {partition.column}"
    )


def file_size(table: Table) -> int:
    """The size of the files of a clustered table."""
    some = files(table.store, table.version)
    whole = sum(f.size for f in some) if some else FILES * _LARGEST
    return min(max(whole // FILES, _SMALLEST), _LARGEST)


def _skipped(table: Table, partition: Partition, bitmap: Bitmap) -> SkippedFiles | None:
    return skipped_files(table, table.version, partition, bitmap)


def _percent(s: SkippedFiles) -> str:
    return f"{100 * s.bytes / max(s.of_bytes, 1):.0f} %"
