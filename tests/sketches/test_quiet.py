"""Upkeep without Spark: small changes, many sketches of one table, states that are saved late."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from belvedere.lake import feed
from belvedere.sketches import service as services
from belvedere.sketches.live import load
from belvedere.sketches.partitions import Partition
from belvedere.sketches.service import Service
from sketches.quiet import door_to, service_with, sketch_now, write

CUT = Partition("r", "g", "bigint", tuple(range(1, 40)))
HOT = "SELECT g, sum(v) AS s FROM r GROUP BY g HAVING sum(v) > 20"
MANY = "SELECT g, count(*) AS n FROM r GROUP BY g HAVING count(*) > 3"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A table of 40 groups."""
    write(tmp_path, "r", g=[i % 40 for i in range(100)], v=[i % 17 for i in range(100)])
    return tmp_path


def test_a_small_refresh_asks_nothing_of_spark(home: Path) -> None:
    door = door_to(home)
    service = service_with(door, hot=(HOT, CUT))
    write(home, "r", g=[3, 3, 50], v=[30, 1, 99])
    done = service.brought("hot")
    assert (done.strategy, done.rows) == ("maintain", 3)
    assert service.live("hot").bitmaps[0].tolist() == sketch_now(door, HOT, CUT).tolist()
    assert service.brought("hot").strategy == "nothing"


def test_one_change_is_read_once_for_all_sketches(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = door_to(home)
    service = service_with(door, hot=(HOT, CUT), many=(MANY, CUT))
    write(home, "r", g=[7] * 5, v=[9] * 5)
    read = []
    real = feed.signed_arrow
    monkeypatch.setattr(feed, "signed_arrow", lambda *a: read.append(a) or real(*a))
    done = service.all_brought()
    assert [d.sketch for d in done] == ["hot", "many"]
    assert len(read) == 1
    for name, text in (("hot", HOT), ("many", MANY)):
        assert service.live(name).bitmaps[0].tolist() == sketch_now(door, text, CUT).tolist()


def test_a_state_is_saved_when_enough_would_be_lost_and_at_the_end(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = door_to(home)
    service = service_with(door, hot=(HOT, CUT))
    monkeypatch.setattr(services, "LATER", 1e9)
    write(home, "r", g=[5], v=[50])
    service.brought("hot")
    assert load(door, service._saves, "hot").vector["r"].version == 0
    monkeypatch.setattr(services, "LATER", 0.0)
    write(home, "r", g=[6], v=[50])
    service.brought("hot")
    assert load(door, service._saves, "hot").vector["r"].version == 2
    monkeypatch.setattr(services, "LATER", 1e9)
    write(home, "r", g=[8], v=[50])
    service.brought("hot")
    service.close()
    assert load(door, service._saves, "hot").vector["r"].version == 3


def test_what_was_not_saved_is_read_again_from_the_changes(home: Path) -> None:
    door = door_to(home)
    service = service_with(door, hot=(HOT, CUT))
    write(home, "r", g=[5], v=[50])
    service.brought("hot")
    write(home, "r", g=[6, 6], v=[50, -60])
    again = Service(door)  # as after a kill: nothing was let go of
    assert again.brought("hot").strategy == "maintain"
    assert again.live("hot").bitmaps[0].tolist() == sketch_now(door, HOT, CUT).tolist()


KILLED = """
import sys
from pathlib import Path
from belvedere.sketches import service as services
from sketches.quiet import door_to, write
services.LATER = 0.0
home = Path(sys.argv[1])
service = services.Service(door_to(home))
print("ready", flush=True)
for i in range(10_000):
    write(home, "r", g=[i % 40], v=[i % 30])
    service.brought("hot")
"""


@pytest.mark.soak
@pytest.mark.parametrize("after", [0.0, 0.03, 0.1, 0.2, 0.35, 0.5])
def test_killed_at_any_moment_the_state_is_an_old_one_or_the_new(home: Path, after: float) -> None:
    door = door_to(home)
    service_with(door, hot=(HOT, CUT)).close()
    paths = os.pathsep.join([str(Path(__file__).parent.parent), *sys.path])
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(home)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(after + 0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    saved = load(door, Service(door)._saves, "hot")  # raises if it is neither
    assert 0 <= saved.vector["r"].version <= door.table("r").version
    service = Service(door)
    service.brought("hot")
    assert service.live("hot").bitmaps[0].tolist() == sketch_now(door, HOT, CUT).tolist()
