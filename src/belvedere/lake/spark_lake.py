"""A lake with Spark: a directory of Delta tables, or a session that the user has."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from deltalake.exceptions import DeltaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from belvedere.delta import history, log, readability, snapshots, stamps
from belvedere.delta.history import Event
from belvedere.delta.schema_types import CHAR_AS_BY_DEFAULT, columns_of
from belvedere.delta.stamps import Position, StampState
from belvedere.errors import Invalid, Unsupported
from belvedere.lake.capabilities import Capabilities, reads_files
from belvedere.lake.offline import unknown_among
from belvedere.lake.records.catalog_journal import journal_of
from belvedere.lake.records.saved_state import local_saves
from belvedere.lake.sessions.errors import as_invalid, is_missing, reading, translated
from belvedere.lake.sessions.session import lake_session
from belvedere.lake.sessions.workspace import OwnSession, Session, Workspace
from belvedere.lake.tables import catalog, remote
from belvedere.lake.tables.table import Table, path_reference, read_table
from belvedere.sql.names import admissible, database_name, dotted, hidden, literal, parts, quote
from belvedere.storage.store import ObjectStore
from belvedere.storage.stores import open_store


class SparkLake:
    """One lake: its tables by name, and sessions to work in."""

    def __init__(
        self, spark: SparkSession, directory: Path | None, state: Path | None = None
    ) -> None:
        self.spark = spark
        self.capabilities = Capabilities(spark, in_directory=directory is not None)
        self.directory = directory
        self.home = None if directory is None else open_store(str(directory))
        self.journal = journal_of(self)
        self.saves = local_saves(directory, state)
        self.registered: set[str] = set()
        self._sessions: dict[tuple[tuple[str, str], ...], Session] = {}
        self._opening = threading.Lock()
        self._calls = 0
        self._meanings: dict[str, ObjectStore | None] = {}

    @property
    def database(self) -> str:
        """The schema that Spark's catalog has for the tables of a directory; else empty."""
        return "" if self.directory is None else database_name(self.directory)

    def sql(self, text: str) -> DataFrame:
        """Run a statement, or analyse a query, as Spark does."""
        with translated():
            return self.spark.sql(text)

    def namespace(self) -> tuple[str, ...]:
        """The parts before a table's name that make it unique: none in a directory."""
        if self.capabilities.in_directory:
            return ()
        return self.spark.catalog.currentCatalog(), self.spark.catalog.currentDatabase()

    def stored(self) -> list[str]:
        """The names of the tables that hold the state of views."""
        return catalog.stored(self)

    def events(self, table: Table, after: int = -1) -> Iterator[Event]:
        """The commits of a table after a version, newest first."""
        if reads_files(table):
            return history.logged_events(table.store, after)
        rows = self.spark.sql(f"DESCRIBE HISTORY {table.reference}").collect()
        return history.history_events((row.asDict() for row in rows), after)

    def stamp(self, stored: Table) -> StampState:
        """The vector in force of a table that holds a view's state, or why there is none."""
        if reads_files(stored):
            return stamps.logged_stamp(stored.store)
        rows = self.spark.sql(f"DESCRIBE HISTORY {stored.reference}").collect()
        entries = stamps.history_entries(row.asDict() for row in rows)
        return stamps.in_force(entries, stored.version)

    def names(self) -> list[str]:
        """The tables and views a user sees, in order."""
        rows = self.spark.sql("SHOW TABLES").collect()
        return sorted({r["tableName"] for r in rows if not hidden(r["tableName"])})

    @contextmanager
    def one_call(self) -> Iterator[None]:
        """While it lasts a name of a session's catalog is looked up once, not at every use."""
        with self._opening:
            self._calls += 1
        try:
            yield
        finally:
            with self._opening:
                self._calls -= 1
                if not self._calls:
                    self._meanings = {}

    def exists(self, name: str) -> bool:
        """Whether a table or view of this name can be read."""
        if self._store(name) is not None:
            return True
        if name in self._meanings or (self.capabilities.in_directory and hidden(name)):
            return False
        try:
            _ = self.spark.table(dotted(name)).schema
        except AnalysisException as error:
            if is_missing(error):
                self._remember(name, None)
                return False
            raise as_invalid(error) from error
        return True

    def table(self, name: str) -> Table:
        """A Delta table at its newest version."""
        store = self._store(name)
        if store is not None:
            # What delta-rs cannot read, Spark may.
            try:
                return read_table(name, store, self._reference(name, store))
            except (DeltaError, OSError, log.DamagedLog):
                pass
        try:
            with reading(name):
                table = remote.describe(self.spark, name)
        except AnalysisException as error:
            raise self._not_a_table(name, error) from error
        except PySparkException as error:
            if store is None:
                raise
            raise log.damaged_log(name, as_invalid(error).message) from error
        if reads_files(table):
            self._remember(name, table.store)
        return table

    def newest(self, table: Table) -> int:
        """A table's newest version, without a scan."""
        if reads_files(table):
            return log.newest_version(table.store)
        return remote.newest(self.spark, table)

    def put_back(self, table: Table, known: Position) -> bool:
        """Whether a table's history is not the one in which a version was read."""
        return readability.put_back(table, known)

    def feed_problem(
        self, table: Table, known: Position, new: int, columns: Mapping[str, str]
    ) -> str | None:
        """Why the changes from a version up to `new` cannot be read; None if they can."""
        if reads_files(table):
            return readability.feed_problem(table, known, new, columns)
        return remote.feed_problem(self.spark, table, known, new, columns)

    def state_problem(
        self, table: Table, known: Position, columns: Mapping[str, str]
    ) -> str | None:
        """Why a version of a table cannot be read; None if it can."""
        if reads_files(table):
            return readability.state_problem(table, known, columns)
        return remote.state_problem(self.spark, table, known, columns)

    def enable_change_feed(self, table: Table) -> None:
        """From its next version on, the table's changes are recorded."""
        self.set_properties(table, {snapshots.CHANGE_FEED: "true"})

    def set_properties(self, table: Table, properties: Mapping[str, str]) -> None:
        """Set properties of a table, whatever characters they hold."""
        pairs = ", ".join(f"{literal(k)} = {literal(v)}" for k, v in properties.items())
        is_ours = hidden(parts(table.name)[-1])
        with table.store.lease() if is_ours else nullcontext():
            self.sql(f"ALTER TABLE {table.reference} SET TBLPROPERTIES ({pairs})")

    def types(
        self,
        expressions: Mapping[str, str],
        columns: Mapping[str, str],
        settings: Mapping[str, str] | None = None,
    ) -> dict[str, str]:
        """The type Spark gives each expression over columns of the given types; runs no job."""
        if not expressions:
            return {}
        row = ", ".join(f"CAST(NULL AS {kind}) AS {quote(name)}" for name, kind in columns.items())
        asked = ", ".join(
            f"{text} AS {quote(f'c{i}')}" for i, text in enumerate(expressions.values())
        )
        found = self.output_schema(f"SELECT {asked} FROM (SELECT {row or '1 AS one'})", settings)
        return dict(zip(expressions, (kind for _, kind in found), strict=True))

    def output_schema(
        self, sql: str, settings: Mapping[str, str] | None = None
    ) -> list[tuple[str, str]]:
        """The names and types of a query's columns, in order; runs no job."""
        spark = self._session(settings).spark if settings else self.spark
        with translated():
            return list(columns_of(spark.sql(sql).schema.jsonValue()))

    @contextmanager
    def work(self, settings: Mapping[str, str] | None = None) -> Iterator[Workspace]:
        """Work in a session beside the user's with these settings, closed at the end."""
        work = Workspace(self, lambda: self._followed(settings or {}), settings or {})
        try:
            yield work
        finally:
            work.close()

    @contextmanager
    def own_work(self) -> Iterator[Workspace]:
        """Work in the user's own session: what a query of theirs is to read while it is analysed."""
        work = Workspace(self, lambda: OwnSession(self.spark), {})
        try:
            yield work
        finally:
            work.close()

    def close(self) -> None:
        """Let go of the lake's sessions; a session that the user gave stays as it was."""
        with self._opening:
            for session in self._sessions.values():
                session.close()
            self._sessions.clear()

    def _followed(self, settings: Mapping[str, str]) -> Session:
        session = self._session(settings)
        session.follow()
        return session

    def _session(self, settings: Mapping[str, str]) -> Session:
        key = tuple(sorted(settings.items()))
        with self._opening:
            if key not in self._sessions:
                self._sessions[key] = Session(self.spark, settings)
            return self._sessions[key]

    def _remember(self, name: str, store: ObjectStore | None) -> None:
        if self._calls and self.home is None:
            self._meanings[name] = store

    def _store(self, name: str) -> ObjectStore | None:
        """The store of a table, if that is known without asking Spark."""
        if self.home is None:
            return self._meanings.get(name)
        store = snapshots.store_of_table(self.home, name)
        if store is not None and store.name not in self.registered:
            # Another process made it after this one connected.
            catalog.register(self)
        return store

    def _reference(self, name: str, store: ObjectStore) -> str:
        if self.home is None:
            return dotted(name)
        return quote(store.name) if admissible(store.name) else path_reference(store)

    def _not_a_table(self, name: str, error: AnalysisException) -> Exception:
        if is_missing(error):
            return self.unknown(name)
        if "EXPECT_TABLE_NOT_VIEW" in str(error):
            return Unsupported(
                f"{name!r} is a view, not a Delta table",
                hint="name the tables that the view reads",
                reason="NOT_A_DELTA_TABLE",
            )
        return as_invalid(error)

    def pads_char(self) -> bool:
        """Whether the session reads and compares values of CHAR as Spark does by default."""
        return all(self.spark.conf.get(k, v) == v for k, v in CHAR_AS_BY_DEFAULT.items())

    def unknown(self, name: str) -> Invalid:
        """The error for a name nothing has, with the nearest one that something has."""
        return unknown_among(name, self.names())


def open_directory(path: Path | str) -> SparkLake:
    """The lake in a directory, created if need be, with an embedded Spark session."""
    directory = Path(path).expanduser().resolve()
    if directory.exists() and not directory.is_dir():
        raise Invalid(f"{path} is not a directory", reason="NO_LAKE")
    door = SparkLake(lake_session(directory), directory)
    catalog.register(door)
    return door


def open_session(spark: Any, state: Path | str | None = None) -> SparkLake:
    """The lake that a session sees: classic or Spark Connect, any catalog."""
    if not callable(getattr(spark, "sql", None)):
        raise Invalid(f"{spark!r} is neither a directory nor a Spark session", reason="NO_LAKE")
    return SparkLake(spark, None, None if state is None else Path(state).expanduser().resolve())
