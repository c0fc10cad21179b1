"""Watch the tables of a view: pending and arriving changes, from their logs; starts no Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from belvedere.delta.history import Event
from belvedere.delta.stamps import Stamp
from belvedere.derivations.history import BEHIND
from belvedere.lake.offline import ReadableLake
from belvedere.scheduling.model.arrivals import Arrival
from belvedere.scheduling.model.problem import State
from belvedere.views.arrivals import commits_since_creation
from belvedere.views.catalog import canonical_name, the_view
from belvedere.views.definition import View


@dataclass
class TableWatch:
    """The tables of one view, and the versions at the last look."""

    lake: ReadableLake
    name: str
    tables: tuple[str, ...]
    seen: dict[str, int] = field(default_factory=dict)

    def look(self) -> tuple[State, State]:
        """The changes that arrived since the last look, and all pending changes."""
        arrived, pending = list[int](), list[int]()
        for name, start, newest, events in self._events():
            news = [e for e in events if e.version > self.seen.get(name, start)]
            self.seen[name] = newest
            arrived.append(_rows(news))
            pending.append(_rows(events))
        return tuple(arrived), tuple(pending)

    def pending(self) -> State:
        """The pending changes of each table."""
        return tuple(_rows(events) for *_, events in self._events())

    def _events(self) -> Iterator[tuple[str, int, int, list[Event]]]:
        """Each table with the view's version of it, its newest version, and the commits between."""
        view = the_view(self.lake, self.name)
        stamp = self.lake.stamp(self.lake.table(view.stored)).stamp
        vector = stamp.vector if stamp else {}
        for name in self.tables:
            table = self.lake.table(canonical_name(self.lake, name))
            old = vector.get(table.name)
            is_same_table = old is not None and old.id == table.id and old.version <= table.version
            # A replaced table counts as one commit: it needs a refresh.
            start = old.version if is_same_table and old is not None else table.version - 1
            events = list(self.lake.events(table, after=start)) if start < table.version else []
            yield name, start, table.version, events


def observed_arrivals(
    lake: ReadableLake, view: str, tables: Iterable[str]
) -> tuple[list[Arrival], datetime]:
    """The arrivals since a view was created, in seconds from the first, and the time of the first."""
    commits = [(e, name) for name in tables for e in _commits_of(lake, view, name) if e.rows]
    commits.sort(key=lambda pair: pair[0].time)
    if not commits:
        return [], datetime.now().astimezone()
    start = commits[0][0].time
    return [
        Arrival((event.time - start).total_seconds(), name, event.rows or 0)
        for event, name in commits
    ], start


def shares_of_kinds(lake: ReadableLake, view: str, name: str) -> dict[str, float]:
    """The share of each kind in a table's changes since a view was created; empty without changes."""
    counts = Counter[str]()
    for event in _commits_of(lake, view, name):
        counts.update(event.kinds)
    return {kind: count / counts.total() for kind, count in counts.items()}


def _commits_of(lake: ReadableLake, view: str, name: str) -> Iterator[Event]:
    """The commits of a table that a user named, since a view was created."""
    return commits_since_creation(lake, the_view(lake, view), canonical_name(lake, name))


def consistent_version(lake: ReadableLake, view: View) -> int | None:
    """The newest version of the stored table that is consistent: all tables at one point in time.

    None if there is none; then the newest version is shown.
    """
    for event in lake.events(lake.table(view.stored)):
        stamp = Stamp.from_json(event.user_metadata)
        if stamp is not None and BEHIND not in stamp.note:
            return event.version
    return None


def _rows(events: Iterable[Event]) -> int:
    """The rows that commits changed; a commit whose log does not say counts as one."""
    return sum(1 if event.rows is None else event.rows for event in events)
