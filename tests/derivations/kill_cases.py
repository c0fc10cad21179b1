"""Killed anywhere, a view is at its old vector with the old rows or at the new one with the new."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import belvedere as bv
from belvedere.algebra.relations import Hash
from belvedere.rules.sample import predicate
from belvedere.views import parts
from tests.views.comparison import assert_all_fresh, assert_same

SCRIPT = Path(__file__).with_name("kill_script.py")
FEED = "USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"

VIEWS = {
    "k_sum": "SELECT r.k, count(*) AS n, sum(c) AS total FROM {r} JOIN {s} ON r.k = s.k GROUP BY r.k",
    "k_max": "SELECT b, max(a) AS top FROM {r} GROUP BY b",
    "k_float": "SELECT DISTINCT CAST(a AS DOUBLE) / 2 AS half FROM {r}",
    "k_part": """SELECT r.k, a, total FROM {r}
                 JOIN (SELECT k, sum(c) AS total FROM {s} GROUP BY k) AS t ON r.k = t.k""",
    "k_none": "SELECT k, c FROM {s} WHERE c < 0",
    "k_full": "SELECT k, count(*) AS n FROM {r} GROUP BY k",
}
_HASHED = predicate(("k",), Hash(0, 0.5), {"k": "bigint"}).sql()
SAMPLES = {
    "k_sum_sample": f"SELECT * FROM ({VIEWS['k_sum']}) WHERE {_HASHED}",
    "k_sum_outliers": f"SELECT * FROM ({VIEWS['k_sum']}) WHERE k IN"
    " (SELECT r.k FROM {r} JOIN {s} ON r.k = s.k WHERE a >= 48)",
}
"""Samples are views, and soundly killed as they are."""


@dataclass(frozen=True)
class Kill:
    """Where a victim dies: at a step, or after some seconds."""

    step: str = ""
    when: str = ""
    seconds: float = 0.0


def fill(lake: bv.Lake) -> None:
    lake.sql(f"CREATE TABLE r (k BIGINT, a BIGINT, b STRING) {FEED}")
    lake.sql(f"CREATE TABLE s (k BIGINT, c BIGINT) {FEED}")
    lake.sql("INSERT INTO s SELECT id % 8, id FROM range(16)")
    lake.sql("INSERT INTO r SELECT id % 7, id, 'first' FROM range(50)")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "LARGE", 0)
        patch.setattr(parts, "REDUCES", 0)
        for name, query in VIEWS.items():
            lake.sql(f"CREATE MATERIALIZED VIEW {name} AS {query.format(r='r', s='s')}")
        lake.sql("ALTER MATERIALIZED VIEW k_full SET REFRESH POLICY FULL")
    lake.sql("CREATE SAMPLE ON k_sum RATIO 50 PERCENT OUTLIERS ON r.a ABOVE 48")


def run_kills(lake: bv.Lake, where: str, kills: Iterable[Kill]) -> None:
    """Each kill leaves every view sound, and what the next victim refreshes, too."""
    planned = list(kills)
    victims = _victims(where, planned)
    for number, kill in enumerate(planned):
        victim = next(victims)
        _change(lake, number)
        assert victim.stdin is not None
        victim.stdin.write("go\n")
        victim.stdin.flush()
        _end(victim, kill)
        check_sound(lake)
    lake.refresh()
    every = {**VIEWS, **SAMPLES}
    assert_all_fresh(lake, {v: q.format(r="r", s="s") for v, q in every.items()})


def random_kills(count: int, longest: float) -> list[Kill]:
    dice = random.Random(20240229)
    return [Kill(seconds=dice.uniform(0.0, longest)) for _ in range(count)]


def _victims(where: str, kills: list[Kill]) -> Iterator[subprocess.Popen[str]]:
    """A victim for each kill; while one is killed and checked, the next is getting ready."""
    waiting = [_start(where, k) for k in kills[:1]]
    for number in range(len(kills)):
        if number + 1 < len(kills):
            waiting.append(_start(where, kills[number + 1]))
        victim = waiting[number]
        assert victim.stdout is not None
        assert victim.stdout.readline() == "ready\n"
        yield victim


def _start(where: str, kill: Kill) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), where, *([kill.step, kill.when] if kill.step else [])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def _end(victim: subprocess.Popen[str], kill: Kill) -> None:
    if kill.step:
        # One that does not come to its step ends with its refresh.
        assert victim.stdin is not None
        victim.stdin.close()
        assert victim.wait(timeout=120) == -signal.SIGKILL, kill
        return
    time.sleep(kill.seconds)
    os.killpg(victim.pid, signal.SIGKILL)
    victim.wait()


@contextmanager
def companion(where: str) -> Iterator[subprocess.Popen[str]]:
    """A process that refreshes all views whenever it is told to."""
    process = _start(where, Kill())
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _change(lake: bv.Lake, number: int) -> None:
    lake.sql(f"INSERT INTO r SELECT id % 7, id * {number}, 'n{number}' FROM range(20)")
    if number % 2:
        lake.sql(f"DELETE FROM r WHERE a % 5 = {number % 5}")
    else:
        lake.sql(f"UPDATE s SET c = c + 1 WHERE k = {number % 7}")


def check_sound(lake: bv.Lake) -> None:
    """Every view equals its query at its vector; what a dead client left running may still end."""
    for state in lake.status():
        for attempt in range(5):
            at = {t.split(".")[-1].strip("`"): v for t, v in state.vector.items()}
            named = {t: f"{t} VERSION AS OF {v} AS {t}" for t, v in at.items()}
            name = state.name.split(".")[-1].strip("`")
            query = {**VIEWS, **SAMPLES}[name].format(**{"r": "", "s": "", **named})
            try:
                assert_same(lake.view(state.name).df(), lake.sql(query), state.name)
                break
            except AssertionError:
                now = next(s for s in lake.status() if s.name == state.name)
                if now.vector == state.vector or attempt == 4:
                    raise
                state = now
