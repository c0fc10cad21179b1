"""A table as its lake knows it: a snapshot, its name, and the SQL by which sessions read it."""

from __future__ import annotations

from dataclasses import dataclass

from belvedere.delta.snapshots import Snapshot, read
from belvedere.sql.names import quote
from belvedere.storage.store import ObjectStore


@dataclass(frozen=True, kw_only=True)
class Table(Snapshot):
    """A snapshot of a lake's table; `reference` is how SQL names it in any session of the lake."""

    name: str
    reference: str

    def at(self, version: int) -> str:
        """SQL that reads one version of it."""
        return f"{self.reference} VERSION AS OF {version}"


def read_table(name: str, store: ObjectStore, reference: str = "") -> Table:
    """The table in a store at its newest version; DeltaError or FileNotFoundError if unreadable."""
    snapshot = read(store)
    return Table(**vars(snapshot), name=name, reference=reference or path_reference(store))


def path_reference(store: ObjectStore) -> str:
    """SQL that names a table by its place."""
    return f"delta.{quote(store.uri)}"
