"""What happens to tables: every event gives right rows, from the changes or with a reason."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import belvedere as bv
from tests.derivations.events_lake import COLUMNS, VIEWS, EventsLake
from tests.soak_sample import sampled

pytestmark = pytest.mark.spark

MERGE = ("merge", "")
NOTHING = dict.fromkeys(VIEWS, ("nothing", ""))
NO_CHECK = "SET spark.databricks.delta.retentionDurationCheck.enabled = false"
VACUUM = (NO_CHECK, "VACUUM log RETAIN 0 HOURS")
FEED = "ALTER TABLE log SET TBLPROPERTIES ('delta.enableChangeDataFeed' = '{}')"


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EventsLake]:
    directory = tmp_path_factory.mktemp("events")
    with bv.connect(directory) as lake:
        yield EventsLake(lake, directory).fill()


def commit_file(root: Path, version: int) -> Path:
    return root / "_delta_log" / f"{version:020}.json"


def newest(root: Path) -> int:
    return max(int(p.stem) for p in (root / "_delta_log").glob("*.json") if p.stem.isdigit())


def restored(events: EventsLake) -> None:
    events.run(f"RESTORE TABLE log TO VERSION AS OF {newest(events.log) - 2}")


def partitioned(events: EventsLake) -> None:
    writer = events.lake.spark.sql("SELECT * FROM log").write.format("delta").mode("overwrite")
    writer.partitionBy("bytes").option("overwriteSchema", "true").save(str(events.log))


def another_type(events: EventsLake) -> None:
    query = "SELECT video_id, bytes, CAST(spare AS STRING) AS spare FROM log"
    writer = events.lake.spark.sql(query).write.format("delta").mode("overwrite")
    layout = events.lake.spark.sql("DESCRIBE DETAIL log").collect()[0]["partitionColumns"]
    writer.partitionBy(*layout).option("overwriteSchema", "true").save(str(events.log))


def dropped_and_created(events: EventsLake) -> None:
    events.run("DROP TABLE log")
    shutil.rmtree(events.log, ignore_errors=True)
    events.run(f"CREATE TABLE log ({COLUMNS})", *events.rows("log"))


def spelled_otherwise(events: EventsLake) -> None:
    events.run(
        "CREATE OR REPLACE TABLE log (SPARE INT, Bytes INT, Video_ID INT) USING delta",
        "INSERT INTO log VALUES (0, 30, 1), (0, 31, 2)",
    )


def put_back_from_a_backup(events: EventsLake) -> None:
    """The same table, and the same version numbers again, with other rows."""
    backup = events.directory.with_name("backup")
    shutil.copytree(events.log, backup)
    events.change()
    events.lake.refresh()
    shutil.rmtree(events.log)
    shutil.move(backup, events.log)
    events.run("REFRESH TABLE log")


def clocks_off(events: EventsLake) -> None:
    """Commits from the future and from the past, in their own words and by their files."""
    for back, year in enumerate((60_000, 2900)):
        path = commit_file(events.log, newest(events.log) - back)
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        for action in actions:
            if "commitInfo" in action:
                action["commitInfo"]["timestamp"] = (year - 1970) * 31_557_600_000
        path.write_text("\n".join(map(json.dumps, actions)))
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        written = path.stat().st_mtime + (back - 1) * 90_000
        os.utime(path, (written, written))


def log_cleaned(events: EventsLake) -> None:
    """A checkpoint is written, and the commits before it go."""
    events.run("ALTER TABLE log SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
    events.change()
    last = newest(events.log)
    events.run("ALTER TABLE log SET TBLPROPERTIES ('delta.checkpointInterval' = '10')")
    for version in range(last):
        commit_file(events.log, version).unlink(missing_ok=True)


EVENTS: dict[str, tuple[Callable[[EventsLake], None], tuple[str, str]]] = {
    "VACUUM of what the changes need": (
        lambda e: e.run("UPDATE log SET bytes = bytes + 1 WHERE video_id = 2", *VACUUM),
        ("rebuild", "VERSION_GONE"),
    ),
    "the log cleaned up to a checkpoint": (log_cleaned, ("rebuild", "VERSION_GONE")),
    "the feed off and on, no change between": (
        lambda e: e.run(FEED.format("false"), FEED.format("true")),
        MERGE,
    ),
    "the feed off, changes, the feed on": (
        lambda e: (e.run(FEED.format("false")), e.change(), e.run(FEED.format("true")))[-1],
        ("rebuild", "NO_CHANGE_FEED"),
    ),
    "INSERT OVERWRITE": (lambda e: e.run("INSERT OVERWRITE log VALUES (1, 50, 0)"), MERGE),
    "TRUNCATE, then DELETE of everything": (
        lambda e: e.run("TRUNCATE TABLE log", *e.rows("log"), "DELETE FROM log"),
        MERGE,
    ),
    "RESTORE": (restored, MERGE),
    "other partition columns": (partitioned, ("rebuild", "PARTITIONS_CHANGED")),
    "another type of a column that is not used": (another_type, MERGE),
    "DROP and CREATE": (dropped_and_created, ("rebuild", "TABLE_REPLACED")),
    "CREATE OR REPLACE, names in other case": (spelled_otherwise, ("rebuild", "TABLE_REPLACED")),
    "put back from a backup": (put_back_from_a_backup, ("rebuild", "VERSION_BEHIND")),
    "clocks that are off": (clocks_off, MERGE),
}


EVERY_RUN = (
    "VACUUM of what the changes need",
    "DROP and CREATE",
)


@pytest.mark.parametrize("name", sampled(EVENTS, EVERY_RUN))
def test_an_event_among_changes_gives_right_rows_and_its_reason(
    events: EventsLake, name: str
) -> None:
    happens, expected = EVENTS[name]
    assert events.outcome(happens) == expected
    assert all(s.fresh for s in events.lake.status())


NO_ROW = (
    "OPTIMIZE log",
    "INSERT INTO log SELECT * FROM log WHERE false",
    "MERGE INTO log USING (SELECT DISTINCT * FROM log) s ON log.bytes = s.bytes AND"
    " log.video_id = s.video_id AND log.spare <=> s.spare WHEN MATCHED THEN UPDATE SET *",
    "OPTIMIZE log ZORDER BY (bytes)",
)


def test_commits_that_change_no_row_leave_nothing_to_refresh(events: EventsLake) -> None:
    events.change()
    events.refresh()
    before = newest(events.log)
    events.run(*NO_ROW)
    assert newest(events.log) >= before + 3
    assert events.refresh() == NOTHING
    assert all(s.fresh for s in events.lake.status())


@pytest.mark.soak
def test_a_table_compacted_and_vacuumed_needs_no_rebuild(events: EventsLake) -> None:
    """Its rows are the same in the new state, whose files are there."""
    events.change()
    events.refresh()
    events.run("OPTIMIZE log", *VACUUM, "INSERT INTO video VALUES (1, 'eve')")
    assert events.refresh() == {"visits": MERGE, "large": ("nothing", "")}


def test_a_table_that_never_recorded_its_changes_can_begin_to(events: EventsLake) -> None:
    events.refresh()
    events.run(FEED.format("false"))
    assert events.refresh() == NOTHING
    events.change()
    assert set(events.refresh().values()) == {("rebuild", "NO_CHANGE_FEED")}
    events.run("ALTER TABLE log SET TBLPROPERTIES ('note' = 'y')", FEED.format("true"))
    events.change()
    assert set(events.refresh().values()) == {MERGE}


@pytest.mark.parametrize(
    "missing", sampled(["a commit", "a data file", "the table"], ["a data file"])
)
def test_what_cannot_be_read_is_named_and_the_view_keeps_its_rows(
    events: EventsLake, missing: str
) -> None:
    events.change()
    events.refresh()
    shown = events.lake.sql("SELECT * FROM large ORDER BY ALL").collect()
    events.run("DELETE FROM log")
    events.change()
    while newest(events.log) % 10 == 0:  # a checkpoint would make up for the commit before it
        events.change()
    path = {
        "a commit": commit_file(events.log, newest(events.log) - 1),
        "a data file": max(events.log.glob("*.parquet"), key=lambda p: p.stat().st_mtime_ns),
        "the table": events.log,
    }[missing]
    aside = shutil.move(path, events.directory.with_name("aside"))
    try:
        with pytest.raises(bv.Invalid) as caught:
            events.lake.refresh("large", full=True)
        assert events.lake.sql("SELECT * FROM large ORDER BY ALL").collect() == shown
    finally:
        shutil.move(aside, path)
    assert caught.value.reason in ("VERSION_GONE", "UNKNOWN_TABLE")
    assert "'log'" in str(caught.value) or "'large'" in str(caught.value)
    assert caught.value.hint
    events.run("REFRESH TABLE log")
    assert set(events.refresh().values()) == {MERGE}
