"""The changes of a table as one asker sees them."""

from __future__ import annotations

from collections.abc import Sequence

from belvedere.lake.sessions.workspace import Workspace
from belvedere.lake.tables.change_feed import Changes, Feed
from belvedere.lake.tables.table import Table


def changes(work: Workspace, table: Table, old: int, new: int, columns: Sequence[str]) -> Changes:
    return Feed(table, old, new, columns).net(work, columns)
