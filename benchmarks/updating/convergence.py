"""Root selection by sampling (Exp. D): errors from each root as the sample grows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from belvedere.updating.summary.estimate import THETA
from belvedere.updating.summary.filter import UpdateFilter
from belvedere.updating.summary.insertion_sample import FIRST_SAMPLE, InsertionSampler
from belvedere.updating.summary.roots import error_bound
from benchmarks.updating.insertions import Row

SIZES = (25, 50, 100, 200, 300, 400, 500)


def converging(made: UpdateFilter, sample: Sequence[tuple[Row, bool]]) -> dict[str, Any]:
    """The share of wrong estimates without candidates, over growing samples.

    Once of insertions without side effects, as in the paper; once of those that are drawn to
    choose a root when a view is created, which are of both kinds.
    """
    without = [(made.segments(row), real) for row, real in sample if not real]
    drawn = InsertionSampler(made).sample(FIRST_SAMPLE)
    wrong: dict[str, list[tuple[bool, ...]]] = {"without side effects": [], "drawn": []}
    for root in range(len(made.shape.positions)):
        other = made.with_root(root, 0.0)
        for name, some in zip(wrong, (without, drawn), strict=True):
            wrong[name].append(tuple(other.estimate(s).declares(THETA) != real for s, real in some))
    roots = [f"{p} {position.table}" for p, position in enumerate(made.shape.positions)]
    return {
        "bound": {n: round(error_bound(n), 3) for n in SIZES},
        **{name: _by_size(roots, of_roots) for name, of_roots in wrong.items()},
    }


def _by_size(roots: Sequence[str], wrong: Sequence[Sequence[bool]]) -> dict[str, Any]:
    """For each size the root with the fewest wrong estimates; the shares of all."""
    sizes = [n for n in SIZES if n <= len(wrong[0])]
    shares = {root: np.cumsum(some) for root, some in zip(roots, wrong, strict=True)}
    found: dict[str, Any] = {
        root: {n: round(float(sums[n - 1]) / n, 4) for n in sizes} for root, sums in shares.items()
    }
    found["chosen"] = {n: min(roots, key=lambda r: shares[r][n - 1]) for n in sizes}
    return found
