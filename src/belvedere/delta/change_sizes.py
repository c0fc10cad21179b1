"""How much there is to read, in rows and bytes, from the log of a table alone."""

from __future__ import annotations

from belvedere.delta import log
from belvedere.delta.change_files import touched_files
from belvedere.delta.files import count, files
from belvedere.delta.history import logged_events, rows_of
from belvedere.delta.log import Action
from belvedere.delta.snapshots import Snapshot


def version_bytes(table: Snapshot, version: int) -> int | None:
    """The size of a version's files; None where telling would cost a look at every file."""
    some = files(table.store, version) if table.plain else None
    return None if some is None else sum(f.size for f in some)


def change_bytes(table: Snapshot, old: int, new: int) -> int | None:
    """The size of the files that the change feed of the versions after `old` up to `new` reads."""
    try:
        commits = log.commits(table.store, range(old + 1, new + 1))
    except FileNotFoundError:
        return None
    return sum(_size(action) for commit in commits for action in touched_files(commit))


def change_passes(table: Snapshot, old: int, new: int) -> float | None:
    """How many times the size of a table its change feed goes through."""
    read, size = change_bytes(table, old, new), version_bytes(table, new)
    return None if not (read and size) else read / size


def change_rows(table: Snapshot, old: int, new: int) -> int | None:
    """The rows that the versions after `old` up to `new` touched, as `status` counts them."""
    if old > new or not log.is_table(table.store):
        return None
    since = [e for e in logged_events(table.store, after=old) if e.version <= new]
    return rows_of(since) if len(since) == new - old else None


def changed_at_most(table: Snapshot, old: int, new: int) -> int | None:
    """How many rows two versions can differ by: as many as were touched, or as both have."""
    touched = change_rows(table, old, new)
    if touched is not None or not table.plain:
        return touched
    before, after = files(table.store, old), files(table.store, new)
    return None if before is None or after is None else count([*before, *after])


def _size(action: Action) -> int:
    return int(action.get("size") or 0)
