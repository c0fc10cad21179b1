"""Status: where every view stands, and what its tables have done since; needs no Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from belvedere.delta.history import rows_of
from belvedere.delta.stamps import Position
from belvedere.derivations.history import History, PastRefresh, merged, refreshes
from belvedere.derivations.ledger import records
from belvedere.errors import BelvedereError
from belvedere.lake.offline import ReadableLake
from belvedere.lake.tables.table import Table
from belvedere.listing import Listing
from belvedere.sql.names import is_part
from belvedere.views.catalog import Broken, shown_name, sound_and_broken, the_view
from belvedere.views.definition import View


class Pending(NamedTuple):
    """What a table did since a view looked: None where the log does not say."""

    versions: int | None
    rows: int | None

    def __str__(self) -> str:
        """
        >>> print(Pending(2, 10)), print(Pending(1, None)), print(Pending(0, 0))
        2 versions, 10 rows
        1 version
        nothing
        (None, None, None)
        """
        if self.versions is None:
            return "another table"
        if self.versions == 0:
            return "nothing"
        text = _counted(self.versions, "version")
        return text if self.rows is None else f"{text}, {_counted(self.rows, 'row')}"


@dataclass(frozen=True)
class Status:
    """Where a view stands: `reason` says why its vector is not known, `error` why it is broken."""

    name: str
    policy: str = ""
    vector: Mapping[str, int] = field(default_factory=dict)
    pending: Mapping[str, Pending] = field(default_factory=dict)
    last: PastRefresh | None = None
    reason: str = ""
    error: str = ""

    @property
    def fresh(self) -> bool:
        """Whether a refresh would have nothing to do."""
        sound = not self.error and not self.reason
        return sound and all(p.versions == 0 for p in self.pending.values())


class Statuses(Listing[Status]):
    """The views of a lake and where they stand, one line for each table that a view reads."""

    headers = ("view", "policy", "table", "version", "pending", "last refresh")
    note = ""

    def rows(self) -> list[tuple[object, ...]]:
        """The lines."""
        return [line for status in self for line in _lines(status)]

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self.note}" if self.note else super().__str__()


def status(lake: ReadableLake) -> Statuses:
    """Every view, those that others read first, then the broken ones."""
    sound, broken = sound_and_broken(lake)
    found = Statuses([*(_status(lake, view) for view in sound), *map(_broken, broken)])
    if lake.journal.trouble:
        found.note = f"refreshes are not recorded: {lake.journal.trouble}"
    return found


def history(lake: ReadableLake, name: str, limit: int | None = None) -> History:
    """The refreshes of a view that its log or the ledger remembers, newest first."""
    view = the_view(lake, name)
    past = refreshes(lake, lake.table(view.stored))
    found = merged(past, records(lake, view.definition.id))
    return History(_shown(lake, p) for p in found[:limit])


def _status(lake: ReadableLake, view: View) -> Status:
    try:
        stored = lake.table(view.stored)
        found = lake.stamp(stored)
        last = next(refreshes(lake, stored), None)
        vector = found.stamp.vector if found.stamp else {}
        positions = {t: p for t, p in vector.items() if t in view.inputs}
        pending = {t: pending_of(lake.table(t), p, lake) for t, p in positions.items()}
    except BelvedereError as error:
        return Status(view.name, view.definition.policy, error=str(error))
    return Status(
        name=view.name,
        policy=view.definition.policy,
        vector={shown_name(lake, t): p.version for t, p in positions.items()},
        pending={shown_name(lake, t): p for t, p in pending.items()},
        last=_shown(lake, last) if last else None,
        reason=found.reason or "",
    )


def pending_of(table: Table, seen: Position, lake: ReadableLake) -> Pending:
    """What a table did since a version of it was looked at."""
    if table.id != seen.id or table.version < seen.version:
        return Pending(None, None)
    if table.version == seen.version:
        return Pending(0, 0)
    since = list(lake.events(table, after=seen.version))
    versions = table.version - seen.version
    return Pending(versions, rows_of(since) if len(since) == versions else None)


def _broken(view: Broken) -> Status:
    return Status(view.name, error=str(view.error))


def _shown(lake: ReadableLake, past: PastRefresh) -> PastRefresh:
    return replace(
        past,
        vector={shown_name(lake, t): v for t, v in past.vector.items() if not is_part(t)},
        pending={shown_name(lake, t): n for t, n in past.pending.items()},
    )


def _lines(status: Status) -> list[tuple[object, ...]]:
    name, policy = status.name, status.policy
    if status.error:
        return [(name, policy, "", None, "broken", status.error)]
    last = (
        ""
        if status.last is None
        else f"{status.last.time.astimezone():%Y-%m-%d %H:%M} {status.last}"
    )
    if not status.vector:
        return [(name, policy, "", None, f"rebuild ({status.reason})", last)]
    first, *others = status.vector.items()
    lines: list[tuple[object, ...]] = [
        (name, policy, first[0], first[1], str(status.pending[first[0]]), last)
    ]
    return lines + [("", "", t, v, str(status.pending[t]), "") for t, v in others]


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
