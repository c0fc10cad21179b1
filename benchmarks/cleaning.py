"""Fresh answers from stale views, measured: accuracy in DuckDB and numpy, cleaning on Spark.

    python -m benchmarks.cleaning --quick      accuracy at a small scale, no Spark
    python -m benchmarks.cleaning              accuracy at a larger one, and more of it
    python -m benchmarks.cleaning --spark join cube batches [--scale 1] [--minutes 5] [--shares …]

The accuracy runs use the library's estimators on views computed by DuckDB; what is measured there
does not depend on the engine. On Spark, `join` and `cube` time cleaning beside refreshing, `batches`
runs both together. One JSON line comes last; `--figures DIR` draws what was run.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from benchmarks import cleaning_figures
from benchmarks.skewed import STREAMS, generate, register
from benchmarks.svc_join_view import deviations, join_view, sampled, state
from benchmarks.svc_queries import HEADLINE, QUERIES
from benchmarks.svc_views import complex_views, cube, log_views, outliers

RATIO = 0.1
CACHE = Path(".cache/benchmarks")


def main() -> None:
    """Run, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--spark", nargs="+", choices=("join", "cube", "batches"), default=())
    parser.add_argument("--scale", type=float)
    parser.add_argument(
        "--minutes", type=float, default=5, help="with --spark: when to begin no other round"
    )
    parser.add_argument(
        "--periodic",
        type=float,
        default=45,
        metavar="SECONDS",
        help="of batches: how long refreshes run, alone and with cleanings",
    )
    parser.add_argument(
        "--shares", nargs="+", type=float, help="with --spark: only these shares of changes"
    )
    parser.add_argument("--figures", metavar="DIR", help="draw the figures here")
    arguments = parser.parse_args()
    if arguments.spark:
        on_spark(arguments)
        return
    began = time.monotonic()
    scale = arguments.scale or (0.1 if arguments.quick else 0.5)
    found = accuracy(scale, instances=100, quick=arguments.quick)
    if arguments.figures:
        cleaning_figures.draw(found, Path(arguments.figures))
    found["seconds"] = round(time.monotonic() - began, 1)
    used = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    found["processor_seconds"] = round(sum(u.ru_utime + u.ru_stime for u in used), 1)
    print(json.dumps({k: v for k, v in found.items() if not k.startswith("_")}))


def on_spark(arguments: argparse.Namespace) -> None:
    """Run parts that need Spark, draw and print them."""
    from benchmarks.cleaning_batches import batches
    from benchmarks.cleaning_spark import SHARES, WORKLOADS, measured

    scale = arguments.scale or 1.0
    for part in arguments.spark:
        if part == "batches":
            found = batches(int(1_500_000 * scale), CACHE, arguments.periodic)
        else:
            shares = tuple(arguments.shares or SHARES)
            found = measured(WORKLOADS[part], scale, CACHE, arguments.minutes, shares)
        if arguments.figures:
            cleaning_figures.draw_spark(part, found, Path(arguments.figures))
        print(json.dumps({part: found}), flush=True)


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


if __name__ == "__main__":
    main()
