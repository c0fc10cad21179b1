"""What every lake offers, and a lake without Spark: a directory whose tables are read at once."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from deltalake.exceptions import DeltaError

from belvedere.delta import history, readability, snapshots, stamps
from belvedere.delta.history import Event
from belvedere.delta.stamps import Position, StampState
from belvedere.errors import Invalid, Unsupported
from belvedere.lake.capabilities import Capabilities
from belvedere.lake.records.journal import Journal, local_journal
from belvedere.lake.records.saved_state import Saves, local_saves
from belvedere.lake.tables.table import Table, read_table
from belvedere.sql.names import STORED_PREFIX, database_name, hidden, parts, view_name
from belvedere.storage.store import ObjectStore
from belvedere.storage.stores import open_store

VIEW_PROPERTY = "belvedere.view"


class ReadableLake(Protocol):
    """What can be asked about a lake's tables, with or without Spark."""

    @property
    def capabilities(self) -> Capabilities:
        """What the lake can do."""

    @property
    def home(self) -> ObjectStore | None:
        """The store of the lake's tables; None where a catalog says where each of them is."""

    @property
    def database(self) -> str:
        """The schema that Spark's catalog has for the tables of a directory; else empty."""

    @property
    def journal(self) -> Journal:
        """Where the lake records its refreshes."""

    @property
    def saves(self) -> Saves | None:
        """Where states that live in memory are saved, if the lake has a place for them."""

    def namespace(self) -> tuple[str, ...]:
        """The parts before a table's name that make it unique: none in a directory."""

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
        """Whether values of CHAR are read and compared as Spark does by default."""

    def unknown(self, name: str) -> Invalid:
        """The error for a name nothing has."""


class OfflineLake:
    """The tables of a lake's directory, for reading only."""

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory).expanduser().resolve()
        if not self.directory.is_dir():
            raise Invalid(
                f"no lake at {directory}",
                hint="name one with --lake DIR or BELVEDERE_LAKE; connect(DIR) creates one",
                reason="NO_LAKE",
            )
        self.capabilities = Capabilities(None, in_directory=True)
        self.home = open_store(str(self.directory))
        self.journal = local_journal(self.directory)
        self.saves = local_saves(self.directory)

    @property
    def database(self) -> str:
        return database_name(self.directory)

    def namespace(self) -> tuple[str, ...]:
        return ()

    def names(self) -> list[str]:
        """The tables and views a user sees, in order."""
        tables = snapshots.stores_of_tables(self.home)
        stored = {view_name(n) for n in tables if n.startswith(STORED_PREFIX)}
        return sorted(stored.union(n for n in tables if not hidden(n)))

    def exists(self, name: str) -> bool:
        return snapshots.store_of_table(self.home, name) is not None

    def table(self, name: str) -> Table:
        store = snapshots.store_of_table(self.home, name)
        if store is None:
            raise self.unknown(name)
        try:
            return read_table(name, store)
        except (DeltaError, OSError) as error:
            raise Unsupported(
                f"the log of {name!r} cannot be read without Spark",
                detail=str(error).strip().partition("\n")[0],
                hint="ask in SQL whether Spark can read it: belvedere sql; if it is damaged, "
                "put it back",
                reason="UNREADABLE_LOG",
            ) from error

    def stored(self) -> list[str]:
        return stored_in(self.home)

    def events(self, table: Table, after: int = -1) -> Iterator[Event]:
        return history.logged_events(table.store, after)

    def stamp(self, stored: Table) -> StampState:
        return stamps.logged_stamp(stored.store)

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


def stored_in(store: ObjectStore) -> list[str]:
    """The tables of a lake in a store that hold the state of views."""
    return [n for n in snapshots.stores_of_tables(store) if n.startswith(STORED_PREFIX)]


def unknown_among(name: str, known: Iterable[str]) -> Invalid:
    """The error for a name nothing has, with the nearest one that something has."""
    wanted = parts(name)[-1].lower()
    here = [k for k in known if k != wanted]
    near = difflib.get_close_matches(wanted, here, n=1)
    listed = ", ".join(here[:20]) or "none"
    hint = f"did you mean {near[0]!r}?" if near else f"tables here: {listed}"
    return Invalid(f"no table or view {name!r}", hint=hint, reason="UNKNOWN_TABLE")
