"""Upkeep of stored tables on local disk: every so many refreshes, by whoever refreshes.

Small files are put together, which changes no row. Files that no version within the table's
retention uses are removed (`delta.deletedFileRetentionDuration`, 7 days by default), and with
them what a write left that was cut off or ran out of space: Spark's checksums of files that are
gone, drafts of commits; commits older than `delta.logRetentionDuration` too. What fails is left to
the next time: the rows are there. What a creation left that was killed goes when a lake opens.

A large table is laid out by a key when it is new: Spark leaves every key's rows in any file, and a
merge writes the files anew that it touches. Keys that change together are often near each other, so
that of a table in some pieces a small merge writes one or two. Upkeep leaves pieces of that size be.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from belvedere.delta import log
from belvedere.delta.files import File, count, files
from belvedere.delta.small_writes import CHECKPOINTS, passes_arrow, writer_properties
from belvedere.delta.tables import Table
from belvedere.errors import BelvedereError
from belvedere.sql.names import PART_PREFIX, STORED_PREFIX, whole_name
from belvedere.storage.locks import lock

EVERY = 50
"""Refreshes of a view."""
MANY = 16
"""Files that are better put together."""
PIECES = 16
"""Files that a table is better laid out in, if they are neither tiny nor huge."""
LEAST, MOST = 1 << 20, 64 << 20
"""Bytes of such a file."""
CRUMB = 4
"""A file below a fourth of that is put together with others: what is laid out comes out at a third,
for it is compressed afterwards, and stays as it is."""
LARGE = 500_000
"""Rows of a table that is laid out."""
MEMORY = 1 << 30
"""Bytes that sorting it may take, before it goes to disk."""
ABANDONED = 3600.0
"""Seconds after which nobody goes on with the draft of a commit."""


def keep_up(table: Table, version: int) -> None:
    """Look after a stored table; the caller holds its lock."""
    if table.root is None or not table.legible:
        return
    with suppress(DeltaError, OSError):
        opened = DeltaTable(str(table.root))
        some = files(table.root, version) or ()
        crumb = _piece(some) // CRUMB
        if passes_arrow(table) and sum(f.size < crumb for f in some) > MANY:
            opened.optimize.compact(
                target_size=crumb,
                writer_properties=writer_properties(opened, "ZSTD"),
                post_commithook_properties=CHECKPOINTS,
            )
        opened.vacuum(dry_run=False, full=True, post_commithook_properties=CHECKPOINTS)
        opened.cleanup_metadata()
        _tidy(table.root)


def sweep(directory: Path) -> None:
    """Take away what creations left that were killed: tables without a version, parts without a view."""
    for root in directory.glob(f"{STORED_PREFIX}*"):
        _sweep(root, root)
    for root in directory.glob(f"{PART_PREFIX}*"):
        _sweep(root, directory / whole_name(root.name))


def _sweep(root: Path, whole: Path) -> None:
    # Whoever creates a view holds its lock.
    with suppress(BelvedereError, OSError), lock(whole, timeout=0):
        if not log.is_table(whole):
            shutil.rmtree(root)


def _tidy(root: Path) -> None:
    """Remove checksums of files that are gone, which nothing else does, and drafts of old commits."""
    for checksum in (*root.glob(".*.crc"), *(root / "_delta_log").glob(".*.crc")):
        if not checksum.with_name(checksum.name[1 : -len(".crc")]).exists():
            checksum.unlink(missing_ok=True)
    for draft in (root / "_delta_log").glob("*.tmp"):
        if time.time() - draft.stat().st_mtime > ABANDONED:
            draft.unlink(missing_ok=True)


def lay_out(table: Table, column: str) -> None:
    """Put rows with like values of a column into the same files, if the table is large.

    No row changes by that; the caller holds the table's lock.
    """
    if table.root is None or not passes_arrow(table):
        return
    some = files(table.root, table.version) or ()
    if (count(some) or 0) < LARGE:
        return
    with suppress(DeltaError, OSError):
        opened = DeltaTable(str(table.root))
        opened.optimize.z_order(
            [column],
            target_size=_piece(some),
            max_spill_size=MEMORY,
            writer_properties=writer_properties(opened, "ZSTD"),
            post_commithook_properties=CHECKPOINTS,
        )


def _piece(some: Collection[File]) -> int:
    """How large the files of a table had better be."""
    return min(max(sum(f.size for f in some) // PIECES, LEAST), MOST)
