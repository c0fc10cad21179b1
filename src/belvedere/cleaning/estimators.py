"""Estimates of smooth answers from two corresponding samples, with intervals (SVC §5, §6.3).

    AQP    T ≈ Σ_out x′ + Σ x′/m                  variance (1−m)/m² Σ x′²
    CORR   T ≈ T(stale) + Σ_out d + Σ d/m         variance (1−m)/m² Σ d²,  d = x′ ∸ x

η is Bernoulli sampling, so these are Horvitz–Thompson estimates of totals: §5.2.1's interval is
that of a mean, and would be off by the row count for a sum and zero wide for count(*). Strata
add; §6.3's (N−l)/N merge fits averages only. An answer is a function of totals and has the
variance of its linearisation; a ratio thus keeps what its numerator and denominator share.

The method with the smaller estimated variance answers (§5.2.2), among those whose interval can
be trusted: a correction from a handful of changed rows looks narrower than it is. Intervals are
those of `intervals.py`, which know that errors of skewed values are lopsided.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from belvedere.cleaning.cells import Cells
from belvedere.cleaning.duals import Array, Dual, totals
from belvedere.cleaning.intervals import offsets

FEWEST = 12
"""Sampled keys below which no interval is shown."""
ENOUGH = 100
"""Sampled keys from which on an interval holds what it says."""
SKEWED = 50.0
"""Times the mean that a contribution may be; beyond, an interval needs an outlier index."""

LOPSIDED = 0.5
"""Skewness of an estimate from which on its interval is rough, however many keys it has."""

Answer = Callable[[list[Dual]], Dual]
"""An answer as a function of totals."""


class Method(Enum):
    """How an answer comes about."""

    AUTO = "AUTO"
    AQP = "AQP"
    CORR = "CORR"


@dataclass(frozen=True)
class Side:
    """One method's estimate of an answer, per group."""

    method: Method
    value: Array
    variance: Array
    keys: Array
    """Sampled keys that the variance was estimated from: those that answer, or that changed."""
    skew: Array
    """The largest contribution over the mean one."""
    lopsided: Array
    """The skewness of the estimate itself."""
    freedom: Array
    """Degrees of freedom of the estimated variance."""

    def reach(self, confidence: float) -> tuple[Array, Array]:
        """How far below and above the estimate its interval reaches."""
        return offsets(np.sqrt(self.variance), self.lopsided, self.freedom, confidence)

    def covers(self, truth: Array | float, confidence: float) -> NDArray[np.bool_]:
        """Where the interval holds the truth."""
        below, above = self.reach(confidence)
        return np.asarray((self.value - below <= truth) & (truth <= self.value + above))


@dataclass(frozen=True)
class Estimates:
    """An answer per group, with its interval, how it was found, and what is to be said of it."""

    value: Array
    low: Array
    high: Array
    method: list[str]
    notes: list[str]
    sides: dict[Method, Side] = field(repr=False)
    stale: Array = field(repr=False)


def estimate(
    answer: Answer,
    found: Cells,
    stale_totals: Array | None,
    confidence: float,
    method: Method = Method.AUTO,
) -> Estimates:
    """An answer by the method asked for, or by the one with the smaller variance."""
    sides = {Method.AQP: _side(answer, found, found.fresh, None, Method.AQP)}
    stale = np.full(found.groups, np.nan)
    if stale_totals is not None:
        sides[Method.CORR] = _side(answer, found, found.change, stale_totals, Method.CORR)
        stale = answer(totals(stale_totals)).value
    chosen = _chosen(sides, method)
    names = list(sides)
    pick = np.array([names.index(m) for m in chosen])
    at = np.arange(found.groups)

    def of(values: Sequence[Array]) -> Array:
        return np.asarray(np.stack(list(values))[pick, at], np.float64)

    value = of([s.value for s in sides.values()])
    ends = [of(e) for e in zip(*(s.reach(confidence) for s in sides.values()), strict=True)]
    keys, skew = (of([getattr(s, what) for s in sides.values()]) for what in ("keys", "skew"))
    exact = found.ratio == 1
    lopsided = np.abs(of([s.lopsided for s in sides.values()]))
    notes = [
        "" if exact else _note(m, int(k), float(s), float(g))
        for m, k, s, g in zip(chosen, keys, skew, lopsided, strict=True)
    ]
    shown = exact | (keys >= FEWEST)
    low, high = (
        np.where(shown, value if exact else value + sign * end, np.nan)
        for sign, end in zip((-1, 1), ends, strict=True)
    )
    return Estimates(value, low, high, [m.value for m in chosen], notes, sides, stale)


def _side(answer: Answer, found: Cells, what: Array, base: Array | None, method: Method) -> Side:
    estimated = found.estimate(what)
    result = answer(totals(estimated if base is None else base + estimated))
    along = found.along(what, np.nan_to_num(result.slope))
    keys = found.count(along != 0)
    largest = np.zeros(found.groups)
    np.maximum.at(largest, found.group, np.abs(along))
    # Powers of values over the largest, lest they overflow.
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.nan_to_num(along / largest[found.group])
        square = part * part
        one, two, three, four = (
            np.bincount(found.group, p, found.groups)
            for p in (np.abs(part), square, square * part, square * square)
        )
        skew = np.where(keys > 0, keys / one, 0.0)
        lopsided = np.nan_to_num(three / two**1.5) * np.sqrt(1 - found.ratio)
        freedom = np.clip(np.nan_to_num(2 * two**2 / four), 1, np.maximum(keys - 1, 1))
    known = np.isfinite(result.slope).all(axis=1)
    variance = np.where(known, found.variance(along), np.nan)
    return Side(method, result.value, variance, keys, skew, lopsided, freedom)


def _chosen(sides: dict[Method, Side], method: Method) -> list[Method]:
    """Per group the method asked for; by itself the better of those that can be trusted."""
    aqp, corr = sides[Method.AQP], sides.get(Method.CORR)
    groups = len(aqp.value)
    if corr is None or method is not Method.AUTO:
        only = method if method in sides else Method.AQP
        return [only] * groups
    smaller = np.nan_to_num(corr.variance, nan=np.inf) <= np.nan_to_num(aqp.variance, nan=np.inf)
    trusted, other = corr.keys >= FEWEST, aqp.keys >= FEWEST
    takes = np.where(trusted == other, smaller, trusted)
    return [Method.CORR if t else Method.AQP for t in takes]


def _note(method: Method, keys: int, skew: float, lopsided: float) -> str:
    """Which condition of an honest interval fails, and what would mend it."""
    rows = "changed rows" if method is Method.CORR else "rows"
    if keys < FEWEST:
        return f"too few sampled {rows} for an interval ({keys}): a larger RATIO"
    if keys < ENOUGH:
        return f"few sampled {rows} ({keys}): the interval is rough; a larger RATIO mends that"
    if skew > SKEWED:
        return f"skewed: one key counts {skew:.0f} times the mean; OUTLIERS mend that"
    if lopsided > LOPSIDED:
        return "skewed: a few keys are most of the error; OUTLIERS or a larger RATIO mend that"
    return ""


def with_extra_note(found: Estimates, notes: Sequence[str]) -> Estimates:
    """The same, with something more to say per group."""
    joined = ["; ".join(filter(None, pair)) for pair in zip(found.notes, notes, strict=True)]
    return replace(found, notes=joined)


def shown_everywhere(found: Estimates) -> NDArray[np.bool_]:
    """Where an interval is shown."""
    return ~np.isnan(found.low)
