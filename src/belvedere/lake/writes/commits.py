"""All writes of stored tables: every commit carries its stamp and a fence.

The fence is a Delta transaction (view id, refresh number): Spark skips a replayed number without
a word, so the number is checked before a write and the stamp is read back after it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext

import pyarrow as pa
from deltalake.exceptions import DeltaError
from pyspark.errors import AnalysisException, PySparkException

from belvedere.delta import log
from belvedere.delta.delta_rs import open_table
from belvedere.delta.history import Event
from belvedere.delta.small_writes import (
    CHECKPOINTS,
    MOST_REPLACED,
    MOST_ROWS,
    can_replace,
    merge_rows,
    replace_rows,
    stamped,
    takes,
)
from belvedere.delta.snapshots import CHANGE_FEED
from belvedere.delta.stamps import FOREIGN_WRITE, VECTOR_PROPERTY, Stamp, StampState
from belvedere.errors import Internal
from belvedere.lake.capabilities import reads_files
from belvedere.lake.sessions.errors import as_invalid, is_conflict, noticing_mismatch
from belvedere.lake.sessions.workspace import Workspace
from belvedere.lake.spark_lake import SparkLake
from belvedere.lake.tables.table import Table
from belvedere.lake.writes import upkeep
from belvedere.sql.merges import Merge
from belvedere.sql.names import dotted, literal
from belvedere.storage.locks import Conflict
from belvedere.storage.store import ObjectStore

ATTEMPTS = 5

RELIED_ON = {
    CHANGE_FEED: "true",
    "delta.enableDeletionVectors": "false",
}
"""Properties of every stored table: it can be read by views, and written by delta-rs."""

_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_APP = "spark.databricks.delta.write.txnAppId"
_APP_VERSION = "spark.databricks.delta.write.txnVersion"


def create(
    w: Workspace,
    name: str,
    query_sql: str,
    stamp: Stamp,
    properties: Mapping[str, str] | None = None,
    near: str | None = None,
) -> None:
    """A new stored table with a query's rows and columns, stamped; a large one laid out by `near`."""
    store = store_of(w.door, name)
    with holding(w.door, name):
        if store is not None:
            _sweep(store)
        try:
            with _stamping(w, stamp):
                w.query(f"CREATE TABLE {_made(name, query_sql, stamp, properties)}")
        except BaseException:
            if store is not None:
                _sweep(store)
            raise
        if store is not None:
            w.door.registered.add(store.name)
        _read_back(w.door, name, stamp)
        if near is not None:
            upkeep.lay_out(w.door.table(name), near)


def replace(
    w: Workspace,
    name: str,
    query_sql: str,
    stamp: Stamp,
    properties: Mapping[str, str],
    near: str | None = None,
) -> None:
    """Another table in place of a stored one, in one commit: its columns are others."""
    with holding(w.door, name):
        made = _made(name, query_sql, stamp, properties)
        _write(w, name, stamp, f"CREATE OR REPLACE TABLE {made}")
        if near is not None:
            upkeep.lay_out(w.door.table(name), near)


def store_of(door: SparkLake, name: str) -> ObjectStore | None:
    """The store that a stored table of a lake's directory has, or will have."""
    return None if door.home is None else door.home.at(name.lower())


def holding(door: SparkLake, name: str) -> AbstractContextManager[None]:
    """Hold the lease of a stored table that may not be there yet."""
    store = store_of(door, name)
    return nullcontext() if store is None else store.lease()


def overwrite(w: Workspace, name: str, query_sql: str, stamp: Stamp) -> None:
    """All rows replaced by a query's in one commit; the table stays the same table."""
    table = w.door.table(name)
    if can_replace(table):
        rows = w.query(query_sql).limit(MOST_REPLACED + 1).toArrow()
        if rows.num_rows <= MOST_REPLACED:
            with _committing(w, table, stamp):
                replace_rows(table.store, rows, stamp)
            return
    _write(w, name, stamp, f"INSERT OVERWRITE {dotted(name)} {query_sql}")


def merge(w: Workspace, name: str, source_sql: str, change: Merge, stamp: Stamp) -> int:
    """Rows merged in one commit; the number of rows that changed. `StateMismatch` if that cannot be."""
    with noticing_mismatch(name):
        if takes(w.door.table(name), change):
            rows = w.query(source_sql).limit(MOST_ROWS + 1).toArrow()
            changed = merge_few(w, name, rows, change, stamp)
            if changed is not None:
                return changed
        done = _write(w, name, stamp, change.spark(dotted(name), source_sql))
    return int(done[0]["num_affected_rows"]) if done else 0


def merges_in_memory(table: Table, rows: pa.Table, change: Merge) -> bool:
    """Whether `merge_few` merges these rows into a table."""
    return takes(table, change) and rows.num_rows <= MOST_ROWS


def merge_few(w: Workspace, name: str, rows: pa.Table, change: Merge, stamp: Stamp) -> int | None:
    """Rows in memory merged in one commit; None, and nothing done, if they are for Spark to merge."""
    table = w.door.table(name)
    if not merges_in_memory(table, rows, change):
        return None
    if rows.num_rows == 0:
        move(w, table.name, stamp)
        return 0
    with _committing(w, table, stamp):
        with noticing_mismatch(name, by_division=True):
            changed = merge_rows(table, rows, change, stamp)
        if changed == 0:
            move(w, table.name, stamp)
    return changed


def move(w: Workspace, name: str, stamp: Stamp) -> None:
    """A commit without rows that moves the vector."""
    table = w.door.table(name)
    with _committing(w, table, stamp):
        if not reads_files(table) or not _move_here(table.store, stamp):
            with _stamping(w, stamp):
                pair = f"{literal(VECTOR_PROPERTY)} = {literal(stamp.to_json())}"
                w.query(f"ALTER TABLE {table.reference} SET TBLPROPERTIES ({pair})")


def read_stamp(door: SparkLake, name: str) -> StampState:
    """The vector in force at the newest version of a stored table, or why there is none."""
    return door.stamp(door.table(name))


def event_of(door: SparkLake, stored: Table, view_id: str, number: int) -> Event | None:
    """The commit of a refresh; None where finding it would cost a statement."""
    if not reads_files(stored):
        return None
    for event in door.events(stored):
        stamp = Stamp.from_json(event.user_metadata)
        if stamp is not None and (stamp.view_id, stamp.refresh) == (view_id, number):
            return event
    return None


def _made(name: str, query_sql: str, stamp: Stamp, properties: Mapping[str, str] | None) -> str:
    chosen = {**RELIED_ON, VECTOR_PROPERTY: stamp.to_json(), **(properties or {})}
    pairs = ", ".join(f"{literal(k)} = {literal(v)}" for k, v in chosen.items())
    return f"{dotted(name)} USING delta TBLPROPERTIES ({pairs}) AS {query_sql}"


def _write(w: Workspace, name: str, stamp: Stamp, statement: str) -> list[Mapping[str, int]]:
    table = w.door.table(name)
    with _committing(w, table, stamp):
        with _stamping(w, stamp):
            rows = _retried(
                lambda: [row.asDict() for row in w.spark.sql(statement).collect()],
                lambda: read_stamp(w.door, name).stamp == stamp,
            )
        if _changed_nothing(rows) and read_stamp(w.door, name).stamp != stamp:
            # A MERGE that changes no row commits only where the fence makes it.
            move(w, name, stamp)
    return rows


def _changed_nothing(rows: list[Mapping[str, int]]) -> bool:
    return bool(rows) and rows[0].get("num_affected_rows") == 0


def _retried(
    run: Callable[[], list[Mapping[str, int]]], done: Callable[[], bool]
) -> list[Mapping[str, int]]:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return run()
        except AnalysisException as error:
            raise as_invalid(error) from error
        except PySparkException as error:
            if not is_conflict(error) or attempt == ATTEMPTS:
                raise
            if done():
                return []
            time.sleep(0.1 * 2**attempt)
    raise Internal("retries ended without a result")


def _check_fence(door: SparkLake, name: str, stamp: Stamp) -> None:
    """A refresh number is used once: whoever comes second has read an old vector."""
    found = read_stamp(door, name).stamp
    if found is not None and found.view_id == stamp.view_id and found.refresh >= stamp.refresh:
        raise Conflict(
            f"{name} was refreshed by someone else meanwhile",
            detail=f"refresh {found.refresh} is recorded, this is refresh {stamp.refresh}",
            hint="refresh again",
            reason="CONCURRENT_REFRESH",
        )


def _read_back(door: SparkLake, name: str, stamp: Stamp) -> None:
    found = read_stamp(door, name)
    if found.reason == FOREIGN_WRITE:
        raise Conflict(
            f"{name} was written by someone else meanwhile",
            hint="refresh again",
            reason=FOREIGN_WRITE,
        )
    if found.stamp != stamp:
        raise Internal(
            f"a write of {name} did not record its vector",
            detail=f"wrote {stamp.to_json()}, found {found}",
            hint="refresh it in full",
        )


def _move_here(store: ObjectStore, stamp: Stamp) -> bool:
    """The empty commit through delta-rs; False if it does not write tables like this one."""
    try:
        table = open_table(store)
        table.create_write_transaction(
            [],
            mode="append",
            schema=table.schema(),
            commit_properties=stamped(stamp),
            post_commithook_properties=CHECKPOINTS,
        )
    except DeltaError:
        return False
    return True


@contextmanager
def _stamping(w: Workspace, stamp: Stamp) -> Iterator[None]:
    """Commits of this session carry the stamp while the block runs; others wait."""
    with fenced(w, stamp.view_id, stamp.refresh, {_METADATA: stamp.to_json()}):
        yield


@contextmanager
def fenced(
    w: Workspace, app: str, number: int, more: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Commits of this session carry a Delta transaction while the block runs; others wait."""
    confs = {_APP: app, _APP_VERSION: str(number), **(more or {})}
    with w.writing:
        try:
            for key, value in confs.items():
                w.spark.conf.set(key, value)
            yield
        finally:
            for key in confs:
                w.spark.conf.unset(key)


@contextmanager
def _committing(w: Workspace, table: Table, stamp: Stamp) -> Iterator[None]:
    """One write of a stored table: under its lease, its number unused before, its vector there after."""
    with table.store.lease():
        _check_fence(w.door, table.name, stamp)
        yield
        _read_back(w.door, table.name, stamp)
        if stamp.refresh % upkeep.EVERY == 0:
            upkeep.keep_up(table, w.door.newest(table))


def _sweep(store: ObjectStore) -> None:
    """Remove what a killed create left: files without a version."""
    if not log.is_table(store):
        store.clear()
