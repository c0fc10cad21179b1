"""Upkeep without Spark: small changes, many sketches of one table, states that are saved late."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from belvedere.delta import lookups, small_changes
from belvedere.errors import Unsupported
from belvedere.joins.partitions import Partition
from belvedere.lake import lookup_cache
from belvedere.lake.pins import Pins
from belvedere.lake.tables import change_feed
from belvedere.sketches import service as services
from belvedere.sketches.capture.blocks import sketch_block
from belvedere.sketches.engine.bloom_filters import Bloom
from belvedere.sketches.live import load
from belvedere.sketches.safety.planning import SketchPlanner
from belvedere.sketches.service import Service
from belvedere.sketches.use.selections import any_of, selection
from belvedere.sql.binder.bind import bind
from belvedere.sql.statements.sketches import CreateSketch
from tests import small_lake
from tests.sketches.without_spark import door_to, service_with, sketch_now, write
from tests.sql.shop import Shop

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
    done = service.refresh("hot")
    assert (done.strategy, done.rows_changed) == ("merge", 3)
    assert service.live("hot").bitmaps[0].tolist() == sketch_now(door, HOT, CUT).tolist()
    assert service.refresh("hot").strategy == "nothing"


def test_changes_too_large_for_a_view_are_not_for_a_sketch(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_changes, "ROWS_AT_MOST", 5)
    door = door_to(home)
    service = service_with(door, hot=(HOT, CUT))
    write(home, "r", g=[3] * 50, v=list(range(50)))
    done = service.refresh("hot")
    assert (done.strategy, done.rows_changed) == ("merge", 50)
    assert service.live("hot").bitmaps[0].tolist() == sketch_now(door, HOT, CUT).tolist()


def test_one_change_is_read_once_for_all_sketches(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = door_to(home)
    service = service_with(door, hot=(HOT, CUT), many=(MANY, CUT))
    write(home, "r", g=[7] * 5, v=[9] * 5)
    read = []
    real = change_feed.signed_arrow
    monkeypatch.setattr(change_feed, "signed_arrow", lambda *a: read.append(a) or real(*a))
    done = service.refresh_all()
    assert [d.name for d in done] == ["hot", "many"]
    assert len(read) == 1
    for name, text in (("hot", HOT), ("many", MANY)):
        assert service.live(name).bitmaps[0].tolist() == sketch_now(door, text, CUT).tolist()


WHERE = "SELECT g, count(*) AS n FROM r WHERE v >= 10 AND g + v > 3 GROUP BY g HAVING count(*) > 3"


def test_rows_that_no_sketch_can_use_are_gone_before_changes_are_netted(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = door_to(home)
    service = service_with(door, some=(WHERE, CUT), many=(MANY, CUT))
    netted = []
    real = change_feed.net_arrow
    monkeypatch.setattr(
        change_feed, "net_arrow", lambda r, c: netted.append(r.num_rows) or real(r, c)
    )
    for together in (False, True):
        write(home, "r", g=[7, 7, 7, 8, 9], v=[9, 11, 12, 10, 3])
        done = service.refresh_all() if together else [service.refresh(n) for n in ("some", "many")]
        assert {d.strategy for d in done} == {"merge"}
        for name, text in (("some", WHERE), ("many", MANY)):
            assert service.live(name).bitmaps[0].tolist() == sketch_now(door, text, CUT).tolist()
    assert netted == [3, 5, 5]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SELECT r.b FROM r JOIN s ON r.a = s.x WHERE r.b > 3 AND s.y = 1", "`b` > 3"),
        ("SELECT r.b FROM r JOIN s ON r.a = s.x AND r.b < 5 WHERE r.a IN (1, 2)", "`b` < 5 AND `a` IN (1, 2)"),
        ("SELECT b FROM r WHERE NOT a = 2 AND a < b", "NOT `a` = 2 AND `a` < `b`"),
        ("SELECT b FROM r WHERE 1 / a > 2", None),
        ("SELECT b FROM r WHERE a > 1 UNION ALL SELECT a FROM r WHERE b > 2", "`a` > 1 OR `b` > 2"),
        ("SELECT b FROM r WHERE a > 1 UNION ALL SELECT a FROM r", None),
        ("SELECT p.b FROM r p JOIN r q ON p.a = q.b WHERE p.a > 1", None),
    ],
)  # fmt: skip
def test_what_is_pushed_into_the_read_of_changes(text: str, wanted: str | None) -> None:
    q = bind(text, Shop({"r": "a int, b int", "s": "x int, y int"})).plan
    feeds = sketch_block(q, [Partition("r", "a", "int", (5,))]).feeds
    found = any_of([selection(f.plan, "r") for f in feeds])
    assert (None if found is None else str(found)) == wanted


def test_a_small_table_that_is_joined_with_stays_in_memory(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(home, "s", x=[1, 2, 3])
    door = door_to(home)
    service = service_with(door, joined=(JOINED, CUT))
    read = []
    real = lookups._whole
    monkeypatch.setattr(lookups, "_whole", lambda *a: read.append(a[0].name) or real(*a))
    for value in (1, 2, 3):
        write(home, "r", g=[33, 33], v=[value, value])
        assert service.refresh("joined").strategy == "merge"
    assert read == ["s"]
    write(home, "s", x=[7])
    write(home, "r", g=[34], v=[7])
    service.refresh("joined")
    assert service.live("joined").bitmaps[0].tolist() == sketch_now(door, JOINED, CUT).tolist()


def test_a_sketch_of_a_view_is_refused_with_what_to_write_instead(tmp_path: Path) -> None:
    door = door_to(small_lake.make(tmp_path))
    asked = CreateSketch("few", "SELECT owner, n FROM owners WHERE n > 1")
    with Pins(door) as pins, pytest.raises(Unsupported) as refused:
        SketchPlanner(door, pins, asked).plan()
    assert refused.value.reason == "SKETCH_OF_VIEW"
    assert "tables that the view reads" in refused.value.hint


JOINED = "SELECT r.g, count(*) AS n FROM r JOIN s ON r.v = s.x GROUP BY r.g HAVING count(*) > 1"


def test_changes_that_meet_no_key_are_gone_before_anything_is_looked_up(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(home, "s", x=list(range(0, 400_000, 2)))
    door = door_to(home)
    service = service_with(door, joined=(JOINED, CUT))
    before = service.live("joined")
    keys = Bloom.of(pa.array(range(0, 400_000, 2), pa.int64()))
    service.save("joined", replace(before, blooms={("s", "x"): keys}))
    monkeypatch.setattr(lookup_cache, "look_up", None)
    write(home, "r", g=[1, 2], v=[400_001, 400_003])
    done = service.refresh("joined")
    assert (done.strategy, done.details["engine_seconds"] < 1) == ("merge", True)
    assert service.live("joined").bitmaps[0].tolist() == before.bitmaps[0].tolist()
    monkeypatch.undo()
    write(home, "r", g=[33, 33], v=[4, 4])
    assert service.refresh("joined").strategy == "merge"
    assert service.live("joined").bitmaps[0].tolist() == sketch_now(door, JOINED, CUT).tolist()


def test_a_state_is_saved_when_enough_would_be_lost_and_at_the_end(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = door_to(home)
    service = service_with(door, hot=(HOT, CUT))
    monkeypatch.setattr(services, "LATER", 1e9)
    write(home, "r", g=[5], v=[50])
    service.refresh("hot")
    assert load(door, service._saves, "hot").vector["r"].version == 0
    monkeypatch.setattr(services, "LATER", 0.0)
    write(home, "r", g=[6], v=[50])
    service.refresh("hot")
    assert load(door, service._saves, "hot").vector["r"].version == 2
    monkeypatch.setattr(services, "LATER", 1e9)
    write(home, "r", g=[8], v=[50])
    service.refresh("hot")
    service.close()
    assert load(door, service._saves, "hot").vector["r"].version == 3


def test_what_was_not_saved_is_read_again_from_the_changes(home: Path) -> None:
    door = door_to(home)
    service = service_with(door, hot=(HOT, CUT))
    write(home, "r", g=[5], v=[50])
    service.refresh("hot")
    write(home, "r", g=[6, 6], v=[50, -60])
    again = Service(door)  # as after a kill: nothing was let go of
    assert again.refresh("hot").strategy == "merge"
    assert again.live("hot").bitmaps[0].tolist() == sketch_now(door, HOT, CUT).tolist()


KILLED = """
import sys
from pathlib import Path
from belvedere.sketches import service as services
from belvedere.sketches.capture.blocks import sketch_block
from tests.sql.shop import Shop
from tests.sketches.without_spark import door_to, write
services.LATER = 0.0
home = Path(sys.argv[1])
service = services.Service(door_to(home))
print("ready", flush=True)
for i in range(10_000):
    write(home, "r", g=[i % 40], v=[i % 30])
    service.refresh("hot")
"""


@pytest.mark.soak
@pytest.mark.parametrize("after", [0.0, 0.03, 0.1, 0.2, 0.35, 0.5])
def test_killed_at_any_moment_the_state_is_an_old_one_or_the_new(home: Path, after: float) -> None:
    door = door_to(home)
    service_with(door, hot=(HOT, CUT)).close()
    paths = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
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
    service.refresh("hot")
    assert service.live("hot").bitmaps[0].tolist() == sketch_now(door, HOT, CUT).tolist()
