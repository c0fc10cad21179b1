"""Killed anywhere, a view is at its old vector with the old rows or at the new one with the new."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import belvedere as bv
from views.comparison import assert_fresh, assert_same

pytestmark = pytest.mark.spark

KILLS = int(os.environ.get("BELVEDERE_KILLS", "2"))

VIEWS = {
    "v_sum": "SELECT r.k, count(*) AS n, sum(c) AS total FROM {r} JOIN {s} ON r.k = s.k GROUP BY r.k",
    "v_rows": "SELECT r.k, a, c FROM {r} LEFT JOIN {s} ON r.k = s.k AND a > 50",
    "v_max": "SELECT b, max(a) AS top FROM {r} GROUP BY b",
}


def test_a_killed_refresh_leaves_rows_and_vector_together(tmp_path: Path) -> None:
    directory = tmp_path / "lake"
    with bv.connect(directory) as lake:
        lake.sql("CREATE TABLE r (k BIGINT, a BIGINT, b STRING)")
        lake.sql("CREATE TABLE s (k BIGINT, c BIGINT)")
        lake.sql("INSERT INTO s SELECT id % 8, id FROM range(16)")
        lake.sql("INSERT INTO r SELECT id % 7, id, 'first' FROM range(50)")
        for name, query in VIEWS.items():
            lake.sql(f"CREATE MATERIALIZED VIEW {name} AS {query.format(r='r', s='s')}")
    dice = random.Random(20240229)
    for _ in range(KILLS):
        _kill_one(directory, dice)
        with bv.connect(directory) as lake:
            for state in lake.status():
                at = {t: f"{t} VERSION AS OF {v} AS {t}" for t, v in state.vector.items()}
                query = VIEWS[state.name].format(**{"r": "", "s": "", **at})
                assert_same(lake.view(state.name).df(), lake.sql(query), state.name)
            lake.refresh()
            for name, query in VIEWS.items():
                assert_fresh(lake, name, query.format(r="r", s="s"))


def _kill_one(directory: Path, dice: random.Random) -> None:
    """Start a process that refreshes, and kill it and its JVM at a random moment."""
    script = Path(__file__).with_name("kill_script.py")
    victim = subprocess.Popen(
        [sys.executable, str(script), str(directory)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert victim.stdout is not None
    for _ in range(dice.randint(1, 3)):
        assert victim.stdout.readline() == "changed\n"
    time.sleep(dice.uniform(0.0, 5.0))
    os.killpg(victim.pid, signal.SIGKILL)
    victim.wait()
