"""The changes of a table as one asker sees them."""

from __future__ import annotations

from collections.abc import Sequence

from belvedere.lake.feed import Changes, Feed
from belvedere.lake.tables import Table
from belvedere.lake.work import Work


def changes(work: Work, table: Table, old: int, new: int, columns: Sequence[str]) -> Changes:
    return Feed(table, old, new, columns).net(work, columns)
