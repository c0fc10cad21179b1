"""Tables of an object store, opened by delta-rs."""

from __future__ import annotations

from deltalake import DeltaTable

from belvedere.storage.store import ObjectStore


def open_table(store: ObjectStore, version: int | None = None) -> DeltaTable:
    """The table in a store at a version, or at the newest."""
    return DeltaTable(store.uri, version=version)
