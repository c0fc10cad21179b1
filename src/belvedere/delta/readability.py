"""Whether the changes between two versions of a table can still be read, and if not, why.

NO_CHANGE_FEED      some version of the range did not record its changes
VERSION_GONE        the log or a file that the range or its old state needs was cleaned away
TABLE_REPLACED      the table is not the one that was read before
SCHEMA_CHANGED      a column that is used changed its type, its name, or the place of its values
PARTITIONS_CHANGED  rows are under other partition columns: the feed reads all files by the last
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from deltalake.exceptions import DeltaError

from belvedere.delta import log
from belvedere.delta.log import Commit
from belvedere.delta.schema_types import columns_of, places_of
from belvedere.delta.snapshots import Snapshot, feed_enabled, read
from belvedere.delta.stamps import Position
from belvedere.storage.store import ObjectStore

NO_CHANGE_FEED = "NO_CHANGE_FEED"
VERSION_GONE = "VERSION_GONE"
TABLE_REPLACED = "TABLE_REPLACED"
SCHEMA_CHANGED = "SCHEMA_CHANGED"
PARTITIONS_CHANGED = "PARTITIONS_CHANGED"


def identity_problem(table: Snapshot, known: Position, columns: Mapping[str, str]) -> str | None:
    """Why what was known of a table no longer holds: another table, or other columns."""
    if table.id != known.id:
        return TABLE_REPLACED
    return SCHEMA_CHANGED if _differ(columns, table.types) else None


def put_back(table: Snapshot, known: Position) -> bool:
    """Whether a table's history is not the one in which a version was read."""
    if table.version < known.version:
        return True
    mark = log.mark(table.store, known.version)
    return bool(mark and known.mark) and mark != known.mark


def feed_problem(
    table: Snapshot, known: Position, new: int, columns: Mapping[str, str]
) -> str | None:
    """Why the changes from a version up to `new` cannot be read from the log; None if they can."""
    problem = identity_problem(table, known, columns)
    old, store = known.version, table.store
    if problem or old == new:
        return problem
    if old > new:
        return VERSION_GONE
    try:
        commits = log.commits(store, range(old + 1, new + 1))
        before = _before(table, old, commits)
    except (FileNotFoundError, DeltaError):
        return VERSION_GONE
    problem = _metadata_problem(before, commits, columns)
    if problem or not any(c.changes_data for c in commits):
        return problem  # rows that stayed need neither the feed nor the old state
    needed = (*_feed_files(commits), *_old_files(commits))
    return None if log.reproducible(store, old) and _exist(store, needed) else VERSION_GONE


def state_problem(table: Snapshot, known: Position, columns: Mapping[str, str]) -> str | None:
    """Why a version of a table cannot be read here; None if it can."""
    problem = identity_problem(table, known, columns)
    old, store = known.version, table.store
    if problem or old == table.version:
        return problem
    if old > table.version or not log.reproducible(store, old):
        return VERSION_GONE
    try:
        commits = log.commits(store, range(old + 1, table.version + 1))
    except FileNotFoundError:
        return VERSION_GONE
    return None if _exist(store, _old_files(commits)) else VERSION_GONE


def spans(commits: Iterable[Commit]) -> list[tuple[int, int]]:
    """The versions, first and last, whose feed tells all that the commits did to rows.

    Commits that touch only the table's properties or columns stand between them: such a commit
    may have turned the feed off, or be from before it was turned on.
    """
    found: list[tuple[int, int]] = []
    joins = False
    for commit in commits:
        if commit.changes_data:
            first = found.pop()[0] if joins else commit.version
            found.append((first, commit.version))
            joins = True
        elif commit.metadata is not None:
            joins = False
    return found


def first_readable(table: Snapshot) -> int | None:
    """The oldest version from which all changes up to now are recorded; None if there is none."""
    if not table.change_feed or not log.is_table(table.store):
        return None
    first = enabled_at = table.version
    for version in reversed(log.commit_versions(table.store)):
        if version < first - 1:
            break
        first = version
        metadata = log.commit(table.store, version).metadata
        if metadata is not None:
            if not feed_enabled(metadata.get("configuration") or {}):
                return enabled_at
            enabled_at = version
    return first


def _before(table: Snapshot, old: int, commits: Sequence[Commit]) -> Snapshot:
    """The table at `old`: unless a commit says otherwise, it was as it is now."""
    if all(c.metadata is None for c in commits) and table.version == commits[-1].version:
        return table
    return read(table.store, old)


def _metadata_problem(
    before: Snapshot, commits: Iterable[Commit], columns: Mapping[str, str]
) -> str | None:
    enabled = before.change_feed
    for commit in commits:
        if commit.metadata is not None:
            if commit.metadata["id"] != before.id:
                return TABLE_REPLACED
            if _moved(json.loads(commit.metadata["schemaString"]), before, columns):
                return SCHEMA_CHANGED
            enabled = feed_enabled(commit.metadata.get("configuration") or {})
            if tuple(commit.metadata.get("partitionColumns") or ()) != before.partition_columns:
                return PARTITIONS_CHANGED
        if not enabled and commit.changes_data:
            return NO_CHANGE_FEED
    return None


def _moved(schema: Mapping[str, Any], before: Snapshot, columns: Mapping[str, str]) -> bool:
    """Whether columns have other names or types in a schema, or their values another place."""
    if _differ(columns, {name.lower(): kind for name, kind in columns_of(schema)}):
        return True
    places = places_of(schema)
    return any(places[c] != before.places.get(c) for c in map(str.lower, columns))


def _feed_files(commits: Iterable[Commit]) -> Iterator[str]:
    """The files that the feed reads."""
    for commit in commits:
        for action in commit.cdcs:
            yield log.data_path(action["path"])
        if not commit.cdcs:
            for action in (*commit.adds, *commit.removes):
                if action.get("dataChange", True):
                    yield from _files_of(action)


def _old_files(commits: Iterable[Commit]) -> Iterator[str]:
    """The files of the state before the commits that they took away."""
    added: set[tuple[str, str]] = set()
    for commit in commits:
        for action in commit.removes:
            if log.identity(action) not in added:
                yield from _files_of(action)
        added.update(map(log.identity, commit.adds))


def _files_of(action: log.Action) -> Iterator[str]:
    yield log.data_path(action["path"])
    vector = log.vector_of(action)
    if vector is not None:
        path = log.vector_path(vector)
        if path is not None:
            yield path


def _exist(store: ObjectStore, paths: Iterable[str]) -> bool:
    return all(map(store.exists, paths))


def _differ(expected: Mapping[str, str], found: Mapping[str, str]) -> bool:
    return any(found.get(name.lower()) != kind for name, kind in expected.items())
