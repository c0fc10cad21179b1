"""Errors and times by candidates, ROC curves, hard updates (Exp. A, C), and ablations (Exp. D)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import fill
from typing import TypeVar

import numpy as np

from belvedere.updating.summary.estimate import THETA
from belvedere.updating.summary.filter import UpdateFilter
from belvedere.updating.summary.roots import choose_root
from benchmarks.updating.evaluation import auc, errors, roc
from benchmarks.updating.insertions import Row, view_rows
from benchmarks.updating.sampled_tpch import SHARE

SHARES = (0.0, 0.02, 0.04, 0.06, 0.08, 0.10)
FURTHER = (*SHARES, 0.2, 0.3)
"""Where ten percent are too few to show what candidates do."""
HARD = (0.0, 0.1, 0.2, 0.3)
T = TypeVar("T")


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


def by_share(
    made: UpdateFilter, sample: Sequence[tuple[Row, bool]], shares: Sequence[float] = SHARES
) -> dict[str, Answers]:
    """Estimates with several shares of candidates (Exp. C)."""
    found = {}
    for share in shares:
        made.choose_candidates(share)
        began = time.process_time()
        scored = [(made.estimate(made.segments(row)).rows, real) for row, real in sample]
        took = (time.process_time() - began) / max(len(scored), 1) * 1000
        found[f"{share:.0%}"] = Answers(scored, took)
    return found


def figures_of(answers: Mapping[str, Answers]) -> dict[str, dict[str, float]]:
    """Errors and times by the share of candidates."""
    return {share: some.figures() for share, some in answers.items()}


def as_defined(made: UpdateFilter, run: Callable[[], T]) -> T:
    """What is found with the classes of Def. 5.5, which do not ask where their rows are complete."""
    completes = made.graph.completes
    nowhere = [np.zeros_like(heard) for heard in completes.heard]
    made.graph.completes = replace(completes, heard=nowhere)
    made.summarize()
    try:
        return run()
    finally:
        made.graph.completes = completes
        made.summarize()


def from_best_root(made: UpdateFilter, training: Sequence[tuple[Row, bool]]) -> UpdateFilter:
    """The filter from the root that errs least on some insertions."""
    roots = range(len(made.shape.positions))
    return made.with_root(
        choose_root(roots, lambda r: made.with_root(r, SHARE), training).root, SHARE
    )


def curves(
    made: UpdateFilter,
    sample: Sequence[tuple[Row, bool]],
    answers: Mapping[str, Answers],
    defined: Mapping[str, Answers],
) -> dict[str, list[tuple[float, float]]]:
    """ROC points over the threshold: by candidates with the classes of Def. 5.5; then with ours, which
    know where rows are complete, without candidates, also of hard updates.
    """
    found = {f"Def. 5.5, {share} candidates": roc(s.scored) for share, s in defined.items()}
    found["complete, no candidates"] = roc(answers["0%"].scored)
    hard = mixes(made, sample)
    for share, some in hard.items():
        found[f"complete, {share:.0%} hard updates"] = _roc_of(made, some)
    most = hard[HARD[-1]]
    found[f"Def. 5.5, {HARD[-1]:.0%} hard updates"] = as_defined(made, lambda: _roc_of(made, most))
    made.choose_candidates(SHARE)
    return found


def _roc_of(made: UpdateFilter, sample: Sequence[tuple[Row, bool]]) -> list[tuple[float, float]]:
    return roc([(made.estimate(made.segments(row)).rows, real) for row, real in sample])


def mixes(
    made: UpdateFilter, sample: Sequence[tuple[Row, bool]]
) -> dict[float, list[tuple[Row, bool]]]:
    """Workloads in which a share of the updates has exactly one side effect (Exp. A).

    The filter is left without candidates, as the paper's is here.
    """
    made.choose_candidates(0.0)
    without = [pair for pair in sample if not pair[1]]
    hard = [pair for pair in sample if pair[1] and view_rows(made, pair[0], 2) == 2]
    easy = [pair for pair in sample if pair[1] and pair not in hard]
    found = {}
    for share in HARD:
        most = min(len(hard), round(share * 2 * len(without)))
        found[share] = [*without, *hard[:most], *easy[: max(len(without) - most, 0)]]
    return found


def ablations(made: UpdateFilter, sample: Sequence[tuple[Row, bool]]) -> dict[str, list[float]]:
    """FP and FN with 2 % candidates: the best, random ones, and none but them (Exp. D)."""
    made.choose_candidates(0.02)
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
    made.choose_candidates(SHARE)
    return found


def both(made: UpdateFilter, sample: Sequence[tuple[Row, bool]]) -> list[float]:
    found = errors([(made.estimate(made.segments(r)).rows, real) for r, real in sample], THETA)
    return [round(found.fp, 4), round(found.fn, 4)]


CORNER = (0.4, 0.9)
"""Up to which false positives, and from which true ones, the second picture goes."""


def plotted(curve: Mapping[str, Sequence[tuple[float, float]]], where: Path) -> None:
    """The ROC curves as a picture, whole and where they differ; those that are the same as one."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    same: dict[tuple[tuple[float, float], ...], list[str]] = {}
    for label, points in curve.items():
        outline = sorted({*points, (1.0, 1.0)}) if auc(points) < 1 else [(0, 0), (0, 1), (1, 1)]
        same.setdefault(tuple(outline), []).append(label)
    figure, (whole, corner) = pyplot.subplots(1, 2, figsize=(10, 5))
    for number, (outline, labels) in enumerate(same.items()):
        text = f"{'; '.join(labels)}: {auc(outline):.4f}"
        for axes in (whole, corner):
            axes.plot(*zip(*outline, strict=True), marker=".", color=f"C{number}", label=text)
            axes.set_xlabel("false positives")
    corner.set_xlim(-0.01, CORNER[0])
    corner.set_ylim(CORNER[1], 1.005)
    whole.set_ylabel("true positives")
    figure.suptitle("Q7, side effects over all thresholds, with the area under each curve")
    handles, labels = whole.get_legend_handles_labels()
    wrapped = [fill(label, 110) for label in labels]
    figure.legend(handles, wrapped, fontsize=8, loc="lower center", frameon=False)
    figure.tight_layout(rect=(0, 0.05 * len(wrapped), 1, 1))
    where.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(where, dpi=110)
