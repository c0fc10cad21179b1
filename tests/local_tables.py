"""Tables in a directory of a test, as a lake reads them."""

from __future__ import annotations

from pathlib import Path

from belvedere.lake.tables.table import Table, read_table
from belvedere.storage.local import LocalStore


def store_in(directory: Path) -> LocalStore:
    """The store of a directory."""
    return LocalStore(str(directory))


def table_in(directory: Path, name: str = "t") -> Table:
    """The newest version of the table in a directory."""
    return read_table(name, store_in(directory))


def directory_of(table: Table) -> Path:
    """Where the files of a table are."""
    return Path(table.store.uri)
