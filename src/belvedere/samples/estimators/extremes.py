"""min and max: a correction, what was certainly seen, and Cantelli's bound (SVC §12.1.1).

The paper adds the largest gain of any sampled row to the stale maximum. The gain of a small row would
then lift the maximum, so only the twentieth of rows nearest to the maximum counts here. The
correction is a guess; the largest sampled fresh value is certain. Cantelli bounds the share of rows
beyond the estimate: the probability that one random row lies there, not that any row does. So the
answer has one certain end, a note with the bound, and no second end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from belvedere.estimation.linearization import Array


@dataclass(frozen=True)
class EstimatedExtremum:
    """A corrected extremum, the certain value, and the share of rows that may lie beyond."""

    value: float
    certain: float
    beyond: float

    @property
    def note(self) -> str:
        return f"at most {self.beyond:.2%} of rows lie beyond (Cantelli); one may exist unseen"


NEAREST_SHARE = 0.05
MIN_NEAREST = 20
"""The rows whose gains count: a share of all, and at least this number."""


def estimate_extremum(
    stale_extreme: float, fresh: Array, before: Array, gains: Array, *, largest: bool
) -> EstimatedExtremum:
    """A maximum or minimum from the stale one, the sampled fresh values, and the gains of rows."""
    sign = 1.0 if largest else -1.0
    nearest = np.argsort(-sign * before)[: max(MIN_NEAREST, int(NEAREST_SHARE * len(before)))]
    gains, population = gains[nearest], fresh
    certain = sign * float(np.max(sign * fresh)) if len(fresh) else float("nan")
    gain = float(np.max(sign * gains)) if len(gains) else 0.0
    corrected = sign * stale_extreme + gain
    candidates = [c for c in (corrected, sign * certain) if not np.isnan(c)]
    value = sign * max(candidates) if candidates else float("nan")
    if len(population) < 2:
        return EstimatedExtremum(value, certain, 1.0)
    distance = sign * (value - float(population.mean()))
    spread = float(population.var(ddof=1))
    beyond = spread / (spread + distance**2) if distance > 0 else 1.0
    return EstimatedExtremum(value, certain, beyond)
