"""Whether an interval covers at its rate: what the sample may have missed, and how heavy its tail is.

    unseen   y²/Σy²   the largest contribution that one key can make, over what was sampled

An interval fails where few keys are most of the error and the sample has none of them: it then
looks calm. No moment of the sample tells, and a limit on one of them keeps the very samples that
missed the tail. The stale view is stored in full, so that its largest contribution is known.

Where nothing is known beside the sample (new groups, samples of joins) the tail index of the
sampled contributions decides (Hill 1975): it rests on a tenth of them, not on the largest alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from belvedere.estimation.linearization import Array

FEWEST = 12
"""Sampled keys below which no interval is shown."""
ENOUGH, ENOUGH_CHANGED = 40, 60
"""Sampled keys, and changed ones, from which on an interval covers at its rate, where the stale
view's extremes are known."""
ENOUGH_ALONE = 100
"""The same where nothing is known but the sample."""

UNSEEN = 2.0
"""Times the sampled sum of squares that a key's square may be."""
MOST = 0.5
"""Share of the sampled sum of squares from which on one key is most of the error."""
SKEWED = 50.0
"""Times the mean that a contribution may be, where nothing else is known."""
LOPSIDED = 0.5
"""Skewness of an estimate from which on its interval is rough, where nothing else is known."""
LEAST_SHARED = 0.3
"""Share of the sampled keys that the stale view must have for its extremes to stand for fresh ones."""
HEAVY = 0.7
"""Tail index from which on, less what chance may add, the interval is rough."""
LEAST_IN_TAIL = 8


def tail_index(group: NDArray[np.int64], contributions: Array, groups: int) -> Array:
    """Hill's index of the largest tenth of each group's contributions, with its error added.

    It is 0 for bounded values, about 0.3 for exponential ones, 1/a for tails like those of x**-a.

    >>> index = tail_index(np.zeros(400, np.int64), 1 / np.arange(1, 401.0), 1)
    >>> bool(index[0] > HEAVY)
    True
    >>> index = tail_index(np.zeros(400, np.int64), np.arange(1, 401.0), 1)
    >>> bool(index[0] < HEAVY)
    True
    """
    size = np.abs(contributions)
    some = size > 0
    group, size = group[some], size[some]
    order = np.argsort(-size)
    # Small integers are sorted by radix.
    order = order[np.argsort(group[order].astype(np.min_scalar_type(groups)), kind="stable")]
    group, size = group[order], size[order]
    count = np.bincount(group, minlength=groups)
    start = np.cumsum(count) - count
    most = np.minimum(np.maximum(LEAST_IN_TAIL, np.ceil(count / 10)), np.maximum(count - 1, 0))
    rank = np.arange(len(group)) - start[group]
    tail = rank < most[group]
    if not len(size):
        return np.zeros(groups)
    limit = np.log(size[np.minimum(start + most.astype(int), len(size) - 1)])
    logs = np.bincount(group[tail], np.log(size[tail]) - limit[group[tail]], groups)
    many = np.maximum(most, 1)
    return np.asarray(logs / many * (1 + 1.645 / np.sqrt(many)), np.float64)


def doubt(keys: int, unseen: float, share: float, *, heavy: bool, changed: bool) -> str:
    """Which condition of an interval that covers fails, and what would mend it; empty if none does."""
    known = not np.isnan(unseen)
    enough = (ENOUGH_CHANGED if changed else ENOUGH) if known else ENOUGH_ALONE
    rows = "changed rows" if changed else "rows"
    if keys < FEWEST:
        return f"too few sampled {rows} for an interval ({keys}): a larger RATIO"
    if keys < enough:
        return f"few sampled {rows} ({keys}): the interval is rough; a larger RATIO mends that"
    if known and unseen >= UNSEEN:
        return "skewed: one key may outweigh all that were sampled; OUTLIERS or a larger RATIO mend that"
    if share > MOST or (not known and heavy):
        return "skewed: a few keys are most of the error; OUTLIERS or a larger RATIO mend that"
    return ""
