"""How much there is to read, in rows and bytes, from the log of a table on local disk alone."""

from __future__ import annotations

from belvedere.delta import log
from belvedere.delta.change_files import touched_files
from belvedere.delta.files import count, files
from belvedere.delta.history import local_events, rows_of
from belvedere.delta.log import Action
from belvedere.delta.tables import Table


def version_bytes(table: Table, version: int) -> int | None:
    """The size of a version's files; None where telling would cost a look at every file."""
    root = table.root if table.plain else None
    found = files(root, version) if root is not None else None
    return None if found is None else sum(f.size for f in found)


def change_bytes(table: Table, old: int, new: int) -> int | None:
    """The size of the files that the change feed of the versions after `old` up to `new` reads."""
    if table.root is None:
        return None
    try:
        commits = log.commits(table.root, range(old + 1, new + 1))
    except FileNotFoundError:
        return None
    return sum(_size(action) for commit in commits for action in touched_files(commit))


def change_passes(table: Table, old: int, new: int) -> float | None:
    """How many times the size of a table its change feed goes through."""
    read, size = change_bytes(table, old, new), version_bytes(table, new)
    return None if not (read and size) else read / size


def change_rows(table: Table, old: int, new: int) -> int | None:
    """The rows that the versions after `old` up to `new` touched, as `status` counts them."""
    if table.root is None or old > new:
        return None
    since = [e for e in local_events(table.root, after=old) if e.version <= new]
    return rows_of(since) if len(since) == new - old else None


def changed_at_most(table: Table, old: int, new: int) -> int | None:
    """How many rows two versions can differ by: as many as were touched, or as both have."""
    touched = change_rows(table, old, new)
    if touched is not None or table.root is None or not table.plain:
        return touched
    before, after = files(table.root, old), files(table.root, new)
    return None if before is None or after is None else count([*before, *after])


def _size(action: Action) -> int:
    return int(action.get("size") or 0)
