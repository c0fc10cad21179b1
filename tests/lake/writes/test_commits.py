"""Stored tables: every write carries its vector, and whatever else wrote them is noticed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlglot

from belvedere.algebra.scalars import Scalar
from belvedere.delta.stamps import FOREIGN_WRITE, VECTOR_LOST, Position, Stamp
from belvedere.lake.spark_lake import SparkLake
from belvedere.lake.writes import commits
from belvedere.lake.writes.commits import create, merge, move, overwrite, read_stamp
from belvedere.sql.merges import Merge
from belvedere.storage.locks import Conflict, lock
from tests.local_tables import directory_of

pytestmark = pytest.mark.spark


def sql(text: str) -> Scalar:
    return Scalar(sqlglot.parse_one(text, dialect="spark"))


BY_KEY = Merge(
    keys=("k",),
    delete_when=sql("s.n = 0"),
    update={"n": sql("s.n")},
    insert={"k": sql("s.k"), "n": sql("s.n")},
    insert_when=sql("s.n <> 0"),
)


@pytest.fixture(params=["by delta-rs", "by Spark"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which engine writes."""
    if request.param == "by Spark":
        monkeypatch.setattr(commits, "takes", lambda *_: False)
        monkeypatch.setattr(commits, "can_replace", lambda *_: False)


def stamp(refresh: int, version: int = 0) -> Stamp:
    return Stamp("view-1", refresh, {"log": Position("an id", version)})


@pytest.fixture
def stored(door: SparkLake) -> SparkLake:
    with door.work() as w:
        create(w, "__bv_v", "SELECT id AS k, id * 2 AS n FROM range(1, 4)", stamp(1), {"a": "b"})
    return door


def rows(door: SparkLake) -> list[tuple[int, int]]:
    return sorted(tuple(r) for r in door.sql("SELECT k, n FROM __bv_v").collect())


def test_a_new_stored_table_has_its_feed_its_stamp_and_no_vectors(stored: SparkLake) -> None:
    table = stored.table("__bv_v")
    assert table.change_feed
    assert table.properties["delta.enableDeletionVectors"] == "false"
    assert table.properties["a"] == "b"
    assert read_stamp(stored, "__bv_v").stamp == stamp(1)
    assert stored.names() == []


@pytest.mark.usefixtures("engine")
def test_merge_deletes_updates_inserts_and_stamps_in_one_commit(stored: SparkLake) -> None:
    before = stored.table("__bv_v")
    source = (
        "SELECT 1L AS k, 0L AS n UNION ALL SELECT 2, 9 UNION ALL SELECT 7, 1 UNION ALL SELECT 8, 0"
    )
    with stored.work() as w:
        assert merge(w, "__bv_v", source, BY_KEY, stamp(2, 5)) == 3
    assert rows(stored) == [(2, 9), (3, 6), (7, 1)]
    state = read_stamp(stored, "__bv_v")
    assert (state.stamp, state.version) == (stamp(2, 5), before.version + 1)


@pytest.mark.usefixtures("engine")
def test_an_empty_merge_still_moves_the_vector(stored: SparkLake) -> None:
    with stored.work() as w:
        source = "SELECT 1L AS k, 0L AS n WHERE false"
        assert merge(w, "__bv_v", source, BY_KEY, stamp(2, 5)) == 0
    assert read_stamp(stored, "__bv_v").stamp == stamp(2, 5)


@pytest.mark.usefixtures("engine")
def test_a_merge_that_meets_no_row_moves_the_vector(stored: SparkLake) -> None:
    with stored.work() as w:
        assert merge(w, "__bv_v", "SELECT 77L AS k, 0L AS n", BY_KEY, stamp(2, 5)) == 0
    assert read_stamp(stored, "__bv_v").stamp == stamp(2, 5)


def test_two_writers_wait_for_each_other(tmp_path: Path) -> None:
    with lock(tmp_path / "t"), lock(tmp_path / "t"), ThreadPoolExecutor(1) as other:

        def take() -> None:
            with lock(tmp_path / "t", timeout=0.1):
                raise AssertionError("two hold one lock")

        with pytest.raises(Conflict, match="written by another process"):
            other.submit(take).result()
    with lock(tmp_path / "t", timeout=0.1):
        assert (tmp_path / ".belvedere" / "t.lock").exists()


def test_a_move_changes_the_vector_and_no_row(stored: SparkLake) -> None:
    before, id_ = rows(stored), stored.table("__bv_v").id
    with stored.work() as w:
        move(w, "__bv_v", stamp(2, 6))
        move(w, "__bv_v", stamp(3, 7))
        merge(w, "__bv_v", "SELECT 3L AS k, 1L AS n", BY_KEY, stamp(4, 8))
    assert read_stamp(stored, "__bv_v").stamp == stamp(4, 8)
    assert rows(stored) == [*before[:2], (3, 1)]
    assert stored.table("__bv_v").id == id_


VALUES = """SELECT * FROM VALUES
    (1Y, 2S, 3, 4L, CAST(1.25 AS DECIMAL(38, 2)), 0.1F, -0.0D, 'é''"', X'00FF', true,
     DATE'0001-01-01', TIMESTAMP'9999-12-31 23:59:59.999999', TIMESTAMP_NTZ'1582-10-10 00:00:00',
     array(1, NULL), named_struct('a', 1, 'b', 'x'), map('k', 1.5D)),
    (NULL, NULL, NULL, NULL, NULL, FLOAT('inf'), DOUBLE('NaN'), '', X'', false,
     NULL, NULL, NULL, array(), NULL, NULL)
    AS v(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)"""


@pytest.mark.usefixtures("engine")
def test_overwrite_keeps_every_value_and_type(door: SparkLake) -> None:
    with door.work() as w:
        create(w, "__bv_w", f"{VALUES} WHERE false", stamp(1))
        kinds = door.table("__bv_w").columns
        overwrite(w, "__bv_w", VALUES, stamp(2))
        overwrite(w, "__bv_w", f"{VALUES} UNION ALL {VALUES}", stamp(3))
        written, expected = (
            sorted(map(repr, w.query(q).collect()))
            for q in ("SELECT * FROM __bv_w", f"{VALUES} UNION ALL {VALUES}")
        )
    assert written == expected
    assert door.table("__bv_w").columns == kinds


@pytest.mark.usefixtures("engine")
def test_overwrite_replaces_rows_and_keeps_the_table(stored: SparkLake) -> None:
    id_ = stored.table("__bv_v").id
    with stored.work() as w:
        overwrite(w, "__bv_v", "SELECT 10L, 20L", stamp(2))
        overwrite(w, "__bv_v", "SELECT 10L, 20L WHERE false", stamp(3))
        overwrite(w, "__bv_v", "SELECT 10L, 20L WHERE false", stamp(4))
    assert rows(stored) == []
    assert stored.table("__bv_v").id == id_
    assert read_stamp(stored, "__bv_v").stamp == stamp(4)


@pytest.mark.usefixtures("engine")
def test_a_refresh_number_is_used_once(stored: SparkLake) -> None:
    with stored.work() as w:
        merge(w, "__bv_v", "SELECT 3L AS k, 1L AS n", BY_KEY, stamp(2))
        with pytest.raises(Conflict, match="refreshed by someone else"):
            merge(w, "__bv_v", "SELECT 3L AS k, 5L AS n", BY_KEY, stamp(2, 9))
    assert (3, 1) in rows(stored)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO __bv_v VALUES (9, 9)",
        "DELETE FROM __bv_v WHERE k = 1",
        "UPDATE __bv_v SET n = 0 WHERE k = 1",
        "RESTORE __bv_v TO VERSION AS OF 0",
        "ALTER TABLE __bv_v ADD COLUMN z INT",
    ],
)
def test_a_write_that_is_not_ours_is_noticed(stored: SparkLake, statement: str) -> None:
    with stored.work() as w:
        merge(w, "__bv_v", "SELECT 3L AS k, 1L AS n", BY_KEY, stamp(2))
    stored.sql(statement)
    state = read_stamp(stored, "__bv_v")
    assert (state.stamp, state.reason) == (None, FOREIGN_WRITE)


def test_upkeep_leaves_the_vector_in_force(stored: SparkLake) -> None:
    with stored.work() as w:
        merge(w, "__bv_v", "SELECT 3L AS k, 1L AS n", BY_KEY, stamp(2))
    stored.sql("OPTIMIZE __bv_v")
    stored.sql("VACUUM __bv_v")
    stored.sql("ALTER TABLE __bv_v SET TBLPROPERTIES ('x' = 'y')")
    assert read_stamp(stored, "__bv_v").stamp == stamp(2)


def test_the_first_vector_survives_log_cleanup_and_a_later_one_is_missed(stored: SparkLake) -> None:
    _clean_log(stored, keep_from=1)
    assert read_stamp(stored, "__bv_v").stamp == stamp(1)
    with stored.work() as w:
        merge(w, "__bv_v", "SELECT 3L AS k, 1L AS n", BY_KEY, stamp(2))
    _clean_log(stored, keep_from=stored.table("__bv_v").version + 1)
    assert read_stamp(stored, "__bv_v").reason == VECTOR_LOST


def _clean_log(door: SparkLake, keep_from: int) -> None:
    """What Delta does after the log's retention: commits before a checkpoint go."""
    from deltalake import DeltaTable

    door.sql("ALTER TABLE __bv_v SET TBLPROPERTIES ('x' = 'y')")
    root = directory_of(door.table("__bv_v"))
    DeltaTable(str(root)).create_checkpoint()
    for path in (root / "_delta_log").glob("*.json"):
        if int(path.stem) < keep_from:
            path.unlink()
