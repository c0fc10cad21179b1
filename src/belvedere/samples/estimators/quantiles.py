"""Medians and percentiles by the corrected distribution, and by the bootstrap.

    inverted   T(v) = Σ w (1[x ≤ v] − p) is zero on average where F(v) = p: the interval has the
               values at which T may be zero, given its own variance there (Woodruff 1952), with
               w = 1 for stale rows, 1/m for sampled fresh ones, −1/m for sampled stale ones
    bootstrap  sampled keys are drawn again with both of their rows (§5.2.5 draws the two samples
               apart, which loses their correspondence and is several times too wide)

Rows of equal value count together: between them T is not a statement about any value. A corrected
distribution may fall here and there; its value is read midway between what it has reached from
below and what it does not fall under from above, since either alone is biased.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from belvedere.estimation.diagnosis import ENOUGH, ENOUGH_CHANGED, FEWEST
from belvedere.estimation.linearization import Array
from belvedere.samples.estimators.bootstrap import resampling_weights
from belvedere.samples.estimators.per_key_sums import Ids
from belvedere.samples.estimators.smooth import Method

_FAR = 5.0
"""The number of deviations from which on a value certainly lies below or above."""


@dataclass(frozen=True)
class GroupValues:
    """The values of one group in one state, with their hashed keys; `exact` marks outlier keys."""

    value: Array
    unit: Ids
    exact: np.ndarray

    def weights(self, ratio: float) -> Array:
        """The inverse of the probability of being in the sample."""
        return np.where(self.exact, 1.0, 1.0 / ratio)


@dataclass(frozen=True)
class Quantile:
    """An estimated quantile of one group, its interval and the number of sampled keys."""

    value: float
    low: float
    high: float
    variance: float
    """The variance of the distribution function at the value."""
    keys: int

    @staticmethod
    def exact(value: float) -> Quantile:
        """A quantile that was computed from all rows."""
        return Quantile(value, value, value, 0.0, 0)

    def sound(self, *, changed: bool) -> bool:
        """Whether the interval comes from enough keys, or enough changed keys."""
        return not np.isnan(self.low) and self.keys >= (ENOUGH_CHANGED if changed else ENOUGH)


@dataclass(frozen=True)
class _Distribution:
    """Per distinct value the cumulative weight, and the sums of squares and cubes of keys' parts of T."""

    value: Array
    mass: Array
    squares: Array
    cubes: Array

    def at(self, share: float) -> float:
        """The smallest value with at least that share of all weight at or below it."""
        if not len(self.value):
            return float("nan")
        end = self.mass[-1]
        reached = np.minimum(np.maximum.accumulate(self.mass), end)
        reachable = np.minimum.accumulate(self.mass[::-1])[::-1]
        position = int(np.searchsorted((reached + reachable) / 2, share * end - 1e-9 * abs(end)))
        return float(self.value[min(position, len(self.value) - 1)])


def _distribution(
    p: float, sides: Sequence[tuple[GroupValues, float]], whole: Array, ratio: float
) -> _Distribution:
    """The distribution of the values, and the moments of T at each of them."""
    value = np.concatenate([*(s.value for s, _ in sides), whole])
    weight = np.concatenate([*(sign * s.weights(ratio) for s, sign in sides), np.ones(len(whole))])
    values, position = np.unique(value, return_inverse=True)
    mass = np.cumsum(np.bincount(position, weight, len(values)))
    sampled = np.concatenate([~s.exact for s, _ in sides])
    sign = np.concatenate([np.full(len(s.value), sign) for s, sign in sides])[sampled]
    unit = np.concatenate([s.unit for s, _ in sides])[sampled]
    positions = position[: len(sampled)][sampled]
    # The residual of a key starts at −p per row and rises by one at the value of each of its rows.
    order = np.lexsort((positions, unit))
    unit, positions, sign = unit[order], positions[order], sign[order]
    starts = np.flatnonzero(np.diff(unit, prepend=-1) != 0)
    length = np.diff(np.append(starts, len(unit)))
    initial = -p * np.add.reduceat(sign, starts) if len(starts) else np.zeros(0)
    running = np.cumsum(sign)
    base = np.repeat(running[starts] - sign[starts], length)
    residual_after = np.repeat(initial, length) + running - base
    residual_before = residual_after - sign
    squares, cubes = (
        np.asarray(
            (initial**k).sum()
            + np.cumsum(
                np.bincount(positions, residual_after**k - residual_before**k, len(values))
            ),
            np.float64,
        )
        for k in (2, 3)
    )
    return _Distribution(values, np.asarray(mass, np.float64), np.maximum(squares, 0.0), cubes)


def estimate_quantile(
    p: float,
    fresh: GroupValues,
    stale: GroupValues,
    whole: Array | None,
    ratio: float,
    confidence: float,
) -> Quantile:
    """A quantile by the inverted distribution; by CORR if the whole stale column is given."""
    sides = [(fresh, 1.0)] + ([(stale, -1.0)] if whole is not None else [])
    distribution = _distribution(p, sides, np.zeros(0) if whole is None else whole, ratio)
    q = distribution.at(p)
    # The residual of each hashed key: its part of the linearised distribution function at q.
    keys_of_rows = np.concatenate([s.unit[~s.exact] for s, _ in sides])
    residual_per_row = np.concatenate([sign * ((s.value <= q) - p)[~s.exact] for s, sign in sides])
    _, position = np.unique(keys_of_rows, return_inverse=True)
    residual = np.bincount(position, residual_per_row) if len(position) else np.zeros(0)
    total = max(float(distribution.mass[-1]) if len(distribution.mass) else 0.0, 1e-300)
    variance = float((residual**2).sum() * (1 - ratio) / ratio**2 / total**2)
    keys = int(np.count_nonzero(np.abs(residual) > 1e-12))
    if ratio == 1:
        return Quantile.exact(q)
    low, high = (
        (np.nan, np.nan) if keys < FEWEST else _interval(distribution, p, keys, ratio, confidence)
    )
    if np.isnan(low) or np.isnan(high):
        return Quantile(q, float("nan"), float("nan"), variance, keys)
    return Quantile(q, min(low, q), max(high, q), variance, keys)


def _interval(
    distribution: _Distribution, p: float, keys: int, ratio: float, confidence: float
) -> tuple[float, float]:
    """The interval of the p-quantile; NaN for an end that no sampled value bounds."""
    # The first entry stands for values below the least sampled value.
    excess = np.append(0.0, distribution.mass) - p * distribution.mass[-1]
    squares, cubes = (
        _at_zero_crossing(excess[1:], of) for of in (distribution.squares, distribution.cubes)
    )
    if squares <= 0:
        return float("nan"), float("nan")
    z = np.clip(excess * ratio / np.sqrt(squares * (1 - ratio)), -_FAR, _FAR)
    # Edgeworth's first term, for a statistic whose variance is that under what is tested.
    corrected = z - cubes / squares**1.5 * np.sqrt(1 - ratio) * (z * z - 1) / 6
    corrected = np.where(np.abs(z) == _FAR, z, corrected)
    limit = float(stdtrit(max(keys - 1, 1), (1 + confidence) / 2))
    not_below, not_above = np.flatnonzero(corrected >= -limit), np.flatnonzero(corrected < limit)
    ends = np.append(np.nan, np.append(distribution.value, np.nan))
    first = int(not_below[0]) if len(not_below) else len(z)
    last = int(not_above[-1]) + 1 if len(not_above) else 0
    return float(ends[first]), float(ends[last])


def _at_zero_crossing(excess: Array, of: Array) -> float:
    """The value of a running sum where the excess crosses zero, interpolated between two values."""
    at = min(int(np.searchsorted(np.maximum.accumulate(excess), 0.0)), len(excess) - 1)
    if at == 0 or excess[at] <= excess[at - 1]:
        return float(of[at])
    share = -excess[at - 1] / (excess[at] - excess[at - 1])
    return float(of[at - 1] + min(max(share, 0.0), 1.0) * (of[at] - of[at - 1]))


def better_method(sides: dict[Method, Quantile]) -> Method:
    """The method with the smaller variance among those that can be trusted, or have an interval."""
    trusted = {m: q for m, q in sides.items() if q.sound(changed=m is Method.CORR)}
    candidates = trusted or {m: q for m, q in sides.items() if not np.isnan(q.low)} or sides
    return min(candidates, key=lambda m: candidates[m].variance)


def bootstrap_quantile(
    p: float,
    fresh: GroupValues,
    stale: GroupValues,
    whole: Array | None,
    ratio: float,
    confidence: float,
    seed: int = 0,
) -> tuple[float, float]:
    """The interval of a quantile from resampled keys, each with its fresh and its stale row."""
    value, weight = [fresh.value], [fresh.weights(ratio)]
    unit, exact = [fresh.unit], [fresh.exact]
    if whole is not None:
        value += [stale.value, whole]
        weight += [-stale.weights(ratio), np.ones(len(whole))]
        unit += [stale.unit, np.full(len(whole), -1)]
        exact += [stale.exact, np.ones(len(whole), bool)]
    values, weights, fixed = (np.concatenate(x) for x in (value, weight, exact))
    order = np.argsort(values, kind="stable")
    _, position = np.unique(np.concatenate(unit), return_inverse=True)
    resampling = resampling_weights(position.max() + 1 if len(position) else 0, ratio, seed)
    mass = np.cumsum(
        np.where(fixed[order], 1.0, resampling[:, position[order]]) * weights[order], axis=1
    )
    reached = np.maximum.accumulate(mass, axis=1) >= p * mass[:, -1:] - 1e-9
    resampled = values[order][np.argmax(reached, axis=1)]
    tail = (1 - confidence) / 2
    low, high = np.quantile(resampled, [tail, 1 - tail])
    return float(low), float(high)
