"""The commits of a view's tables since the view was created, from their logs; starts no Spark."""

from __future__ import annotations

from collections.abc import Iterator

from belvedere.delta.history import Event
from belvedere.delta.stamps import Stamp
from belvedere.lake.offline import ReadableLake
from belvedere.views.definition import View


def commits_since_creation(lake: ReadableLake, view: View, table: str) -> Iterator[Event]:
    """The commits of a table after the version that the view was created from, newest first.

    Earlier commits filled the table; they do not show how changes will arrive.
    """
    read = lake.table(table)
    stamps = [Stamp.from_json(e.user_metadata) for e in lake.events(lake.table(view.stored))]
    first = next((s.vector.get(read.name) for s in reversed(stamps) if s is not None), None)
    is_same_table = first is not None and first.id == read.id
    # Version 0 creates the table and is not a change of it.
    return lake.events(read, after=first.version if is_same_table and first is not None else 0)
