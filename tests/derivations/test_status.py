"""Status, history and broken views, on a lake that Spark writes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import belvedere as bv
from belvedere.derivations.status import Pending, status
from belvedere.lake.offline import OfflineLake
from belvedere.views import catalog

pytestmark = pytest.mark.spark

VISITS = """SELECT v.video_id, owner, count(*) AS n FROM log l JOIN video v
ON l.video_id = v.video_id GROUP BY v.video_id, owner"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("status")


@pytest.fixture(scope="module")
def lake(directory: Path) -> Iterator[bv.Lake]:
    with bv.connect(directory) as lake:
        lake.sql("CREATE TABLE video AS SELECT id AS video_id, 'a' AS owner FROM range(10)")
        lake.sql("CREATE TABLE log AS SELECT id % 10 AS video_id FROM range(100)")
        lake.sql(f"CREATE MATERIALIZED VIEW visits AS {VISITS}")
        lake.sql(
            "CREATE MATERIALIZED VIEW owners AS SELECT owner, sum(n) AS n FROM visits GROUP BY 1"
        )
        yield lake


def test_status_counts_what_is_pending_and_the_shelf_agrees(lake: bv.Lake, directory: Path) -> None:
    lake.sql("INSERT INTO log VALUES (1), (2), (3)")
    lake.sql("DELETE FROM video WHERE video_id >= 8")
    lake.sql("UPDATE video SET owner = 'b' WHERE video_id = 1")
    lake.sql("OPTIMIZE log")
    visits, owners = lake.status()
    assert visits.pending["video"] == Pending(2, 3)
    assert visits.pending["log"].rows == 3
    assert owners.pending == {"visits": Pending(0, 0)}
    assert not visits.fresh
    assert lake.status() == status(OfflineLake(directory))
    lake.refresh("visits")
    visits, owners = lake.status()
    assert visits.fresh
    assert visits.last is not None
    assert (visits.last.number, visits.last.strategy) == (2, "merge")
    assert owners.pending["visits"].versions == 1


def test_a_view_is_looked_at_once_however_many_read_it(
    lake: bv.Lake, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf, looked = OfflineLake(directory), list[str]()
    names = {view.name for view in catalog.all_views(shelf)}
    look = catalog._found_again

    def counting(of: Any, known: Any, *more: Any) -> bool:
        looked.append(known.view.name)
        return look(of, known, *more)

    monkeypatch.setattr(catalog, "_found_again", counting)
    assert {view.name for view in catalog.all_views(shelf)} == names == set(looked)
    assert len(looked) == len(names) > 1


def test_history_says_how_each_refresh_came_to_be(lake: bv.Lake) -> None:
    lake.refresh("visits", full=True)
    newest, *_, first = lake.history("visits")
    assert (newest.strategy, newest.reason) == ("rebuild", "REQUESTED")
    assert (first.number, first.strategy, first.rows) == (1, "create", 10)
    assert newest.seconds is not None
    assert set(newest.vector) == {"log", "video"}


def test_a_view_cannot_be_replaced_by_one_that_reads_it_through_another(lake: bv.Lake) -> None:
    with pytest.raises(bv.Invalid, match="reads itself"):
        lake.sql("CREATE OR REPLACE MATERIALIZED VIEW visits AS SELECT n FROM owners")
    assert lake.view("visits").df().count() > 0


def test_a_broken_view_breaks_no_other_and_can_be_dropped(lake: bv.Lake, directory: Path) -> None:
    lake.sql("CREATE TABLE gone AS SELECT 1 AS a")
    lake.sql("CREATE MATERIALIZED VIEW lost AS SELECT a FROM gone")
    shutil.rmtree(directory / "gone")
    with bv.connect(directory) as again:
        assert again.view("visits").df().count() > 0
        (broken,) = [s for s in again.status() if s.error]
        assert broken.name == "lost"
        with pytest.raises(bv.Invalid, match="no table or view 'gone'"):
            again.refresh("lost")
        again.sql("INSERT INTO video VALUES (77, 'b')")
        with pytest.raises(bv.Invalid, match="every view is fresh but 'lost': no table or view"):
            again.refresh()
        assert {s.name for s in again.status() if s.fresh} == {"visits", "owners"}
        with pytest.raises(bv.Invalid, match="is a materialized view"):
            again.sql("INSERT INTO lost VALUES (1)")
        shown = {r["name"]: r["error"] for r in again.sql("SHOW MATERIALIZED VIEWS").collect()}
        assert "gone" in shown["lost"]
        again.sql("DROP MATERIALIZED VIEW lost")
        assert not [s for s in again.status() if s.error]
