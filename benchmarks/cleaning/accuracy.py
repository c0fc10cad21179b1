"""How near answers from stale views are, in DuckDB and numpy: join view, complex views, cube, outliers, log."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from multiprocessing import get_context
from typing import Any

import duckdb
import numpy as np

from benchmarks.cleaning.join_view import deviations, join_view, sampled, state
from benchmarks.cleaning.other_views import complex_views, cube, log_views, outliers
from benchmarks.cleaning.queries import HEADLINE, QUERIES
from benchmarks.data.skewed_tpch import STREAMS, generate, register

RATIO = 0.1


def accuracy(scale: float, instances: int, *, quick: bool) -> dict[str, Any]:
    """Everything that needs no Spark: the join view here, the other views in a process beside."""
    found: dict[str, Any] = {"scale": scale, "z": 2, "ratio": RATIO, "instances": instances}
    with ProcessPoolExecutor(1, get_context("spawn")) as beside:
        others = beside.submit(other_views, scale / 2 if quick else scale, quick=quick)
        connection = duckdb.connect()
        connection.execute("SET threads = 2; SET enable_progress_bar = false")
        data = generate(scale, 2)
        register(connection, data, "old")
        found |= join_view(connection, data, instances)
        _said(found, "join view")
        found |= crossover(connection, data, quick=quick)
        _said(found, "crossover")
        return found | others.result()


def other_views(scale: float, *, quick: bool) -> dict[str, Any]:
    """The complex views, the cube, outliers, the activity log."""
    found: dict[str, Any] = {}
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "complex views": lambda: complex_views(scale, 100),
        "cube": lambda: cube(scale),
        "outliers": lambda: outliers(scale, (2, 4) if quick else (1, 2, 3, 4)),
        "activity log": lambda: log_views(scale),
    }
    for name, part in parts.items():
        found |= part()
        _said({}, name)
    return found


def crossover(connection: Any, data: Any, *, quick: bool) -> dict[str, Any]:
    """Fig. 6b: the size of updates at which AQP overtakes CORR, by stream."""
    sizes = (
        (0.05, 0.2, 0.4, 0.7) if quick else (0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
    )
    curves: dict[str, list[tuple[float, float, float]]] = {}
    for stream in STREAMS[:3]:
        for share in sizes:
            state(connection, data, stream, share, ("new",))
            rng, both = np.random.default_rng(5), []
            for seed in range(1 if quick else 2):
                sampled(connection, 1000 + seed)
                for query in QUERIES:
                    found = query.name in HEADLINE and deviations(
                        connection, query, query.where(rng)
                    )
                    if found:
                        both.append(found)
            aqp, corr = np.median(np.array(both), axis=0)
            curves.setdefault(stream, []).append((share, float(aqp), float(corr)))
    return {"crossover_percent": {s: _crossing(c) for s, c in curves.items()}, "_fig6b": curves}


def _crossing(curve: list[tuple[float, float, float]]) -> float | None:
    """Where the errors of the two methods meet; None if they do not."""
    for (a, aqp, corr), (b, aqp2, corr2) in pairwise(curve):
        before, after = corr - aqp, corr2 - aqp2
        if before < 0 <= after:
            return round(100 * (a + (b - a) * before / (before - after)), 1)
    return None


def _said(found: dict[str, Any], what: str) -> None:
    shown = {k: v for k, v in found.items() if not k.startswith("_")}
    print(f"{what}, {time.process_time():.0f} s of processors: {json.dumps(shown)}", flush=True)
