"""Confidence intervals of counts, sums, averages and quantiles from a sample of a join, and doubts about them.

    count      exact where few rows count or few do not (Clopper-Pearson, or hypergeometric where
               the sample is a large part of the join), else Wilson's interval
    sum, avg   Student's t for skewed errors, as for samples of views
    quantile   the order statistics that a binomial distribution gives

An interval covers at its rate if no unsampled row can outweigh the sampled rows. The least and greatest
values in the tables decide that; where these are not known, the tail of the sample does.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import bdtr, bdtrik, betaincinv, gammaln, ndtri

from belvedere.estimation.diagnosis import (
    ENOUGH,
    ENOUGH_ALONE,
    HEAVY,
    LOPSIDED,
    MOST,
    UNSEEN,
    tail_index,
)
from belvedere.estimation.linearization import Array
from belvedere.estimation.skewed_intervals import offsets

RARE = 10
"""With fewer rows that count, or that do not, the interval of a count is exact."""
SMALL = 10**7
"""Hypergeometric probabilities are computed for joins of at most so many results."""


def count_interval(
    n: int, hits: int, size: int, confidence: float, *, replacement: bool
) -> tuple[float, float]:
    """The interval of the number of results, of `size` in all, that count as `hits` of n sampled results do.

    >>> count_interval(3, 3, 20, 0.95, replacement=False)
    (7.0, 20.0)
    >>> low, high = count_interval(100, 50, 10**6, 0.95, replacement=False)
    >>> round(low), round(high)
    (403836, 596164)
    """
    if min(hits, n - hits) < RARE:
        if size <= SMALL and not replacement:
            return _hypergeometric(n, hits, size, confidence)
        tail = (1 - confidence) / 2
        low = float(betaincinv(hits, n - hits + 1, tail)) if hits else 0.0
        high = float(betaincinv(hits + 1, n - hits, 1 - tail)) if hits < n else 1.0
        return size * low, size * high
    shrink = 1.0 if replacement else 1 - n / size
    z = ndtri(0.5 + confidence / 2) * math.sqrt(shrink)
    share = hits / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return size * max(0.0, middle - half), size * min(1.0, middle + half)


def _hypergeometric(n: int, hits: int, size: int, confidence: float) -> tuple[float, float]:
    """The least and greatest count for which so many hits, and so few, are not improbable."""
    tail = (1 - confidence) / 2
    least, most = hits, size - n + hits
    low = _first(least, most, lambda k: 1 - _at_most(hits - 1, k, n, size) > tail)
    high = _first(least, most, lambda k: _at_most(hits, k, n, size) <= tail)
    return float(low), float(high - 1 if _at_most(hits, high, n, size) <= tail else high)


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The least number for which a monotone condition holds; `high` if there is none."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def _at_most(hits: int, k: int, n: int, size: int) -> float:
    """The probability of at most so many hits in n of `size` results, k of which count."""
    first, last = max(0, n + k - size), min(n, k)
    if hits >= last:
        return 1.0
    if hits < first:
        return 0.0
    # Sum the shorter tail.
    if hits - first <= last - hits:
        return min(1.0, _probabilities(first, hits, k, n, size))
    return max(0.0, 1 - _probabilities(hits + 1, last, k, n, size))


def _probabilities(first: int, last: int, k: int, n: int, size: int) -> float:
    hits = np.arange(first, last + 1, dtype=np.float64)

    def choose(of: Array | float, some: Array | float) -> Array:
        return np.asarray(gammaln(of + 1.0) - gammaln(some + 1.0) - gammaln(of - some + 1.0))

    logs = (
        choose(float(k), hits) + choose(float(size - k), n - hits) - choose(float(size), float(n))
    )
    return float(np.exp(logs).sum())


def mean_offsets(around: Array, shrink: float, confidence: float) -> tuple[float, float]:
    """The distances from a mean to the ends of its interval; `around` has the values minus their mean."""
    n = len(around)
    squares = float((around**2).sum())
    if n < 2 or not squares:
        return math.inf, math.inf
    part = around / np.abs(around).max()
    two, three, four = (float((part**k).sum()) for k in (2, 3, 4))
    lopsided = three / two**1.5 * math.sqrt(shrink)
    freedom = min(max(2 * two**2 / four, 1.0), n - 1.0)
    deviation = math.sqrt(shrink * squares / (n - 1) / n)
    one = np.ones(1)
    below, above = offsets(deviation * one, lopsided * one, freedom * one, confidence)
    return float(below[0]), float(above[0])


def doubt(around: Array, rows: int, span: tuple[float, float] | None) -> str:
    """Why the interval of a mean may not cover at its rate; empty if it does.

    `around` has the sampled values minus their mean, `span` the least and greatest value minus it.
    """
    squares = float((around**2).sum())
    if rows < (ENOUGH if span else ENOUGH_ALONE):
        return f"few sampled rows ({rows}): the interval is rough; a larger sample mends that"
    if not squares:
        return "all sampled rows have the same value: others may not; a larger sample shows more"
    if span is not None and max(span[0] ** 2, span[1] ** 2) >= UNSEEN * squares:
        return "skewed: one row may outweigh all that were sampled; a larger sample mends that"
    lopsided = abs(float((around**3).sum())) / squares**1.5
    tail = float(tail_index(np.zeros(len(around), np.int64), around, 1)[0])
    alone = span is None and (lopsided > LOPSIDED or tail > HEAVY)
    if alone or float((around**2).max()) > MOST * squares:
        return "skewed: a few rows are most of the error; a larger sample mends that"
    return ""


def ranks(n: int, at: float, shrink: float, confidence: float) -> tuple[int, int]:
    """The places among n sorted values between which a quantile lies; they may be outside of the sample."""
    tail = (1 - confidence) / 2
    low, high = _binomial(tail, n, at) - 1, _binomial(1 - tail, n, at) + 1
    # A sample of a large part of the join leaves less unknown.
    factor = math.sqrt(shrink)
    return math.floor(n * at + (low - n * at) * factor), math.ceil(
        n * at + (high - n * at) * factor
    )


def _binomial(share: float, n: int, p: float) -> int:
    """The quantile of a binomial distribution.

    >>> _binomial(0.5, 10, 0.5), _binomial(0.025, 100, 0.5), _binomial(0.975, 100, 0.5)
    (5, 40, 60)
    """
    quantile = max(0, math.ceil(float(bdtrik(share, n, p))))
    # The inverse is rounded: the number before may do.
    return quantile - 1 if quantile and bdtr(quantile - 1, n, p) >= share else quantile
