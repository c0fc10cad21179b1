"""The refreshes of a view, as the log of its stored table and the ledger remember them.

The log has what was committed; the ledger what a commit cannot hold, and what log cleanup took
away. A refresh is the same in both if its view, its number and its beginning are. Needs no Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from belvedere.delta.history import Event
from belvedere.delta.stamps import Stamp
from belvedere.derivations.ledger import Record
from belvedere.execution.costs import Candidate
from belvedere.lake.offline import ReadableLake
from belvedere.lake.tables.table import Table
from belvedere.listing import Listing

BEHIND = "behind"
"""In a note, the tables that had newer versions and were left where they were."""


@dataclass(frozen=True)
class PastRefresh:
    """A refresh that was committed: `version` is that of the stored table.

    The fields from `jobs` on are those of its record, and empty where it has none.
    """

    number: int
    version: int | None
    time: datetime
    strategy: str
    reason: str
    seconds: float | None
    rows: int | None
    vector: Mapping[str, int]
    engine: str = ""
    began: datetime | None = None
    jobs: int | None = None
    bytes_read: int | None = None
    pending: Mapping[str, int] = field(default_factory=dict)
    candidates: tuple[Candidate, ...] = ()

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

    headers = (
        "refresh",
        "version",
        "time",
        "strategy",
        "reason",
        "pending",
        "rows",
        "seconds",
        "predicted",
        "jobs",
        "read",
        "vector",
    )

    def rows(self) -> list[tuple[object, ...]]:
        return [self._cells(item) for item in self]

    def _cells(self, item: PastRefresh) -> tuple[object, ...]:
        return (
            item.number,
            item.version,
            item.time.astimezone().strftime("%Y-%m-%d %H:%M:%S"),
            item.strategy,
            item.reason,
            _each(item.pending),
            item.rows,
            None if item.seconds is None else f"{item.seconds:.1f}",
            ", ".join(_predicted(c) for c in item.candidates),
            item.jobs,
            None if item.bytes_read is None else _size(item.bytes_read),
            _each(item.vector),
        )


def note(strategy: str, reason: str, began: datetime) -> dict[str, str]:
    """What a commit says about how it came to be."""
    return {"strategy": strategy, "reason": reason, "began": began.isoformat()}


def merged(past: Iterable[PastRefresh], recorded: Iterable[Record]) -> list[PastRefresh]:
    """Refreshes from the log with what is recorded of them, and those that only the ledger has."""
    left = {(r.refresh, r.started): r for r in recorded}
    both = [_with(p, left.pop((p.number, p.began), None) if p.began else None) for p in past]
    alone = [_recorded(record) for record in left.values()]
    return sorted([*both, *alone], key=lambda p: (p.began or p.time, p.number), reverse=True)


def refreshes(lake: ReadableLake, stored: Table) -> Iterator[PastRefresh]:
    """The refreshes that the log still remembers, newest first, with tables as the plan names them."""
    for event in lake.events(stored):
        stamp = Stamp.from_json(event.user_metadata)
        if stamp is not None:
            yield _past(event, stamp)


def _past(event: Event, stamp: Stamp) -> PastRefresh:
    began = _time(stamp.note.get("began"))
    return PastRefresh(
        number=stamp.refresh,
        version=event.version,
        time=event.time,
        strategy=stamp.note.get("strategy", ""),
        reason=stamp.note.get("reason", ""),
        seconds=max((event.time - began).total_seconds(), 0.0) if began else None,
        rows=event.rows,
        vector={table: position.version for table, position in stamp.vector.items()},
        engine=event.engine,
        began=began,
    )


def _recorded(record: Record) -> PastRefresh:
    """A refresh whose commit the log has forgotten."""
    ended = record.started + timedelta(seconds=record.seconds)
    alone = PastRefresh(
        number=record.refresh,
        version=record.version,
        time=ended,
        strategy=record.strategy,
        reason=record.reason,
        seconds=record.seconds,
        rows=record.rows,
        vector=record.vector_after,
        engine=record.engine,
        began=record.started,
    )
    return _with(alone, record)


def _with(past: PastRefresh, record: Record | None) -> PastRefresh:
    if record is None:
        return past
    return replace(
        past,
        seconds=record.seconds,
        rows=record.rows if past.rows is None else past.rows,
        jobs=record.jobs,
        bytes_read=record.bytes_read,
        pending=record.pending,
        candidates=record.candidates,
    )


def _time(text: str | None) -> datetime | None:
    try:
        return datetime.fromisoformat(text or "").astimezone(UTC)
    except ValueError:
        return None


def _each(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{table} {number}" for table, number in numbers.items())


def _predicted(candidate: Candidate) -> str:
    seconds = candidate.predicted_seconds
    return candidate.strategy if seconds is None else f"{candidate.strategy} {seconds:.1f}"


def _size(number: float) -> str:
    """
    >>> _size(812), _size(20_480), _size(3_500_000_000)
    ('812 B', '20.0 KiB', '3.3 GiB')
    """
    if number < 1024:
        return f"{number:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        number /= 1024
        if number < 1024:
            return f"{number:.1f} {unit}"
    return f"{number / 1024:.1f} TiB"
