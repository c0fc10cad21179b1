"""The bootstrap of hashed keys: each is drawn again with its fresh and its stale rows.

§5.2.5 resamples the two samples separately, which loses their correspondence. Weights have mean 1 and
variance 1 − m, so that a resample varies as much as the sample: with m = 1 not at all.

Variances and deviations are smooth functions of totals. Their linearised intervals are as good (the
tests compare them) and need one pass instead of two hundred, so answers show those.
"""

from __future__ import annotations

import numpy as np

from belvedere.estimation.linearization import Array, totals
from belvedere.samples.estimators.per_key_sums import KeySums
from belvedere.samples.estimators.smooth import SmoothFunction

RESAMPLES = 200


def resampling_weights(units: int, ratio: float, seed: int, times: int = RESAMPLES) -> Array:
    """The weight of each hashed key in each resample."""
    drawn = np.random.default_rng(seed).poisson(1.0, (times, units)) - 1.0
    return np.asarray(1.0 + np.sqrt(1 - ratio) * drawn)


def bootstrap_interval(
    answer: SmoothFunction, cells: KeySums, base: Array | None, confidence: float, seed: int = 0
) -> tuple[Array, Array]:
    """The interval of an answer per group: by CORR if there are stale totals, otherwise by AQP."""
    values = cells.fresh if base is None else cells.change
    answers = []
    for weights in resampling_weights(len(cells.group), cells.ratio, seed):
        weights_of_cells = np.where(cells.exact, 1.0, weights)[:, None]
        totals_drawn = cells.estimate(values * weights_of_cells)
        answers.append(answer(totals(totals_drawn if base is None else base + totals_drawn)).value)
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.stack(answers), [tail, 1 - tail], axis=0)
    return low, high
