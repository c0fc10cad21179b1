"""Upkeep of stored tables on local disk: every so many refreshes, by whoever refreshes.

Small files are put together, which changes no row. Files that no version within the table's
retention uses are removed (`delta.deletedFileRetentionDuration`, 7 days by default), and with
them what a write left that was cut off or ran out of space; commits older than
`delta.logRetentionDuration` too. What fails is left to the next time: the rows are there.

A large table is laid out by a key when it is new: Spark leaves every key's rows in any file, and a
merge writes the files anew that it touches. Keys that change together are often near each other.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from belvedere.lake.files import count, files
from belvedere.lake.smallwrites import CHECKPOINTS, passes_arrow
from belvedere.lake.tables import Table

EVERY = 50
"""Refreshes of a view."""
MANY = 16
"""Files that are better put together."""
SMALL = 16 << 20
"""Bytes of a file that is worth putting together with others."""
LARGE = 4_000_000
"""Rows of a table that is laid out."""


def keep_up(table: Table, version: int) -> None:
    """Look after a stored table; the caller holds its lock."""
    if table.root is None or not table.legible:
        return
    with suppress(DeltaError, OSError):
        opened = DeltaTable(str(table.root))
        if passes_arrow(table) and _small(table.root, version) > MANY:
            opened.optimize.compact(target_size=4 * SMALL, post_commithook_properties=CHECKPOINTS)
        opened.vacuum(dry_run=False, full=True, post_commithook_properties=CHECKPOINTS)
        opened.cleanup_metadata()


def lay_out(table: Table, column: str) -> None:
    """Put rows with like values of a column into the same files, if the table is large.

    No row changes by that; the caller holds the table's lock.
    """
    if table.root is None or not passes_arrow(table):
        return
    if (count(files(table.root, table.version) or ()) or 0) < LARGE:
        return
    with suppress(DeltaError, OSError):
        DeltaTable(str(table.root)).optimize.z_order(
            [column], target_size=2 * SMALL, post_commithook_properties=CHECKPOINTS
        )


def _small(root: Path, version: int) -> int:
    """How many small files a version has."""
    return sum(f.size < SMALL for f in files(root, version) or ())
