"""Stamps: which state of its tables a stored table was computed from, and how that is found.

A stamp is the user metadata of the commit that wrote the rows. The newest stamp is in force
unless a commit changed rows without one, later or between it and the stamp before: rows of someone
else's stay under a merge. Checkpoints forget commits' metadata, so the first stamp also stands in
a table property, in force as long as no refresh followed it and no other commit was forgotten.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from belvedere.delta import log
from belvedere.delta.delta_rs import open_table
from belvedere.storage.store import ObjectStore

VECTOR_PROPERTY = "belvedere.vector"
FOREIGN_WRITE = "FOREIGN_WRITE"
VECTOR_LOST = "VECTOR_LOST"

# Operations that leave rows and columns as they were.
_HARMLESS = frozenset(
    {
        "OPTIMIZE",
        "REORG",
        "VACUUM START",
        "VACUUM END",
        "SET TBLPROPERTIES",
        "UNSET TBLPROPERTIES",
        "UPGRADE PROTOCOL",
        "ADD CONSTRAINT",
        "DROP CONSTRAINT",
        "CLUSTER BY",
        "COMPUTE STATS",
        "SET TABLE COMMENT",
    }
)


@dataclass(frozen=True)
class Position:
    """A version of a table, with the identity a replaced table does not share.

    The mark, where known, is one that a version of the same number does not share either: a table
    put back from a backup goes through the same numbers again.
    """

    id: str
    version: int
    mark: str = ""


Vector: TypeAlias = dict[str, Position]


def vector_record(vector: Mapping[str, Position]) -> dict[str, list[Any]]:
    """A vector in JSON's types."""
    return {n: [p.id, p.version, p.mark] for n, p in sorted(vector.items())}


def vector_of(record: Mapping[str, Any]) -> Vector:
    """The vector of such a record.

    >>> vector_of(vector_record({"log": Position("id", 7)}))
    {'log': Position(id='id', version=7, mark='')}
    """
    return {
        name: Position(str(known), int(version), *map(str, mark))
        for name, (known, version, *mark) in record.items()
    }


@dataclass(frozen=True)
class Stamp:
    """Which view, which of its refreshes, at which state of its tables; a note says how.

    `holding` are the foreign keys that were found to hold in that state.
    """

    view_id: str
    refresh: int
    vector: Vector
    note: Mapping[str, str] = field(default_factory=dict)
    holding: frozenset[str] = frozenset()

    def to_json(self) -> str:
        """The text that a commit carries.

        >>> s = Stamp("v", 1, {"log": Position("id", 7)})
        >>> Stamp.from_json(s.to_json()) == s
        True
        """
        record: dict[str, Any] = {"belvedere": 1, "view": self.view_id, "refresh": self.refresh}
        record["vector"] = vector_record(self.vector)
        more = {"note": dict(self.note), "holding": sorted(self.holding)}
        return json.dumps({**record, **{k: v for k, v in more.items() if v}})

    @staticmethod
    def from_json(text: str | None) -> Stamp | None:
        """The stamp in a commit's metadata; None if it is not one."""
        try:
            found: Any = json.loads(text or "")
            vector = vector_of(found["vector"])
            note = {str(k): str(v) for k, v in found.get("note", {}).items()}
            holding = frozenset(map(str, found.get("holding", ())))
            return Stamp(str(found["view"]), int(found["refresh"]), vector, note, holding)
        except (ValueError, KeyError, TypeError, AttributeError):
            return None


@dataclass(frozen=True)
class StampState:
    """The stamp in force at a version of a stored table, or the reason why there is none."""

    stamp: Stamp | None
    version: int
    reason: str | None = None

    @property
    def next(self) -> int:
        """The number of the next refresh: one that no refresh had, also if the last is not known.

        Spark leaves out, without a word, a write under a number that the table has had.
        """
        return int(time.time() * 1000) if self.stamp is None else self.stamp.refresh + 1


@dataclass(frozen=True)
class Entry:
    """What a commit says about stamps."""

    version: int
    user_metadata: str | None
    harmless: bool
    anew: bool
    """Whether it replaced all rows, so that those before do not matter."""


def in_force(entries: Iterable[Entry], newest: int) -> StampState:
    """The stamp in force, from commits newest first."""
    found: Stamp | None = None
    for entry in entries:
        stamp = Stamp.from_json(entry.user_metadata)
        if stamp is None and not entry.harmless:
            return StampState(None, newest, FOREIGN_WRITE)
        if stamp is not None and (found is not None or entry.anew):
            return StampState(found or stamp, newest)
        found = found or stamp
    return StampState(found, newest) if found else StampState(None, newest, VECTOR_LOST)


def logged_stamp(store: ObjectStore) -> StampState:
    """The stamp in force of a stored table, from its log; starts no Spark."""
    newest = log.newest_version(store)
    state = in_force(_logged_entries(store), newest)
    return _remembered(store, newest) or state if state.reason == VECTOR_LOST else state


def history_entries(rows: Iterable[Mapping[str, Any]]) -> Iterator[Entry]:
    """Commits as DESCRIBE HISTORY shows them, newest first."""
    for row in rows:
        operation, how = row["operation"], row["operationParameters"]
        anew = _replaces(operation, how)
        yield Entry(int(row["version"]), row["userMetadata"], operation in _HARMLESS, anew)


def _logged_entries(store: ObjectStore) -> Iterator[Entry]:
    for version in reversed(log.commit_versions(store)):
        commit = log.commit(store, version)
        keeps_columns = commit.metadata is None or commit.operation in _HARMLESS
        harmless = not commit.changes_data and keeps_columns
        anew = _replaces(commit.operation, commit.info.get("operationParameters"))
        yield Entry(version, commit.info.get("userMetadata"), harmless, anew)


def _replaces(operation: str, how: Mapping[str, Any] | None) -> bool:
    """Whether an operation replaces all rows of a table.

    >>> _replaces("WRITE", {"mode": "Overwrite"}), _replaces("WRITE", {"mode": "Append"})
    (True, False)
    """
    overwrites = operation == "WRITE" and str((how or {}).get("mode")).lower() == "overwrite"
    return overwrites or operation.endswith("TABLE AS SELECT")


def _remembered(store: ObjectStore, newest: int) -> StampState | None:
    """The stamp in the table's properties, if the fence says that no refresh followed it.

    Of the commits that are forgotten only the one that made the table may have changed rows.
    """
    if min(log.commit_versions(store), default=newest) > 1:
        return None
    table = open_table(store)
    stamp = Stamp.from_json(table.metadata().configuration.get(VECTOR_PROPERTY))
    if stamp is None or table.transaction_version(stamp.view_id) != stamp.refresh:
        return None
    return StampState(stamp, newest)
