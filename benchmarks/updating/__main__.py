"""Updates through views: how fast and how right side effects are found (JCard's Table 3 and figures).

    python -m benchmarks.updating [--quick] [--spark q03 q07] [--plot FILE] [--tables SCALE]

All join queries of TPC-H, rows sampled to 25 %, insertions from the view of the whole data. The
last line is JSON. Without --spark no JVM is started; with it, the summaries of some
queries are also built on Spark. --tables measures a view whose rows stay in its tables, and that alone.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from belvedere.updating.summary.filter import UpdateFilter, build_filter
from benchmarks.data.tpch import data
from benchmarks.updating.bibliography import on_bibliography
from benchmarks.updating.convergence import converging
from benchmarks.updating.curves import ablations, as_defined, by_share, curves, figures_of, plotted
from benchmarks.updating.deletions import deleted_and_replaced
from benchmarks.updating.detectors import divergences, effective_insertions, two_detectors
from benchmarks.updating.evaluation import auc
from benchmarks.updating.in_tables import in_tables
from benchmarks.updating.join_queries import CYCLIC, Figures, Sample, measured
from benchmarks.updating.maintenance import built_on_spark, maintained
from benchmarks.updating.projections import on_projections
from benchmarks.updating.sampled_tpch import JOINS, KEYS, SAME, SHARE, Tpch, shape_of
from benchmarks.updating.scaling import scaled
from benchmarks.updating.synthetic_chains import on_synthetic

CACHE = Path(".cache/benchmarks")
EACH = 500
PERCENT = 25
DELETED = 100


def main() -> None:
    parser = argparse.ArgumentParser("benchmarks.updating", description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--spark", nargs="*", default=[], metavar="QUERY")
    parser.add_argument("--scale", type=float, default=None)
    parser.add_argument("--plot", type=Path, default=CACHE / "updating-roc.png")
    parser.add_argument("--only", nargs="*", default=list(JOINS))
    parser.add_argument("--tables", type=float, metavar="SCALE")
    options = parser.parse_args()
    if options.tables:
        print(json.dumps({"benchmark": "updating", "in_tables": in_tables(options.tables, CACHE)}))
        return
    scale = options.scale or (1.0 if options.quick else 4.0)
    each, tried = (200, 10) if options.quick else (EACH, 20)
    tpch = Tpch.at(data(scale, CACHE), PERCENT)
    # Compiled loops are loaded before anything is timed, those of a change among them.
    maintained(tpch, build_filter(shape_of("q13"), tpch.tables(shape_of("q13")), KEYS))
    found: dict[str, Figures] = {}
    more: dict[str, Any] = {}
    for name in options.only:
        figures, made, sample = measured(tpch, name, each, tried)
        found[name] = figures
        if name == "q07":
            more = on_q07(made, sample, options.plot)
            new = [row for row, _ in sample]
            more["deleted_and_replaced"] = deleted_and_replaced(tpch, made, name, new, DELETED)
            print(json.dumps(more), flush=True)
        figures.maintain_first_ms, figures.maintain_ms, figures.changes = maintained(tpch, made)
        shown = {k: round(v, 4) if isinstance(v, float) else v for k, v in vars(figures).items()}
        print(json.dumps(shown), flush=True)
    more["build_s"] = {name: built_on_spark(tpch, name) for name in options.spark}
    if options.only == list(JOINS):
        percents = (5, 15, 25) if options.quick else (5, 10, 15, 20, 25)
        for what, run in (
            ("scaling", lambda: scaled(data(scale, CACHE), percents, 100)),
            ("synthetic", lambda: on_synthetic(3000, each)),
            ("bibliography", lambda: on_bibliography(20_000)),
            ("projections", lambda: on_projections(50)),
        ):
            more[what] = run()
            print(json.dumps({what: more[what]}), flush=True)
    print(json.dumps({**summed(found, scale, each), **more}))


def on_q07(made: UpdateFilter, sample: Sample, plot: Path) -> dict[str, Any]:
    """What is looked at on Q7 alone, as in the paper."""
    answers = by_share(made, sample)
    defined = as_defined(made, lambda: by_share(made, sample))
    curve = curves(made, sample, answers, defined)
    plotted(curve, plot)
    return {
        "roc": {label: round(auc(points), 4) for label, points in curve.items()},
        "by_candidates": figures_of(answers),
        "by_candidates_as_defined": figures_of(defined),
        "root_selection": converging(made, sample),
        "root_selection_as_defined": as_defined(made, lambda: converging(made, sample)),
        "ablations_fp_fn_as_defined": as_defined(made, lambda: ablations(made, sample)),
        "example_4_1": two_detectors(made, sample),
        "effective": effective_insertions(made, 200),
        "divergence": divergences(made, sample, (0.0,)),
        "divergence_as_defined": as_defined(made, lambda: divergences(made, sample, (0.0, SHARE))),
    }


def summed(found: Mapping[str, Figures], scale: float, each: int) -> dict[str, Any]:
    """The figures of all queries together, those that are others' again counted again."""
    acyclic = {name: f for name, f in found.items() if name != CYCLIC}
    every = [*acyclic.values(), *(found[o] for q, o in SAME.items() if o in found)]
    others = [f for f in every if f.name != "q10"]
    ten = found.get("q10")
    kept = [f for f in found.values() if f.maintain_ms]
    return {
        "benchmark": "updating",
        "tpch_scale": scale,
        "sampled_percent": PERCENT,
        "insertions_each": each,
        "check_ms": round(statistics.median(f.check_ms for f in every), 3),
        "check_ms_worst": round(max(f.check_ms for f in every), 3),
        "vs_exact": round(statistics.mean(f.full_ms / f.check_ms for f in every), 1),
        "vs_exact_least": round(min(f.full_ms / f.check_ms for f in every), 1),
        "indexed_exact_ms": round(statistics.median(f.indexed_ms for f in every), 3),
        "eds_ms": round(statistics.median(f.eds_ms for f in every), 3),
        "fp": round(max(f.fp for f in others), 4),
        "fn": round(max(f.fn for f in others), 4),
        "fp_q10": None if ten is None else round(ten.fp, 4),
        "fn_q10": None if ten is None else round(ten.fn, 4),
        "no_candidates": {
            "check_ms": round(statistics.median(f.plain_ms for f in every), 3),
            "fp": round(max(f.plain_fp for f in every), 4),
            "fn": round(max(f.plain_fn for f in every), 4),
            "summary_over_tables": round(statistics.median(f.plain_summary for f in every), 6),
        },
        "as_defined": {
            "fp": round(max(f.defined_fp for f in every), 4),
            "fn": round(max(f.defined_fn for f in every), 4),
        },
        "fp_q05_cyclic": found[CYCLIC].fp if CYCLIC in found else None,
        "auto_wrong": sum(f.auto_wrong for f in found.values()),
        "auto_tried": sum(f.auto_tried for f in found.values()),
        "summary_over_tables": round(statistics.median(f.summary for f in every), 4),
        "build_in_memory_s": round(statistics.median(f.build_s for f in every), 2),
        "maintain_ms": round(statistics.median([f.maintain_ms for f in kept] or [0.0]), 1),
        "maintain_ratio_least": round(min([f.maintain_ratio or 0.0 for f in kept] or [0.0]), 1),
    }


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
