"""How likely chance would be so far from what was expected."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import chdtrc


def by_chance(observed: Sequence[int], expected: Sequence[float] | None = None) -> float:
    """The p-value of Pearson's chi-square; with nothing expected, of all being equally likely."""
    counts = np.asarray(observed, float)
    wanted = np.full(len(counts), counts.mean()) if expected is None else np.asarray(expected)
    assert abs(wanted.sum() - counts.sum()) < 1e-6 * counts.sum()
    return float(chdtrc(len(counts) - 1, ((counts - wanted) ** 2 / wanted).sum()))
