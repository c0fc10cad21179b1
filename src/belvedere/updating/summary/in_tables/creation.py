"""Record the creation of a summary in tables, so that an unfinished one can be dropped.

A summary consists of many views and tables, and its updatable view is saved after all of them. The
record exists while they are created. If it exists and nobody holds the view's lock, the process that
created the summary was killed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from belvedere.derivations.registry import the_saves
from belvedere.errors import BelvedereError
from belvedere.lake.offline import ReadableLake
from belvedere.updating.store import KIND
from belvedere.updating.summary.in_tables import parts

UNFINISHED = "updating-making"


@contextmanager
def recorded_creation(lake: ReadableLake, name: str, tables: Sequence[str]) -> Iterator[None]:
    """Record that a summary is being created, with tables that cannot be recognized as its own."""
    saves = the_saves(lake)
    saves.save(UNFINISHED, name, {"pieces": list(tables)}, {}, {})
    try:
        yield
    finally:
        saves.drop(UNFINISHED, name)


def drop_unfinished(lake: ReadableLake) -> None:
    """Drop what killed creations left; if there is none, this lists one directory."""
    saves = lake.saves
    for name in () if saves is None else saves.names(UNFINISHED):
        assert saves is not None
        # Skip a creation that another process is running, and one that cannot be dropped now.
        with suppress(BelvedereError, OSError), saves.locked(KIND, name, timeout=0):
            if not saves.has(UNFINISHED, name):
                continue
            if not saves.has(KIND, name):
                parts_made = saves.head(UNFINISHED, name).definition["pieces"]
                parts.drop_parts(lake, name, parts_made)  # type: ignore[arg-type]
            saves.drop(UNFINISHED, name)
