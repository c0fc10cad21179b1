"""Fit cost functions to measured times: the expected cost, and an upper bound.

Kinds of change differ: a deleted row may cost ten times as much as an inserted row. The expected cost
is the mean over the kinds, weighted by how often they arrive. The upper bound is that of the most
expensive kind.

The expected cost is a straight line or blocks if these fit as well as a curve, otherwise the curve:
the measurements made monotone (isotonic regression) and subadditive (the cost per change never
rises). Errors are relative, so that a batch of ten thousand does not outweigh a single change. The
upper bound is a curve on or above every measurement, monotone and subadditive too.
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
"""The mean relative error up to which a line or blocks are used."""
SAME_SIZE = 1.4
"""Batches whose sizes differ by less than this factor count as one size: of 100 requested rows 80 to
110 change."""
MANY_TIMES = 5
"""The number of times from which on the longest and the shortest are left out."""
NOISE = 0.15
"""The relative amount by which a larger batch may be cheaper before it is measured again."""
KINDS = ("insert", "delete", "update")
"""The kinds of change; a batch of real changes has none."""

Points = list[tuple[int, float]]
Weights = Mapping[str, float]
"""The share of each kind in the arrivals; empty if that is not known."""


@dataclass(frozen=True)
class MeasuredBatch:
    """The time of a batch of changes of one kind, or of real changes."""

    changes: int
    seconds: float
    kind: str = ""


@dataclass(frozen=True)
class FittedCost:
    """A cost function, its mean relative error, the measurements, and notes on what was smoothed."""

    cost: CostFunction
    residual: float
    measured: tuple[MeasuredBatch, ...]
    notes: tuple[str, ...] = ()
    above: CostFunction | None = None
    """The upper bound; None if it is the cost itself."""

    @property
    def at_most(self) -> CostFunction:
        """The upper bound, which keeps limits."""
        return self.above or self.cost


@dataclass(frozen=True)
class JointBatch:
    """The time of batches of several tables in one action."""

    changes: tuple[int, ...]
    seconds: float
    kind: str = ""

    @property
    def tables(self) -> int:
        """The number of tables with changes."""
        return sum(map(bool, self.changes))


def fit_cost(measured: Sequence[MeasuredBatch], weights: Weights | None = None) -> FittedCost:
    """The cost functions that fit measurements; Invalid if they cannot be costs."""
    for one in measured:
        if one.changes < 1 or not isfinite(one.seconds) or one.seconds < 0:
            raise Invalid(
                f"{one.seconds:g} seconds for {one.changes} changes is not a cost",
                hint="calibrate the view again",
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
    """One expected time for each batch size, in order: the mean over kinds by how often they arrive.

    Times of real changes replace those of kinds for sizes about the same. If it is not known which
    kinds arrive, the most expensive kind is expected.
    """
    as_arrived = typical_times([m for m in measured if not m.kind])
    measured_sizes = {size_class(k) for k, _ in as_arrived}
    kinds = {kind: dict(typical_times([m for m in measured if m.kind == kind])) for kind in KINDS}
    points = dict(as_arrived)
    for k in sorted({k for times in kinds.values() for k in times}):
        times = {
            kind: times_of_kind[k] for kind, times_of_kind in kinds.items() if k in times_of_kind
        }
        total = sum(weights.get(kind, 0.0) for kind in times)
        if size_class(k) in measured_sizes:
            continue
        if total > 0:
            points[k] = sum(weights.get(kind, 0.0) * t for kind, t in times.items()) / total
        else:
            points[k] = max(times.values())
    return sorted(points.items())


def typical_times(measured: Sequence[MeasuredBatch]) -> Points:
    """One time for each batch size, in order; sizes that differ little are one.

    Changes may join rows or none, and a batch may lose an extremum or not, so that a size takes one
    of two times. The mean predicts the total of many batches.

    >>> typical_times([MeasuredBatch(98, 1.0), MeasuredBatch(100, 9.0), MeasuredBatch(103, 2.0), MeasuredBatch(200, 3.0)])
    [(100, 4.0), (200, 3.0)]
    """
    groups: list[list[MeasuredBatch]] = []
    for one in sorted(measured, key=lambda m: m.changes):
        if groups and one.changes <= SAME_SIZE * groups[-1][0].changes:
            groups[-1].append(one)
        else:
            groups.append([one])
    return [
        (median_low(m.changes for m in group), max(_trimmed_mean([m.seconds for m in group]), 1e-9))
        for group in groups
    ]


def _trimmed_mean(values: list[float]) -> float:
    """The mean; of many values without the highest and the lowest, which may be noise.

    >>> _trimmed_mean([9.0, 1.0, 2.0]), _trimmed_mean([9.0, 1.0, 2.0, 3.0, 4.0])
    (4.0, 3.0)
    """
    return fmean(sorted(values)[1:-1] if len(values) >= MANY_TIMES else values)


def sizes_to_measure_again(measured: Sequence[MeasuredBatch]) -> list[int]:
    """The batch sizes that seem cheaper than smaller ones by more than noise."""
    sizes = (k for _, points in by_kind(measured) for k, _, _ in _cheaper_than_smaller(points))
    return sorted(set(sizes))


def fit_prices(each: Sequence[FittedCost], joint: Sequence[JointBatch]) -> Prices:
    """The prices that fit the measurements of single and joint batches.

    The shared cost is the time that joint batches saved over their parts, for each further table. It
    does not grow with the changes, so it is measured on the smaller half of the batches; in larger
    ones the time of rows hides it. The upper bounds share only what every joint batch saved, which
    is negative if one took longer than its parts.
    """
    costs = tuple(fitted.cost for fitted in each)
    above = tuple(fitted.at_most for fitted in each)
    several = [one for one in joint if one.tables > 1]
    alone = [_cost_alone(each, one) for one in several]
    saved = [(a - one.seconds) / (one.tables - 1) for a, one in zip(alone, several, strict=True)]
    sizes = [sum(one.changes) for one in several]
    small_batches = [s for s, size in zip(saved, sizes, strict=True) if size <= median_low(sizes)]
    shared = max(_shareable(median(small_batches), costs), 0.0) if small_batches else 0.0
    certain = (
        (_total_cost(above, one.changes) - one.seconds) / (one.tables - 1) for one in several
    )
    # Take the median within each kind, so that one slow batch does not count, but a slow kind does.
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
    """The shared cost, at most the cost of the cheapest single change."""
    return min(shared, min(cost(1) for cost in costs))


def _cost_alone(each: Sequence[FittedCost], joint: JointBatch) -> float:
    """The cost of the parts of a joint batch one by one, for its kind of change."""
    return _total_cost([_cost_of_kind(fitted, joint.kind) for fitted in each], joint.changes)


def _cost_of_kind(fitted: FittedCost, kind: str) -> CostFunction:
    batches = [m for m in fitted.measured if m.kind == kind]
    return fit_cost(batches).cost if kind and batches else fitted.cost


def by_kind(measured: Sequence[MeasuredBatch]) -> list[tuple[str, Points]]:
    """The typical times of each measured kind of change."""
    kinds = {kind: [m for m in measured if m.kind == kind] for kind in ("", *KINDS)}
    return [(kind, typical_times(batches)) for kind, batches in kinds.items() if batches]


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
    """The best fitting blocks, of the size of one of the batches."""

    def blocks(size: int) -> BlockCost:
        counts = np.array([-(-k // size) for k, _ in points], dtype=float)
        times = np.array([seconds for _, seconds in points])
        price = np.sum(counts / times) / np.sum((counts / times) ** 2)
        return BlockCost(size, float(price))

    sizes = [k for k, _ in points]
    return min((blocks(size) for size in sizes), key=lambda cost: _residual(cost, points))


def _curve(points: Points) -> CurveCost:
    rising = _isotonic([seconds for _, seconds in _from_one(points)])
    each, points_below = float("inf"), []
    for (k, _), seconds in zip(_from_one(points), rising, strict=True):
        value = min(seconds, each * k)
        each = value / k
        points_below.append((k, value))
    return CurveCost(tuple(points_below))


def _upper_curve(points: Points, cost: CostFunction) -> CurveCost:
    """A curve on or above points and a cost function, monotone, whose cost per change never rises.

    >>> _upper_curve([(1, 1.0), (10, 0.5), (20, 40.0)], LinearCost(0.0, 1.0)).points
    ((1, 2.0), (10, 20.0), (20, 40.0), (40, 40.0))
    """
    if isinstance(cost, BlockCost):
        cost = LinearCost(cost.price / cost.size, cost.price)
    each, points_above = 0.0, list[tuple[int, float]]()
    higher = [(k, max(seconds, cost(k))) for k, seconds in _from_one(points)]
    for k, seconds in reversed(_running_maximum(higher)):
        points_above.append((k, max(seconds, each * k)))
        each = max(each, seconds / k)
    # After the largest batch it continues with the slope of the cost.
    last, seconds = points_above[0]
    beyond = 2 * last, seconds + max(cost(2 * last) - cost(last), 0.0)
    return CurveCost((*reversed(points_above), beyond))


def _running_maximum(points: Points) -> Points:
    highest, maxima = 0.0, list[tuple[int, float]]()
    for k, seconds in points:
        highest = max(highest, seconds)
        maxima.append((k, highest))
    return maxima


def _from_one(points: Points) -> Points:
    return points if points[0][0] == 1 else [(1, points[0][1]), *points]


def _isotonic(values: list[float]) -> list[float]:
    """The nearest values that never fall: falling neighbours are averaged.

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
    """The points that lie below an earlier one by more than noise."""
    highest, cheaper = 0.0, list[tuple[int, float, float]]()
    for k, seconds in points:
        if seconds < highest * (1 - NOISE):
            cheaper.append((k, seconds, highest))
        highest = max(highest, seconds)
    return cheaper


def size_class(changes: int) -> int:
    """The size class of a batch: sizes within a factor of two have the same."""
    return changes.bit_length()
