"""Net changes equal NEW minus OLD after every kind of commit, on both ways of reading them."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import WriterProperties, write_deltalake
from pyspark.sql import SparkSession

from belvedere.delta.stamps import Position
from belvedere.errors import Invalid
from belvedere.lake.sessions.workspace import Workspace
from belvedere.lake.spark_lake import SparkLake, open_directory
from belvedere.lake.tables import change_feed
from belvedere.lake.tables.change_feed import Changes
from belvedere.sql.names import quote
from tests.lake.tables.feeds import changes
from tests.soak_sample import sampled

pytestmark = pytest.mark.spark

ROWS = "SELECT CAST(id AS INT) AS k, concat('v', id % 7) AS v, CAST(id AS DOUBLE) AS d FROM range({}, {}, 1, 2)"

COMMITS: dict[str, Sequence[str]] = {
    "append": [f"INSERT INTO t {ROWS.format(100, 120)}"],
    "append of rows that exist": [f"INSERT INTO t {ROWS.format(0, 10)}"],
    "delete with vectors": ["DELETE FROM t WHERE k % 5 = 0"],
    "delete twice": ["DELETE FROM t WHERE k % 5 = 0", "DELETE FROM t WHERE k % 5 = 1"],
    "delete that empties a file": ["DELETE FROM t WHERE k < 40"],
    "vectors, then a delete that empties files": [
        "DELETE FROM t WHERE k % 5 = 0",
        "DELETE FROM t WHERE k < 40",
    ],
    "delete of everything": ["DELETE FROM t"],
    "delete of everything by predicate": ["DELETE FROM t WHERE k >= 0"],
    "update": ["UPDATE t SET v = 'x' WHERE k < 10"],
    "update that changes nothing": ["UPDATE t SET v = v"],
    "merge": [
        "MERGE INTO t USING (SELECT 5 AS k UNION ALL SELECT 500) s ON t.k = s.k "
        "WHEN MATCHED THEN UPDATE SET v = 'm' WHEN NOT MATCHED THEN INSERT (k) VALUES (s.k)"
    ],
    "merge that changes nothing": [
        "MERGE INTO t USING (SELECT 5 AS k) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = t.v"
    ],
    "truncate after vectors": ["DELETE FROM t WHERE k % 5 = 0", "TRUNCATE TABLE t"],
    "overwrite": [f"INSERT OVERWRITE t {ROWS.format(50, 110)}"],
    "overwrite after vectors": [
        "DELETE FROM t WHERE k % 5 = 0",
        f"INSERT OVERWRITE t {ROWS.format(50, 110)}",
    ],
    "restore": ["DELETE FROM t WHERE k % 5 = 0", "DELETE FROM t", "RESTORE t TO VERSION AS OF 2"],
    "restore of a vector": [
        "DELETE FROM t WHERE k % 5 = 0",
        "INSERT OVERWRITE t SELECT 1, 'a', 1D",
        "RESTORE t TO VERSION AS OF 2",
    ],
    "optimize": ["OPTIMIZE t"],
    "optimize with vectors": ["DELETE FROM t WHERE k % 5 = 0", "OPTIMIZE t"],
    "purge": ["DELETE FROM t WHERE k % 5 = 0", "REORG TABLE t APPLY (PURGE)"],
    "delete and insert again": ["DELETE FROM t WHERE k < 5", f"INSERT INTO t {ROWS.format(0, 5)}"],
    "properties": [
        "ALTER TABLE t SET TBLPROPERTIES ('a' = 'b')",
        f"INSERT INTO t {ROWS.format(7, 9)}",
    ],
}


def rows_of(work: Workspace, version: int) -> Counter[tuple[object, ...]]:
    """The rows of the table t at a version, and how many there are of each."""
    rows = work.query(f"SELECT k, v, d FROM t VERSION AS OF {version}").collect()
    return Counter(map(tuple, rows))


def net(work: Workspace, found: Changes) -> dict[tuple[object, ...], int]:
    """Changes as rows with their counts."""
    rows = work.query(f"SELECT k, v, d, __m FROM {quote(found.view())}").collect()
    counts = {tuple(row[:-1]): row[-1] for row in rows}
    assert len(counts) == len(rows)
    return counts


def between(
    old: Counter[tuple[object, ...]], new: Counter[tuple[object, ...]]
) -> dict[tuple[object, ...], int]:
    """NEW minus OLD."""
    return {row: new[row] - old[row] for row in old | new if new[row] != old[row]}


@pytest.fixture(scope="module")
def template(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with one table of 100 rows in two files, to be copied."""
    path = tmp_path_factory.mktemp("template")
    door = open_directory(path)
    door.sql("CREATE TABLE t (k INT, v STRING, d DOUBLE)")
    door.sql(f"INSERT INTO t {ROWS.format(0, 100)}")
    return path


@pytest.fixture
def lake(template: Path, tmp_path: Path) -> SparkLake:
    shutil.copytree(template / "t", tmp_path / "lake" / "t")
    return open_directory(tmp_path / "lake")


EVERY_RUN = (
    "append",
    "delete twice",
    "vectors, then a delete that empties files",
    "delete of everything",
    "update",
    "merge that changes nothing",
    "overwrite after vectors",
    "optimize with vectors",
    "delete and insert again",
)


@pytest.mark.parametrize("kind", sampled(COMMITS, EVERY_RUN))
def test_net_changes_are_new_minus_old(lake: SparkLake, kind: str) -> None:
    for statement in COMMITS[kind]:
        lake.sql(statement)
    table = lake.table("t")
    with lake.work() as work:
        for old in {1, table.version - 1}:
            assert lake.feed_problem(table, Position(table.id, old), table.version, {}) is None
            found = changes(work, table, old, table.version, ["k", "v", "d"])
            counts = net(work, found)
            assert counts == between(rows_of(work, old), rows_of(work, table.version))
            assert found.rows in (None, len(counts))
            assert found.inserts_only in (None, all(c > 0 for c in counts.values()))


@pytest.mark.parametrize("kind", sampled(COMMITS, ["delete twice", "optimize with vectors"]))
def test_versions_tell_what_the_feed_cannot(
    lake: SparkLake, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_feed, "is_small", lambda *_: False)
    monkeypatch.setattr(change_feed, "too_long_to_tell", lambda _: True)
    test_net_changes_are_new_minus_old(lake, kind)


@pytest.mark.parametrize("legible", [True, False])
def test_vectors_that_are_too_long_for_the_feed(
    door: SparkLake, legible: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not legible:
        monkeypatch.setattr(change_feed.Feed, "_log", lambda _: None)
    door.sql("CREATE TABLE t (k INT)")
    door.sql("INSERT INTO t SELECT CAST(id AS INT) FROM range(0, 2000000, 1, 1)")
    door.sql("DELETE FROM t WHERE pmod(hash(k), 3) = 0")
    table = door.table("t")
    with door.work() as work:
        found = changes(work, table, 1, 2, ["k"])
        assert found.rows is None  # too many for Arrow
        deleted = work.query(f"SELECT count(DISTINCT k), sum(__m) FROM {quote(found.view())}")
        left = work.query("SELECT count(*) FROM t").collect()[0][0]
        assert tuple(deleted.collect()[0]) == (2_000_000 - left, left - 2_000_000)


@pytest.mark.parametrize("layout", sampled(["", "PARTITIONED BY (v, k)"], []))
def test_vectors_on_files_of_several_row_groups(door: SparkLake, layout: str) -> None:
    door.sql(f"CREATE TABLE t (k INT, v STRING, d DOUBLE) {layout}")
    k = [i % 2 if layout else i for i in range(1000)]
    v = [None if i % 3 else "a b" for i in range(1000)] if layout else [str(i) for i in range(1000)]
    rows = pa.table({"k": pa.array(k, pa.int32()), "v": v, "d": [float(i) for i in range(1000)]})
    groups = WriterProperties(max_row_group_size=100)
    root = door.table("t").store.uri
    write_deltalake(root, rows, mode="append", writer_properties=groups)
    for statement in (
        "DELETE FROM t WHERE d % 7 = 0",
        "DELETE FROM t WHERE d % 7 = 1",
        "RESTORE t TO VERSION AS OF 2",
        "DELETE FROM t WHERE d < 900",
    ):
        door.sql(statement)
    table = door.table("t")
    assert table.version == 5
    with door.work() as work:
        states = [rows_of(work, version) for version in range(6)]
        for old, new in ((1, 2), (1, 3), (2, 3), (1, 4), (2, 5), (4, 5)):
            found = changes(work, table, old, new, ["k", "v", "d"])
            # A restore says the table's metadata again, and is left to Spark.
            assert (found.rows is None) == (old < 4 <= new)
            assert net(work, found) == between(states[old], states[new])


def test_both_ways_of_reading_agree(lake: SparkLake, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("update", "merge", "append"):
        lake.sql(COMMITS[kind][0])
    table = lake.table("t")
    with lake.work() as work:
        small = changes(work, table, 1, table.version, ["v"])
        assert small.rows is not None
        monkeypatch.setattr(change_feed, "is_small", lambda *_: False)
        large = changes(work, table, 1, table.version, ["v"])
        assert large.rows is None
        a, b = (Counter(map(tuple, work.spark.table(c.view()).collect())) for c in (small, large))
        assert a == b


def test_no_columns_give_the_change_of_the_row_count(
    lake: SparkLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.sql("DELETE FROM t WHERE k IN (1, 2, 3)")
    table = lake.table("t")
    with lake.work() as work:
        for _ in range(2):
            found = changes(work, table, 1, 2, [])
            assert [tuple(r) for r in work.spark.table(found.view()).collect()] == [(-3,)]
            monkeypatch.setattr(change_feed, "is_small", lambda *_: False)


def test_the_same_version_twice_has_no_changes(lake: SparkLake) -> None:
    with lake.work() as work:
        found = changes(work, lake.table("t"), 1, 1, ["d", "k"])
        assert (found.rows, found.inserts_only) == (0, True)
        frame = work.spark.table(found.view())
        assert frame.dtypes == [("d", "double"), ("k", "int"), ("__m", "bigint")]
        assert frame.collect() == []


def test_a_column_that_is_not_there_is_named(lake: SparkLake) -> None:
    with lake.work() as work, pytest.raises(Invalid, match="no column 'nope'"):
        changes(work, lake.table("t"), 0, 1, ["nope"])
