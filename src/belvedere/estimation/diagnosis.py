"""Conditions for an interval to cover at its rate: unsampled large keys, and heavy tails.

    unseen   y²/Σy²   the largest contribution that one key can make, over the sampled ones

An interval fails where few keys cause most of the error and the sample has none of them: the sampled
variance is then too small. No moment of the sample shows this, and a limit on a moment would keep
exactly the samples that missed the tail. The stale view is stored in full, so its largest
contribution is known.

Where only the sample is known (new groups, samples of joins), the tail index of the sampled
contributions decides (Hill 1975). It uses the largest tenth of them, not the largest alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from belvedere.estimation.linearization import Array

FEWEST = 12
"""Sampled keys below which no interval is shown."""
ENOUGH, ENOUGH_CHANGED = 40, 60
"""The numbers of sampled keys, and of changed keys, from which on an interval covers at its rate if
the extremes of the stale view are known."""
ENOUGH_ALONE = 100
"""The same if only the sample is known."""

UNSEEN = 2.0
"""The largest allowed ratio of one key's square to the sampled sum of squares."""
MOST = 0.5
"""The share of the sampled sum of squares above which one key is most of the error."""
SKEWED = 50.0
"""The largest allowed ratio of a contribution to the mean, if only the sample is known."""
LOPSIDED = 0.5
"""The skewness of an estimate above which its interval is rough, if only the sample is known."""
LEAST_SHARED = 0.3
"""The share of sampled keys that the stale view must have for its extremes to apply to fresh rows."""
HEAVY = 0.7
"""The tail index above which the interval is rough."""
LEAST_IN_TAIL = 8


def tail_index(group: NDArray[np.int64], contributions: Array, groups: int) -> Array:
    """Hill's index of the largest tenth of each group's contributions, plus its sampling error.

    It is 0 for bounded values, about 0.3 for exponential ones, 1/a for tails like those of x**-a.

    >>> index = tail_index(np.zeros(400, np.int64), 1 / np.arange(1, 401.0), 1)
    >>> bool(index[0] > HEAVY)
    True
    >>> index = tail_index(np.zeros(400, np.int64), np.arange(1, 401.0), 1)
    >>> bool(index[0] < HEAVY)
    True
    """
    size = np.abs(contributions)
    nonzero = size > 0
    group, size = group[nonzero], size[nonzero]
    order = np.argsort(-size)
    # NumPy sorts small integers by radix.
    order = order[np.argsort(group[order].astype(np.min_scalar_type(groups)), kind="stable")]
    group, size = group[order], size[order]
    count = np.bincount(group, minlength=groups)
    start = np.cumsum(count) - count
    tail_size = np.minimum(np.maximum(LEAST_IN_TAIL, np.ceil(count / 10)), np.maximum(count - 1, 0))
    rank = np.arange(len(group)) - start[group]
    tail = rank < tail_size[group]
    if not len(size):
        return np.zeros(groups)
    limit = np.log(size[np.minimum(start + tail_size.astype(int), len(size) - 1)])
    excess = np.bincount(group[tail], np.log(size[tail]) - limit[group[tail]], groups)
    counted = np.maximum(tail_size, 1)
    return np.asarray(excess / counted * (1 + 1.645 / np.sqrt(counted)), np.float64)


def doubt(keys: int, unseen: float, share: float, *, heavy: bool, changed: bool) -> str:
    """The condition for coverage that fails, with its remedy; empty if all hold."""
    knows_extremes = not np.isnan(unseen)
    needed_keys = (ENOUGH_CHANGED if changed else ENOUGH) if knows_extremes else ENOUGH_ALONE
    counted_rows = "changed rows" if changed else "rows"
    if keys < FEWEST:
        return f"too few sampled {counted_rows} for an interval ({keys}): a larger RATIO"
    if keys < needed_keys:
        return (
            f"few sampled {counted_rows} ({keys}): the interval is rough; a larger RATIO mends that"
        )
    if knows_extremes and unseen >= UNSEEN:
        return "skewed: one key may outweigh all that were sampled; OUTLIERS or a larger RATIO mend that"
    if share > MOST or (not knows_extremes and heavy):
        return "skewed: a few keys are most of the error; OUTLIERS or a larger RATIO mend that"
    return ""
