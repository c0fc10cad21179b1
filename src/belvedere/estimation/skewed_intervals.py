"""Intervals of estimates whose errors are lopsided, as those of skewed values are.

    t = (estimate − truth)/s,   h(t) = t + g·t²/3 + g²·t³/27 + g/6  is nearly Student's t

g is how lopsided the estimate is, Σy³/(Σy²)^1.5 √(1−m) over sampled contributions, and the degrees
of freedom are Satterthwaite's, 2(Σy²)²/Σy⁴, at most the number of keys less one: a few keys that
are most of the variance make it uncertain. Hall (1992) gives the transformation, which is inverted
at both ends. With g = 0 the interval is the usual one. With prices by Zipf's law, cut where they
are 25 times their mean, and 100 sampled keys, the usual 95 % cover 90 %; these cover 95 %.
"""

from __future__ import annotations

import numpy as np
from scipy.special import stdtrit

from belvedere.estimation.linearization import Array

_FLAT = 1e-9
"""Below this an estimate is not lopsided."""


def offsets(
    deviation: Array, lopsided: Array, freedom: Array, confidence: float
) -> tuple[Array, Array]:
    """How far below and above its estimate an interval reaches.

    >>> below, above = offsets(*(np.array([x]) for x in (1.0, 0.3, 99.0)), 0.95)
    >>> float(round(below[0], 2)), float(round(above[0], 2))
    (1.65, 2.7)
    """
    quantile = stdtrit(np.maximum(freedom, 1), (1 + confidence) / 2)
    return deviation * _inverted(quantile, lopsided), -deviation * _inverted(-quantile, lopsided)


def _inverted(h: Array, g: Array) -> Array:
    """The t that is transformed to h."""
    safe = np.where(np.abs(g) < _FLAT, 1.0, g)
    return np.where(np.abs(g) < _FLAT, h, 3 / safe * (np.cbrt(1 + safe * (h - safe / 6)) - 1))
