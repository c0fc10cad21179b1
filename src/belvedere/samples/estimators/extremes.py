"""min and max: a correction, what was certainly seen, and Cantelli's bound (SVC §12.1.1).

The largest gain among sampled rows is added to the stale maximum; of all rows, as in the paper,
that would let any row's gain lift the largest one, so only the twentieth nearest to it counts.
That is a guess; what is certain is that the largest sampled fresh value exists. Cantelli bounds the share of rows beyond
the estimate, that is the chance of one random row, not that a larger one exists anywhere: the
answer says so, and shows no interval.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from belvedere.estimation.linearization import Array


@dataclass(frozen=True)
class EstimatedExtremum:
    """A corrected extremum, the value that was certainly seen, and the share that may lie beyond."""

    value: float
    seen: float
    beyond: float

    @property
    def note(self) -> str:
        return f"at most {self.beyond:.2%} of rows lie beyond (Cantelli); one may exist unseen"


NEAREST_SHARE = 0.05
MIN_NEAREST = 20
"""Of the rows whose gains count: their share, and how few they may be."""


def estimate_extremum(
    stale_extreme: float, fresh: Array, before: Array, gains: Array, *, largest: bool
) -> EstimatedExtremum:
    """A maximum, or a minimum, from the stale one, sampled fresh values, and rows that gained."""
    sign = 1.0 if largest else -1.0
    nearest = np.argsort(-sign * before)[: max(MIN_NEAREST, int(NEAREST_SHARE * len(before)))]
    gains, population = gains[nearest], fresh
    seen = sign * float(np.max(sign * fresh)) if len(fresh) else float("nan")
    gain = float(np.max(sign * gains)) if len(gains) else 0.0
    corrected = sign * stale_extreme + gain
    candidates = [c for c in (corrected, sign * seen) if not np.isnan(c)]
    value = sign * max(candidates) if candidates else float("nan")
    if len(population) < 2:
        return EstimatedExtremum(value, seen, 1.0)
    away = sign * (value - float(population.mean()))
    spread = float(population.var(ddof=1))
    beyond = spread / (spread + away**2) if away > 0 else 1.0
    return EstimatedExtremum(value, seen, beyond)
