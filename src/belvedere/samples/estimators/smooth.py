"""Estimates of smooth answers from two corresponding samples, with intervals (SVC §5, §6.3).

    AQP    T ≈ Σ_out x′ + Σ x′/m                  variance (1−m)/m² Σ x′²
    CORR   T ≈ T(stale) + Σ_out d + Σ d/m         variance (1−m)/m² Σ d²,  d = x′ ∸ x

η is Bernoulli sampling, so these are Horvitz–Thompson estimates of totals: §5.2.1's interval is
that of a mean, and would be off by the row count for a sum and zero wide for count(*). Strata
add; §6.3's (N−l)/N merge fits averages only. An answer is a function of totals and has the
variance of its linearisation; a ratio thus keeps what its numerator and denominator share.

The method with the smaller estimated variance answers (§5.2.2), among those whose interval can
be trusted: a correction from a few changed rows looks narrower than it is. Intervals are those of
`skewed_intervals.py`, which take the skewness of the estimate into account.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from belvedere.estimation.diagnosis import (
    FEWEST,
    HEAVY,
    LEAST_SHARED,
    LOPSIDED,
    SKEWED,
    UNSEEN,
    doubt,
    tail_index,
)
from belvedere.estimation.linearization import Array, Dual, totals
from belvedere.estimation.skewed_intervals import offsets
from belvedere.samples.estimators.per_key_sums import KeySums

SmoothFunction = Callable[[list[Dual]], Dual]
"""An answer as a function of totals."""


@dataclass(frozen=True)
class StaleExtremes:
    """The largest contributions in the stale view, which is stored in full."""

    row: Callable[[Array], Array]
    """Per group the largest contribution that a stale row makes, given slopes; NaN if unknown."""
    unit: Array | None = None
    """Per group the largest hashed key's share of each total's squares, where keys have many rows."""


CURVATURES = 8
"""The number of random errors that measure the curvature of an answer."""


class Method(Enum):
    """How an answer is estimated: from the sample (AQP), or by a correction (CORR); AUTO chooses."""

    AUTO = "AUTO"
    AQP = "AQP"
    CORR = "CORR"


@dataclass(frozen=True)
class MethodEstimate:
    """One method's estimate of an answer, per group."""

    method: Method
    value: Array
    variance: Array
    keys: Array
    """The number of sampled keys that the variance comes from; of CORR the changed keys."""
    skew: Array
    """The largest contribution over the mean one."""
    unseen: Array
    """The square of the largest possible contribution over the sampled sum of squares; NaN if unknown."""
    share: Array
    """The same for the largest sampled contribution."""
    tail: Array
    """The tail index of the contributions, where the stale view says nothing of them."""
    lopsided: Array
    """The skewness of the estimate itself."""
    freedom: Array
    """Degrees of freedom of the estimated variance."""

    def reach(self, confidence: float) -> tuple[Array, Array]:
        """The distances from the estimate to the lower and the upper end of its interval."""
        return offsets(np.sqrt(self.variance), self.lopsided, self.freedom, confidence)

    def covers(self, truth: Array | float, confidence: float) -> NDArray[np.bool_]:
        """Where the interval contains the truth."""
        below, above = self.reach(confidence)
        return np.asarray((self.value - below <= truth) & (truth <= self.value + above))


@dataclass(frozen=True)
class SmoothEstimates:
    """An answer per group, with its interval, the method and a note."""

    value: Array
    low: Array
    high: Array
    method: list[str]
    notes: list[str]
    sides: dict[Method, MethodEstimate] = field(repr=False)
    stale: Array = field(repr=False)


def estimate_smooth(
    answer: SmoothFunction,
    cells: KeySums,
    stale_totals: Array | None,
    confidence: float,
    method: Method = Method.AUTO,
    extremes: StaleExtremes | None = None,
) -> SmoothEstimates:
    """An answer by the given method, or by the one with the smaller variance.

    Without the `extremes` of the stale view, notes come from the sample alone.
    """
    sides, stale = estimate_by_methods(answer, cells, stale_totals, extremes)
    return choose_estimates(sides, stale, cells.ratio, confidence, method)


def estimate_by_methods(
    answer: SmoothFunction,
    cells: KeySums,
    stale_totals: Array | None,
    extremes: StaleExtremes | None = None,
) -> tuple[dict[Method, MethodEstimate], Array]:
    """The estimate of each method, and the answer over the stale view."""
    sides = {Method.AQP: _estimate_by(answer, cells, None, Method.AQP, extremes)}
    if stale_totals is None:
        return sides, np.full(cells.groups, np.nan)
    sides[Method.CORR] = _estimate_by(answer, cells, stale_totals, Method.CORR, extremes)
    return sides, answer(totals(stale_totals)).value


def choose_estimates(
    sides: dict[Method, MethodEstimate],
    stale: Array,
    ratio: float,
    confidence: float,
    method: Method,
) -> SmoothEstimates:
    """The estimates of the given method, or in each group those with the smaller variance."""
    doubts = {m: _find_doubts(s, ratio) for m, s in sides.items()}
    chosen = _choose_methods(sides, doubts, method)
    names = list(sides)
    pick = np.array([names.index(m) for m in chosen])
    groups = np.arange(len(chosen))

    def of(values: Sequence[Array]) -> Array:
        return np.asarray(np.stack(list(values))[pick, groups], np.float64)

    value = of([s.value for s in sides.values()])
    ends = [of(e) for e in zip(*(s.reach(confidence) for s in sides.values()), strict=True)]
    exact = ratio == 1
    has_interval = exact | (of([s.keys for s in sides.values()]) >= FEWEST)
    low, high = (
        np.where(has_interval, value if exact else value + sign * end, np.nan)
        for sign, end in zip((-1, 1), ends, strict=True)
    )
    notes = [doubts[m][g] for g, m in enumerate(chosen)]
    return SmoothEstimates(value, low, high, [m.value for m in chosen], notes, sides, stale)


def _estimate_by(
    answer: SmoothFunction,
    cells: KeySums,
    base: Array | None,
    method: Method,
    extremes: StaleExtremes | None,
) -> MethodEstimate:
    values = cells.fresh if base is None else cells.change
    estimated = cells.estimate(values) + (0.0 if base is None else base)
    result = answer(totals(estimated))
    slope = np.nan_to_num(result.slope, posinf=0.0, neginf=0.0)
    contribution = cells.contributions(values, slope)
    keys = cells.count(contribution != 0)
    skew, lopsided, freedom = _shape(cells, contribution, keys)
    has_slope = np.isfinite(result.slope).all(axis=1)
    curvature = _curvature(answer, cells, values, estimated)
    variance = np.where(has_slope, cells.variance(contribution) + curvature, np.nan)
    unseen = _unseen_share(cells, slope, contribution, extremes, method)
    is_unknown = np.isnan(unseen).any()
    return MethodEstimate(
        method,
        result.value,
        variance,
        keys,
        skew,
        unseen,
        cells.relative_square(contribution, cells.largest(contribution)),
        tail_index(cells.group, contribution, cells.groups)
        if is_unknown
        else np.zeros(cells.groups),
        lopsided,
        freedom,
    )


def _shape(cells: KeySums, contribution: Array, keys: Array) -> tuple[Array, Array, Array]:
    """The largest contribution over the mean, the skewness of the estimate, its degrees of freedom."""
    largest = cells.largest(contribution)
    # Divide by the largest before taking powers, so that these do not overflow.
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.nan_to_num(contribution / largest[cells.group])
        square = relative * relative
        one, two, three, four = (
            np.bincount(cells.group, p, cells.groups)
            for p in (np.abs(relative), square, square * relative, square * square)
        )
        skew = np.where(keys > 0, keys / one, 0.0)
        lopsided = np.nan_to_num(three / two**1.5) * np.sqrt(1 - cells.ratio)
        freedom = np.clip(np.nan_to_num(2 * two**2 / four), 1, np.maximum(keys - 1, 1))
    return skew, lopsided, freedom


def _curvature(answer: SmoothFunction, cells: KeySums, values: Array, estimated: Array) -> Array:
    """The variance that comes from the curvature of an answer: all of it where the slope is 0.

    It is measured with errors like those of the sample: the contribution of each key with a random
    sign.
    """
    answer_here = answer(totals(estimated))
    slope = np.nan_to_num(answer_here.slope, posinf=0.0, neginf=0.0)
    if np.array_equal(answer_here.slope, answer(totals(2 * estimated + 1)).slope):
        return np.zeros(cells.groups)  # The answer is linear, as sums and counts are.
    deviation = np.where(cells.exact, 0.0, np.sqrt(1 - cells.ratio) / cells.ratio)
    columns = np.ascontiguousarray((values * deviation[:, None]).T)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (CURVATURES, len(cells.group)))
    remainders = []
    for sign in signs:
        sums = [np.bincount(cells.group, column * sign, cells.groups) for column in columns]
        error = np.stack(sums, axis=1)
        with np.errstate(over="ignore", invalid="ignore"):
            perturbed = answer(totals(estimated + error)).value
            remainder = perturbed - answer_here.value - (slope * error).sum(axis=1)
        remainders.append(np.where(np.isfinite(remainder), remainder, 0.0))
    return np.asarray(np.var(remainders, axis=0, ddof=1), np.float64)


def _unseen_share(
    cells: KeySums,
    slope: Array,
    contribution: Array,
    extremes: StaleExtremes | None,
    method: Method,
) -> Array:
    """How far a key outside the sample may outweigh the sampled keys; NaN if that is not known."""
    if extremes is None:
        return np.full(cells.groups, np.nan)
    stale_contribution = cells.contributions(cells.stale, slope)
    bound = extremes.row(slope)
    if method is Method.CORR:
        # Sampled keys bound the relative gain of the others; a relative gain is at most 1.
        with np.errstate(divide="ignore", invalid="ignore"):
            relative_gain = np.where(
                contribution == 0, 0.0, np.minimum(np.abs(contribution / stale_contribution), 1.0)
            )
        bound = bound * cells.largest(np.where(np.isnan(relative_gain), 1.0, relative_gain))
    ratio = cells.relative_square(contribution, np.maximum(bound, cells.largest(contribution)))
    if extremes.unit is not None:
        heavy = np.where(slope == 0, 0.0, extremes.unit).max(axis=1) / cells.ratio
        ratio = np.maximum(ratio, UNSEEN * heavy)
    if method is Method.CORR:
        return ratio
    contributes = contribution != 0
    is_represented = cells.count(
        (stale_contribution != 0) & contributes
    ) >= LEAST_SHARED * cells.count(contributes)
    return np.where(is_represented, ratio, np.nan)


def _find_doubts(side: MethodEstimate, ratio: float) -> list[str]:
    """Per group the reason why an interval may not cover at its rate; empty if it does."""
    if ratio == 1:
        return [""] * len(side.keys)
    changed = side.method is Method.CORR
    heavy = (side.skew > SKEWED) | (np.abs(side.lopsided) > LOPSIDED) | (side.tail > HEAVY)
    return [
        doubt(int(k), float(u), float(s), heavy=bool(h), changed=changed)
        for k, u, s, h in zip(side.keys, side.unseen, side.share, heavy, strict=True)
    ]


def _choose_methods(
    sides: dict[Method, MethodEstimate], doubts: dict[Method, list[str]], method: Method
) -> list[Method]:
    """Per group the given method; for AUTO the better of those that can be trusted."""
    aqp, corr = sides[Method.AQP], sides.get(Method.CORR)
    groups = len(aqp.value)
    if corr is None or method is not Method.AUTO:
        only = method if method in sides else Method.AQP
        return [only] * groups
    smaller = np.nan_to_num(corr.variance, nan=np.inf) <= np.nan_to_num(aqp.variance, nan=np.inf)
    trust = {
        m: (s.keys >= FEWEST).astype(int) + np.array([not d for d in doubts[m]])
        for m, s in sides.items()
    }
    corr_trust, aqp_trust = trust[Method.CORR], trust[Method.AQP]
    takes_corr = np.where(corr_trust == aqp_trust, smaller, corr_trust > aqp_trust)
    return [Method.CORR if corr else Method.AQP for corr in takes_corr]
