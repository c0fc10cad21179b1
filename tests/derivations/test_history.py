"""Refreshes land in the ledger, on a lake that Spark writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

import belvedere as bv
from belvedere.derivations import ledger as ledgers
from belvedere.derivations.status import history
from belvedere.execution import in_memory
from belvedere.lake.offline import OfflineLake
from belvedere.lake.records.journal import LocalJournal

pytestmark = pytest.mark.spark

LEDGER = "SELECT * FROM belvedere.refreshes"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("history")


@pytest.fixture(scope="module")
def lake(directory: Path) -> Iterator[bv.Lake]:
    with bv.connect(directory) as lake:
        lake.sql("CREATE TABLE video AS SELECT id AS video_id, 'a' AS owner FROM range(10)")
        lake.sql("CREATE TABLE log AS SELECT id % 10 AS video_id FROM range(100)")
        assert lake.sql(LEDGER).count() == 0
        query = "SELECT owner, count(*) AS n FROM video GROUP BY owner"
        lake.sql(f"CREATE MATERIALIZED VIEW owners AS {query}")
        query = "SELECT owner, count(*) AS n FROM log JOIN video USING (video_id) GROUP BY owner"
        lake.sql(f"CREATE MATERIALIZED VIEW visits AS {query}")
        yield lake


def commits(directory: Path) -> int:
    return DeltaTable(str(directory / ".belvedere" / "refreshes")).version()


def test_a_refresh_is_recorded_with_what_it_took(lake: bv.Lake, directory: Path) -> None:
    lake.sql("INSERT INTO log VALUES (1), (2), (3)")
    done = lake.refresh("visits")
    assert isinstance(done, bv.Outcome)
    newest, first = lake.history("visits")
    assert (newest.strategy, newest.rows, newest.pending) == ("merge", 1, {"log": 3})
    assert (newest.vector, newest.version) == ({"log": 1, "video": 0}, 1)
    assert newest.seconds == pytest.approx(done.seconds, abs=0.5)
    assert newest.engine == "delta-rs"
    assert newest.jobs == 0
    files = (p.stat().st_size for t in ("log", "video") for p in (directory / t).glob("*.parquet"))
    assert newest.bytes_read is not None
    assert 0 < newest.bytes_read <= sum(files)
    assert (first.strategy, first.pending, first.engine) == ("create", {}, "spark")
    assert first.jobs
    assert first.bytes_read
    assert history(OfflineLake(directory), "visits") == lake.history("visits")


def test_two_views_are_one_commit_and_nothing_to_do_is_none(lake: bv.Lake, directory: Path) -> None:
    lake.refresh()
    before = commits(directory)
    lake.refresh()
    assert commits(directory) == before
    lake.sql("INSERT INTO video VALUES (20, 'b'), (1, 'c')")
    lake.refresh()
    assert commits(directory) == before + 1
    assert lake.history("owners", limit=1)[0].pending == {"video": 2}
    assert len(lake.history("visits", limit=1)) == 1


def test_one_view_that_fails_hides_no_record_of_another(lake: bv.Lake, directory: Path) -> None:
    lake.sql("CREATE TABLE some AS SELECT 1 AS a, 1 AS b")
    lake.sql("CREATE MATERIALIZED VIEW ratio AS SELECT sum(a / b) AS r FROM some GROUP BY a")
    lake.sql("INSERT INTO some VALUES (1, 0)")
    lake.sql("INSERT INTO video VALUES (30, 'd')")
    before = len(lake.history("owners"))
    with pytest.raises(Exception, match=r"(?i)zero"):
        lake.refresh()
    assert len(lake.history("owners")) == before + 1
    assert lake.history("owners")[0].jobs is not None
    assert len(lake.history("ratio")) == 1
    lake.sql("DROP MATERIALIZED VIEW ratio")
    kept = lake.sql(f"{LEDGER} WHERE view = 'ratio'").collect()
    assert [row["strategy"] for row in kept] == ["create"]


def test_the_record_is_a_table_to_query(lake: bv.Lake) -> None:
    (row,) = lake.sql(
        "SELECT view, strategy, vector_after['video'] AS at, size(candidates) AS n "
        "FROM belvedere.refreshes WHERE view = 'owners' ORDER BY refresh LIMIT 1"
    ).collect()
    assert tuple(row) == ("owners", "create", 0, 1)
    assert lake.sql("CREATE TABLE mine AS SELECT view FROM `Belvedere`.Refreshes").columns == []
    assert "refreshes" not in {r["tableName"] for r in lake.sql("SHOW TABLES").collect()}
    assert {r["name"] for r in lake.sql("SHOW MATERIALIZED VIEWS").collect()} >= {"owners"}
    assert {s.name for s in lake.status()} == {"owners", "visits"}


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE MATERIALIZED VIEW often AS SELECT view FROM belvedere.refreshes",
        "DROP TABLE belvedere.refreshes",
        "INSERT INTO belvedere.refreshes SELECT * FROM belvedere.refreshes",
        "ALTER TABLE belvedere.refreshes SET TBLPROPERTIES ('a' = 'b')",
    ],
)
def test_the_record_is_only_read(lake: bv.Lake, statement: str) -> None:
    before = lake.sql(LEDGER).count()
    with pytest.raises(bv.Invalid, match="is Belvedere's own"):
        lake.sql(statement)
    assert lake.sql(LEDGER).count() == before > 0


def test_lakes_of_one_process_have_records_of_their_own(lake: bv.Lake, tmp_path: Path) -> None:
    with bv.connect(tmp_path) as other:
        mine = lake.sql(LEDGER)
        assert other.sql(LEDGER).count() == 0
        assert mine.count() > 0
        assert lake.sql(LEDGER).count() == mine.count()


def test_a_process_that_dies_before_the_record_loses_only_the_record(
    lake: bv.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.sql("INSERT INTO video VALUES (40, 'd')")
    with monkeypatch.context() as patch:
        patch.setattr(ledgers.Ledger, "__exit__", lambda *_: None)
        lake.refresh("owners")
    newest, *_ = lake.history("owners")
    assert (newest.strategy, newest.vector) == ("merge", lake.status()[0].vector)
    assert (newest.jobs, newest.bytes_read, newest.pending) == (None, None, {})
    lake.sql("INSERT INTO video VALUES (41, 'd')")
    lake.refresh("owners")
    newest, lost, *_ = lake.history("owners")
    assert newest.number == lost.number + 1
    assert newest.jobs is not None
    assert lost.jobs is None


def test_a_refresh_succeeds_where_nothing_can_be_recorded(
    lake: bv.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError("read-only\ndetails")

    lake.sql("INSERT INTO video VALUES (50, 'e')")
    with monkeypatch.context() as patch:
        patch.setattr(LocalJournal, "append", refuse)
        lake.refresh()
    assert str(lake.status()).endswith("\nrefreshes are not recorded: read-only")
    assert lake.view("owners").df().where("owner = 'e'").count() == 1
    lake.sql("INSERT INTO video VALUES (51, 'e')")
    lake.refresh()
    assert "not recorded" not in str(lake.status())


@pytest.fixture
def _on_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is computed in memory."""
    monkeypatch.setattr(in_memory, "MAX_ROWS", -1)


@pytest.mark.usefixtures("_on_spark")
def test_the_jobs_of_a_refresh_are_counted(lake: bv.Lake) -> None:
    lake.sql("INSERT INTO video VALUES (60, 'f')")
    lake.refresh("owners")
    jobs = lake.history("owners")[0].jobs
    assert jobs is not None
    assert 0 < jobs < 20


@pytest.mark.usefixtures("_on_spark")
def test_a_job_group_of_the_users_stays_theirs(lake: bv.Lake, spark: SparkSession) -> None:
    context = spark.sparkContext
    context.setJobGroup("theirs", "what they do")
    try:
        lake.sql("INSERT INTO video VALUES (60, 'f')")
        before = len(context.statusTracker().getJobIdsForGroup("theirs"))
        lake.refresh("owners")
        assert len(context.statusTracker().getJobIdsForGroup("theirs")) > before
        assert lake.history("owners")[0].jobs is None
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
        context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]
