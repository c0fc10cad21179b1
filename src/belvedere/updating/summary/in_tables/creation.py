"""The creation of a summary in tables, noted before it begins: what a killed one made is taken away.

A summary is many views and tables, and its view is saved after all of them. The note stands while
they are made; a note whose view nobody holds the lock of is what a process left that was killed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from belvedere.derivations.registry import the_saves
from belvedere.errors import BelvedereError
from belvedere.lake.offline import ReadableLake
from belvedere.updating.state import KIND
from belvedere.updating.summary.in_tables import parts

UNFINISHED = "updating-making"


@contextmanager
def recorded_creation(lake: ReadableLake, name: str, tables: Sequence[str]) -> Iterator[None]:
    """Note that a view's summary is being made, with some tables that are not known as its own."""
    saves = the_saves(lake)
    saves.save(UNFINISHED, name, {"pieces": list(tables)}, {}, {})
    try:
        yield
    finally:
        saves.drop(UNFINISHED, name)


def drop_unfinished(lake: ReadableLake) -> None:
    """Drop what killed creations left; without any, this is a look at one directory."""
    saves = lake.saves
    for name in () if saves is None else saves.names(UNFINISHED):
        assert saves is not None
        # What is being made by another process, or cannot be dropped now, is left.
        with suppress(BelvedereError, OSError), saves.locked(KIND, name, timeout=0):
            if not saves.has(UNFINISHED, name):
                continue
            if not saves.has(KIND, name):
                parts_made = saves.head(UNFINISHED, name).definition["pieces"]
                parts.drop_parts(lake, name, parts_made)  # type: ignore[arg-type]
            saves.drop(UNFINISHED, name)
