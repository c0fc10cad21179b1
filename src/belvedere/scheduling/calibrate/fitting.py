"""Fitting: from times that were measured to cost functions, one as expected and one at most.

Kinds of change differ: a row that is deleted may cost ten times one that is inserted. The total
is predicted by the kinds that arrive, each as often as it does; a limit is kept by the dearest.

Of what is expected, a straight line or blocks are taken where they meet the measurements as well
as a curve through them does, else the curve: the measurements made monotone (isotonic regression)
and subadditive (the cost per change never rises). Errors are relative: a batch of ten thousand
must not outvote one of a single change. What batches take at most is a curve on or above every
measurement, monotone and subadditive too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import fmean, median, median_low

import numpy as np

from belvedere.errors import Invalid
from belvedere.scheduling.model.cost_functions import (
    BlockCost,
    CostFunction,
    CurveCost,
    LinearCost,
    Prices,
)

MAX_SIMPLE_ERROR = 0.10
"""A mean relative error up to which the simpler form is taken."""
SAME_SIZE = 1.4
"""How many times as large a batch may be that counts as one of the same size: of about a hundred
rows that were asked for, 80 to 110 change."""
MANY_TIMES = 5
"""Times of which the longest and the shortest are left out; of fewer one may speak for many."""
NOISE = 0.15
"""By how much a larger batch may have been cheaper before it is measured again."""
KINDS = ("insert", "delete", "update")
"""Kinds of change; a batch that was timed as it came has none."""

Points = list[tuple[int, float]]
Weights = Mapping[str, float]
"""How often each kind arrives; empty if that is not known."""


@dataclass(frozen=True)
class MeasuredBatch:
    """How long a batch took, of changes of one kind or as they came."""

    changes: int
    seconds: float
    kind: str = ""


@dataclass(frozen=True)
class FittedCost:
    """A cost function, how far the measurements are from it on average, and what was smoothed."""

    cost: CostFunction
    residual: float
    measured: tuple[MeasuredBatch, ...]
    notes: tuple[str, ...] = ()
    above: CostFunction | None = None
    """What no measurement exceeds; None where that is the cost itself."""

    @property
    def at_most(self) -> CostFunction:
        """The cost to keep limits by."""
        return self.above or self.cost


@dataclass(frozen=True)
class JointBatch:
    """How long batches of several tables took together."""

    changes: tuple[int, ...]
    seconds: float
    kind: str = ""

    @property
    def tables(self) -> int:
        """How many tables had any."""
        return sum(map(bool, self.changes))


def fit_cost(measured: Sequence[MeasuredBatch], weights: Weights | None = None) -> FittedCost:
    """The cost functions that measurements speak for; Invalid if they cannot be costs."""
    for one in measured:
        if one.changes < 1 or not isfinite(one.seconds) or one.seconds < 0:
            raise Invalid(
                f"{one.seconds:g} seconds for {one.changes} changes is not a cost",
                hint="measure again",
                reason="BAD_MEASUREMENT",
            )
    if not measured:
        raise Invalid("nothing was measured", hint="calibrate the view", reason="BAD_MEASUREMENT")
    points = expected_times(measured, weights or {})
    candidates: list[CostFunction] = [_line(points), _blocks(points), _curve(points)]
    errors = [_residual(cost, points) for cost in candidates]
    simple = min(range(2), key=lambda i: errors[i])
    best = simple if errors[simple] <= max(MAX_SIMPLE_ERROR, errors[2]) else 2
    return FittedCost(
        candidates[best],
        errors[best],
        tuple(measured),
        tuple(_notes(measured)),
        _upper_curve(_highest_times(measured), candidates[best]),
    )


def expected_times(measured: Sequence[MeasuredBatch], weights: Weights) -> Points:
    """One time for each size of batch, in order: of the kinds that arrive, each as often as it does.

    Batches that were timed as they came speak for themselves, and for others of about their
    size. Where it is not known what arrives, the dearest kind is expected.
    """
    own = typical_times([m for m in measured if not m.kind])
    known = {size_class(k) for k, _ in own}
    kinds = {kind: dict(typical_times([m for m in measured if m.kind == kind])) for kind in KINDS}
    points = dict(own)
    for k in sorted({k for times in kinds.values() for k in times}):
        times = {kind: found[k] for kind, found in kinds.items() if k in found}
        total = sum(weights.get(kind, 0.0) for kind in times)
        if size_class(k) in known:
            continue
        if total > 0:
            points[k] = sum(weights.get(kind, 0.0) * t for kind, t in times.items()) / total
        else:
            points[k] = max(times.values())
    return sorted(points.items())


def typical_times(measured: Sequence[MeasuredBatch]) -> Points:
    """One time for each size of batch, in order; sizes that differ by little are one.

    Changes may join rows or none, a batch may lose an extremum or not: a size takes one of two
    times, and what many batches take together is told by the mean.

    >>> typical_times([MeasuredBatch(98, 1.0), MeasuredBatch(100, 9.0), MeasuredBatch(103, 2.0), MeasuredBatch(200, 3.0)])
    [(100, 4.0), (200, 3.0)]
    """
    alike: list[list[MeasuredBatch]] = []
    for one in sorted(measured, key=lambda m: m.changes):
        if alike and one.changes <= SAME_SIZE * alike[-1][0].changes:
            alike[-1].append(one)
        else:
            alike.append([one])
    return [
        (median_low(m.changes for m in some), max(_trimmed_mean([m.seconds for m in some]), 1e-9))
        for some in alike
    ]


def _trimmed_mean(values: list[float]) -> float:
    """The mean; of many values without the highest and the lowest, which may be noise.

    >>> _trimmed_mean([9.0, 1.0, 2.0]), _trimmed_mean([9.0, 1.0, 2.0, 3.0, 4.0])
    (4.0, 3.0)
    """
    return fmean(sorted(values)[1:-1] if len(values) >= MANY_TIMES else values)


def sizes_to_measure_again(measured: Sequence[MeasuredBatch]) -> list[int]:
    """Sizes of batches that look cheaper than smaller ones by more than noise explains."""
    found = (k for _, points in by_kind(measured) for k, _, _ in _cheaper_than_smaller(points))
    return sorted(set(found))


def fit_prices(each: Sequence[FittedCost], joint: Sequence[JointBatch]) -> Prices:
    """The prices that measurements of single and joint batches speak for.

    Tables share as much as joint batches took less than their parts, for each table more. What is
    paid once does not grow with the changes: the smaller half of the batches tells it, in larger
    ones it is lost in what rows take. Surely no more is shared than any of them did, and less than
    nothing if one took longer.
    """
    costs = tuple(fitted.cost for fitted in each)
    above = tuple(fitted.at_most for fitted in each)
    several = [one for one in joint if one.tables > 1]
    alone = [_cost_alone(each, one) for one in several]
    saved = [(a - one.seconds) / (one.tables - 1) for a, one in zip(alone, several, strict=True)]
    sizes = [sum(one.changes) for one in several]
    told = [s for s, size in zip(saved, sizes, strict=True) if size <= median_low(sizes)]
    shared = max(_shareable(median(told), costs), 0.0) if told else 0.0
    certain = (
        (_total_cost(above, one.changes) - one.seconds) / (one.tables - 1) for one in several
    )
    # One joint batch that took long says little; a kind of change that shares less says much.
    errors: dict[str, list[float]] = {}
    for a, one in zip(alone, several, strict=True):
        off = abs(a - shared * (one.tables - 1) - one.seconds) / max(one.seconds, 1e-9)
        errors.setdefault(one.kind, []).append(off)
    joint_error = fmean(map(median, errors.values())) if errors else 0.0
    error = max(*(fitted.residual for fitted in each), joint_error)
    return Prices(costs, shared, above, _shareable(min(certain, default=0.0), above), error)


def _total_cost(costs: Sequence[CostFunction], changes: Sequence[int]) -> float:
    return sum(cost(k) for cost, k in zip(costs, changes, strict=True) if k)


def _shareable(shared: float, costs: Sequence[CostFunction]) -> float:
    """As much of what tables seem to share as the cheapest single change has."""
    return min(shared, min(cost(1) for cost in costs))


def _cost_alone(each: Sequence[FittedCost], joint: JointBatch) -> float:
    """What the parts of a joint batch take one by one, by what is known of its kind."""
    return _total_cost([_cost_of_kind(fitted, joint.kind) for fitted in each], joint.changes)


def _cost_of_kind(fitted: FittedCost, kind: str) -> CostFunction:
    alike = [m for m in fitted.measured if m.kind == kind]
    return fit_cost(alike).cost if kind and alike else fitted.cost


def by_kind(measured: Sequence[MeasuredBatch]) -> list[tuple[str, Points]]:
    """The times of each kind of change that was measured."""
    found = {kind: [m for m in measured if m.kind == kind] for kind in ("", *KINDS)}
    return [(kind, typical_times(some)) for kind, some in found.items() if some]


def _highest_times(measured: Sequence[MeasuredBatch]) -> Points:
    by_size: dict[int, float] = {}
    for one in measured:
        by_size[one.changes] = max(by_size.get(one.changes, 1e-9), one.seconds)
    return sorted(by_size.items())


def _line(points: Points) -> LinearCost:
    sizes, times = (np.array(values, dtype=float) for values in zip(*points, strict=True))
    if len(points) == 1:
        return LinearCost(0.0, float(times[0]))
    weighted = np.stack([sizes / times, 1 / times], axis=1)
    slope, fixed = np.linalg.lstsq(weighted, np.ones(len(points)), rcond=None)[0]
    if slope < 0:
        slope, fixed = 0.0, np.average(times, weights=times**-2)
    elif fixed < 0:
        slope, fixed = np.average(times / sizes, weights=(sizes / times) ** 2), 0.0
    return LinearCost(float(slope), float(fixed))


def _blocks(points: Points) -> CostFunction:
    """Blocks of the size of one of the batches, or of twice the largest: the nearest."""

    def blocks(size: int) -> BlockCost:
        counts = np.array([-(-k // size) for k, _ in points], dtype=float)
        times = np.array([seconds for _, seconds in points])
        price = np.sum(counts / times) / np.sum((counts / times) ** 2)
        return BlockCost(size, float(price))

    sizes = [k for k, _ in points]
    return min((blocks(size) for size in sizes), key=lambda cost: _residual(cost, points))


def _curve(points: Points) -> CurveCost:
    rising = _isotonic([seconds for _, seconds in _from_one(points)])
    each, found = float("inf"), []
    for (k, _), seconds in zip(_from_one(points), rising, strict=True):
        value = min(seconds, each * k)
        each = value / k
        found.append((k, value))
    return CurveCost(tuple(found))


def _upper_curve(points: Points, cost: CostFunction) -> CurveCost:
    """A curve on or above points and a cost function, monotone, whose cost per change never rises.

    >>> _upper_curve([(1, 1.0), (10, 0.5), (20, 40.0)], LinearCost(0.0, 1.0)).points
    ((1, 2.0), (10, 20.0), (20, 40.0), (40, 40.0))
    """
    if isinstance(cost, BlockCost):
        cost = LinearCost(cost.price / cost.size, cost.price)
    each, found = 0.0, list[tuple[int, float]]()
    higher = [(k, max(seconds, cost(k))) for k, seconds in _from_one(points)]
    for k, seconds in reversed(_running_maximum(higher)):
        found.append((k, max(seconds, each * k)))
        each = max(each, seconds / k)
    # Behind the largest batch it goes on as the cost does.
    last, seconds = found[0]
    beyond = 2 * last, seconds + max(cost(2 * last) - cost(last), 0.0)
    return CurveCost((*reversed(found), beyond))


def _running_maximum(points: Points) -> Points:
    highest, found = 0.0, list[tuple[int, float]]()
    for k, seconds in points:
        highest = max(highest, seconds)
        found.append((k, highest))
    return found


def _from_one(points: Points) -> Points:
    return points if points[0][0] == 1 else [(1, points[0][1]), *points]


def _isotonic(values: list[float]) -> list[float]:
    """The nearest values that never fall: neighbours that do are averaged.

    >>> _isotonic([1.0, 3.0, 2.0, 4.0])
    [1.0, 2.5, 2.5, 4.0]
    """
    pools: list[tuple[float, int]] = []
    for value in values:
        pools.append((value, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (b, m), (a, n) = pools.pop(), pools.pop()
            pools.append(((a * n + b * m) / (n + m), n + m))
    return [mean for mean, count in pools for _ in range(count)]


def _residual(cost: CostFunction, points: Points) -> float:
    return sum(abs(cost(k) - seconds) / seconds for k, seconds in points) / len(points)


def _notes(measured: Sequence[MeasuredBatch]) -> list[str]:
    return [
        f"{k} {kind or 'change'}s took {seconds:.3g} s, less than fewer did: smoothed"
        for kind, points in by_kind(measured)
        for k, seconds, _ in _cheaper_than_smaller(points)
    ]


def _cheaper_than_smaller(points: Points) -> list[tuple[int, float, float]]:
    """Points that lie below an earlier one by more than noise explains."""
    highest, found = 0.0, list[tuple[int, float, float]]()
    for k, seconds in points:
        if seconds < highest * (1 - NOISE):
            found.append((k, seconds, highest))
        highest = max(highest, seconds)
    return found


def size_class(changes: int) -> int:
    """About how many: batches within a factor of two are alike."""
    return changes.bit_length()
