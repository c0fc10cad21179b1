"""Watching: what the tables of a view have done since it looked, from their logs alone."""

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
class Watch:
    """The tables of one view, and up to where each was seen."""

    lake: ReadableLake
    name: str
    tables: tuple[str, ...]
    seen: dict[str, int] = field(default_factory=dict)

    def look(self) -> tuple[State, State]:
        """The changes that came since the last look, and all that are pending."""
        arrived, pending = list[int](), list[int]()
        for name, start, newest, events in self._events():
            news = [e for e in events if e.version > self.seen.get(name, start)]
            self.seen[name] = newest
            arrived.append(_rows(news))
            pending.append(_rows(events))
        return tuple(arrived), tuple(pending)

    def pending(self) -> State:
        """All changes that are pending."""
        return tuple(_rows(events) for *_, events in self._events())

    def _events(self) -> Iterator[tuple[str, int, int, list[Event]]]:
        """Each table with where the view has it, where it is, and the commits between."""
        view = the_view(self.lake, self.name)
        found = self.lake.stamp(self.lake.table(view.stored))
        vector = found.stamp.vector if found.stamp else {}
        for name in self.tables:
            table = self.lake.table(canonical_name(self.lake, name))
            old = vector.get(table.name)
            known = old is not None and old.id == table.id and old.version <= table.version
            # Whatever happened to a table that is not the one of before, it takes a refresh.
            start = old.version if known and old is not None else table.version - 1
            events = list(self.lake.events(table, after=start)) if start < table.version else []
            yield name, start, table.version, events


def observed(
    lake: ReadableLake, view: str, tables: Iterable[str]
) -> tuple[list[Arrival], datetime]:
    """What arrived since a view began, in seconds from the first, and when that was."""
    found = [(e, name) for name in tables for e in _commits(lake, view, name) if e.rows]
    found.sort(key=lambda pair: pair[0].time)
    if not found:
        return [], datetime.now().astimezone()
    start = found[0][0].time
    return [
        Arrival((event.time - start).total_seconds(), name, event.rows or 0)
        for event, name in found
    ], start


def arriving(lake: ReadableLake, view: str, name: str) -> dict[str, float]:
    """How often changes of a table were of each kind since a view began; empty if there were none."""
    counts = Counter[str]()
    for event in _commits(lake, view, name):
        counts.update(event.kinds)
    return {kind: count / counts.total() for kind, count in counts.items()}


def _commits(lake: ReadableLake, view: str, name: str) -> Iterator[Event]:
    """The commits of a table that a user named, since a view was created."""
    return commits_since_creation(lake, the_view(lake, view), canonical_name(lake, name))


def consistent_version(lake: ReadableLake, view: View) -> int | None:
    """The newest version of the stored table whose tables were all at one point.

    None where none is found: then there is nothing better to show than the newest.
    """
    for event in lake.events(lake.table(view.stored)):
        stamp = Stamp.from_json(event.user_metadata)
        if stamp is not None and BEHIND not in stamp.note:
            return event.version
    return None


def _rows(events: Iterable[Event]) -> int:
    """The rows that commits touched; where the log does not say, one for each."""
    return sum(1 if event.rows is None else event.rows for event in events)
