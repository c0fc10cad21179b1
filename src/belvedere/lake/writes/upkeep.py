"""Upkeep of stored tables that are written here: every so many refreshes, by whoever refreshes.

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

import time
from collections.abc import Collection
from contextlib import suppress

from deltalake.exceptions import DeltaError

from belvedere.delta import log
from belvedere.delta.delta_rs import open_table
from belvedere.delta.files import File, count, files
from belvedere.delta.small_writes import CHECKPOINTS, passes_arrow, writer_properties
from belvedere.delta.snapshots import Snapshot
from belvedere.errors import BelvedereError
from belvedere.lake.capabilities import reads_files, writes_files
from belvedere.sql.names import PART_PREFIX, STORED_PREFIX, whole_name
from belvedere.storage.store import ObjectStore

_CHECKSUM, _COMMIT_DRAFT = ".crc", ".tmp"
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


def keep_up(table: Snapshot, version: int) -> None:
    """Look after a stored table; the caller holds its lease."""
    if not (reads_files(table) and table.legible):
        return
    with suppress(DeltaError, OSError):
        opened = open_table(table.store)
        some = files(table.store, version) or ()
        crumb = _piece(some) // CRUMB
        if passes_arrow(table) and sum(f.size < crumb for f in some) > MANY:
            opened.optimize.compact(
                target_size=crumb,
                writer_properties=writer_properties(opened, "ZSTD"),
                post_commithook_properties=CHECKPOINTS,
            )
        opened.vacuum(dry_run=False, full=True, post_commithook_properties=CHECKPOINTS)
        opened.cleanup_metadata()
        _tidy(table.store)


def sweep(home: ObjectStore) -> None:
    """Remove what creations left that were killed: tables without a version, parts without a view."""
    for name in home.directories():
        if name.startswith(STORED_PREFIX):
            _sweep(home.at(name), home.at(name))
        elif name.startswith(PART_PREFIX):
            _sweep(home.at(name), home.at(whole_name(name)))


def _sweep(store: ObjectStore, whole: ObjectStore) -> None:
    # Whoever creates a view holds its lease.
    with suppress(BelvedereError, OSError), whole.lease(timeout=0):
        if not log.is_table(whole):
            store.clear()


def _tidy(store: ObjectStore) -> None:
    """Remove checksums of files that are gone, which nothing else does, and drafts of old commits."""
    paths = frozenset(store.list())
    for path in paths:
        directory, slash, name = path.rpartition("/")
        if name.startswith(".") and name.endswith(_CHECKSUM):
            useless = f"{directory}{slash}{name[1 : -len(_CHECKSUM)]}" not in paths
        elif name.endswith(_COMMIT_DRAFT) and directory == "_delta_log":
            useless = time.time() - store.head(path).modified / 1e9 > ABANDONED
        else:
            useless = False
        if useless:
            store.delete(path)


def lay_out(table: Snapshot, column: str) -> None:
    """Put rows with like values of a column into the same files, if the table is large.

    No row changes by that; the caller holds the table's lease.
    """
    if not writes_files(table):
        return
    some = files(table.store, table.version) or ()
    if (count(some) or 0) < LARGE:
        return
    with suppress(DeltaError, OSError):
        opened = open_table(table.store)
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
