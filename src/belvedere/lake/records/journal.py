"""The journal: a table of ours that only grows, for what a lake remembers about itself.

In a lake's directory it lies beside the locks, where no table of the user's can be, and is written
by delta-rs. Rows stay; small files are put together when there are many. Writers take turns: two
that make the table, or compact it, at once would both succeed (delta-rs 1.6), and rows be there
twice. One that is damaged is set aside, and another begun: no refresh waits for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from deltalake import DeltaTable, Schema, write_deltalake
from deltalake.exceptions import DeltaError

from belvedere.delta import log
from belvedere.delta.delta_rs import open_table
from belvedere.errors import BelvedereError
from belvedere.storage.private_files import LOCK_DIRECTORY, set_aside
from belvedere.storage.store import ObjectStore
from belvedere.storage.stores import open_store

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

    def mend(self) -> None:
        """Set a damaged journal aside, so that another is begun."""


class LocalJournal:
    """A journal in a store; starts no Spark. `own` is its directory, if that may be renamed."""

    def __init__(self, store: ObjectStore, own: Path | None = None) -> None:
        self.store = store
        self.trouble = ""
        self._own = own

    def append(self, rows: Sequence[Row], schema: Schema) -> None:
        data = as_arrow(rows, schema)
        with self.store.lease(_PATIENCE):
            try:
                self._append(data, schema)
            except Exception:
                if not self._set_aside_if(self._unreadable):
                    raise
                self._append(data, schema)

    def _append(self, data: pa.Table, schema: Schema) -> None:
        self.ensure(schema)
        table = open_table(self.store)
        write_deltalake(table, data, mode="append", schema_mode="merge")
        if len(table.file_uris()) > MANY_FILES:
            compact(table)

    def read(self, column: str = "", value: str = "") -> list[dict[str, Any]]:
        return self._read(lambda: self._rows(_equal(column, value)))

    def newest(self, by: str, most: int, column: str = "", value: str = "") -> list[dict[str, Any]]:
        return self._read(lambda: self._newest(by, most, column, value))

    def mend(self) -> None:
        if self._incomplete():
            with suppress(BelvedereError, OSError), self.store.lease(_PATIENCE):
                self._set_aside_if(self._incomplete)

    def _read(self, rows: Callable[[], list[dict[str, Any]]]) -> list[dict[str, Any]]:
        """Rows, or none of a journal that turns out to be damaged."""
        if not log.is_table(self.store):
            return []
        try:
            return rows()
        except Exception:
            with self.store.lease(_PATIENCE):
                if not self._set_aside_if(self._unreadable):
                    raise
            return []

    def _set_aside_if(self, damaged: Callable[[], bool]) -> bool:
        """Set the journal aside if that is so and it is ours; the caller holds its lock."""
        return self._own is not None and damaged() and set_aside(self._own) is not None

    def _unreadable(self) -> bool:
        """Whether its rows cannot be read, by whoever may read them."""
        try:
            if self._own is None or not os.path.lexists(self._own):
                return False
            self._rows([])
            # Readers pass over a directory, and writers cannot.
            return any(n.endswith(".json") for n in self.store.at("_delta_log").directories())
        except PermissionError:
            return False
        except Exception:
            return True

    def _incomplete(self) -> bool:
        """Whether its log cannot be read, or files are gone or cut off: rows are not looked at."""
        import pyarrow as pa

        if self._own is None or not os.path.lexists(self._own):
            return False
        try:
            found = pa.table(open_table(self.store).get_add_actions(flatten=True))
            paths = map(log.data_path, found["path"].to_pylist())
            there = [os.stat(self.store.url(path)) for path in paths]
            sizes = [s.st_size if S_ISREG(s.st_mode) else -1 for s in there]
            return bool(sizes != found["size_bytes"].to_pylist())
        except PermissionError:
            return False
        except Exception:
            return True

    def _newest(self, by: str, most: int, column: str, value: str) -> list[dict[str, Any]]:
        import pyarrow.compute as pc

        only = _equal(column, value)
        # One column tells where the newest begin: a journal of years is not read for them.
        times = open_table(self.store).to_pyarrow_table(columns=[by], filters=only or None)
        places = pc.select_k_unstable(times, most, [(by, "descending")])
        first = pc.min(times.take(places)[by])
        return self._rows([*only, (by, ">=", first.as_py())]) if first.is_valid else []

    def _rows(self, filters: list[tuple[str, str, Any]]) -> list[dict[str, Any]]:
        found = open_table(self.store).to_pyarrow_table(filters=filters or None)
        rows: list[dict[str, Any]] = found.to_pylist()
        return rows

    def ensure(self, schema: Schema) -> None:
        """Make it, without rows, if it is not there."""
        if log.is_table(self.store):
            return
        with self.store.lease(_PATIENCE):
            DeltaTable.create(self.store.uri, schema, mode="ignore", configuration=_PROPERTIES)


def _equal(column: str, value: str) -> list[tuple[str, str, Any]]:
    return [(column, "=", value)] if column else []


def local_journal(directory: Path) -> LocalJournal:
    """The journal of the lake in a directory."""
    own = directory / LOCK_DIRECTORY / JOURNAL
    return LocalJournal(open_store(str(own)), own)


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
