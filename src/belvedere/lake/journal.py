"""The journal: a table of ours that only grows, for what a lake remembers about itself.

In a lake's directory it lies beside the locks, where no table of the user's can be, and is written
by delta-rs. Rows stay; small files are put together when there are many. Writers take turns: two
that make the table, or compact it, at once would both succeed (delta-rs 1.6), and rows be there
twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from deltalake import DeltaTable, Schema, write_deltalake
from deltalake.exceptions import DeltaError

from belvedere.lake import log
from belvedere.lake.locks import LOCK_DIRECTORY, lock

if TYPE_CHECKING:
    import pyarrow as pa

JOURNAL = "refreshes"
SCHEMA_NAME = "belvedere"
MANY_FILES = 25

Row: TypeAlias = Mapping[str, Any]

# Each append reads the commits since the last checkpoint; nobody travels back in a journal.
_PROPERTIES = {
    "delta.checkpointInterval": "10",
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": "interval 1 days",
}
_WHOLE_FILE = 8 << 20
_PATIENCE = 10.0


class Journal(Protocol):
    """Rows that are appended, and read by a value of one column or all."""

    trouble: str
    """Why the last append failed; empty if it did not."""

    def append(self, rows: Sequence[Row], schema: Schema) -> None:
        """All rows in one commit."""

    def read(self, column: str = "", value: str = "") -> list[dict[str, Any]]:
        """The rows with that value, or all, in no order; none where there is no journal."""

    def newest(self, by: str, most: int, column: str = "", value: str = "") -> list[dict[str, Any]]:
        """Of these rows those with the greatest values of a column, about so many."""


class LocalJournal:
    """A journal on local disk; starts no Spark."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.trouble = ""

    def append(self, rows: Sequence[Row], schema: Schema) -> None:
        data = as_arrow(rows, schema)
        with lock(self.root, _PATIENCE):
            self.ensure(schema)
            table = DeltaTable(str(self.root))
            write_deltalake(table, data, mode="append", schema_mode="merge")
            if len(table.file_uris()) > MANY_FILES:
                compact(table)

    def read(self, column: str = "", value: str = "") -> list[dict[str, Any]]:
        return self._rows(_equal(column, value)) if log.is_table(self.root) else []

    def newest(self, by: str, most: int, column: str = "", value: str = "") -> list[dict[str, Any]]:
        import pyarrow.compute as pc

        if not log.is_table(self.root):
            return []
        only = _equal(column, value)
        # One column tells where the newest begin: a journal of years is not read for them.
        times = DeltaTable(str(self.root)).to_pyarrow_table(columns=[by], filters=only or None)
        places = pc.select_k_unstable(times, most, [(by, "descending")])
        first = pc.min(times.take(places)[by])
        return self._rows([*only, (by, ">=", first.as_py())]) if first.is_valid else []

    def _rows(self, filters: list[tuple[str, str, Any]]) -> list[dict[str, Any]]:
        found = DeltaTable(str(self.root)).to_pyarrow_table(filters=filters or None)
        rows: list[dict[str, Any]] = found.to_pylist()
        return rows

    def ensure(self, schema: Schema) -> None:
        """Make it, without rows, if it is not there."""
        if log.is_table(self.root):
            return
        with lock(self.root, _PATIENCE):
            DeltaTable.create(str(self.root), schema, mode="ignore", configuration=_PROPERTIES)


def _equal(column: str, value: str) -> list[tuple[str, str, Any]]:
    return [(column, "=", value)] if column else []


def local_journal(directory: Path) -> LocalJournal:
    """The journal of the lake in a directory."""
    return LocalJournal(directory / LOCK_DIRECTORY / JOURNAL)


def compact(table: DeltaTable) -> None:
    """Put small files together, and remove those that no recent version uses."""
    # What fails is left to the next time: the rows are there.
    with suppress(DeltaError):
        table.optimize.compact(target_size=_WHOLE_FILE)
        table.create_checkpoint()
        table.vacuum(dry_run=False, full=True)  # also what an append left that was killed


def as_arrow(rows: Sequence[Row], schema: Schema) -> pa.Table:
    """The rows as a table of that schema."""
    import pyarrow as pa

    return pa.Table.from_pylist([dict(row) for row in rows], schema=pa.schema(schema.to_arrow()))
