"""Subscriptions: conditions, what is sent, and every notification once in a file across kills."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from belvedere.errors import Invalid
from belvedere.lake.offline import OfflineLake
from belvedere.scheduling.notify import delivery, notifier
from belvedere.scheduling.notify.delivery import refuse_address
from belvedere.scheduling.notify.notifier import Notifier
from belvedere.scheduling.notify.subscriptions import (
    Subscription,
    percent,
    seconds,
    subscribe,
    subscriptions,
    unsubscribe,
)
from belvedere.scheduling.serve.requests import RefreshAnswer
from tests import small_lake
from tests.lake.damages import DAMAGES, gone

CONTENT, CONDITION = "SELECT n FROM owners", "SELECT count(*) > 3 FROM video"


@dataclass
class Fake:
    """A service whose view has the given rows."""

    content: list[dict[str, Any]] = field(default_factory=lambda: [{"n": 1}])
    value: object = 0
    version: int = 0
    asked: int = 0

    def refresh_now(self, view: str) -> RefreshAnswer:
        self.asked += 1
        return RefreshAnswer(view, 0.5, 5.0, 0.4, vector={"video": self.version})

    def rows(self, query: str) -> list[dict[str, Any]]:
        return self.content if query == CONTENT else [{"value": self.value}]

    def versions(self) -> Mapping[str, int]:
        return {"video": self.version}


class Killed(BaseException):
    pass


@pytest.fixture
def lake(tmp_path: Path) -> OfflineLake:
    return OfflineLake(small_lake.make(tmp_path / "lake"))


def lines(path: Path) -> list[dict[str, Any]]:
    """The notifications of a file that was made for them."""
    header, *rest = path.read_text().splitlines()
    assert header + "\n" == delivery.HEADER.decode()
    return [json.loads(line) for line in rest]


def made(tmp_path: Path, **more: Any) -> Subscription:
    receiver = {} if {"webhook", "command"} & set(more) else {"jsonl": str(tmp_path / "out.jsonl")}
    return Subscription("s", "owners", CONTENT, **{**receiver, **more})


def test_a_schedule_reports_the_difference_at_its_times(lake: OfflineLake, tmp_path: Path) -> None:
    service, now = Fake(), [1000.0]
    subscribe(lake, made(tmp_path, every=60.0))
    desk = Notifier(lake, service, wall=lambda: now[0])
    assert desk.turn() == 1
    assert desk.turn() == 0
    service.content = [{"n": 2}]
    now[0] = 1061.0
    assert desk.turn() == 1
    now[0] = 1119.0
    assert desk.turn() == 0
    now[0] = 1500.0  # several were missed: one is sent
    assert desk.turn() == 1
    first, second, third = lines(tmp_path / "out.jsonl")
    assert (first["id"], second["id"], third["id"]) == ("s-1", "s-2", "s-3")
    assert (second["added"], second["removed"]) == ([{"n": 2}], [{"n": 1}])
    assert (third["added"], third["removed"], third["content"]) == ([], [], [{"n": 2}])
    assert second["vector"] == {"video": 0}


def test_a_condition_tells_when_it_becomes_true(lake: OfflineLake, tmp_path: Path) -> None:
    service = Fake(value=False)
    subscribe(lake, made(tmp_path, when=CONDITION))
    desk = Notifier(lake, service)
    log = []
    for value in (False, True, True, False, True):
        service.version += 1
        service.value = value
        log.append(desk.turn())
        log.append(desk.turn())  # nothing new: not even asked
    assert log == [0, 0, 1, 0, 0, 0, 0, 0, 1, 0]


def test_a_value_tells_when_it_has_changed_enough_since_the_last_report(
    lake: OfflineLake, tmp_path: Path
) -> None:
    service = Fake()
    subscribe(lake, made(tmp_path, when=CONDITION, changed=0.1))
    desk = Notifier(lake, service)
    log = []
    for value in (100, 105, 109, 110, 118, 121, 100):
        service.version += 1
        service.value = value
        log.append(desk.turn())
    assert log == [0, 0, 0, 1, 0, 1, 1]


@pytest.mark.parametrize("when", ["before the line", "within the line", "after the line"])
def test_killed_anywhere_a_file_has_every_notification_once(
    lake: OfflineLake, tmp_path: Path, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, now = Fake(), [1000.0]
    subscribe(lake, made(tmp_path, every=60.0))
    assert Notifier(lake, service, wall=lambda: now[0]).turn() == 1
    real = notifier.deliver

    def killed(subscription: Subscription, message: Mapping[str, Any], **more: Any) -> None:
        if when == "after the line":
            real(subscription, message, **more)
        if when == "within the line":
            with Path(subscription.jsonl).open("a") as file:
                file.write(json.dumps(message)[:20])
        raise Killed

    monkeypatch.setattr(notifier, "deliver", killed)
    now[0] = 1061.0
    service.content = [{"n": 2}]
    with pytest.raises(Killed):
        Notifier(lake, service, wall=lambda: now[0]).turn()
    monkeypatch.setattr(notifier, "deliver", real)
    service.content = [{"n": 3}]
    desk = Notifier(lake, service, wall=lambda: now[0])
    assert desk.turn() == 1
    assert desk.turn() == 0
    now[0] = 1200.0
    desk.turn()
    found = lines(tmp_path / "out.jsonl")
    assert [line["id"] for line in found] == ["s-1", "s-2", "s-3"]
    # What was put down before the kill is what is sent.
    assert [line["content"] for line in found] == [[{"n": 1}], [{"n": 2}], [{"n": 3}]]
    assert found[2]["removed"] == [{"n": 2}]


def test_a_command_gets_the_notification_and_is_retried(lake: OfflineLake, tmp_path: Path) -> None:
    got, flag = tmp_path / "got", tmp_path / "flag"
    script = (
        "import os, pathlib, sys\n"
        f"if not pathlib.Path({str(flag)!r}).exists(): sys.exit(3)\n"
        f"pathlib.Path({str(got)!r}).write_text(os.environ['BELVEDERE_NOTIFICATION'] + ' ' + sys.stdin.read())"
    )
    now, log = [1000.0], list[str]()
    subscribe(
        lake, made(tmp_path, every=3600.0, command=(sys.executable, "-c", script, "; rm -rf"))
    )
    desk = Notifier(lake, Fake(), wall=lambda: now[0], log=log.append)
    assert desk.turn() == 0
    assert "ended with 3" in log[0]
    flag.touch()
    assert desk.turn() == 0  # not yet
    now[0] += 10
    assert desk.turn() == 1
    identifier, _, text = got.read_text().partition(" ")
    assert identifier == json.loads(text)["id"] == "s-1"


@pytest.mark.parametrize("receiver_of", ["webhook", "command"])
def test_killed_after_it_was_sent_it_is_sent_again_under_the_same_identifier(
    lake: OfflineLake, tmp_path: Path, receiver_of: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[str, Any]] = []
    how = {"webhook": "http://a/x"} if receiver_of == "webhook" else {"command": ("c",)}
    monkeypatch.setattr(delivery, "_post", lambda _, text, key: sent.append((key, text)))
    monkeypatch.setattr(delivery, "_run_command", lambda _, text, key: sent.append((key, text)))
    subscribe(lake, made(tmp_path, every=60.0, **how))
    service = Fake()
    real = notifier.save_state

    def killed(lake: Any, name: str, notice: Any) -> None:
        if notice.waiting is None:
            raise Killed
        real(lake, name, notice)

    monkeypatch.setattr(notifier, "save_state", killed)
    with pytest.raises(Killed):
        Notifier(lake, service, ["http://a"]).turn()
    monkeypatch.setattr(notifier, "save_state", real)
    service.content = [{"n": 9}]
    assert Notifier(lake, service, ["http://a"]).turn() == 1
    first, second = sent
    assert first == second
    assert first[0] == "s-1"


def test_what_takes_long_to_send_holds_nothing_up_and_is_sent_once(
    lake: OfflineLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go, sent = threading.Event(), list[str]()

    def slow(_: Any, __: str, key: str) -> None:
        let_go.wait(20)
        sent.append(key)

    monkeypatch.setattr(delivery, "_run_command", slow)
    subscribe(lake, made(tmp_path, every=60.0, command=("c",)))
    now = [1000.0]
    with ThreadPoolExecutor(1) as apart:
        desk = Notifier(lake, Fake(), wall=lambda: now[0], executor=apart)
        for _ in range(3):
            now[0] += 100.0
            assert desk.turn() == 0  # on its way, and not begun again
        assert (sent, len(desk.sending)) == ([], 1)
        let_go.set()
        desk.close()
    assert (sent, desk.sending) == (["s-1"], {})
    now[0] += 100.0
    # Put down as arrived: whoever comes next goes on with the next.
    assert Notifier(lake, Fake(), wall=lambda: now[0]).turn() == 1
    assert sent == ["s-1", "s-2"]


def test_a_condition_reads_tables_and_a_query_its_view(lake: OfflineLake, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="reads the view 'owners'"):
        subscribe(lake, made(tmp_path, when="SELECT count(*) FROM Owners"))
    with pytest.raises(Invalid, match="does not read it"):
        subscribe(lake, replace(made(tmp_path, every=1.0), query="SELECT * FROM video"))
    with pytest.raises(Invalid, match="syntax error"):
        subscribe(lake, made(tmp_path, when="SELECT count( FROM video"))
    with pytest.raises(Invalid, match="vido"):
        subscribe(lake, made(tmp_path, when="SELECT count(*) FROM vido"))
    assert subscriptions(lake) == []
    some = "WITH owners AS (SELECT * FROM video) SELECT count(*) FROM owners"
    subscribe(lake, made(tmp_path, when=some))


@pytest.fixture
def receiver() -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    got: list[tuple[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.headers["Idempotency-Key"], json.loads(body)))
            self.send_response(302 if self.path == "/moved" else 200)
            self.send_header("Location", "http://127.0.0.1:1/")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", got
    server.shutdown()
    server.server_close()


def test_a_webhook_goes_only_where_it_may(
    lake: OfflineLake, tmp_path: Path, receiver: tuple[str, list[tuple[str, Any]]]
) -> None:
    address, got = receiver
    log: list[str] = []
    subscribe(lake, made(tmp_path, every=60.0, webhook=f"{address}/hook"))
    assert Notifier(lake, Fake(), log=log.append).turn() == 0
    assert "not allowed" in log[0]
    assert got == []
    assert Notifier(lake, Fake(), allowed=[address]).turn() == 1
    ((key, message),) = got
    assert key == message["id"] == "s-1"
    unsubscribe(lake, "s")
    subscribe(lake, made(tmp_path, every=60.0, webhook=f"{address}/moved"))
    assert Notifier(lake, Fake(), allowed=[address], log=log.append).turn() == 0
    assert "not delivered" in log[-1]


@pytest.mark.parametrize(
    ("url", "allowed", "may"),
    [
        ("http://a/x", ["http://a"], True),
        ("http://a/x/y", ["http://a/x"], True),
        ("http://a/xy", ["http://a/x"], False),
        ("http://a.evil/x", ["http://a"], False),
        ("http://a@evil/x", ["http://a"], False),
        ("https://a/x", ["http://a"], False),
        ("http://a:81/x", ["http://a"], False),
        ("file:///etc/passwd", ["http://a"], False),
        ("http://a/x", [], False),
    ],
)
def test_addresses(url: str, allowed: list[str], may: bool) -> None:
    if may:
        refuse_address(url, allowed)
    else:
        with pytest.raises(Invalid, match="not allowed"):
            refuse_address(url, allowed)


def test_what_is_no_subscription_is_refused(lake: OfflineLake, tmp_path: Path) -> None:
    for wrong in (
        {"every": 60.0, "when": "SELECT 1"},
        {},
        {"every": 60.0, "changed": 0.1},
        {"when": "SELECT 1", "changed": -0.1},
        {"every": 60.0, "webhook": "http://a", "command": ("x",)},
    ):
        with pytest.raises(Invalid):
            made(tmp_path, **wrong)  # type: ignore[arg-type]
    with pytest.raises(Invalid):
        subscribe(lake, Subscription("s", "none", CONTENT, every=1.0, jsonl="x"))
    with pytest.raises(Invalid, match="no subscription"):
        unsubscribe(lake, "none")
    assert subscriptions(lake) == []
    for text in ("", "5", "1w", "0s", "-1h"):
        with pytest.raises(Invalid, match="not a time"):
            seconds(text)
    for text in ("10", "x%", "-1%", "0%"):
        with pytest.raises(Invalid, match="not a change"):
            percent(text)


def test_a_condition_without_a_number_is_logged(lake: OfflineLake, tmp_path: Path) -> None:
    log: list[str] = []
    subscribe(lake, made(tmp_path, when=CONDITION))
    assert Notifier(lake, Fake(value="many", version=1), log=log.append).turn() == 0
    assert "gives 'many'" in log[0]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda d: d.__name__)
def test_a_damaged_subscription_is_told_and_the_others_are_served(
    lake: OfflineLake, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    log = list[str]()
    for name in ("a", "b"):
        subscribe(lake, replace(made(tmp_path, every=60.0), id=name))
    damage(lake.directory / ".belvedere" / "subscription" / "a.state")
    desk = Notifier(lake, Fake(), log=log.append)
    assert (desk.turn(), desk.turn()) == (1, 0)
    assert [line["id"] for line in lines(tmp_path / "out.jsonl")] == ["b-1"]
    assert [s.id for s in subscriptions(lake)] == ["b"]
    # Told once, with what mends it.
    assert ["belvedere subscribe VIEW --name a" in text for text in log] == [True][: len(log)]
    assert len(log) == (0 if damage is gone else 1)
    subscribe(lake, replace(made(tmp_path, every=60.0), id="a"))
    assert Notifier(lake, Fake()).turn() == 1


@pytest.mark.parametrize("aside", [True, False], ids=["set aside", "where it was"])
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda d: d.__name__)
def test_after_what_was_told_last_is_lost_no_identifier_is_used_again(
    lake: OfflineLake, tmp_path: Path, damage: Callable[[Path], None], aside: bool
) -> None:
    now, service = [1000.0], Fake()
    subscribe(lake, made(tmp_path, every=60.0))
    assert Notifier(lake, service, wall=lambda: now[0]).turn() == 1
    damage(lake.directory / ".belvedere" / "notice" / "s.state")
    if aside:
        lake.saves.set_aside_damaged()  # type: ignore[union-attr]
    log = list[str]()
    desk = Notifier(lake, service, wall=lambda: now[0], log=log.append)
    assert desk.turn() == 1
    now[0] += 100
    assert desk.turn() == 1
    assert damage is gone or "what subscription 's' told last" in log[0]
    first, second, third = lines(tmp_path / "out.jsonl")
    assert len({first["id"], second["id"], third["id"]}) == 3
    assert third["number"] == second["number"] + 1 > 1_000_000
    assert (second["added"], third["added"]) == ([{"n": 1}], [])


def test_a_file_made_elsewhere_is_only_appended_to(lake: OfflineLake, tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    target.write_text("theirs\nwithout an end")
    subscribe(lake, made(tmp_path, every=60.0))
    now = [1000.0]
    for _ in range(2):
        assert Notifier(lake, Fake(), wall=lambda: now[0]).turn() == 1
        # What a kill left of a line stays as well: nobody knows whose it is.
        with target.open("a") as file:
            file.write('{"id": "s-')
        now[0] += 100
    first, second, *rest = target.read_text().split("\n")
    assert (first, second) == ("theirs", "without an end")
    assert [line for line in rest if "content" not in line] == ['{"id": "s-', '{"id": "s-']
    assert [json.loads(line)["id"] for line in rest if "content" in line] == ["s-1", "s-2"]


@pytest.mark.parametrize("what", ["a link", "a directory", "a pipe"])
def test_what_is_no_file_is_reported_not_written(
    lake: OfflineLake, tmp_path: Path, what: str
) -> None:
    target, other = tmp_path / "out.jsonl", tmp_path / "other"
    other.write_text("theirs")
    match what:
        case "a link":
            target.symlink_to(other)
        case "a directory":
            target.mkdir()
        case _:
            os.mkfifo(target)
    log = list[str]()
    subscribe(lake, made(tmp_path, every=60.0))
    assert Notifier(lake, Fake(), log=log.append).turn() == 0
    assert "not delivered" in log[0]
    assert other.read_text() == "theirs"


@pytest.mark.soak
def test_killed_for_real_at_any_moment_a_file_has_every_notification_once(
    lake: OfflineLake, tmp_path: Path
) -> None:
    target = tmp_path / "out.jsonl"
    subscribe(lake, made(tmp_path, every=1.0))
    script = Path(__file__).with_name("notifier_script.py")
    for turn in range(15):
        process = subprocess.Popen(
            [sys.executable, str(script), str(lake.directory)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.05 + 0.01 * turn)
        process.kill()
        process.wait(10)
        process.stdout.close()
    now = [time.time() + 1e6]
    Notifier(lake, Fake(), wall=lambda: now[0]).turn()
    numbers = [line["number"] for line in lines(target)]
    assert len(numbers) > 15
    assert numbers == list(range(1, len(numbers) + 1))
