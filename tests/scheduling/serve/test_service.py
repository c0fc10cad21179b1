"""The service without Spark: looks, actions, answers by earliest deadline, violations with causes."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from belvedere.cli.main import main
from belvedere.derivations.registry import everything
from belvedere.errors import Invalid
from belvedere.scheduling import limits
from belvedere.scheduling.calibrate.calibration import calibrate_live
from belvedere.scheduling.model.policies import new_policy
from belvedere.scheduling.model.simulator import choose_policy
from belvedere.scheduling.plots import draw_bars, draw_curves, draw_pending
from belvedere.scheduling.schedules import Schedule, save_schedule, the_schedule
from belvedere.scheduling.serve.endpoint import metrics, serve_http
from belvedere.scheduling.serve.preview import plan
from belvedere.scheduling.serve.service import SchedulingService
from belvedere.scheduling.serve.watcher import (
    TableWatch,
    consistent_version,
    observed_arrivals,
    shares_of_kinds,
)
from belvedere.views.catalog import the_view
from tests.lake.damages import DAMAGES, emptied, gone
from tests.scheduling.scheduled_lake import COSTS, Stand, add, make

WHEN = "SELECT count(*) FROM video"


def service(stand: Stand, **options: Any) -> SchedulingService:
    return SchedulingService(
        stand, stand.shelf, clock=stand.clock, every=1.0, policy="ONLINE", **options
    )


def test_a_watch_counts_arrived_and_pending_changes(tmp_path: Path) -> None:
    shelf = make(tmp_path, "v")
    watch, stand = TableWatch(shelf, "v", ("video", "log")), Stand(shelf)
    assert watch.look() == ((0, 0), (0, 0))
    add(tmp_path, "video", 3)
    assert watch.look() == ((3, 0), (3, 0))
    add(tmp_path, "log", 2)
    add(tmp_path, "log", 2)
    assert watch.look() == ((0, 4), (3, 4))
    stand.advance("v", "log")
    add(tmp_path, "video", 1)
    assert watch.pending() == (4, 0)
    assert watch.look() == ((1, 0), (4, 0))
    arrivals, _ = observed_arrivals(shelf, "v", ("video", "log"))
    assert [(a.table, a.changes) for a in arrivals] == [
        ("video", 3),
        ("log", 2),
        ("log", 2),
        ("video", 1),
    ]


def test_the_kinds_of_change_that_arrive_are_told_by_the_log(tmp_path: Path) -> None:
    shelf = make(tmp_path, "v")
    assert shares_of_kinds(shelf, "v", "video") == {}
    add(tmp_path, "video", 3)
    assert shares_of_kinds(shelf, "v", "video") == {"insert": 1.0}
    DeltaTable(str(tmp_path / "video")).update({"owner": "'x'"}, predicate="owner = 'c'")
    assert shares_of_kinds(shelf, "v", "video") == {"insert": 0.5, "update": 0.5}
    DeltaTable(str(tmp_path / "video")).delete("owner = 'x'")
    assert shares_of_kinds(shelf, "v", "video") == pytest.approx(
        {"insert": 1 / 3, "update": 1 / 3, "delete": 1 / 3}
    )


def test_the_state_to_show_is_the_last_at_one_point(tmp_path: Path) -> None:
    shelf = make(tmp_path, "v")
    stand, view = Stand(shelf), the_view(shelf, "v")
    assert consistent_version(shelf, view) == 0
    add(tmp_path, "video", 1)
    add(tmp_path, "log", 1)
    stand.advance("v", "video")
    assert consistent_version(shelf, view) == 0
    stand.advance("v", "log")
    assert consistent_version(shelf, view) == 2


def test_it_acts_on_the_table_that_makes_room_and_leaves_the_other(tmp_path: Path) -> None:
    shelf = make(tmp_path, "v", limit=4.0)
    stand = Stand(shelf)
    running = service(stand)
    running.turn()
    for _ in range(30):
        add(tmp_path, "video", 12)
        add(tmp_path, "log", 1)
        stand.now += 1.0
        running.turn()
        assert running.views["v"].scheduler.refresh_seconds() <= 4.0
    assert ("v", ("video",)) in stand.did
    assert len([d for d in stand.did if "log" in d[1]]) < len(stand.did) / 2
    assert running.views["v"].violations.total() == 0


def answered(running: SchedulingService, *views: str) -> list[Any]:
    """Requests that come at once, then the service's turns."""
    found: list[Any] = [None] * len(views)

    def refresh_now(place: int) -> None:
        found[place] = running.request(views[place], timeout=30)

    threads = [threading.Thread(target=refresh_now, args=(i,)) for i in range(len(views))]
    for thread in threads:
        thread.start()
    waiting = threading.Event()
    while len(running.queue) < len(views):
        waiting.wait(0.005)
    for _ in views:
        running.turn(look=False)
    for thread in threads:
        thread.join(30)
    return found


def test_the_earliest_deadline_is_answered_first(tmp_path: Path) -> None:
    shelf = make(tmp_path, "long", "short", limit=9.0)
    save_schedule(shelf, Schedule("short", 5.0, the_schedule(shelf, "short").calibration))
    stand = Stand(shelf)
    running = service(stand)
    add(tmp_path, "video", 1)
    add(tmp_path, "log", 1)
    running.turn()
    late, first = answered(running, "long", "short")
    assert [name for name, _ in stand.did] == ["short", "long"]
    assert (late.violation, first.violation) == ("", "")
    assert first.seconds < late.seconds <= 9.0
    assert first.vector == {"video": 1, "log": 1}


@pytest.mark.parametrize(
    ("factor", "rows", "cause"),
    [(5.0, 1, "slower than calibrated"), (5.0, 5000, "more arrived than the limit can hold")],
)
def test_a_late_answer_is_reported_with_its_cause(
    tmp_path: Path, factor: float, rows: int, cause: str
) -> None:
    shelf = make(tmp_path, "v")
    log: list[str] = []
    stand = Stand(shelf, factor=factor)
    running = service(stand, log=log.append)
    running.turn()
    add(tmp_path, "video", rows)
    add(tmp_path, "log", 1)
    (answer,) = answered(running, "v")
    assert answer.seconds > answer.limit
    assert answer.violation == cause
    assert running.views["v"].violations[cause] == 1
    assert f'belvedere_violations_total{{view="v",cause="{cause}"}} 1' in metrics(running)
    assert any(cause in line for line in log)
    # What was timed has corrected the costs.
    assert running.views["v"].scheduler.terms.cost((rows, 1)) > 1.1


def test_a_calibration_that_is_off_is_corrected_and_the_limit_kept_again(tmp_path: Path) -> None:
    """The machine has become four times slower than when the costs were measured."""
    shelf = make(tmp_path, "v", limit=8.0, kind="insert")
    log: list[str] = []
    stand = Stand(shelf, factor=4.0)
    running = service(stand, log=log.append)
    running.turn()
    ratios = []
    for turn in range(12):
        # Never twice as many: what was timed of one size says nothing of the next.
        add(tmp_path, "video", 1 + turn % 3)
        add(tmp_path, "log", 1)
        (answer,) = answered(running, "v")
        ratios.append(answer.seconds / answer.predicted)
    view = running.views["v"]
    assert view.recalibrations >= 1
    assert any("recalibrated" in line for line in log)
    assert ratios[0] > 3
    assert all(0.7 < ratio < 1.4 for ratio in ratios[-4:])
    assert f'recalibrations_total{{view="v"}} {view.recalibrations}' in metrics(running)
    # It is saved, and other sizes are corrected too.
    saved = the_schedule(shelf, "v").calibration
    assert saved is not None
    assert saved.prices.of((100, 0)) == pytest.approx(4 * COSTS[0](100), rel=0.4)


def test_a_view_that_was_never_measured_is_not_timed_on_nothing(tmp_path: Path) -> None:
    shelf = make(tmp_path, "v")
    add(tmp_path, "video", 1)
    with pytest.raises(Invalid, match="no changes of 'log' are pending"):
        calibrate_live(shelf, "v", None)  # type: ignore[arg-type]


def test_a_statement_looks_at_limits_only_where_something_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf, asked, shown = make(tmp_path, "v"), list[str](), list[Any]()
    real = limits.consistent_version

    def consistent(lake: Any, view: Any) -> Any:
        asked.append(view.name)
        return real(lake, view)

    monkeypatch.setattr(limits, "consistent_version", consistent)
    monkeypatch.setattr(limits, "show", lambda _, view, version=None: shown.append(version))
    monkeypatch.setattr(limits, "CLOCK_TICK", 0)
    ours = limits.Limits(shelf)  # type: ignore[arg-type]
    for _ in range(3):
        ours.show_consistent()
    assert (asked, shown) == (["v"], [0])
    add(tmp_path, "video", 1)
    add(tmp_path, "log", 1)
    Stand(shelf).advance("v", "video")
    ours.show_consistent()
    Stand(shelf).advance("v", "log")
    ours.show_consistent()
    ours.show_consistent()
    assert (asked, shown) == (["v"] * 3, [0, 2])
    save_schedule(shelf, Schedule("v", None))
    Stand(shelf).refresh("v")
    ours.show_consistent()
    assert asked == ["v"] * 3


def test_a_view_without_a_limit_is_refused_by_name(tmp_path: Path) -> None:
    shelf = make(tmp_path, "v")
    with pytest.raises(Invalid, match="does not keep 'w'"):
        service(Stand(shelf)).request("w")
    save_schedule(shelf, Schedule("v", 5.0))
    with pytest.raises(Invalid, match="no view has a response limit"):
        service(Stand(shelf))
    with pytest.raises(Invalid, match="were not measured"):
        plan(shelf, "v", "observed")


def test_it_continues_after_an_error_and_logs_it(tmp_path: Path) -> None:
    shelf = make(tmp_path, "v")
    stand = Stand(shelf)
    running = service(stand, log=(log := list[str]()).append)
    fails = iter([OSError("no space"), None])
    real = stand.refresh

    def refresh(name: str | None = None, *, full: bool = False) -> Any:
        if (error := next(fails)) is not None:
            raise error
        return real(name, full=full)

    stand.refresh = refresh  # type: ignore[method-assign]
    add(tmp_path, "video", 1)
    (first,) = answered(running, "v")
    assert "no space" in first.error
    assert any("no space" in line for line in log)
    (second,) = answered(running, "v")
    assert second.error == ""
    assert second.vector["video"] == 1


def test_limits_that_are_set_or_removed_meanwhile_take_effect(tmp_path: Path) -> None:
    shelf = make(tmp_path, "v", "w")
    running = service(Stand(shelf))
    calibration = the_schedule(shelf, "v").calibration
    save_schedule(shelf, Schedule("v", 3.0, calibration))
    save_schedule(shelf, Schedule("w", None, calibration))
    running.reload()
    assert {name: k.scheduler.terms.limit for name, k in running.views.items()} == {"v": 3.0}
    save_schedule(shelf, Schedule("w", 7.0, calibration))
    running.reload()
    assert {name: k.scheduler.terms.limit for name, k in running.views.items()} == {
        "v": 3.0,
        "w": 7.0,
    }


def test_auto_replays_recorded_arrivals_and_changes_its_policy(tmp_path: Path) -> None:
    shelf = make(tmp_path, "v")
    stand = Stand(shelf)
    running = SchedulingService(stand, shelf, clock=stand.clock, every=1.0)
    view = running.views["v"]
    for _ in range(60):
        view.scheduler.observe((30, 1))
        view.recorded.append((30, 1))
    view.choose_at, view.scheduler.policy = 0, new_policy("NAIVE", view.scheduler.terms)
    view.chosen = "NAIVE"
    view.choose_policy(running.policy)
    assert view.choosing is not None
    view.choosing.join(60)
    view.choose_policy(running.policy)
    assert view.scheduler.policy.name == view.chosen
    best = choose_policy(view.scheduler.terms, list(view.recorded))
    assert view.chosen == best.name != "NAIVE"


def test_it_stops_after_the_running_action_and_answers_waiting_requests(tmp_path: Path) -> None:
    shelf = make(tmp_path, "v")
    running = SchedulingService(Stand(shelf), shelf, every=60.0)
    thread = threading.Thread(target=running.run)
    thread.start()
    running.stop()
    thread.join(10)
    assert not thread.is_alive()
    with pytest.raises(Invalid, match="stopping"):
        running.request("v")


def test_other_machines_need_a_token(tmp_path: Path) -> None:
    shelf = make(tmp_path, "v")
    running = service(Stand(shelf))
    with pytest.raises(Invalid, match="needs a token"):
        serve_http(running, "0.0.0.0", 0)
    server = serve_http(running, "127.0.0.1", 0, token="secret")
    address = f"http://127.0.0.1:{server.server_address[1]}/health"
    try:
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(address)
        given = urllib.request.Request(address, headers={"Authorization": "Bearer secret"})
        with urllib.request.urlopen(given) as response:
            assert json.load(response) == {"status": "ok", "trouble": "", "views": ["v"]}
    finally:
        server.shutdown()
        server.server_close()


def test_plans_and_rehearsals_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = tmp_path / "lake"
    make(lake, "v")
    arrivals = tmp_path / "a.csv"
    rows = [f"{t},{name},{count}" for t in range(40) for name, count in (("video", 20), ("log", 1))]
    arrivals.write_text("\n".join(["seconds,table,changes", *rows]))
    picture = tmp_path / "p.svg"
    command = ["--lake", str(lake), "plan", "v", "--arrivals", str(arrivals)]
    assert main([*command, "--picture", str(picture)]) == 0
    assert "AUTO takes" in capsys.readouterr().out
    assert picture.read_text().startswith("<?xml")
    assert main(["--lake", str(lake), "serve", "--simulate", str(arrivals), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["costs"][found["chosen"]] <= found["costs"]["NAIVE"]
    arrivals.write_text("seconds,table,changes\n0,other,1\n")
    assert main(["--lake", str(lake), "serve", "--simulate", str(arrivals)]) == 1
    assert "line 2: 'other' is not a table" in capsys.readouterr().err


def test_subscriptions_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = tmp_path / "lake"
    make(lake, "v")
    start = ["--lake", str(lake), "subscribe", "v"]
    assert main([*start, "--every", "1h", "--name", "a", "--exec", "mail", "-s", "x y"]) == 0
    assert main([*start, "--when", WHEN, "--changed", "10%", "--jsonl", "f", "--name", "b"]) == 0
    assert main([*start, "--every", "1h", "--name", "c"]) == 1
    capsys.readouterr()
    assert main(["--lake", str(lake), "subscriptions", "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["every"], first["command"]) == (3600.0, ["mail", "-s", "x y"])
    assert (second["changed"], second["query"]) == (0.1, "SELECT * FROM `v`")
    assert main(["--lake", str(lake), "unsubscribe", "a"]) == 0
    assert main(["--lake", str(lake), "unsubscribe", "a"]) == 1


def test_pictures_are_the_same_from_the_same_numbers(tmp_path: Path) -> None:
    shelf = make(tmp_path / "lake", "v")
    calibration = the_schedule(shelf, "v").calibration
    assert calibration is not None
    found = plan(shelf, "v", [*_some_arrivals()])
    for name in ("a", "b"):
        draw_curves(calibration, tmp_path / f"curves-{name}.svg")
        draw_pending(found.policies, ("video", "log"), tmp_path / f"paths-{name}.png")
        draw_bars({"NAIVE": 2.0, "OPT": 1.0}, tmp_path / f"bars-{name}.svg")
    for kind in ("curves-%s.svg", "paths-%s.png", "bars-%s.svg"):
        assert (tmp_path / (kind % "a")).read_bytes() == (tmp_path / (kind % "b")).read_bytes()
    with pytest.raises(Invalid, match="SVG or PNG"):
        draw_bars({}, tmp_path / "x.gif")


def _some_arrivals() -> list[Any]:
    from belvedere.scheduling.model.arrivals import Arrival

    return [Arrival(float(t), name, 5) for t in range(20) for name in ("video", "log")]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda d: d.__name__)
def test_a_damaged_limit_is_told_and_the_other_limits_are_kept(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    shelf = make(tmp_path, "v", "w")
    path = tmp_path / ".belvedere" / "schedule" / "v.state"
    damage(path)
    running = service(Stand(shelf))
    assert list(running.views) == ["w"]
    assert the_schedule(shelf, "v") == Schedule("v")
    hint = "ALTER MATERIALIZED VIEW v SET RESPONSE LIMIT"
    statuses = [s for s in everything(shelf, []) if s.policy == "RESPONSE LIMIT"]
    assert damage is gone or [(s.name, hint in s.error) for s in statuses] == [("v", True)]
    assert main(["status", "--json", "--lake", str(tmp_path)]) == 0
    damage(tmp_path / ".belvedere" / "schedule" / "w.state")
    with pytest.raises(Invalid) as refused:
        service(Stand(shelf))
    assert refused.value.reason == "NOTHING_TO_KEEP"
    assert damage is gone or hint in refused.value.detail
    save_schedule(shelf, Schedule("v", 7.0))
    assert the_schedule(shelf, "v").limit == 7.0


def test_a_limit_that_is_damaged_while_it_is_served_is_saved_again(tmp_path: Path) -> None:
    shelf = make(tmp_path, "v", "w")
    running = service(Stand(shelf))
    emptied(tmp_path / ".belvedere" / "schedule" / "v.state")
    gone(tmp_path / ".belvedere" / "schedule" / "w.state")
    running.reload()
    assert list(running.views) == ["v"]
    assert the_schedule(shelf, "v").limit == 5.0
