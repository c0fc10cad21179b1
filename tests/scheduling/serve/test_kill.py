"""The service under a bursty stream, killed again and again: nothing is lost, nothing told twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import belvedere as bv
from belvedere.scheduling.calibrate.fitting import FittedCost, MeasuredBatch
from belvedere.scheduling.model.cost_functions import LinearCost
from belvedere.scheduling.notify.subscriptions import Subscription, subscribe
from belvedere.scheduling.schedules import Calibration, save_calibration
from tests.scheduling.min_view import change_partsupp, change_supplier, make, recomputed, shown

pytestmark = [pytest.mark.spark, pytest.mark.soak]

KILLS = 4


def start(directory: Path) -> tuple[subprocess.Popen[str], int]:
    """The service, once it listens."""
    command = [sys.executable, "-m", "belvedere", "--lake", str(directory), "serve", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--every", "0.2"], stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("keeping min_cost"), line
    return process, int(line.rsplit(":", 1)[1])


def answer(port: int) -> dict[str, object]:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/refresh/min_cost", b"", method="POST"
    )
    with urllib.request.urlopen(request, timeout=120) as response:
        found: dict[str, object] = json.load(response)
        return found


def burst(lake: bv.Lake, turn: int) -> None:
    for more in range(random.Random(turn).choice((1, 1, 3))):
        change_partsupp(lake, 10 * turn + more)
    if turn % 2:
        change_supplier(lake, turn)


def test_killed_again_and_again_it_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    directory, told = tmp_path / "lake", tmp_path / "told.jsonl"
    with make(directory) as lake:
        lake.sql("ALTER MATERIALIZED VIEW min_cost SET RESPONSE LIMIT 60 SECONDS")
        fits = tuple(
            FittedCost(cost, 0.0, (MeasuredBatch(1, cost(1)),))
            for cost in (LinearCost(0.01, 1.0), LinearCost(1.0, 2.0))
        )
        save_calibration(lake._door, "min_cost", Calibration(("partsupp", "supplier"), fits))
        subscribe(
            lake._door,
            Subscription("s", "min_cost", "SELECT cost FROM min_cost", every=1.0, jsonl=str(told)),
        )
        late: list[dict[str, object]] = []
        for turn in range(KILLS):
            process, port = start(directory)
            for more in range(3):
                burst(lake, 3 * turn + more)
            found = answer(port)
            if float(str(found["seconds"])) > 60:
                late.append(found)
            time.sleep(random.Random(turn).random() * 3)
            process.send_signal(signal.SIGKILL)
            process.wait(30)
            with pytest.raises(urllib.error.URLError):
                answer(port)
        assert [f for f in late if not f["violation"]] == []
        process, port = start(directory)
        burst(lake, 99)
        answer(port)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert shown(lake) == recomputed(lake)
        (status,) = lake.status()
        assert status.fresh
    numbers = [json.loads(line)["number"] for line in told.read_text().splitlines()[1:]]
    assert len(numbers) >= KILLS
    assert numbers == list(range(1, len(numbers) + 1))
