"""Intervals of estimates whose errors are skewed, as those of skewed values are.

    t = (estimate − truth)/s,   h(t) = t + g·t²/3 + g²·t³/27 + g/6  is nearly Student's t

g is the skewness of the estimate, Σy³/(Σy²)^1.5 √(1−m) over sampled contributions. The degrees of
freedom are Satterthwaite's, 2(Σy²)²/Σy⁴, at most the number of keys less one: the variance is
uncertain if it comes from a few keys. Hall (1992) gives the transformation, which is inverted at
both ends. With g = 0 the interval is the usual one. For values by Zipf's law, up to 25 times their
mean, and 100 sampled keys, the usual 95 % intervals cover 90 %; these cover 95 %.
"""

from __future__ import annotations

import numpy as np
from scipy.special import stdtrit

from belvedere.estimation.linearization import Array

_SYMMETRIC = 1e-9
"""An estimate with less skewness counts as symmetric."""


def offsets(
    deviation: Array, skewness: Array, freedom: Array, confidence: float
) -> tuple[Array, Array]:
    """The distances from an estimate to the lower and the upper end of its interval.

    >>> below, above = offsets(*(np.array([x]) for x in (1.0, 0.3, 99.0)), 0.95)
    >>> float(round(below[0], 2)), float(round(above[0], 2))
    (1.65, 2.7)
    """
    quantile = stdtrit(np.maximum(freedom, 1), (1 + confidence) / 2)
    return deviation * _inverted(quantile, skewness), -deviation * _inverted(-quantile, skewness)


def _inverted(h: Array, g: Array) -> Array:
    """The t whose transformation is h."""
    safe = np.where(np.abs(g) < _SYMMETRIC, 1.0, g)
    return np.where(np.abs(g) < _SYMMETRIC, h, 3 / safe * (np.cbrt(1 + safe * (h - safe / 6)) - 1))
