"""What a refresh of a view writes, before it is committed."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from belvedere.delta.stamps import Stamp
from belvedere.execution.strategies import StrategyChoice
from belvedere.lake.sessions.workspace import Workspace
from belvedere.lake.writes import commits
from belvedere.sql.merges import Merge
from belvedere.storage.locks import Conflict


@dataclass(frozen=True)
class RowsToMerge:
    """Rows in memory, or the query that Spark finds them with; and how they are merged."""

    rows: pa.Table | str
    merge: Merge


@dataclass(frozen=True)
class ViewWrite:
    """What a refresh writes; without rows only the vector moves."""

    choice: StrategyChoice
    work: Workspace
    stored: str
    holding: frozenset[str]
    """The foreign keys that hold afterwards, as far as that is known."""
    rows: RowsToMerge | None = None

    def commit(self, stamp: Stamp) -> int:
        """Write it in one commit with a stamp; the number of stored rows that changed."""
        if self.rows is None:
            commits.move(self.work, self.stored, stamp)
            return 0
        rows, merge = self.rows.rows, self.rows.merge
        if isinstance(rows, str):
            return commits.merge(self.work, self.stored, rows, merge, stamp)
        changed = commits.merge_few(self.work, self.stored, rows, merge, stamp)
        if changed is None:
            raise Conflict(
                f"{self.stored} was altered while a refresh was computed",
                hint="refresh again",
                reason="CONCURRENT_REFRESH",
            )
        return changed
