"""Copies of tables that killed processes left are taken away, those in use are not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from belvedere.lake.sessions.scratch import sweep
from belvedere.storage.locks import lock, lock_file


def a_copy(lake: Path, name: str) -> Path:
    home = lake / ".belvedere" / f"scratch-{name}"
    (home / "t" / "_delta_log").mkdir(parents=True)
    (home / "t" / "part.parquet").write_text("rows")
    return home


def test_a_copy_whose_process_is_gone_goes_and_one_in_use_stays(tmp_path: Path) -> None:
    left, mine, theirs = (a_copy(tmp_path, name) for name in ("left", "mine", "theirs"))
    other = "import sys; from pathlib import Path; from belvedere.storage.locks import lock\n"
    other += "with lock(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", other, str(theirs)]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process,
        lock(mine),
    ):
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        sweep(tmp_path)
        assert not left.exists()
        assert not lock_file(left).exists()
        assert (mine / "t" / "part.parquet").exists()
        assert (theirs / "t" / "part.parquet").exists()
        process.kill()
    sweep(tmp_path)
    assert list((tmp_path / ".belvedere").iterdir()) == []


def test_a_lake_without_copies_is_left_alone(tmp_path: Path) -> None:
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []
