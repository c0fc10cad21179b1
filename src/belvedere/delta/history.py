"""What happened to a table, commit by commit, and how many rows it touched; starts no Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from belvedere.delta import log
from belvedere.delta.files import parsed_stats, row_count
from belvedere.delta.log import Action, Commit
from belvedere.storage.store import ObjectStore

# Metrics that count touched rows, by operation; spelled without case and underscores, since
# Spark writes numDeletedRows and delta-rs num_deleted_rows.
_TOUCHED = {
    "DELETE": ("numdeletedrows",),
    "UPDATE": ("numupdatedrows",),
    "MERGE": ("numtargetrowsinserted", "numtargetrowsupdated", "numtargetrowsdeleted"),
}
_ADDED = ("numoutputrows", "numaddedrows")
_PLAINLY = {
    "DELETE": "delete",
    "TRUNCATE": "delete",
    "WRITE": "insert",
    "STREAMING UPDATE": "insert",
}
_KINDS = {
    "numtargetrowsinserted": "insert",
    "numtargetrowsupdated": "update",
    "numtargetrowsdeleted": "delete",
}


@dataclass(frozen=True)
class Event:
    """One commit: when, what, by whom, the rows it touched (None where the log does not say)."""

    version: int
    time: datetime
    operation: str
    rows: int | None
    user_metadata: str | None
    engine: str = ""
    kinds: Mapping[str, int] = field(default_factory=dict)
    """The rows by what became of them: insert, update, delete."""


def logged_events(store: ObjectStore, after: int = -1) -> Iterator[Event]:
    """The commits of a table after a version, newest first, from its log."""
    for version in reversed(log.commit_versions(store)):
        if version <= after:
            return
        yield _event(log.commit(store, version))


def history_events(rows: Iterable[Mapping[str, Any]], after: int = -1) -> Iterator[Event]:
    """The commits of a table after a version, newest first, from DESCRIBE HISTORY."""
    for row in rows:
        if int(row["version"]) > after:
            touched = _touched(row["operation"], row["operationMetrics"] or {})
            time = row["timestamp"].astimezone(UTC)
            yield Event(
                version=int(row["version"]),
                time=time,
                operation=row["operation"],
                rows=touched,
                user_metadata=row["userMetadata"],
                engine=_engine(row.get("engineInfo")),
                kinds=_kinds(row["operation"], row["operationMetrics"] or {}, touched),
            )


def rows_of(events: Iterable[Event]) -> int | None:
    """The rows that commits touched together; None if one of them does not say."""
    counts = [event.rows for event in events]
    return None if None in counts else sum(c for c in counts if c is not None)


def _event(commit: Commit) -> Event:
    info = commit.info
    time = _time(info.get("inCommitTimestamp") or info.get("timestamp") or 0)
    metadata = info.get("userMetadata")
    engine = _engine(info.get("engineInfo") or info.get("clientVersion"))
    rows, replaced = _rows(commit), commit.operation == "WRITE" and commit.removes
    kinds = _kinds("" if replaced else commit.operation, info.get("operationMetrics") or {}, rows)
    return Event(commit.version, time, commit.operation, rows, metadata, engine, kinds)


def _engine(told: str | None) -> str:
    """Who wrote a commit, in one word."""
    if not told:
        return ""
    return "delta-rs" if told.startswith("delta-rs") else "spark" if "Spark" in told else told


def _time(milliseconds: float) -> datetime:
    """A commit's time; a clock that was off may have written one beyond the calendar."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)


def _rows(commit: Commit) -> int | None:
    if not commit.changes_data:
        return 0
    touched = _touched(commit.operation, commit.info.get("operationMetrics") or {})
    replaced = touched is not None and commit.operation not in _TOUCHED and commit.removes
    return _by_files(commit) if touched is None or replaced else touched


def _touched(operation: str, metrics: Mapping[str, Any]) -> int | None:
    """The rows touched by the operation's metrics: those it added, where it is not known better."""
    plain = {name.lower().replace("_", ""): value for name, value in metrics.items()}
    names = _TOUCHED.get(operation)
    if names is None:
        names = tuple(n for n in _ADDED if n in plain)[:1]
    found = [plain[n] for n in names if n in plain]
    try:
        return sum(int(v) for v in found) if found else None
    except ValueError:
        return None


def _kinds(operation: str, metrics: Mapping[str, Any], rows: int | None) -> dict[str, int]:
    """What became of the rows; a write that replaces others counts as an update.

    >>> _kinds("MERGE", {"numTargetRowsInserted": "2", "numTargetRowsUpdated": 3}, 5)
    {'insert': 2, 'update': 3}
    """
    if not rows:
        return {}
    if operation != "MERGE":
        return {_PLAINLY.get(operation, "update"): rows}
    plain = {name.lower().replace("_", ""): value for name, value in metrics.items()}
    found = {kind: int(plain.get(name, 0)) for name, kind in _KINDS.items()}
    return {kind: count for kind, count in found.items() if count}


def _by_files(commit: Commit) -> int | None:
    """The rows of the files that came and went; a file that only lost rows counts those."""
    came = {str(a["path"]): _live(a) for a in commit.adds}
    went = {str(r["path"]): _live(r) for r in commit.removes}
    total = 0
    for path in {**came, **went}:
        new, old = came.get(path, 0), went.get(path, 0)
        if new is None or old is None:
            return None
        total += abs(new - old)
    return total


def _live(action: Action) -> int | None:
    """The rows of a file that are not deleted, from its statistics."""
    records, vector = row_count(parsed_stats(action.get("stats") or "")), log.vector_of(action)
    return None if records is None else records - int(vector["cardinality"] if vector else 0)
