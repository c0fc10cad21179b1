"""What Spark's catalog must be told: the tables of an embedded lake, catalog views, drops.

An embedded lake's catalog lives in memory, so a new process registers what the directory holds.
Spark's session catalog takes only names of letters a-z, digits and _ for permanent tables and
views: other names become temporary views of the lake's session.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from deltalake import Schema

from belvedere.delta import snapshots
from belvedere.errors import BelvedereError, Invalid
from belvedere.lake.offline import stored_in
from belvedere.lake.records.journal import JOURNAL, SCHEMA_NAME, LocalJournal
from belvedere.lake.tables.table import path_reference
from belvedere.lake.writes import upkeep
from belvedere.sql.names import STORED_PREFIX, admissible, dotted, literal, parts, quote
from belvedere.storage.store import ObjectStore

if TYPE_CHECKING:
    from belvedere.lake.sessions.workspace import Workspace
    from belvedere.lake.spark_lake import SparkLake

_naming = threading.Lock()


def register(door: SparkLake) -> None:
    """Make every Delta table of the lake's directory known to Spark by its name."""
    from pyspark.errors import PySparkException

    if door.home is None:
        return
    upkeep.sweep(door.home)
    known = {row["tableName"].lower() for row in door.spark.sql("SHOW TABLES").collect()}
    for name, store in snapshots.stores_of_tables(door.home).items():
        door.registered.add(name)
        if name.lower() not in known:
            # One whose log is damaged must not keep the lake from opening.
            with suppress(BelvedereError, PySparkException):
                _register(door, name, store)


def _register(door: SparkLake, name: str, store: ObjectStore) -> None:
    if admissible(name):
        door.sql(
            f"CREATE TABLE IF NOT EXISTS {quote(name)} USING delta LOCATION {literal(store.uri)}"
        )
    else:
        frame = door.spark.read.format("delta").load(store.uri)
        frame.createOrReplaceTempView(quote(name))


def create_table(w: Workspace, name: str, query: str, properties: Mapping[str, str]) -> None:
    """A table with the rows of a query; what is read from it can be followed."""
    pairs = {snapshots.CHANGE_FEED: "true", **properties}
    listed = ", ".join(f"{literal(k)} = {literal(v)}" for k, v in pairs.items())
    w.query(f"CREATE TABLE {dotted(name)} USING delta TBLPROPERTIES ({listed}) AS {query}")
    if w.door.capabilities.in_directory:
        w.door.registered.add(name.lower())


def create_view(door: SparkLake, name: str, sql: str) -> None:
    """Put a query under a name, in place of a view of that name; Invalid over a table."""
    if door.home is not None and snapshots.store_of_table(door.home, name) is not None:
        raise Invalid(
            f"{name!r} is a table", hint="choose another name for the view", reason="NOT_A_VIEW"
        )
    door.sql(f"CREATE OR REPLACE {_kind(name)}VIEW {_view_name(name)} AS {sql}")


def drop_view(door: SparkLake, name: str) -> None:
    """Take a view away; nothing happens if there is none."""
    if _kind(name):
        door.spark.catalog.dropTempView(name)
    else:
        door.sql(f"DROP VIEW IF EXISTS {_view_name(name)}")


def drop_table(door: SparkLake, name: str) -> None:
    """Drop a table, in a lake's directory with its files: it would come back otherwise."""
    if door.home is None:
        door.sql(f"DROP TABLE {dotted(name)}")
        return
    store = snapshots.store_of_table(door.home, name)
    if store is None:
        if not door.exists(name):
            raise door.unknown(name)
        door.sql(f"DROP TABLE {dotted(name)}")
        return
    with store.lease():
        if admissible(store.name):
            door.sql(f"DROP TABLE IF EXISTS {quote(store.name)}")
        else:
            door.spark.catalog.dropTempView(store.name)
        store.clear()
        door.registered.discard(store.name)


def stored(door: SparkLake) -> list[str]:
    """The tables that hold the state of views, by name."""
    if door.home is not None:
        return stored_in(door.home)
    rows = door.spark.sql(f"SHOW TABLES LIKE '{STORED_PREFIX}*'").collect()
    space = "".join(f"{quote(part)}." for part in door.namespace())
    return [space + row["tableName"].lower() for row in rows if not row["isTemporary"]]


@contextmanager
def named_journal(door: SparkLake, schema: Schema) -> Iterator[None]:
    """While it lasts, Spark knows the journal of an embedded lake by its name.

    Lakes of one process share Spark's catalog, in which the name is one: a query means the lake
    that it is analysed for.
    """
    journal = door.journal
    if not isinstance(journal, LocalJournal):
        yield
        return
    journal.mend()
    journal.ensure(schema)
    with _naming:
        door.sql(f"CREATE DATABASE IF NOT EXISTS {SCHEMA_NAME}")
        door.sql(
            f"CREATE OR REPLACE VIEW {SCHEMA_NAME}.{JOURNAL} AS "
            f"SELECT * FROM {path_reference(journal.store)}"
        )
        yield


def _view_name(name: str) -> str:
    return dotted(name) if admissible(name.replace(".", "").replace("`", "")) else quote(name)


def _kind(name: str) -> str:
    return "" if all(admissible(part) for part in _parts(name)) else "TEMPORARY "


def _parts(name: str) -> tuple[str, ...]:
    try:
        return parts(name)
    except Invalid:
        return (name,)
