"""Snapshots: tables at one version, read from the Delta log; nothing here starts Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType

from belvedere.delta import log
from belvedere.delta.delta_rs import open_table
from belvedere.delta.schema_types import columns_of, declared_of, places_of
from belvedere.delta.stamps import Position
from belvedere.sql.binder.char_columns import has_char
from belvedere.storage.store import ObjectStore

CHANGE_FEED = "delta.enableChangeDataFeed"
COLUMN_MAPPING = "delta.columnMapping.mode"

# What a reader must know about a table, and what of that leaves its files as they are.
_HARMLESS = {"deletionVectors", "timestampNtz", "vacuumProtocolCheck", "v2Checkpoint"}


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A Delta table at one version, and the store that holds its log and files."""

    id: str
    store: ObjectStore
    version: int
    columns: tuple[tuple[str, str], ...]
    properties: Mapping[str, str] = field(hash=False)
    partition_columns: tuple[str, ...]
    plain: bool = False
    """Whether its files hold its rows as they are, but for deletion vectors."""
    legible: bool = False
    """Whether delta-rs reads its rows and changes, not only its log.

    Values of CHAR are then as they were written; Spark reads them padded with spaces. Plans pad
    them wherever they come from.
    """
    places: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Where its files hold the values of each column, where that is known."""
    declared: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The types of its columns that were declared with CHAR or VARCHAR: all of them are STRING."""
    mark: str = ""
    """What tells this version from another of the same number, where that is known."""

    @property
    def change_feed(self) -> bool:
        """Whether versions from now on have a change feed."""
        return feed_enabled(self.properties)

    @property
    def position(self) -> Position:
        """Its entry in a vector."""
        return Position(self.id, self.version, self.mark)

    @property
    def types(self) -> dict[str, str]:
        """The type of each column, by its name in lower case: names have no case."""
        return {name.lower(): kind for name, kind in self.columns}

    @property
    def padded(self) -> bool:
        """Whether Spark pads values of some column when it reads them."""
        return any(map(has_char, self.declared.values()))


def read(store: ObjectStore, version: int | None = None) -> Snapshot:
    """The table in a store; DeltaError or FileNotFoundError if it cannot be read."""
    wanted = log.newest_version(store) if version is None else version
    return _read(store, wanted, log.etag(store, wanted))


@lru_cache(maxsize=512)
def _read(store: ObjectStore, version: int, _etag: str) -> Snapshot:
    snapshot = _followed(store, version) or _opened(store, version)
    while len(_newest) >= _REMEMBERED:
        _newest.pop(next(iter(_newest)), None)
    _newest[store] = snapshot
    return snapshot


_newest: dict[ObjectStore, Snapshot] = {}
"""The version that was last read of each table."""
_REMEMBERED, _STEPS = 512, 64


def _followed(store: ObjectStore, version: int) -> Snapshot | None:
    """The table from an earlier version that was read, if commits since left it what it was.

    To open a table costs as much as all else that a small refresh does.
    """
    earlier = _newest.get(store)
    if earlier is None or not earlier.mark or not 0 < version - earlier.version <= _STEPS:
        return None
    try:
        since = log.commits(store, range(earlier.version + 1, version + 1))
    except (FileNotFoundError, ValueError):
        return None
    if any(c.metadata is not None or c.protocol is not None for c in since):
        return None
    # Another table, or another history, may have taken the place of the one that was read.
    if log.mark(store, earlier.version) != earlier.mark:
        return None
    return replace(earlier, version=version, mark=log.mark(store, version))


def _opened(store: ObjectStore, version: int) -> Snapshot:
    handle = open_table(store, version)
    metadata = handle.metadata()
    schema = json.loads(handle.schema().to_json())
    declared = declared_of(schema)
    special = set(handle.protocol().reader_features or ()) - _HARMLESS
    # Older protocols have column mapping without naming it as a feature.
    mapped = metadata.configuration.get(COLUMN_MAPPING, "none") != "none"
    legible = not (special or mapped)
    return Snapshot(
        id=str(metadata.id),
        store=store,
        version=handle.version(),
        columns=columns_of(schema),
        properties=MappingProxyType(dict(metadata.configuration)),
        partition_columns=tuple(metadata.partition_columns),
        plain=legible
        and not metadata.partition_columns
        and not any(map(has_char, declared.values())),
        legible=legible,
        places=MappingProxyType(places_of(schema)),
        declared=MappingProxyType(declared),
        mark=log.mark(store, version),
    )


def stores_of_tables(store: ObjectStore) -> dict[str, ObjectStore]:
    """The stores of the Delta tables of a lake, by the tables' names; a lake nests no deeper."""
    below = {name: store.at(name) for name in store.directories()}
    return {name: table for name, table in below.items() if log.is_table(table)}


def store_of_table(store: ObjectStore, name: str) -> ObjectStore | None:
    """The store of the table of a lake that a name means; names have no case, paths do."""
    plain = name[1:-1].replace("``", "`") if len(name) > 2 and name[0] == name[-1] == "`" else name
    if "/" in plain:
        return None
    for candidate in dict.fromkeys((plain.lower(), plain)):
        if log.is_table(store.at(candidate)):
            return store.at(candidate)
    alike = (n for n in store.directories() if n.lower() == plain.lower())
    return next((store.at(n) for n in alike if log.is_table(store.at(n))), None)


def feed_enabled(properties: Mapping[str, str]) -> bool:
    """Whether a table's properties say that its changes are recorded."""
    return properties.get(CHANGE_FEED, "false").lower() == "true"
