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
from belvedere.samples.estimators.per_key_sums import Cells

Answer = Callable[[list[Dual]], Dual]
"""An answer as a function of totals."""


@dataclass(frozen=True)
class Extremes:
    """What the stale view, which is stored in full, says of the largest contributions."""

    row: Callable[[Array], Array]
    """Per group the largest contribution that a stale row makes, given slopes; NaN if unknown."""
    unit: Array | None = None
    """Per group the largest hashed key's share of each total's squares, where keys have many rows."""


CURVATURES = 8
"""Random errors by which an answer's curvature is measured."""


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
    unseen: Array
    """The square of the largest contribution there may be over the sampled ones'; NaN if unknown."""
    share: Array
    """The same of the largest sampled contribution."""
    tail: Array
    """The tail index of the contributions, where nothing is known beside them."""
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
    extremes: Extremes | None = None,
) -> Estimates:
    """An answer by the method asked for, or by the one with the smaller variance.

    Without the stale view's `extremes` the sample alone says what can be trusted.
    """
    sides, stale = sides_of(answer, found, stale_totals, extremes)
    return by_method(sides, stale, found.ratio, confidence, method)


def sides_of(
    answer: Answer, found: Cells, stale_totals: Array | None, extremes: Extremes | None = None
) -> tuple[dict[Method, Side], Array]:
    """Each method's estimate of an answer, and the answer over the stale view."""
    sides = {Method.AQP: _side(answer, found, None, Method.AQP, extremes)}
    if stale_totals is None:
        return sides, np.full(found.groups, np.nan)
    sides[Method.CORR] = _side(answer, found, stale_totals, Method.CORR, extremes)
    return sides, answer(totals(stale_totals)).value


def by_method(
    sides: dict[Method, Side], stale: Array, ratio: float, confidence: float, method: Method
) -> Estimates:
    """The estimates of the method asked for, or of the better one in each group."""
    doubts = {m: _doubts(s, ratio) for m, s in sides.items()}
    chosen = _chosen(sides, doubts, method)
    names = list(sides)
    pick = np.array([names.index(m) for m in chosen])
    at = np.arange(len(chosen))

    def of(values: Sequence[Array]) -> Array:
        return np.asarray(np.stack(list(values))[pick, at], np.float64)

    value = of([s.value for s in sides.values()])
    ends = [of(e) for e in zip(*(s.reach(confidence) for s in sides.values()), strict=True)]
    exact = ratio == 1
    shown = exact | (of([s.keys for s in sides.values()]) >= FEWEST)
    low, high = (
        np.where(shown, value if exact else value + sign * end, np.nan)
        for sign, end in zip((-1, 1), ends, strict=True)
    )
    notes = [doubts[m][g] for g, m in enumerate(chosen)]
    return Estimates(value, low, high, [m.value for m in chosen], notes, sides, stale)


def _side(
    answer: Answer, found: Cells, base: Array | None, method: Method, extremes: Extremes | None
) -> Side:
    what = found.fresh if base is None else found.change
    at = found.estimate(what) + (0.0 if base is None else base)
    result = answer(totals(at))
    slope = np.nan_to_num(result.slope, posinf=0.0, neginf=0.0)
    along = found.along(what, slope)
    keys = found.count(along != 0)
    skew, lopsided, freedom = _skewness(found, along, keys)
    known = np.isfinite(result.slope).all(axis=1)
    curved = _curvature(answer, found, what, at)
    variance = np.where(known, found.variance(along) + curved, np.nan)
    unseen = _unseen(found, slope, along, extremes, method)
    alone = np.isnan(unseen).any()
    return Side(
        method,
        result.value,
        variance,
        keys,
        skew,
        unseen,
        found.outweighs(along, found.largest(along)),
        tail_index(found.group, along, found.groups) if alone else np.zeros(found.groups),
        lopsided,
        freedom,
    )


def _skewness(found: Cells, along: Array, keys: Array) -> tuple[Array, Array, Array]:
    """The largest contribution over the mean one, the estimate's skewness, degrees of freedom."""
    top = found.largest(along)
    # Powers of values over the largest, lest they overflow.
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.nan_to_num(along / top[found.group])
        square = part * part
        one, two, three, four = (
            np.bincount(found.group, p, found.groups)
            for p in (np.abs(part), square, square * part, square * square)
        )
        skew = np.where(keys > 0, keys / one, 0.0)
        lopsided = np.nan_to_num(three / two**1.5) * np.sqrt(1 - found.ratio)
        freedom = np.clip(np.nan_to_num(2 * two**2 / four), 1, np.maximum(keys - 1, 1))
    return skew, lopsided, freedom


def _curvature(answer: Answer, found: Cells, what: Array, at: Array) -> Array:
    """What an answer's curvature adds to its variance: all of it where the slope vanishes.

    Measured with errors like those of the sample: each key's contribution under a random sign.
    """
    here = answer(totals(at))
    slope = np.nan_to_num(here.slope, posinf=0.0, neginf=0.0)
    if np.array_equal(here.slope, answer(totals(2 * at + 1)).slope):
        return np.zeros(found.groups)  # A linear answer, as sums and counts are.
    deviation = np.where(found.exact, 0.0, np.sqrt(1 - found.ratio) / found.ratio)
    columns = np.ascontiguousarray((what * deviation[:, None]).T)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (CURVATURES, len(found.group)))
    rests = []
    for sign in signs:
        summed = [np.bincount(found.group, column * sign, found.groups) for column in columns]
        error = np.stack(summed, axis=1)
        with np.errstate(over="ignore", invalid="ignore"):
            moved = answer(totals(at + error)).value
            rest = moved - here.value - (slope * error).sum(axis=1)
        rests.append(np.where(np.isfinite(rest), rest, 0.0))
    return np.asarray(np.var(rests, axis=0, ddof=1), np.float64)


def _unseen(
    found: Cells,
    slope: Array,
    along: Array,
    extremes: Extremes | None,
    method: Method,
) -> Array:
    """How far a key that was not sampled may outweigh those that were; NaN if nothing is known."""
    if extremes is None:
        return np.full(found.groups, np.nan)
    stale = found.along(found.stale, slope)
    bound = extremes.row(slope)
    if method is Method.CORR:
        # A key gains at most what it had, as far as the sampled ones show.
        with np.errstate(divide="ignore", invalid="ignore"):
            gained = np.where(along == 0, 0.0, np.minimum(np.abs(along / stale), 1.0))
        bound = bound * found.largest(np.where(np.isnan(gained), 1.0, gained))
    ratio = found.outweighs(along, np.maximum(bound, found.largest(along)))
    if extremes.unit is not None:
        heavy = np.where(slope == 0, 0.0, extremes.unit).max(axis=1) / found.ratio
        ratio = np.maximum(ratio, UNSEEN * heavy)
    if method is Method.CORR:
        return ratio
    some = along != 0
    like = found.count((stale != 0) & some) >= LEAST_SHARED * found.count(some)
    return np.where(like, ratio, np.nan)


def _doubts(side: Side, ratio: float) -> list[str]:
    """Per group what keeps an interval from covering at its rate."""
    if ratio == 1:
        return [""] * len(side.keys)
    changed = side.method is Method.CORR
    heavy = (side.skew > SKEWED) | (np.abs(side.lopsided) > LOPSIDED) | (side.tail > HEAVY)
    return [
        doubt(int(k), float(u), float(s), heavy=bool(h), changed=changed)
        for k, u, s, h in zip(side.keys, side.unseen, side.share, heavy, strict=True)
    ]


def _chosen(
    sides: dict[Method, Side], doubts: dict[Method, list[str]], method: Method
) -> list[Method]:
    """Per group the method asked for; by itself the better of those that can be trusted."""
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
    trusted, other = trust[Method.CORR], trust[Method.AQP]
    takes = np.where(trusted == other, smaller, trusted > other)
    return [Method.CORR if t else Method.AQP for t in takes]


def with_extra_note(found: Estimates, notes: Sequence[str]) -> Estimates:
    """The same, with something more to say per group."""
    joined = ["; ".join(filter(None, pair)) for pair in zip(found.notes, notes, strict=True)]
    return replace(found, notes=joined)


def shown_everywhere(found: Estimates) -> NDArray[np.bool_]:
    """Where an interval is shown."""
    return ~np.isnan(found.low)
