"""A lake's tables without Spark: enough to look, in a second, at what a directory holds."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from deltalake.exceptions import DeltaError

from belvedere.delta import history, readability, stamps, tables
from belvedere.delta.history import Event
from belvedere.delta.stamps import VECTOR_LOST, Position, StampState
from belvedere.delta.tables import Table
from belvedere.errors import Invalid, Unsupported
from belvedere.lake.records.journal import Journal, local_journal
from belvedere.lake.records.saved_state import Saves, local_saves
from belvedere.sql.names import STORED_PREFIX, hidden, parts, view_name

VIEW_PROPERTY = "belvedere.view"


class ReadableLake(Protocol):
    """What can be asked about a lake's tables, with or without Spark."""

    @property
    def directory(self) -> Path | None:
        """Where an embedded lake is."""

    @property
    def journal(self) -> Journal:
        """Where the lake records its refreshes."""

    @property
    def saves(self) -> Saves | None:
        """Where states that live in memory are saved, if the lake has a place for them."""

    def namespace(self) -> tuple[str, ...]:
        """What stands before a table's name to make it the only one: nothing in a directory."""

    def names(self) -> list[str]:
        """The tables and views a user sees, in order."""

    def exists(self, name: str) -> bool:
        """Whether a table or view of this name can be read."""

    def table(self, name: str) -> Table:
        """A Delta table at its newest version."""

    def stored(self) -> list[str]:
        """The names of the tables that hold the state of views."""

    def events(self, table: Table, after: int = -1) -> Iterator[Event]:
        """The commits of a table after a version, newest first."""

    def stamp(self, stored: Table) -> StampState:
        """The vector in force of a table that holds a view's state, or why there is none."""

    def put_back(self, table: Table, known: Position) -> bool:
        """Whether a table's history is not the one in which a version was read."""

    def feed_problem(
        self, table: Table, known: Position, new: int, columns: Mapping[str, str]
    ) -> str | None:
        """Why the changes from a version up to `new` cannot be read; None if they can."""

    def state_problem(
        self, table: Table, known: Position, columns: Mapping[str, str]
    ) -> str | None:
        """Why a version of a table cannot be read; None if it can."""

    def pads_char(self) -> bool:
        """Whether who asks reads and compares values of CHAR as Spark does by default."""

    def unknown(self, name: str) -> Invalid:
        """The error for a name nothing has."""


class OfflineLake:
    """The tables of a lake's directory, for looking only."""

    def __init__(self, directory: Path | str) -> None:
        self._directory = Path(directory).expanduser().resolve()
        if not self._directory.is_dir():
            raise Invalid(
                f"no lake at {directory}",
                hint="name one with --lake DIR or BELVEDERE_LAKE; connect(DIR) creates one",
                reason="NO_LAKE",
            )
        self._journal = local_journal(self._directory)
        self._saves = local_saves(self._directory)

    @property
    def directory(self) -> Path:
        return self._directory

    @property
    def journal(self) -> Journal:
        return self._journal

    @property
    def saves(self) -> Saves | None:
        return self._saves

    def namespace(self) -> tuple[str, ...]:
        return ()

    def names(self) -> list[str]:
        """The tables and views a user sees, in order."""
        found = tables.table_directories(self._directory)
        stored = {view_name(n) for n in found if n.startswith(STORED_PREFIX)}
        return sorted(stored.union(n for n in found if not hidden(n)))

    def exists(self, name: str) -> bool:
        return tables.table_directory(self._directory, name) is not None

    def table(self, name: str) -> Table:
        home = tables.table_directory(self._directory, name)
        if home is None:
            raise self.unknown(name)
        try:
            return tables.read(name, home)
        except (DeltaError, OSError) as error:
            raise Unsupported(
                f"the log of {name!r} cannot be read without Spark",
                detail=str(error).strip().partition("\n")[0],
                hint="ask in SQL whether Spark can read it: belvedere sql; if it is damaged, "
                "put it back",
                reason="UNREADABLE_LOG",
            ) from error

    def stored(self) -> list[str]:
        return stored_in(self._directory)

    def events(self, table: Table, after: int = -1) -> Iterator[Event]:
        root = table.root
        return history.local_events(root, after) if root is not None else iter(())

    def stamp(self, stored: Table) -> StampState:
        root = stored.root
        return stamps.read_local(root) if root else StampState(None, stored.version, VECTOR_LOST)

    def put_back(self, table: Table, known: Position) -> bool:
        return readability.put_back(table, known)

    def feed_problem(
        self, table: Table, known: Position, new: int, columns: Mapping[str, str]
    ) -> str | None:
        return readability.feed_problem(table, known, new, columns)

    def state_problem(
        self, table: Table, known: Position, columns: Mapping[str, str]
    ) -> str | None:
        return readability.state_problem(table, known, columns)

    def pads_char(self) -> bool:
        return True

    def unknown(self, name: str) -> Invalid:
        return unknown_among(name, self.names())


def stored_in(directory: Path) -> list[str]:
    """The tables of a lake's directory that hold the state of views."""
    return [n for n in tables.table_directories(directory) if n.startswith(STORED_PREFIX)]


def unknown_among(name: str, known: Iterable[str]) -> Invalid:
    """The error for a name nothing has, with the nearest one that something has."""
    wanted = parts(name)[-1].lower()
    here = [k for k in known if k != wanted]
    near = difflib.get_close_matches(wanted, here, n=1)
    listed = ", ".join(here[:20]) or "none"
    hint = f"did you mean {near[0]!r}?" if near else f"tables here: {listed}"
    return Invalid(f"no table or view {name!r}", hint=hint, reason="UNKNOWN_TABLE")
