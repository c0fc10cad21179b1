"""Whether changes can be read is known before anything is read."""

from __future__ import annotations

import pytest

from belvedere.delta import log, readability
from belvedere.delta.stamps import Position
from belvedere.lake.spark_lake import SparkLake

pytestmark = pytest.mark.spark


def problem(door: SparkLake, old: int, known_id: str | None = None, **columns: str) -> str | None:
    table = door.table("t")
    return door.feed_problem(table, Position(known_id or table.id, old), table.version, columns)


def test_a_table_without_feed_is_noticed_and_can_be_given_one(door: SparkLake) -> None:
    door.sql("CREATE TABLE t (a INT) TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false')")
    door.sql("INSERT INTO t VALUES (1)")
    assert problem(door, 0) == readability.NO_CHANGE_FEED
    assert readability.first_readable(door.table("t")) is None
    door.enable_change_feed(door.table("t"))
    door.sql("INSERT INTO t VALUES (2)")
    assert problem(door, 0) == readability.NO_CHANGE_FEED
    assert problem(door, 2) is None
    assert readability.first_readable(door.table("t")) == 2


def test_replaced_tables_and_changed_columns_are_noticed(door: SparkLake) -> None:
    door.sql("CREATE TABLE t (a INT, b INT)")
    first = door.table("t").id
    door.sql("ALTER TABLE t ADD COLUMN c INT")
    assert problem(door, 0, a="int", b="int") is None
    assert problem(door, 0, a="bigint") == readability.SCHEMA_CHANGED
    assert problem(door, 0, z="int") == readability.SCHEMA_CHANGED
    door.sql("CREATE OR REPLACE TABLE t (a INT, b INT) USING delta")
    assert problem(door, 0, first, a="int") == readability.TABLE_REPLACED


def test_files_and_commits_that_are_gone_are_noticed(door: SparkLake) -> None:
    door.sql("CREATE TABLE t AS SELECT id FROM range(0, 10, 1, 1)")
    door.sql("DELETE FROM t WHERE id = 1")
    door.sql("DELETE FROM t WHERE id = 2")
    table = door.table("t")
    assert problem(door, 0) is None
    vector = log.vector_of(log.commit(table.store, 1).adds[0])
    assert vector is not None
    path = log.vector_path(vector)
    assert path is not None
    table.store.delete(path)
    assert problem(door, 1) == readability.VERSION_GONE
    table.store.delete(f"_delta_log/{2:020}.crc")
    table.store.delete(log.commit_path(1))
    assert problem(door, 0) == readability.VERSION_GONE
    assert problem(door, 2) is None
    assert problem(door, 3) == readability.VERSION_GONE
