"""A version read from its files is the version that Delta reads, after every kind of commit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from belvedere.delta import files
from belvedere.delta.lookups import look_up
from belvedere.lake.sessions.workspace import Workspace
from belvedere.lake.spark_lake import SparkLake, open_directory
from belvedere.lake.tables import frames
from belvedere.lake.tables.frames import open_version
from tests.local_tables import store_in

pytestmark = pytest.mark.spark

ROWS = "SELECT id, concat('v', id % 7), CAST(id AS DECIMAL(9,2)) FROM range({}, {}, 1, 2)"
HISTORY = [
    f"INSERT INTO t {ROWS.format(0, 100)}",
    "DELETE FROM t WHERE k % 5 = 0",
    "DELETE FROM t WHERE k % 5 = 1",
    "ALTER TABLE t ADD COLUMN w DOUBLE",
    "UPDATE t SET w = 0.5, v = NULL WHERE k BETWEEN 10 AND 20",
    f"INSERT INTO t SELECT *, 1D FROM ({ROWS.format(40, 60)})",
    "OPTIMIZE t",
    "DELETE FROM t WHERE k = 12",
    "TRUNCATE TABLE t",
    "RESTORE t TO VERSION AS OF 4",
    f"INSERT OVERWRITE t SELECT *, NULL FROM ({ROWS.format(7, 9)})",
    "DELETE FROM t WHERE k = 7",
]


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkLake:
    door = open_directory(tmp_path_factory.mktemp("opening"))
    door.sql("CREATE TABLE t (k BIGINT, v STRING, d DECIMAL(9,2))")
    for statement in HISTORY:
        door.sql(statement)
    return door


def test_every_version_from_its_files(lake: SparkLake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.table("t")
    with lake.work() as work:
        expected = {v: _rows(work.query(f"SELECT * FROM t VERSION AS OF {v}")) for v in range(13)}
        monkeypatch.setattr(frames, "_as_of", _refuse)
        for version in [12, *range(13)]:
            assert _rows(open_version(work, table, version)) == expected[version], version
        # From checkpoints alone, as in a process that starts now.
        files._memory.clear()
        assert _rows(open_version(work, table, 12)) == expected[12]


def test_rows_of_versions_looked_up(lake: SparkLake) -> None:
    table = lake.table("t")
    by_key, by_text = pa.array([3, 12, 45, 900], pa.int64()), pa.array(["v3", "?"])
    for version in (2, 3, 5, 7, 10, 12):
        columns = ["d", "K", "v", *(["w"] if version > 3 else [])]
        shown = ", ".join(columns)
        rows = lake.sql(f"SELECT {shown} FROM t VERSION AS OF {version}").collect()
        asked = (("k", by_key, False), ("k", by_key[:2], True), ("V", by_text, True))
        for column, values, nulls in asked:
            among = {*values.to_pylist(), None} if nulls else set(values.to_pylist())
            place = [c.lower() for c in columns].index(column.lower())
            expected = sorted(str(tuple(r)) for r in rows if r[place] in among)
            found = look_up(table, version, columns, column, values, nulls=nulls, most=1000)
            assert found is not None
            assert found.column_names == columns
            assert sorted(str(tuple(r.values())) for r in found.to_pylist()) == expected, version
            few = len(expected) - 1
            assert look_up(table, version, columns, column, values, nulls=nulls, most=few) is None


def test_rows_that_cannot_be_looked_up_are_left_to_spark(door: SparkLake) -> None:
    door.sql("CREATE TABLE g (k BIGINT, f DOUBLE, a ARRAY<INT>)")
    door.sql("INSERT INTO g VALUES (1, 0.5, array(1))")
    table = door.table("g")
    one, half = pa.array([1], pa.int64()), pa.array([0.5])

    def found(column: str, values: pa.Array, columns: list[str]) -> pa.Table | None:
        return look_up(table, 1, columns, column, values, nulls=False, most=10)

    assert found("k", one, ["f"]) == pa.table({"f": [0.5]})
    assert found("k", one.cast(pa.int32()), ["f"]) is None
    assert found("f", half, ["k"]) is None
    assert found("k", one, ["a"]) is None
    for path in list(table.store.list()):
        if path.endswith(".parquet"):
            table.store.delete(path)
    assert found("k", one, ["f"]) is None


def test_files_of_one_size_are_told_apart(
    door: SparkLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    door.sql("CREATE TABLE e (k BIGINT)")
    for first in range(100, 260, 20):
        door.sql(f"INSERT INTO e SELECT id FROM range({first}, {first + 10}, 1, 1)")
    assert len({p.stat().st_size for p in (tmp_path / "lake" / "e").glob("*.parquet")}) < 8
    with door.work() as work:
        for delete in ("k = 123", "k % 20 = 5", "k % 20 > 6 OR k = 100"):
            door.sql(f"DELETE FROM e WHERE {delete}")
            table = door.table("e")
            expected = _rows(work.query(f"SELECT * FROM e VERSION AS OF {table.version}"))
            with monkeypatch.context() as patch:
                patch.setattr(frames, "_as_of", _refuse)
                assert _rows(open_version(work, table, table.version)) == expected


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE p (k BIGINT, v STRING) PARTITIONED BY (v)",
        "CREATE TABLE p (k BIGINT, v CHAR(5))",
        "CREATE TABLE p (k BIGINT, v STRING) TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
    ],
)
def test_what_is_not_plain_is_left_to_delta(door: SparkLake, statement: str) -> None:
    door.sql(statement)
    door.sql("INSERT INTO p VALUES (1, 'a'), (2, NULL)")
    assert not door.table("p").plain
    with door.work() as work:
        frame = open_version(work, door.table("p"), door.table("p").version)
        assert _rows(frame) == _rows(work.query("SELECT * FROM p"))


def test_many_deleted_rows_are_left_to_delta(
    lake: SparkLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "DELETED_AT_MOST", 19)
    with lake.work() as work:
        assert _rows(open_version(work, lake.table("t"), 2)) == _rows(
            work.query("SELECT * FROM t VERSION AS OF 2")
        )


def test_the_log_counts_rows(lake: SparkLake) -> None:
    store = lake.table("t").store
    for version in range(13):
        found = files.files(store, version)
        assert found is not None
        counted = lake.sql(f"SELECT count(*) AS n FROM t VERSION AS OF {version}").collect()[0]["n"]
        assert sum(f.rows or 0 for f in found) == counted
    assert files.files(store_in(Path("nowhere")), 0) is None


def _rows(frame: Any) -> tuple[Any, list[str]]:
    return frame.schema.simpleString(), sorted(map(repr, frame.collect()))


def _refuse(work: Workspace, table: Any, version: int) -> Any:
    raise AssertionError(f"version {version} was left to Delta")
