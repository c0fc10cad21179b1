"""Tables and their versions, read from the Delta log; nothing here starts Spark.

Everything works for tables on local disk alone; `door` asks Spark for tables elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from deltalake import DeltaTable

from belvedere.delta import log
from belvedere.delta.schema_types import columns_of, declared_of, places_of
from belvedere.delta.stamps import Position
from belvedere.sql.binder.char_columns import has_char
from belvedere.sql.names import quote

CHANGE_FEED = "delta.enableChangeDataFeed"
COLUMN_MAPPING = "delta.columnMapping.mode"

# What a reader must know about a table, and what of that leaves its files as they are.
_HARMLESS = {"deletionVectors", "timestampNtz", "vacuumProtocolCheck", "v2Checkpoint"}


@dataclass(frozen=True)
class Table:
    """A Delta table at one version; `reference` is how SQL names it in any session of its lake."""

    name: str
    id: str
    location: str
    version: int
    columns: tuple[tuple[str, str], ...]
    properties: Mapping[str, str] = field(hash=False)
    partition_columns: tuple[str, ...]
    reference: str
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
    def root(self) -> Path | None:
        """Its directory, if that is on local disk."""
        found = log.local_root(self.location)
        return found if found is not None and log.is_table(found) else None

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

    def at(self, version: int) -> str:
        """SQL that reads one version of it."""
        return f"{self.reference} VERSION AS OF {version}"


@dataclass(frozen=True)
class Look:
    """A table as `look` lists it: without Spark."""

    table: Table
    history: tuple[Mapping[str, Any], ...]


def read(name: str, root: Path, version: int | None = None, reference: str = "") -> Table:
    """The table in a local directory; DeltaError or FileNotFoundError if it cannot be read."""
    wanted = log.newest_version(root) if version is None else version
    found = _read(str(root), wanted, *log.fingerprint(root, wanted))
    return replace(found, name=name, reference=reference or path_reference(root))


@lru_cache(maxsize=512)
def _read(root: str, version: int, _modified: int, _inode: int) -> Table:
    found = _followed(root, version) or _opened(root, version)
    while len(_newest) >= _REMEMBERED:
        _newest.pop(next(iter(_newest)), None)
    _newest[root] = found
    return found


_newest: dict[str, Table] = {}
"""Of tables by their directories, the version that was last read."""
_REMEMBERED, _STEPS = 512, 64


def _followed(root: str, version: int) -> Table | None:
    """The table from an earlier version that was read, if commits since left it what it was.

    To open a table costs as much as all else that a small refresh does.
    """
    known = _newest.get(root)
    if known is None or not known.mark or not 0 < version - known.version <= _STEPS:
        return None
    try:
        since = log.commits(Path(root), range(known.version + 1, version + 1))
    except (FileNotFoundError, ValueError):
        return None
    if any(c.metadata is not None or c.protocol is not None for c in since):
        return None
    # Another table, or another history, may have taken the place of the one that was read.
    if log.mark(Path(root), known.version) != known.mark:
        return None
    return replace(known, version=version, mark=log.mark(Path(root), version))


def _opened(root: str, version: int) -> Table:
    handle = DeltaTable(root, version=version)
    metadata = handle.metadata()
    schema = json.loads(handle.schema().to_json())
    declared = declared_of(schema)
    special = set(handle.protocol().reader_features or ()) - _HARMLESS
    # Older protocols have column mapping without naming it as a feature.
    mapped = metadata.configuration.get(COLUMN_MAPPING, "none") != "none"
    legible = not (special or mapped)
    return Table(
        name="",
        id=str(metadata.id),
        location=root,
        version=handle.version(),
        columns=columns_of(schema),
        properties=MappingProxyType(dict(metadata.configuration)),
        partition_columns=tuple(metadata.partition_columns),
        reference="",
        plain=legible
        and not metadata.partition_columns
        and not any(map(has_char, declared.values())),
        legible=legible,
        places=MappingProxyType(places_of(schema)),
        declared=MappingProxyType(declared),
        mark=log.mark(Path(root), version),
    )


def path_reference(root: Path) -> str:
    """SQL that names a table by its directory."""
    return f"delta.{quote(str(root))}"


def look(directory: Path | str, history: int = 20) -> list[Look]:
    """The Delta tables of a directory with their latest history, in order of name."""
    found = []
    for name, root in table_directories(Path(directory)).items():
        table = read(name, root)
        entries = DeltaTable(str(root)).history(history)
        found.append(Look(table, tuple(entries)))
    return found


def table_directories(directory: Path) -> dict[str, Path]:
    """The subdirectories that hold Delta tables, by name; a lake nests no deeper."""
    if not directory.is_dir():
        return {}
    return {
        child.name: child
        for child in sorted(directory.iterdir())
        if child.is_dir() and log.is_table(child)
    }


def table_directory(directory: Path, name: str) -> Path | None:
    """The table of a lake directory that a name means; names have no case, directories do."""
    plain = name[1:-1].replace("``", "`") if len(name) > 2 and name[0] == name[-1] == "`" else name
    if "/" in plain:
        return None
    for candidate in (plain.lower(), plain):
        if log.is_table(directory / candidate):
            return directory / candidate
    same = (d for d in directory.iterdir() if d.name.lower() == plain.lower() and log.is_table(d))
    return next(same, None)


def newest(table: Table) -> int:
    """The newest version of a table on local disk."""
    root = table.root
    if root is None:
        raise FileNotFoundError(table.location)
    return log.newest_version(root)


def feed_enabled(properties: Mapping[str, str]) -> bool:
    """Whether a table's properties say that its changes are recorded."""
    return properties.get(CHANGE_FEED, "false").lower() == "true"
