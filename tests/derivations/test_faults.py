"""What goes wrong around a refresh: no space, no right to write, no memory, others at work.

After each, every view equals its query at its vector and the next refresh is right.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from deltalake import DeltaTable

import belvedere as bv
from belvedere.lake.pins import Pins
from belvedere.lake.writes import upkeep
from belvedere.storage import locks
from belvedere.views.refresh import refresh
from tests.derivations.kill_cases import VIEWS, check_sound, companion, fill
from tests.views.comparison import assert_all_fresh

pytestmark = pytest.mark.spark

MORE = "INSERT INTO r SELECT id % 7, id, 'more' FROM range(1000)"


@pytest.fixture
def lake(spark: object, tmp_path: Path) -> Iterator[bv.Lake]:
    with bv.connect(tmp_path / "lake") as lake:
        fill(lake)
        yield lake


@pytest.mark.parametrize("full", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_a_full_disk(
    lake: bv.Lake, tmp_path: Path, full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.sql(MORE)
    with files_no_longer_than(600), pytest.raises(bv.Unable, match="the disk is full") as caught:
        lake.refresh(full=full)
    assert caught.value.reason == "DISK_FULL"
    recovered(lake)
    kept_up(lake, monkeypatch)
    assert litter(tmp_path) == []


@pytest.mark.soak
def test_a_new_view_on_a_full_disk(
    lake: bv.Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with files_no_longer_than(600), pytest.raises(bv.Unable, match="the disk is full"):
        lake.sql("CREATE MATERIALIZED VIEW late AS SELECT k, count(*) AS n FROM r GROUP BY k")
    assert "late" not in {state.name for state in lake.status()}
    lake.sql("CREATE MATERIALIZED VIEW late AS SELECT k, count(*) AS n FROM r GROUP BY k")
    lake.sql("DROP MATERIALIZED VIEW late")
    recovered(lake)
    kept_up(lake, monkeypatch)
    assert litter(tmp_path) == []


@pytest.mark.soak
def test_storage_that_cannot_be_written(lake: bv.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.sql(MORE)

    def refused(path: Path, *_: object) -> int:
        raise OSError(30, os.strerror(30), str(path))

    with monkeypatch.context() as patch:
        patch.setattr(locks.os, "open", refused)
        with pytest.raises(bv.Unable, match="cannot be written") as caught:
            lake.refresh()
    assert caught.value.reason == "READ_ONLY"
    recovered(lake)


@pytest.mark.soak
def test_a_spark_that_runs_out_of_memory(lake: bv.Lake, tmp_path: Path) -> None:
    lake.sql(MORE)
    victim = subprocess.run(
        [sys.executable, "-c", EATER, str(tmp_path / "lake")],
        capture_output=True,
        env={**os.environ, "BELVEDERE_SPARK": "spark.driver.memory=1g spark.master=local[2]"},
        text=True,
        timeout=180,
        check=False,
    )
    assert victim.stdout.splitlines()[-1:] == ["OUT_OF_MEMORY"], victim.stderr[-2000:]
    recovered(lake)


@pytest.mark.soak
def test_a_writer_that_never_rests(lake: bv.Lake) -> None:
    done = threading.Event()
    failed: list[BaseException] = []

    def hammer() -> None:
        number = 0
        while not done.is_set():
            number += 1
            try:
                lake.sql(f"INSERT INTO r SELECT id % 7, id, 'n{number}' FROM range(5)")
                if number % 3 == 0:
                    lake.sql(f"DELETE FROM r WHERE b = 'n{number - 2}'")
            except Exception as error:
                failed.append(error)

    writer = threading.Thread(target=hammer)
    writer.start()
    try:
        for _ in range(3):
            lake.refresh()
            check_sound(lake)
    finally:
        done.set()
        writer.join()
    assert failed == []
    recovered(lake)


@pytest.mark.soak
def test_two_processes_refresh_the_same_views(lake: bv.Lake, tmp_path: Path) -> None:
    with companion(str(tmp_path / "lake")) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        for number in range(4):
            lake.sql(f"INSERT INTO r SELECT id % 7, id * {number}, 'two' FROM range(20)")
            other.stdin.write("go\n")
            other.stdin.flush()
            lake.refresh()
            assert other.stdout.readline() == "refreshed\n"
            check_sound(lake)
    recovered(lake)


@pytest.mark.soak
def test_a_call_that_looked_at_a_table_before_someone_else_refreshed(lake: bv.Lake) -> None:
    door = lake._door
    with Pins(door) as pins:
        pins.table("r")
        lake.sql(MORE)
        lake.refresh("k_max")
        assert refresh(door, "k_max", pins=pins).strategy == "nothing"
    recovered(lake)


EATER = """
import sys
import belvedere as bv
lake = bv.connect(sys.argv[1])
lake.refresh("k_max")
try:
    lake.sql("CREATE MATERIALIZED VIEW eater AS SELECT k, length(repeat('x', 1500000000)) AS n FROM r")
except bv.BelvedereError as error:
    print(error.reason)
"""


def recovered(lake: bv.Lake) -> None:
    """Every view is sound, and fresh after a refresh."""
    check_sound(lake)
    lake.refresh()
    assert_all_fresh(lake, {v: q.format(r="r", s="s") for v, q in VIEWS.items()})


def kept_up(lake: bv.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The upkeep that comes every so many refreshes, with nothing to be kept for readers of old versions."""
    assert lake._door.directory is not None
    for stored in lake._door.directory.glob("__bv*"):
        lake.spark.sql(
            f"ALTER TABLE delta.`{stored}` SET TBLPROPERTIES"
            " ('delta.deletedFileRetentionDuration' = 'interval 0 seconds')"
        )
    lake.sql(MORE)
    lake.sql("INSERT INTO s SELECT * FROM s LIMIT 5")
    with monkeypatch.context() as patch:
        patch.setattr(upkeep, "EVERY", 1)
        lake.refresh()
    assert_all_fresh(lake, {v: q.format(r="r", s="s") for v, q in VIEWS.items()})


def litter(directory: Path) -> list[Path]:
    """Temporary files, and files of stored tables that their newest version does not have."""
    found = [path for path in directory.rglob("*") if path.is_file() and "tmp" in path.name]
    for root in directory.rglob("__bv*"):
        if (root / "_delta_log").exists():
            used = {Path(uri) for uri in DeltaTable(str(root)).file_uris()}
            found += [path for path in root.glob("*.parquet") if path not in used]
    return found


@contextmanager
def files_no_longer_than(size: int) -> Iterator[None]:
    """As if the disk were full: no file of this process or of Spark can grow beyond that size."""
    processes = [os.getpid(), *_children(os.getpid())]
    limits = {p: resource.prlimit(p, resource.RLIMIT_FSIZE) for p in processes}
    try:
        for process, (_, hard) in limits.items():
            resource.prlimit(process, resource.RLIMIT_FSIZE, (size, hard))
        yield
    finally:
        for process, limit in limits.items():
            resource.prlimit(process, resource.RLIMIT_FSIZE, limit)


def _children(process: int) -> list[int]:
    found = []
    for path in Path("/proc").glob(f"{process}/task/*/children"):
        for child in map(int, path.read_text().split()):
            found += [child, *_children(child)]
    return found
