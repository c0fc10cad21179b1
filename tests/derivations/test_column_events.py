"""What happens to columns: those a view does not use are none of its business, the others are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import belvedere as bv
from belvedere.derivations.status import status
from belvedere.lake.offline import OfflineLake
from tests.derivations.events_lake import VIEWS, EventsLake
from tests.soak_sample import sampled
from tests.views.comparison import assert_fresh

pytestmark = pytest.mark.spark

MAPPED = "'delta.columnMapping.mode' = 'name', 'delta.enableTypeWidening' = 'true'"
MERGE = ("merge", "")
CHANGED = ("rebuild", "SCHEMA_CHANGED")


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EventsLake]:
    directory = tmp_path_factory.mktemp("columns")
    with bv.connect(directory) as lake:
        yield EventsLake(lake, directory).fill(f"TBLPROPERTIES ({MAPPED})")


def alter(events: EventsLake, *changes: str) -> None:
    events.run(*(f"ALTER TABLE log {change}" for change in changes))


UNUSED = {
    "added": "ADD COLUMN more STRING",
    "renamed": "RENAME COLUMN spare TO other",
    "renamed back": "RENAME COLUMN other TO spare",
    "widened": "ALTER COLUMN spare TYPE BIGINT",
    "dropped": "DROP COLUMN spare",
}


@pytest.mark.soak
def test_columns_that_no_view_uses_come_change_and_go(events: EventsLake) -> None:
    alter(events, "ADD COLUMN spare_too INT")
    for change in UNUSED.values():
        events.change()
        alter(events, change)
    events.change()
    assert set(events.refresh().values()) == {MERGE}
    events.change()
    assert set(events.refresh().values()) == {MERGE}
    alter(events, "ADD COLUMN spare INT")


@pytest.mark.soak
def test_a_used_column_that_became_wider_makes_the_view_wider(events: EventsLake) -> None:
    over = "SELECT max(bytes) AS top FROM large"
    events.run(f"CREATE MATERIALIZED VIEW widest AS {over}")
    try:
        events.change()
        alter(events, "ALTER COLUMN bytes TYPE BIGINT")
        events.run("INSERT INTO log (video_id, bytes) VALUES (1, 5000000000)")
        expected = {**dict.fromkeys(VIEWS, CHANGED), "widest": ("rebuild", "TABLE_REPLACED")}
        assert events.refresh() == expected
        assert_fresh(events.lake, "widest", over)
        events.change()
        assert events.refresh() == {**dict.fromkeys(VIEWS, MERGE), "widest": MERGE}
        assert_fresh(events.lake, "widest", over)
    finally:
        events.run("DROP MATERIALIZED VIEW widest")
    with bv.connect(events.directory) as other:
        assert_fresh(other, "large", VIEWS["large"])
        assert dict(other.view("large").columns) == {"video_id": "int", "bytes": "bigint"}


LOST = ("RENAME COLUMN bytes TO size", "DROP COLUMN bytes")


@pytest.mark.parametrize("lost", sampled(LOST, ()))
def test_a_view_without_a_column_it_uses_keeps_its_rows_and_says_so(
    events: EventsLake, lost: str
) -> None:
    events.refresh()
    shown = events.lake.sql("SELECT * FROM large ORDER BY ALL").collect()
    (kind,) = {kind for name, kind in events.lake.view("large").columns if name == "bytes"}
    alter(events, lost)
    for view in VIEWS:
        with pytest.raises(bv.Invalid, match="'bytes'") as caught:
            events.lake.refresh(view)
        assert caught.value.reason == "SCHEMA_CHANGED"
        assert "CREATE OR REPLACE" in caught.value.hint
    assert all("'bytes'" in s.error for s in status(OfflineLake(events.directory)))
    assert events.lake.sql("SELECT * FROM large ORDER BY ALL").collect() == shown
    renamed = "RENAME" in lost
    alter(events, "RENAME COLUMN size TO bytes" if renamed else f"ADD COLUMN bytes {kind}")
    events.change()
    assert set(events.refresh().values()) == {CHANGED}
    events.change()
    assert set(events.refresh().values()) == {MERGE}


def test_columns_that_change_places_are_not_taken_for_one_another(events: EventsLake) -> None:
    alter(events, "ADD COLUMN twin INT")
    events.run("UPDATE log SET twin = 77")
    events.refresh()
    (kind,) = {kind for name, kind in events.lake.view("large").columns if name == "bytes"}
    if kind == "bigint":
        alter(events, "ALTER COLUMN twin TYPE BIGINT")
    names = ("bytes TO kept", "twin TO bytes", "kept TO twin")
    alter(events, *(f"RENAME COLUMN {name}" for name in names))
    assert set(events.refresh().values()) == {CHANGED}
    events.change()
    assert set(events.refresh().values()) == {MERGE}
    alter(events, "DROP COLUMN twin")


def test_an_older_table_with_column_mapping_is_read_by_its_mapping(events: EventsLake) -> None:
    """Its protocol does not name the feature; its files do not have the columns' names."""
    lake = events.lake
    events.run(
        "CREATE TABLE old (k INT, v INT) TBLPROPERTIES ('delta.columnMapping.mode' = 'name',"
        " 'delta.enableDeletionVectors' = 'false')",
        "INSERT INTO old VALUES (1, 1), (2, 2), (2, 3)",
    )
    query = "SELECT k, count(v) AS n, max(v) AS top FROM old GROUP BY k"
    events.run(f"CREATE MATERIALIZED VIEW tops AS {query}")
    assert_fresh(lake, "tops", query)
    events.run("DELETE FROM old WHERE v = 3", "ALTER TABLE old ADD COLUMN w INT")
    done = lake.refresh("tops")
    assert isinstance(done, bv.Outcome)
    assert (done.strategy, done.reason) == ("replace keys", "LOST_EXTREMUM")
    assert_fresh(lake, "tops", query)
    events.run("DROP MATERIALIZED VIEW tops")
