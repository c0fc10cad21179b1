"""Upkeep of stored tables on local disk: every so many refreshes, by whoever refreshes.

Small files are put together, which changes no row. Files that no version within the table's
retention uses are removed (`delta.deletedFileRetentionDuration`, 7 days by default), and with
them what a write left that was cut off or ran out of space; commits older than
`delta.logRetentionDuration` too. What fails is left to the next time: the rows are there.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from belvedere.lake.files import files
from belvedere.lake.smallwrites import CHECKPOINTS, passes_arrow
from belvedere.lake.tables import Table

EVERY = 50
"""Refreshes of a view."""
MANY = 16
"""Files that are better put together."""
SMALL = 16 << 20
"""Bytes of a file that is worth putting together with others."""


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


def _small(root: Path, version: int) -> int:
    """How many small files a version has."""
    return sum(f.size < SMALL for f in files(root, version) or ())
