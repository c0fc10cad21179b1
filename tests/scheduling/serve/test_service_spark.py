"""Limits on a lake: measured on a copy, planned, kept by the service, shown at one point."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import belvedere as bv
from belvedere.errors import Invalid, Unsupported
from belvedere.scheduling.calibrate.calibration import calibrate
from belvedere.scheduling.notify.subscriptions import Subscription, subscribe, subscriptions
from belvedere.scheduling.schedules import save_calibration, the_schedule
from belvedere.scheduling.serve.endpoint import serve_http
from tests.scheduling.min_view import change_partsupp, change_supplier, make, recomputed, shown

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[bv.Lake]:
    directory = tmp_path_factory.mktemp("limits")
    with make(directory / "lake") as lake:
        door = lake._door
        lake.sql("ALTER MATERIALIZED VIEW min_cost SET RESPONSE LIMIT 60 SECONDS")
        found = calibrate(
            door, "min_cost", tables=["partsupp", "supplier"], sizes=(1, 20), rounds=1
        )
        save_calibration(door, "min_cost", found)
        yield lake


def directory(lake: bv.Lake) -> Path:
    found = lake._door.directory
    assert found is not None
    return found


def test_calibration_measures_a_copy_and_leaves_nothing(lake: bv.Lake) -> None:
    schedule = the_schedule(lake._door, "min_cost")
    assert schedule.limit == 60
    assert schedule.tables == ("partsupp", "supplier")
    assert schedule.calibration is not None
    for fitted in schedule.calibration.fits:
        assert len(fitted.measured) >= 4
        assert all(m.seconds > 0 for m in fitted.measured)
        assert {m.kind for m in fitted.measured} == {"delete", "insert", "update"}
        assert all(fitted.at_most(m.changes) >= m.seconds * 0.999 for m in fitted.measured)
    assert "saves" in str(schedule.calibration)
    assert list((directory(lake) / ".belvedere").glob("scratch-*")) == []
    (status,) = lake.status()
    assert status.fresh
    assert len(lake.history("min_cost")) == 1
    assert sorted(lake._door.names()) == ["min_cost", "nation", "partsupp", "region", "supplier"]


def test_the_view_shows_its_last_state_at_one_point(lake: bv.Lake) -> None:
    lake.refresh("min_cost")
    before = shown(lake)
    lake.sql("UPDATE supplier SET s_nationkey = 4")
    lake.sql("UPDATE partsupp SET ps_supplycost = 7 WHERE ps_partkey = 3")
    lake.advance("min_cost", "supplier")
    assert shown(lake) == before
    assert lake.view("min_cost").df().collect()[0][0] == before
    # In between the suppliers are new and the prices old.
    between = lake.view("min_cost").df(between=True).collect()[0][0]
    assert (
        between
        == lake.sql("SELECT min(ps_supplycost) FROM partsupp VERSION AS OF 0").collect()[0][0]
    )
    lake.refresh("min_cost")
    assert shown(lake) == 7 == recomputed(lake)
    with bv.connect(directory(lake)) as other:
        assert shown(other) == 7


def test_the_service_acts_answers_and_tells(lake: bv.Lake, tmp_path: Path) -> None:
    log: list[str] = []
    target = tmp_path / "told.jsonl"
    made = Subscription(
        "prices",
        "min_cost",
        "SELECT cost FROM min_cost",
        when="SELECT count(*) > 400 FROM partsupp",
        jsonl=str(target),
    )
    subscribe(lake._door, made)
    assert subscriptions(lake._door) == [made]
    service = lake.serve(every=0.2, log=log.append)
    thread = threading.Thread(target=service.run)
    thread.start()
    server = serve_http(service, "127.0.0.1", 0)
    port = server.server_address[1]
    try:
        for turn in range(2):
            change_partsupp(lake, turn)
            change_supplier(lake, turn)
            answer = ask(port, "/refresh/min_cost")
            assert answer["violation"] == ""
            assert answer["seconds"] < 60
            assert answer["vector"]["partsupp"] > 0
            assert shown(lake) == recomputed(lake)
        lake.sql("INSERT INTO partsupp VALUES (1000, 4, 1.5)")
        wait_for(lambda: target.exists() and target.read_text().count("\n") == 2)
        assert get(port, "/health")["status"] == "ok"
        (view,) = get(port, "/views")
        assert view["actions"] >= 3
        metrics = text(port, "/metrics")
        assert 'belvedere_violations_total{view="min_cost",cause="any"} 0' in metrics
        assert 'belvedere_pending_changes{view="min_cost",table="partsupp"}' in metrics
        with pytest.raises(urllib.error.HTTPError, match="404"):
            ask(port, "/refresh/none")
    finally:
        service.stop()
        thread.join(60)
        server.shutdown()
        server.server_close()
    _, line = target.read_text().splitlines()
    notification = json.loads(line)
    assert notification["id"] == "prices-1"
    assert [float(row["cost"]) for row in notification["content"]] == [1.5]
    assert log == [message for message in log if "not delivered" not in message]
    assert the_schedule(lake._door, "min_cost").calibration is not None


def test_a_limit_that_cannot_be_kept_is_refused_with_one_that_can(lake: bv.Lake) -> None:
    with pytest.raises(Invalid, match="cannot be kept") as caught:
        lake.sql("ALTER MATERIALIZED VIEW min_cost SET RESPONSE LIMIT 1 MILLISECOND")
    assert "a single change of" in caught.value.detail
    assert "SET RESPONSE LIMIT" in caught.value.hint
    assert the_schedule(lake._door, "min_cost").limit == 60


def test_views_without_an_incremental_plan_get_no_limit(lake: bv.Lake) -> None:
    lake.sql("CREATE MATERIALIZED VIEW whole REFRESH POLICY FULL AS SELECT * FROM region")
    lake.sql("CREATE MATERIALIZED VIEW over AS SELECT cost FROM min_cost")
    for name, reason in (("whole", "POLICY_FULL"), ("over", "VIEW_OVER_VIEW")):
        with pytest.raises(Unsupported) as caught:
            lake.sql(f"ALTER MATERIALIZED VIEW {name} SET RESPONSE LIMIT 5 SECONDS")
        assert caught.value.reason == reason
        lake.sql(f"DROP MATERIALIZED VIEW {name}")


def test_a_plan_from_what_the_logs_recorded(lake: bv.Lake) -> None:
    found = lake.plan("min_cost")
    assert {r.policy for r in found.policies} == {"NAIVE", "ONLINE", "RECEDING"}
    assert "AUTO takes" in str(found)


def test_a_dropped_view_has_no_limit_any_more(lake: bv.Lake) -> None:
    lake.sql(
        "CREATE MATERIALIZED VIEW n AS SELECT n_regionkey, count(*) AS n FROM nation GROUP BY 1"
    )
    lake.sql("ALTER MATERIALIZED VIEW n SET RESPONSE LIMIT 5 SECONDS")
    assert the_schedule(lake._door, "n").limit == 5
    with pytest.raises(Invalid, match="were not measured"):
        lake.plan("n")
    lake.sql("ALTER MATERIALIZED VIEW n SET RESPONSE LIMIT NONE")
    with pytest.raises(Invalid, match="no response limit"):
        lake.plan("n")
    lake.sql("ALTER MATERIALIZED VIEW n SET RESPONSE LIMIT 5 SECONDS")
    lake.sql("DROP MATERIALIZED VIEW n")
    lake.sql("CREATE MATERIALIZED VIEW n AS SELECT n_regionkey FROM nation")
    assert the_schedule(lake._door, "n").limit is None
    lake.sql("DROP MATERIALIZED VIEW n")


def test_a_minimum_is_merged_also_if_the_row_went_that_held_it(lake: bv.Lake) -> None:
    lake.sql("UPDATE supplier SET s_nationkey = 4 WHERE s_suppkey < 20")
    lake.sql("UPDATE partsupp SET ps_supplycost = 1.25 WHERE ps_partkey = 5")
    lake.refresh("min_cost")
    assert shown(lake) == Decimal("1.25") == recomputed(lake)
    for statement in (
        "DELETE FROM partsupp WHERE ps_partkey = 7",
        "UPDATE partsupp SET ps_supplycost = 1.20 WHERE ps_partkey = 5",
        "UPDATE supplier SET s_nationkey = 1 WHERE s_suppkey = 6",
        "DELETE FROM partsupp WHERE ps_partkey = 5",
    ):
        lake.sql(statement)
        done = lake.refresh("min_cost")
        assert isinstance(done, bv.Outcome)
        assert (done.strategy, statement) == ("merge", statement)
        assert shown(lake) == recomputed(lake)
    assert any("the next extremum was found" in line for line in done.sql)


def test_the_view_itself_is_timed_where_that_is_asked_for(lake: bv.Lake) -> None:
    before = the_schedule(lake._door, "min_cost").calibration
    change_partsupp(lake, 1)
    change_supplier(lake, 1)
    found = lake.calibrate("min_cost", live=True)
    assert before is not None
    for old, new in zip(before.fits, found.fits, strict=True):
        (own,) = set(new.measured) - set(old.measured)
        assert own.kind == ""
        assert own.seconds > 0
    assert shown(lake) == recomputed(lake)
    assert the_schedule(lake._door, "min_cost").calibration == found


def ask(port: int, path: str) -> Any:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", b"", method="POST")
    with urllib.request.urlopen(request, timeout=120) as response:
        return json.load(response)


def get(port: int, path: str) -> Any:
    return json.loads(text(port, path))


def text(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as response:
        return str(response.read().decode())


def wait_for(holds: Any, seconds: float = 60.0) -> None:
    done = threading.Event()
    for _ in range(int(seconds / 0.1)):
        if holds():
            return
        done.wait(0.1)
    raise AssertionError("it did not happen")
