"""Whether the changes between two versions of a table can still be read, and if not, why.

NO_CHANGE_FEED   some version of the range did not record its changes
VERSION_GONE     the log or a file that the range or its old state needs was cleaned away
TABLE_REPLACED   the table is not the one that was read before
SCHEMA_CHANGED   a column that is used changed its type, or its name
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from deltalake.exceptions import DeltaError

from belvedere.lake import log
from belvedere.lake.log import Commit
from belvedere.lake.tables import Table, feed_enabled, read
from belvedere.lake.typetext import columns_of

NO_CHANGE_FEED = "NO_CHANGE_FEED"
VERSION_GONE = "VERSION_GONE"
TABLE_REPLACED = "TABLE_REPLACED"
SCHEMA_CHANGED = "SCHEMA_CHANGED"


def identity_problem(table: Table, known_id: str, columns: Mapping[str, str]) -> str | None:
    """Why what was known of a table no longer holds: another table, or other columns."""
    if table.id != known_id:
        return TABLE_REPLACED
    return SCHEMA_CHANGED if _differ(columns, dict(table.columns)) else None


def feed_problem(
    table: Table, known_id: str, old: int, new: int, columns: Mapping[str, str]
) -> str | None:
    """Why the changes after `old` up to `new` cannot be read from a local log; None if they can."""
    problem = identity_problem(table, known_id, columns)
    if problem or old == new:
        return problem
    root = table.root
    if root is None or old > new:
        return VERSION_GONE
    try:
        commits = log.commits(root, range(old + 1, new + 1))
        enabled = _enabled_before(table, root, old, commits)
    except (FileNotFoundError, DeltaError):
        return VERSION_GONE
    return _metadata_problem(table, commits, enabled, columns) or (
        VERSION_GONE if any(not f.exists() for f in _files_needed(root, commits)) else None
    )


def first_readable(table: Table) -> int | None:
    """The oldest version from which all changes up to now are recorded; None if there is none."""
    root = table.root
    if root is None or not table.change_feed:
        return None
    first = enabled_at = table.version
    for version in reversed(log.commit_versions(root)):
        if version < first - 1:
            break
        first = version
        metadata = log.commit(root, version).metadata
        if metadata is not None:
            if not feed_enabled(metadata.get("configuration") or {}):
                return enabled_at
            enabled_at = version
    return first


def _enabled_before(table: Table, root: Path, old: int, commits: Iterable[Commit]) -> bool:
    """Whether the feed was on at `old`: unless a commit says otherwise, as it is now."""
    if all(c.metadata is None for c in commits) and table.version == max(
        c.version for c in commits
    ):
        return table.change_feed
    return read(table.name, root, old).change_feed


def _metadata_problem(
    table: Table, commits: Iterable[Commit], enabled: bool, columns: Mapping[str, str]
) -> str | None:
    for commit in commits:
        if commit.metadata is not None:
            if commit.metadata["id"] != table.id:
                return TABLE_REPLACED
            schema = json.loads(commit.metadata["schemaString"])
            if _differ(columns, dict(columns_of(schema))):
                return SCHEMA_CHANGED
            enabled = feed_enabled(commit.metadata.get("configuration") or {})
        if not enabled and commit.changes_data:
            return NO_CHANGE_FEED
    return None


def _files_needed(root: Path, commits: Iterable[Commit]) -> Iterator[Path]:
    """The files that the feed reads and those of the old state that are no longer in the new."""
    added: set[str] = set()
    for commit in commits:
        for action in commit.cdcs:
            yield log.data_file(root, action["path"])
        for action in commit.adds:
            if not commit.cdcs and action.get("dataChange", True):
                yield from _files_of(root, action)
            added.add(action["path"])
        for action in commit.removes:
            feeds = not commit.cdcs and action.get("dataChange", True)
            if feeds or action["path"] not in added:
                yield from _files_of(root, action)


def _files_of(root: Path, action: log.Action) -> Iterator[Path]:
    yield log.data_file(root, action["path"])
    vector = log.vector_of(action)
    if vector is not None:
        path = log.vector_file(root, vector)
        if path is not None:
            yield path


def _differ(expected: Mapping[str, str], found: Mapping[str, str]) -> bool:
    return any(found.get(name) != kind for name, kind in expected.items())
