"""What happens to the tables that hold views' rows: noticed, said, and computed again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

import belvedere as bv
from belvedere.delta import log
from belvedere.delta.stamps import FOREIGN_WRITE, VECTOR_LOST, logged_stamp
from belvedere.errors import Unsupported
from belvedere.lake.writes import commits
from belvedere.views.catalog import the_view
from belvedere.views.incremental import apply
from tests.derivations.events_lake import VIEWS, EventsLake
from tests.local_tables import directory_of, store_in

pytestmark = pytest.mark.spark

MERGE = ("merge", "")
FEED = "ALTER TABLE log SET TBLPROPERTIES ('delta.enableChangeDataFeed' = '{}')"


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EventsLake]:
    directory = tmp_path_factory.mktemp("stored")
    with bv.connect(directory) as lake:
        yield EventsLake(lake, directory).fill()


@pytest.fixture(params=["by delta-rs", "by Spark"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which engine writes the views' rows."""
    if request.param == "by Spark":
        _by_spark(monkeypatch)


def _by_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "takes", lambda *_: False)
    monkeypatch.setattr(commits, "can_replace", lambda *_: False)


def root(events: EventsLake, view: str) -> Path:
    return directory_of(events.lake._door.table(the_view(events.lake._door, view).stored))


def written_by_someone(at: Path) -> None:
    """A row of the table once more."""
    rows = DeltaTable(str(at)).to_pyarrow_table().slice(0, 1)
    write_deltalake(str(at), rows, mode="append")


def forgotten(at: Path) -> None:
    """A checkpoint is written, and all commits before it go: what Delta does in time."""
    DeltaTable(str(at)).alter.set_table_properties({"delta.checkpointInterval": "10"})
    DeltaTable(str(at)).create_checkpoint()
    for version in log.commit_versions(store_in(at))[:-1]:
        (at / "_delta_log" / f"{version:020}.json").unlink()


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    ("happens", "reason"), [(written_by_someone, FOREIGN_WRITE), (forgotten, VECTOR_LOST)]
)
def test_rows_that_cannot_be_relied_on_are_computed_again(
    events: EventsLake, happens: Callable[[Path], None], reason: str
) -> None:
    for _ in range(2):  # a number that was used is not used again
        events.change()
        assert events.refresh() == dict.fromkeys(VIEWS, MERGE)
        for view in VIEWS:
            happens(root(events, view))
        assert events.refresh() == dict.fromkeys(VIEWS, ("rebuild", reason))
    events.change()
    assert events.refresh() == dict.fromkeys(VIEWS, MERGE)


def emptied_under_its_vector(at: Path) -> None:
    """All rows go, in a commit that carries the vector in force: no stamp tells of it."""
    found = logged_stamp(store_in(at)).stamp
    assert found is not None
    # A view's number must not be used twice.
    stamp = replace(found, refresh=found.refresh + 1)
    metadata = {"userMetadata": stamp.to_json()}
    DeltaTable(str(at)).delete(commit_properties=CommitProperties(custom_metadata=metadata))


@pytest.mark.parametrize("writer", ["delta-rs", "Spark, from memory", "Spark alone"])
def test_rows_that_are_not_what_their_vector_says_are_computed_again_and_told(
    events: EventsLake, monkeypatch: pytest.MonkeyPatch, writer: str
) -> None:
    if writer != "delta-rs":
        _by_spark(monkeypatch)
    if writer == "Spark alone":
        monkeypatch.setattr(apply, "_rows_in_memory", lambda *_: None)
    events.run(*events.rows("log"))
    events.refresh()
    for view in VIEWS:
        emptied_under_its_vector(root(events, view))
    # Rows go that are not there; of a group more go than come.
    events.run("DELETE FROM log")
    assert events.refresh() == dict.fromkeys(VIEWS, ("rebuild", "STATE_MISMATCH"))
    events.run(*events.rows("log"))
    events.change()
    assert events.refresh() == dict.fromkeys(VIEWS, MERGE)
    assert events.lake.history("visits")[1].reason == "STATE_MISMATCH"


def test_under_strict_rows_that_are_not_what_their_vector_says_are_an_error(
    events: EventsLake,
) -> None:
    events.run(*events.rows("log"))
    events.refresh()
    events.run("ALTER MATERIALIZED VIEW visits SET REFRESH POLICY INCREMENTAL STRICT")
    emptied_under_its_vector(root(events, "visits"))
    events.run("DELETE FROM log")
    for _ in range(2):
        with pytest.raises(Unsupported, match="the stored rows do not contain") as refused:
            events.lake.refresh("visits")
        assert refused.value.reason == "STATE_MISMATCH"
        assert refused.value.hint == "REFRESH MATERIALIZED VIEW visits FULL"
    events.run("REFRESH MATERIALIZED VIEW visits FULL")
    events.run("ALTER MATERIALIZED VIEW visits SET REFRESH POLICY AUTO")
    events.change()
    assert set(events.refresh().values()) == {MERGE}


@pytest.mark.parametrize("moment", ["before our commit", "after it"])
def test_rows_that_someone_writes_during_a_refresh_are_noticed(
    events: EventsLake, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    merge_rows, met = commits.merge_rows, set[str]()

    def beside_someone(table: Any, *rest: Any) -> int:
        someone = table.name not in met and not met.add(table.name)  # type: ignore[func-returns-value]
        if someone and moment == "before our commit":
            written_by_someone(directory_of(table))
        changed = merge_rows(table, *rest)
        if someone and moment == "after it":
            written_by_someone(directory_of(table))
        return changed

    events.change()
    monkeypatch.setattr(commits, "merge_rows", beside_someone)
    assert events.refresh() == dict.fromkeys(VIEWS, ("rebuild", FOREIGN_WRITE))
    assert len(met) == len(VIEWS)
    events.change()
    assert events.refresh() == dict.fromkeys(VIEWS, MERGE)


def test_under_strict_rows_stay_until_a_full_refresh_is_asked_for(events: EventsLake) -> None:
    events.run("ALTER MATERIALIZED VIEW visits SET REFRESH POLICY INCREMENTAL STRICT")
    before = sorted(map(tuple, events.lake.view("visits").df().collect()))
    events.run(FEED.format("false"))
    events.change()
    events.run(FEED.format("true"))
    with pytest.raises(Unsupported, match="'visits' cannot be refreshed from its") as refused:
        events.lake.refresh("visits")
    assert refused.value.reason == "NO_CHANGE_FEED"
    assert refused.value.hint == "REFRESH MATERIALIZED VIEW visits FULL"
    assert sorted(map(tuple, events.lake.view("visits").df().collect())) == before
    events.run("REFRESH MATERIALIZED VIEW visits FULL")
    events.run("ALTER MATERIALIZED VIEW visits SET REFRESH POLICY AUTO")
    assert events.refresh() == {"visits": ("nothing", ""), "large": ("rebuild", "NO_CHANGE_FEED")}
