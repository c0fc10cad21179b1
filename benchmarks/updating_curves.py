"""Errors and times by candidates, ROC curves, hard updates (Exp. A, C), and ablations (Exp. D)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from belvedere.updating.estimate import THETA
from belvedere.updating.evaluation import auc, errors, roc
from belvedere.updating.filter import Filter
from benchmarks.updating_insertions import Row, view_rows

SHARES = (0.0, 0.02, 0.04, 0.06, 0.08, 0.10)
HARD = (0.0, 0.1, 0.2, 0.3)


@dataclass(frozen=True)
class Answers:
    """Estimates of insertions with one share of candidates."""

    scored: list[tuple[float, bool]]
    check_ms: float

    def figures(self) -> dict[str, float]:
        wrong = errors(self.scored, THETA)
        return {
            "fp": round(wrong.fp, 4),
            "fn": round(wrong.fn, 4),
            "auc": round(auc(roc(self.scored)), 4),
            "check_ms": round(self.check_ms, 3),
        }


def by_share(made: Filter, sample: Sequence[tuple[Row, bool]]) -> dict[str, Answers]:
    """Estimates with several shares of candidates (Exp. C)."""
    found = {}
    for share in SHARES:
        made.candidates_of(share)
        began = time.process_time()
        scored = [(made.estimate(made.segments(row)).rows, real) for row, real in sample]
        took = (time.process_time() - began) / max(len(scored), 1) * 1000
        found[f"{share:.0%}"] = Answers(scored, took)
    return found


def curves(
    made: Filter, sample: Sequence[tuple[Row, bool]], answers: Mapping[str, Answers]
) -> dict[str, list[tuple[float, float]]]:
    """ROC points over the threshold, for several shares of candidates; then hard updates alone."""
    found = {f"{share} candidates": roc(some.scored) for share, some in answers.items()}
    for share, mixed in mixes(made, sample).items():
        scored = [(made.estimate(made.segments(row)).rows, real) for row, real in mixed]
        found[f"{share:.0%} hard updates"] = roc(scored)
    made.candidates_of(0.1)
    return found


def mixes(made: Filter, sample: Sequence[tuple[Row, bool]]) -> dict[float, list[tuple[Row, bool]]]:
    """Workloads in which a share of the updates has exactly one side effect (Exp. A).

    The filter is left without candidates, as the paper's is here.
    """
    made.candidates_of(0.0)
    without = [pair for pair in sample if not pair[1]]
    hard = [pair for pair in sample if pair[1] and view_rows(made, pair[0], 2) == 2]
    easy = [pair for pair in sample if pair[1] and pair not in hard]
    found = {}
    for share in HARD:
        most = min(len(hard), round(share * 2 * len(without)))
        found[share] = [*without, *hard[:most], *easy[: max(len(without) - most, 0)]]
    return found


def ablations(made: Filter, sample: Sequence[tuple[Row, bool]]) -> dict[str, list[float]]:
    """FP and FN with 2 % candidates: the best, random ones, and none but them (Exp. D)."""
    made.candidates_of(0.02)
    best = made.candidates
    dice = np.random.default_rng(8)
    found = {"best": both(made, sample)}
    made.candidates = [
        np.sort(dice.choice(np.flatnonzero(x), len(c), replace=False))
        for x, c in zip(made.graph.extended, best, strict=True)
    ]
    made.summarize()
    found["random"] = both(made, sample)
    whole = made.graph.extended
    made.graph.extended = [np.isin(np.arange(len(x)), c) for x, c in zip(whole, best, strict=True)]
    made.candidates = best
    made.summarize()
    found["without classes"] = both(made, sample)
    made.graph.extended = whole
    made.candidates_of(0.1)
    return found


def both(made: Filter, sample: Sequence[tuple[Row, bool]]) -> list[float]:
    found = errors([(made.estimate(made.segments(r)).rows, real) for r, real in sample], THETA)
    return [round(found.fp, 4), round(found.fn, 4)]


def plotted(curve: Mapping[str, Sequence[tuple[float, float]]], where: Path) -> None:
    """The ROC curves as a picture."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(5, 5))
    for label, points in curve.items():
        ordered = sorted([*points, (1.0, 1.0)])
        axes.plot(*zip(*ordered, strict=True), marker=".", label=f"{label}, AUC {auc(points):.3f}")
    axes.set_xlabel("false positives")
    axes.set_ylabel("true positives")
    axes.set_title("Q7, side effects over all thresholds")
    axes.legend(fontsize=8, loc="lower right")
    where.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(where, dpi=110)
