"""The refreshes of a view, as the log of its stored table remembers them; needs no Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from belvedere.lake.events import Event
from belvedere.lake.shelf import Tables
from belvedere.lake.stamps import Stamp
from belvedere.lake.tables import Table
from belvedere.listing import Listing


@dataclass(frozen=True)
class PastRefresh:
    """A refresh that was committed: `version` is that of the stored table."""

    number: int
    version: int
    time: datetime
    strategy: str
    reason: str
    seconds: float | None
    rows: int | None
    vector: Mapping[str, int]

    def __str__(self) -> str:
        """
        >>> from datetime import UTC
        >>> at = datetime(2024, 5, 1, 12, tzinfo=UTC)
        >>> print(PastRefresh(2, 1, at, "rebuild", "REQUESTED", 1.5, 10, {"log": 3}))
        rebuild (REQUESTED), 10 rows, 1.5 s
        """
        why = f" ({self.reason})" if self.reason else ""
        rows = "" if self.rows is None else f", {self.rows} row{'' if self.rows == 1 else 's'}"
        took = "" if self.seconds is None else f", {self.seconds:.1f} s"
        return f"{self.strategy}{why}{rows}{took}"


class History(Listing[PastRefresh]):
    """Refreshes, newest first."""

    headers = ("refresh", "version", "time", "strategy", "reason", "rows", "seconds", "vector")

    def rows(self) -> list[tuple[object, ...]]:
        return [self._cells(item) for item in self]

    def _cells(self, item: PastRefresh) -> tuple[object, ...]:
        seconds = None if item.seconds is None else f"{item.seconds:.1f}"
        at = ", ".join(f"{table} {version}" for table, version in item.vector.items())
        return (
            item.number,
            item.version,
            item.time.astimezone().strftime("%Y-%m-%d %H:%M:%S"),
            item.strategy,
            item.reason,
            item.rows,
            seconds,
            at,
        )


def note(strategy: str, reason: str, began: datetime) -> dict[str, str]:
    """What a commit says about how it came to be."""
    return {"strategy": strategy, "reason": reason, "began": began.isoformat()}


def refreshes(lake: Tables, stored: Table) -> Iterator[PastRefresh]:
    """The refreshes that the log still remembers, newest first, with tables as the plan names them."""
    for event in lake.events(stored):
        stamp = Stamp.from_json(event.user_metadata)
        if stamp is not None:
            yield _past(event, stamp)


def _past(event: Event, stamp: Stamp) -> PastRefresh:
    return PastRefresh(
        number=stamp.refresh,
        version=event.version,
        time=event.time,
        strategy=stamp.note.get("strategy", ""),
        reason=stamp.note.get("reason", ""),
        seconds=_seconds(stamp.note.get("began"), event.time),
        rows=event.rows,
        vector={table: position.version for table, position in stamp.vector.items()},
    )


def _seconds(began: str | None, committed: datetime) -> float | None:
    """From the beginning of a refresh to its commit."""
    try:
        start = datetime.fromisoformat(began or "")
        return max((committed - start).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return None
