"""Rows exchanged in one commit, by delta-rs or by Spark, and taken back as far as they were."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, Schema, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.schema import PrimitiveType

from belvedere.lake.offline import OfflineLake
from belvedere.lake.spark_lake import SparkLake
from belvedere.lake.writes.row_replacement import Exchange, by_delta_rs, exchange, undoing

APP = "belvedere.test"
OLD = [(1, "a"), (2, None), (2, None), (3, "c")]
GONE = ({"n": 2, "s": None}, {"n": 2, "s": None}, {"n": 3, "s": "c"})
COME = ({"n": 4, "s": "d"}, {"n": 4, "s": "d"}, {"n": None, "s": "e"})
NEW = [(1, "a"), (4, "d"), (4, "d"), (None, "e")]


@pytest.fixture
def lake(tmp_path: Path) -> OfflineLake:
    rows = pa.table({"n": [n for n, _ in OLD], "s": [s for _, s in OLD]})
    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(str(tmp_path / "t"), rows, configuration=feed)
    return OfflineLake(tmp_path)


def stored(directory: Path) -> Counter[tuple[Any, ...]]:
    rows = DeltaTable(str(directory / "t")).to_pyarrow_table().to_pylist()
    return Counter(tuple(row.values()) for row in rows)


def test_rows_go_with_all_their_copies_and_come_back(lake: OfflineLake) -> None:
    did = Exchange(GONE, COME, APP, 1)
    exchange(lake, lake.table("t"), did, 0)
    assert stored(lake.directory) == Counter(NEW)
    after = lake.table("t")
    exchange(lake, after, undoing(after, did, 0, f"{APP}.undo"), after.version)
    assert stored(lake.directory) == Counter(OLD)
    assert DeltaTable(after.store.uri).transaction_version(f"{APP}.undo") == 1


def test_rows_with_char_go_however_they_are_stored_and_read(tmp_path: Path) -> None:
    fields = [
        Field("n", PrimitiveType("integer")),
        Field("s", "string", metadata={"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}),
    ]
    rows = pa.table({"n": pa.array([1, 2, 3], pa.int32()), "s": ["a", "b  ", None]})
    feed = {"delta.enableChangeDataFeed": "true"}
    made = DeltaTable.create(str(tmp_path / "t"), Schema(fields), configuration=feed)
    write_deltalake(made, rows, mode="append")
    lake = OfflineLake(tmp_path)
    assert lake.table("t").declared == {"s": "char(3)"}
    gone = ({"n": 1, "s": "a  "}, {"n": 2, "s": "b"}, {"n": 3, "s": None})
    did = Exchange(gone, ({"n": 4, "s": "d"},), APP, 1)
    exchange(lake, lake.table("t"), did, 1)
    assert stored(tmp_path) == Counter([(4, "d")])
    after = lake.table("t")
    exchange(lake, after, undoing(after, did, 1, f"{APP}.undo"), after.version)
    assert stored(tmp_path) == Counter([(1, "a"), (2, "b  "), (3, None)])


def test_who_comes_in_between_is_a_conflict(lake: OfflineLake) -> None:
    DeltaTable(str(lake.directory / "t")).delete("n = 3")
    with pytest.raises(CommitFailedError):
        exchange(lake, lake.table("t"), Exchange(GONE, COME, APP, 1), 0)
    assert stored(lake.directory) == Counter(OLD) - Counter([(3, "c")])


def test_what_someone_else_took_away_is_not_put_back(lake: OfflineLake) -> None:
    did = Exchange(GONE, COME, APP, 1)
    DeltaTable(str(lake.directory / "t")).delete("n = 3")
    by_delta_rs(lake.table("t"), did, 1)
    write_deltalake(str(lake.directory / "t"), pa.table({"n": [9], "s": ["z"]}), mode="append")
    after = lake.table("t")
    exchange(lake, after, undoing(after, did, 0, f"{APP}.undo"), after.version)
    assert stored(lake.directory) == Counter(OLD) - Counter([(3, "c")]) + Counter([(9, "z")])


@pytest.mark.spark
def test_a_check_that_delta_rs_does_not_know_leaves_the_commit_to_spark(door: SparkLake) -> None:
    values = (
        "1 AS n, 'a' AS s, DATE '2024-02-29' AS d, 1.50BD AS p, X'00FF' AS b, true AS f, -0.0D AS x,"
        " TIMESTAMP '2024-01-02 03:04:05.678901' AS t"
    )
    door.sql(f"CREATE TABLE t USING delta AS SELECT {values}")
    door.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    door.sql('ALTER TABLE t ADD CONSTRAINT few CHECK (S IN ("a", "b") OR isnull(S))')
    door.sql("INSERT INTO t (n) VALUES (2), (2), (3)")
    before = door.sql("SELECT * FROM t").collect()
    full, empty = ([r.asDict() for r in before if r["n"] == n] for n in (1, 2))
    gone, come = [*full, *empty], [{**full[0], "n": 7, "s": "b"}, {**empty[0], "n": 8}]

    table = door.table("t")
    did = Exchange(gone, come, APP, 1)
    with pytest.raises(CommitFailedError):
        exchange(door, table, did, table.version - 1)
    with pytest.raises(Exception, match="few"):
        exchange(door, table, Exchange((), [{**full[0], "s": "z"}], APP, 1), table.version)
    assert door.table("t").version == table.version

    exchange(door, table, did, table.version)
    after = door.table("t")
    assert after.version == table.version + 1
    left = [r.asDict() for r in before if r["n"] == 3]
    assert _bag(door) == Counter(map(_told, [*left, *come]))
    assert DeltaTable(after.store.uri).transaction_version(APP) == 1
    exchange(door, after, undoing(after, did, table.version, f"{APP}.undo"), after.version)
    assert _bag(door) == Counter(map(_told, (r.asDict() for r in before)))


def _bag(door: SparkLake) -> Counter[str]:
    return Counter(_told(r.asDict()) for r in door.sql("SELECT * FROM t").collect())


def _told(row: Mapping[str, Any]) -> str:
    return repr(sorted(row.items()))
