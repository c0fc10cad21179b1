"""How times grow with the data (Exp. B, C, E): Q7 on samples of growing size."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from belvedere.updating.summary.filter import build_filter
from belvedere.updating.summary.roots import root_by_keys
from benchmarks.updating.baselines import FullPropagation, everything
from benchmarks.updating.deletions import deleted_and_replaced
from benchmarks.updating.insertions import labelled, timed
from benchmarks.updating.maintenance import maintained
from benchmarks.updating.sampled_tpch import KEYS, SHARE, Tpch, shape_of


def scaled(directory: Path, percents: Sequence[int], each: int) -> dict[str, dict[str, float]]:
    """Figures of samples of so many percent."""
    return {f"{percent}%": _at(directory, percent, each) for percent in percents}


def _at(directory: Path, percent: int, each: int) -> dict[str, float]:
    """Rows, CPU times of building, checks, other detectors and a batch of changes."""
    tpch, shape = Tpch.at(directory, percent), shape_of("q07")
    tables = tpch.tables(shape)
    began = time.process_time()
    made = build_filter(shape, tables, KEYS, root=root_by_keys(shape, KEYS), share=SHARE)
    build = time.process_time() - began
    sample, _ = labelled(made, tpch.insertions("q07", 4_000, 1), each)
    rows = [row for row, _ in sample]
    full, all_rows = FullPropagation(made), everything(made)
    refused = [row for row, real in sample if real]
    others = deleted_and_replaced(tpch, made, "q07", refused, each)
    found = {
        "rows": sum(t.num_rows for t in tables.values()),
        "build_s": round(build, 2),
        "check_ms": round(timed(lambda r: made.estimate(made.segments(r)), rows), 3),
        "full_ms": round(timed(lambda r: full.estimate(made.segments(r)), rows[:20]), 2),
        "eds_ms": round(timed(lambda r: all_rows.estimate(made.segments(r)), rows[:10]), 2),
        "deletion_ms": others["deletions"]["median_ms"],
        "refused_replacement_ms": others["replacements"]["median_ms"],
        "maintain_ms": round(maintained(tpch, made)[1], 1),
    }
    tpch.connection.close()
    return found
