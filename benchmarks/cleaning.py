"""Fresh answers from stale views, measured: accuracy in DuckDB and numpy, cleaning on Spark.

    python -m benchmarks.cleaning --quick      accuracy at a small scale, no Spark
    python -m benchmarks.cleaning              accuracy at a larger one, and more of it
    python -m benchmarks.cleaning --spark [--scale 1]    cleaning beside refreshing

The accuracy runs use the library's estimators on views computed by DuckDB; what is measured there
does not depend on the engine. One JSON line comes last.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from belvedere.cleaning.estimators import Method
from benchmarks import cleaning_figures
from benchmarks.skewed import STREAMS, changed, generate, register
from benchmarks.svc_estimates import Outcome, fetched, outcome
from benchmarks.svc_queries import HEADLINE, QUERIES, VIEW, Query
from benchmarks.svc_views import complex_views, cube, log_views, outliers

RATIO = 0.1
CACHE = Path(".cache/benchmarks")


def main() -> None:
    """Run, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--spark", action="store_true", help="cleaning beside refreshing, on Spark")
    parser.add_argument("--scale", type=float)
    parser.add_argument(
        "--periodic",
        type=float,
        default=0,
        metavar="SECONDS",
        help="with --spark: refreshes and cleanings side by side, for so long",
    )
    parser.add_argument("--figures", metavar="DIR", help="draw the figures here")
    arguments = parser.parse_args()
    if arguments.spark:
        from benchmarks.cleaning_spark import measured

        print(json.dumps(measured(arguments.scale or 1.0, CACHE, beside=arguments.periodic)))
        return
    began = time.monotonic()
    scale = arguments.scale or (0.1 if arguments.quick else 0.5)
    found = accuracy(scale, instances=100, quick=arguments.quick)
    if arguments.figures:
        cleaning_figures.draw(found, Path(arguments.figures))
    found["seconds"] = round(time.monotonic() - began, 1)
    print(json.dumps({k: v for k, v in found.items() if not k.startswith("_")}))


def accuracy(scale: float, instances: int, *, quick: bool) -> dict[str, Any]:
    """Everything that needs no Spark."""
    found: dict[str, Any] = {"scale": scale, "z": 2, "ratio": RATIO, "instances": instances}
    connection = duckdb.connect()
    connection.execute("SET threads = 2; SET enable_progress_bar = false")
    data = generate(scale, 2)
    register(connection, data, "old")
    connection.execute(f"CREATE TABLE view_old AS {VIEW.format(state='old')}")
    found |= join_view(connection, data, instances)
    _said(found, "join view")
    found |= crossover(connection, data, quick=quick)
    _said(found, "crossover")
    found |= complex_views(connection, data, 20 if quick else 100)
    found |= cube(scale)
    found |= outliers(scale, (2, 4) if quick else (1, 2, 3, 4))
    found |= log_views(scale)
    return found


def join_view(connection: Any, data: Any, instances: int) -> dict[str, Any]:
    """Fig. 5 and 6a: the 12 queries, insert-only +10 %."""
    state(connection, data, "insert-only", 0.1)
    rng = np.random.default_rng(11)
    errors: dict[str, list[tuple[float, float, float]]] = {q.name: [] for q in QUERIES}
    outcomes: list[Outcome] = []
    took: dict[str, list[float]] = {"view": [], "CORR": [], "AQP": []}
    for number in range(instances):
        if number % 2 == 0:
            sampled(connection, number)
        for query in QUERIES:
            each = _asked(connection, query, query.where(rng), took)
            outcomes.append(each)
            groups = each.answering()
            if groups.any():
                errors[query.name].append(
                    tuple(
                        float(np.median(each.error(values)[groups]))
                        for values in (
                            each.stale,
                            each.sides[Method.AQP].value,
                            each.sides[Method.CORR].value,
                        )
                    )
                )
    medians = {name: np.median(np.array(e), axis=0) for name, e in errors.items() if e}
    ratios = {n: (m[1] / m[2], m[0] / m[2]) for n, m in medians.items()}
    headline = [n for n in HEADLINE if n in ratios]
    return {
        "aqp_over_corr": round(float(np.mean([ratios[n][0] for n in headline])), 2),
        "stale_over_corr": round(float(np.mean([ratios[n][1] for n in headline])), 2),
        "aqp_over_corr_by_query": {n: round(float(r[0]), 2) for n, r in ratios.items()},
        "stale_over_corr_by_query": {n: round(float(r[1]), 2) for n, r in ratios.items()},
        **agreement(outcomes),
        "query_ms": {k: round(1000 * float(np.median(v)), 1) for k, v in took.items()},
        "_fig5": {n: [float(x) for x in m] for n, m in medians.items()},
    }


def agreement(outcomes: list[Outcome]) -> dict[str, Any]:
    """Coverage, and measured over predicted errors, wherever intervals are said to hold."""
    found: dict[str, Any] = {}
    covered: list[np.ndarray] = []
    for method in (Method.AQP, Method.CORR):
        squares, inside = [], []
        for each in outcomes:
            usable = each.usable(method)
            side = each.sides[method]
            squares.append(((side.value - each.truth)[usable] ** 2) / side.variance[usable])
            inside.append(each.covered(method)[usable])
        name = method.value.lower()
        found[f"{name}_rmse_over_predicted"] = round(
            float(np.sqrt(np.concatenate(squares).mean())), 3
        )
        found[f"coverage95_{name}"] = round(float(np.concatenate(inside).mean()), 4)
        covered += inside
    found["coverage95"] = round(float(np.concatenate(covered).mean()), 4)
    found["coverage_answers"] = int(sum(len(c) for c in covered))
    return found


def crossover(connection: Any, data: Any, *, quick: bool) -> dict[str, Any]:
    """Fig. 6b: the size of updates at which AQP overtakes CORR, by stream."""
    sizes = (
        (0.05, 0.2, 0.4, 0.7) if quick else (0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
    )
    curves: dict[str, list[tuple[float, float, float]]] = {}
    for stream in STREAMS[:3]:
        for share in sizes:
            state(connection, data, stream, share)
            rng, both = np.random.default_rng(5), []
            for seed in range(1 if quick else 2):
                sampled(connection, 1000 + seed)
                for query in QUERIES:
                    if query.name in HEADLINE:
                        each = _asked(connection, query, query.where(rng), None)
                        groups = each.answering()
                        if groups.any():
                            variances = [
                                np.median(np.sqrt(s.variance[groups]) / np.abs(each.truth[groups]))
                                for s in (each.sides[Method.AQP], each.sides[Method.CORR])
                            ]
                            both.append(variances)
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


def state(connection: Any, data: Any, stream: str, share: float) -> None:
    """The fresh view after a stream."""
    register(connection, changed(data, stream, share, 2), "new")
    connection.execute(f"CREATE OR REPLACE TABLE view_new AS {VIEW.format(state='new')}")


def sampled(connection: Any, seed: int) -> None:
    """Corresponding samples of both states."""
    bound = int(RATIO * 2**64)
    for name in ("old", "new"):
        connection.execute(
            f"CREATE OR REPLACE TABLE sample_{name} AS SELECT * FROM view_{name}"
            f" WHERE hash(u, {seed}) < {bound}"
        )


def _asked(
    connection: Any, query: Query, where: str, took: dict[str, list[float]] | None
) -> Outcome:
    marks = [time.perf_counter()]

    def run(text: str) -> dict[str, np.ndarray]:
        found = fetched(connection, text)
        marks.append(time.perf_counter())
        return found

    fresh, stale = (run(query.rows(f"sample_{s}", where)) for s in ("new", "old"))
    old, new = (run(query.sums(f"view_{s}", where)) for s in ("old", "new"))
    if took is not None:
        spent = np.diff(marks)
        took["AQP"].append(float(spent[0]))
        took["CORR"].append(float(spent[:3].sum()))
        took["view"].append(float(spent[3]))
    return outcome(fresh, stale, old, new, RATIO, quotient=query.ratio)


def _said(found: dict[str, Any], what: str) -> None:
    print(
        f"{what}: {json.dumps({k: v for k, v in found.items() if not k.startswith('_')})}",
        flush=True,
    )


if __name__ == "__main__":
    main()
