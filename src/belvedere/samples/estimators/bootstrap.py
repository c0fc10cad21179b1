"""The bootstrap of hashed keys: each is drawn again with its fresh and its stale rows.

§5.2.5 draws the two samples apart, which loses what they have in common. Weights have mean 1 and
variance 1 − m, so that a resample varies as the sample itself does: with m = 1 not at all.

Variances and deviations are smooth functions of totals; their linearised intervals are as good
(the tests compare them) and cost one pass instead of two hundred, so those are shown.
"""

from __future__ import annotations

import numpy as np

from belvedere.estimation.linearization import Array, totals
from belvedere.samples.estimators.per_key_sums import KeySums
from belvedere.samples.estimators.smooth import SmoothFunction

RESAMPLES = 200


def resampling_weights(units: int, ratio: float, seed: int, times: int = RESAMPLES) -> Array:
    """How often each hashed key counts in each resample."""
    drawn = np.random.default_rng(seed).poisson(1.0, (times, units)) - 1.0
    return np.asarray(1.0 + np.sqrt(1 - ratio) * drawn)


def bootstrap_interval(
    answer: SmoothFunction, found: KeySums, base: Array | None, confidence: float, seed: int = 0
) -> tuple[Array, Array]:
    """The interval of an answer per group, by CORR if there are stale totals, else by AQP."""
    what = found.fresh if base is None else found.change
    answers = []
    for weights in resampling_weights(len(found.group), found.ratio, seed):
        own = np.where(found.exact, 1.0, weights)[:, None]
        drawn = found.estimate(what * own)
        answers.append(answer(totals(drawn if base is None else base + drawn)).value)
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.stack(answers), [tail, 1 - tail], axis=0)
    return low, high
