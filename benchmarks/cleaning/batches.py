"""Cleaning beside periodic refreshes on Spark: batches, two threads, errors, idle time (Fig. 14–16).

The tables are a generated activity log; the views are two of the eight, V2 (bytes by resource,
client and day) and V5 (errors by region, provider and day, over groups of clients). Fig. 14a is
how many rows a second refreshes take in, by the size of a batch; 14b the same while cleanings run
in another thread. Fig. 15 sets periodic refreshes alone beside refreshes and cleanings for as
long: the largest error of a sum in either run, and what the simulator makes of the costs for other
ratios. Fig. 16 is how busy the processors were meanwhile.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import belvedere as bv
from belvedere.samples.periodic import (
    JobCost,
    MaintenanceLoad,
    PeriodicPlan,
    best_plan,
    refreshes_only,
    run_plan,
    with_cleanings,
)
from benchmarks.cleaning.on_spark import timed

VIEWS = {
    "V2": "SELECT resource, client, day, sum(bytes) AS b, count(*) AS n FROM log"
    " GROUP BY resource, client, day",
    "V5": "SELECT region, provider, day, sum(e) AS b FROM (SELECT region, provider, client, day,"
    " sum(CASE WHEN error > 9 THEN 1 ELSE 0 END) AS e FROM log"
    " GROUP BY region, provider, client, day) GROUP BY region, provider, day",
}
RATIO = 0.1
BATCHES = (0.001, 0.005, 0.02, 0.1)
"""Shares of the log's rows."""


def batches(rows: int, cache: Path, seconds: float) -> dict[str, Any]:
    """Everything, on a log of so many rows; each run beside the other takes so many seconds."""
    found: dict[str, Any] = {"rows": rows, "batch_rows": [int(rows * b) for b in BATCHES]}
    with _log(rows, cache) as lake:
        for name, text in VIEWS.items():
            lake.sql(f"CREATE MATERIALIZED VIEW {name} REFRESH POLICY INCREMENTAL AS {text}")
            lake.sql(f"CREATE SAMPLE ON {name} RATIO {100 * RATIO:g} PERCENT")
            _arrive(lake, 1000)
            lake.clean(name)
            lake.refresh(name)  # both warm up
            one = {"alone": [_refresh(lake, name, int(rows * b)) for b in BATCHES]}
            with _cleaning(lake, name):
                one["with_cleaning"] = [_refresh(lake, name, int(rows * b)) for b in BATCHES]
            one["clean"] = [_clean(lake, name, int(rows * b)) for b in BATCHES]
            print(name, one, flush=True)
            found[name] = {**one, **_beside(lake, name, found["batch_rows"], one, seconds)}
            lake.sql(f"DROP MATERIALIZED VIEW {name}")
    return found


def _refresh(lake: bv.Lake, view: str, rows: int) -> float:
    """Seconds to refresh a view after so many rows came."""
    _arrive(lake, rows)
    return round(timed(lambda: lake.refresh(view)), 2)


def _clean(lake: bv.Lake, view: str, rows: int) -> float:
    """Seconds to clean a sample after so many rows came; the view is refreshed too."""
    _arrive(lake, rows)
    took = timed(lambda: lake.clean(view))
    lake.refresh(view)
    return round(took, 2)


@contextmanager
def _cleaning(lake: bv.Lake, view: str) -> Iterator[None]:
    """Cleanings, one after the other, in another thread."""
    ended = threading.Event()

    def work() -> None:
        while not ended.is_set():
            lake.clean(view)
            ended.wait(0.1)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@dataclass
class _Errors:
    """The largest error of a view's sum, as people asking between jobs would have met it."""

    lake: bv.Lake
    view: str
    estimates: bool
    largest: float = 0.0

    def asked(self) -> None:
        """One more question."""
        query = f"SELECT sum(b) AS b FROM {self.view}"
        inner = VIEWS[self.view]
        truth = float(self.lake.sql(f"SELECT sum(b) FROM ({inner})").collect()[0][0])
        if self.estimates and self._sample_is_newer():
            answer = self.lake.estimate(query, clean=False).arrow()["b"][0].as_py()
        else:
            answer = self.lake.sql(query).collect()[0][0]
        self.largest = max(self.largest, abs(float(answer) - truth) / truth)

    def _sample_is_newer(self) -> bool:
        """Whether the sample knows of rows that the view does not: it answers no other questions."""
        at = {s.name.lower(): max(s.vector.values()) for s in self.lake.status()}
        return at[f"{self.view.lower()}_sample"] > at[self.view.lower()]


def _beside(
    lake: bv.Lake, view: str, rows: list[int], one: dict[str, list[float]], seconds: float
) -> dict[str, Any]:
    """Fig. 15 and 16: refreshes alone, and with cleanings, in real runs and by the simulator."""
    refresh = JobCost.fitted(list(zip(rows, one["alone"], strict=True)))
    clean = JobCost.fitted(list(zip(rows, one["clean"], strict=True)))
    # Rows come at a rate that refreshes alone keep up with in a tenth of their time and more.
    rate = rows[1] / max(refresh(rows[1]), 1e-9)
    load = MaintenanceLoad(rate, refresh, JobCost(clean.fixed, clean.per_row / RATIO))
    ratios = np.geomspace(0.01, 1, 13)
    curve = [
        (
            round(float(r), 3),
            round(min(with_cleanings(load, float(r), s).error for s in _SHARES), 1),
        )
        for r in ratios
    ]
    only, plan = refreshes_only(load), best_plan(load)
    runs = {
        "alone": _ran(lake, view, only, rate, seconds, estimates=False),
        "together": _ran(lake, view, with_cleanings(load, RATIO), rate, seconds, estimates=True),
    }
    return {
        "rate": round(rate),
        "best_ratio": round(plan.ratio, 3),
        "simulated_error_alone": round(only.error, 1),
        "simulated_error_by_ratio": curve,
        "simulated_gain": round(only.error / plan.error, 2),
        "runs": runs,
        "measured_gain": round(runs["alone"]["max_error"] / runs["together"]["max_error"], 2),
    }


_SHARES = (0.5, 0.6, 0.7, 0.8, 0.9)


def _ran(
    lake: bv.Lake, view: str, plan: PeriodicPlan, rate: float, seconds: float, *, estimates: bool
) -> dict[str, Any]:
    """One run of a plan: what it did, the largest error, how busy the processors were."""
    lake.refresh(view)
    lake.clean(view)
    errors, last = _Errors(lake, view, estimates), [0.0]

    def arrive(now: float) -> None:
        _arrive(lake, max(int(rate * (now - last[0])), 1))
        errors.asked()
        last[0] = now

    with _busy() as busy:
        steps = run_plan(lake, view, plan, seconds, arrive)
    kinds = [s.what for s in steps]
    return {
        "refreshes": kinds.count("refresh"),
        "cleanings": kinds.count("clean"),
        "max_error": round(errors.largest, 5),
        "busy": [round(b, 2) for b in busy],
    }


@contextmanager
def _busy() -> Iterator[list[float]]:
    """The share of processor time that was not idle, second by second."""
    found, ended = list[float](), threading.Event()

    def look() -> tuple[int, int]:
        numbers = [int(x) for x in Path("/proc/stat").read_text().split("\n")[0].split()[1:]]
        return sum(numbers), numbers[3] + numbers[4]

    def work(look: Callable[[], tuple[int, int]]) -> None:
        before = look()
        while not ended.wait(1.0):
            now = look()
            found.append(1 - (now[1] - before[1]) / max(now[0] - before[0], 1))
            before = now

    thread = threading.Thread(target=work, args=(look,))
    thread.start()
    try:
        yield found
    finally:
        ended.set()
        thread.join()


@contextmanager
def _log(rows: int, cache: Path) -> Iterator[bv.Lake]:
    home = cache / f"cleaning-log-{os.getpid()}"
    shutil.rmtree(home, ignore_errors=True)
    with bv.connect(home) as lake:
        lake.sql(f"CREATE TABLE log AS {_rows(0, rows)}")
        lake.enable_change_feed("log")
        yield lake
    shutil.rmtree(home, ignore_errors=True)


def _arrive(lake: bv.Lake, rows: int) -> None:
    """New rows of the log, of the same kind as the others."""
    first = int(lake.sql("SELECT max(id) FROM log").collect()[0][0]) + 1
    lake.sql(f"INSERT INTO log {_rows(first, rows)}")


def _rows(first: int, rows: int) -> str:
    """Rows by their number: popular resources and clients, a few large transfers."""
    share = "(abs(hash(id, {})) % 1000003 / 1000003.0D)"
    skewed = f"CAST(pow({share}, 3) * {{}} AS int)"
    return (
        f"SELECT id, {skewed.format(1, 2000)} AS resource, {skewed.format(2, 5000)} AS client,"
        f" CAST(abs(hash(id, 3)) % 90 AS int) AS day,"
        f" CAST(1000 / (0.01D + {share.format(4)}) AS bigint) AS bytes,"
        f" CAST(abs(hash(id, 5)) % 12 AS int) AS error,"
        f" CAST(abs(hash(id, 6)) % 40 AS int) AS region,"
        f" CAST(abs(hash(id, 7)) % 30 AS int) AS provider"
        f" FROM range({first}, {first + rows})"
    )
