"""Fitting: from times that were measured to a cost function.

A straight line or blocks are taken where they meet the measurements as well as a curve through
them does, else the curve: the measurements made monotone (isotonic regression) and subadditive
(the cost per change never rises). Errors are relative: a batch of ten thousand must not outvote
one of a single change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import median

import numpy as np

from belvedere.errors import Invalid
from belvedere.scheduling.costs import Block, Cost, Curve, Linear, Prices

CLOSE = 0.10
"""A mean relative error up to which the simpler form is taken."""
NOISY = 0.15
"""By how much a larger batch may have been cheaper before it is measured again."""


@dataclass(frozen=True)
class Measured:
    """How long a batch took."""

    changes: int
    seconds: float


@dataclass(frozen=True)
class Fit:
    """A cost function, how far the measurements are from it on average, and what was smoothed."""

    cost: Cost
    residual: float
    measured: tuple[Measured, ...]
    notes: tuple[str, ...] = ()


def fit(measured: Sequence[Measured]) -> Fit:
    """The cost function that measurements speak for; Invalid if they cannot be costs."""
    for one in measured:
        if one.changes < 1 or not isfinite(one.seconds) or one.seconds < 0:
            raise Invalid(
                f"{one.seconds:g} seconds for {one.changes} changes is not a cost",
                hint="measure again",
                reason="BAD_MEASUREMENT",
            )
    if not measured:
        raise Invalid("nothing was measured", hint="calibrate the view")
    points = medians(measured)
    candidates: list[Cost] = [_line(points), _blocks(points), _curve(points)]
    errors = [_residual(cost, points) for cost in candidates]
    simple = min(range(2), key=lambda i: errors[i])
    best = simple if errors[simple] <= max(CLOSE, errors[2]) else 2
    return Fit(candidates[best], errors[best], tuple(measured), _notes(points))


def medians(measured: Sequence[Measured]) -> list[tuple[int, float]]:
    """One time for each size of batch, in order."""
    by_size = defaultdict[int, list[float]](list)
    for one in measured:
        by_size[one.changes].append(one.seconds)
    return [(k, max(median(times), 1e-9)) for k, times in sorted(by_size.items())]


def to_measure_again(measured: Sequence[Measured]) -> list[int]:
    """Sizes of batches that look cheaper than smaller ones by more than noise explains."""
    points = medians(measured)
    highest, found = 0.0, list[int]()
    for k, seconds in points:
        if seconds < highest * (1 - NOISY):
            found.append(k)
        highest = max(highest, seconds)
    return found


def shared_part(each: Sequence[Fit], joint: Mapping[tuple[int, ...], float]) -> float:
    """What tables share: how much less joint batches took than their parts, for each table more."""
    saved = []
    for amounts, seconds in joint.items():
        alone = [fitted.cost(k) for fitted, k in zip(each, amounts, strict=True) if k]
        if len(alone) > 1:
            saved.append((sum(alone) - seconds) / (len(alone) - 1))
    least = min(fitted.cost(1) for fitted in each)
    return min(max(median(saved), 0.0), least) if saved else 0.0


def priced(each: Sequence[Fit], joint: Mapping[tuple[int, ...], float]) -> Prices:
    """The prices that measurements of single and joint batches speak for."""
    return Prices(tuple(fitted.cost for fitted in each), shared_part(each, joint))


def _line(points: list[tuple[int, float]]) -> Linear:
    sizes, times = (np.array(values, dtype=float) for values in zip(*points, strict=True))
    if len(points) == 1:
        return Linear(0.0, float(times[0]))
    weighted = np.stack([sizes / times, 1 / times], axis=1)
    slope, fixed = np.linalg.lstsq(weighted, np.ones(len(points)), rcond=None)[0]
    if slope < 0:
        slope, fixed = 0.0, np.average(times, weights=times**-2)
    elif fixed < 0:
        slope, fixed = np.average(times / sizes, weights=(sizes / times) ** 2), 0.0
    return Linear(float(slope), float(fixed))


def _blocks(points: list[tuple[int, float]]) -> Cost:
    """Blocks of the size of one of the batches, or of twice the largest: the nearest."""

    def blocks(size: int) -> Block:
        counts = np.array([-(-k // size) for k, _ in points], dtype=float)
        times = np.array([seconds for _, seconds in points])
        price = np.sum(counts / times) / np.sum((counts / times) ** 2)
        return Block(size, float(price))

    sizes = [k for k, _ in points]
    return min((blocks(size) for size in sizes), key=lambda cost: _residual(cost, points))


def _curve(points: list[tuple[int, float]]) -> Curve:
    if points[0][0] > 1:
        points = [(1, points[0][1]), *points]
    rising = _isotonic([seconds for _, seconds in points])
    each, found = float("inf"), []
    for (k, _), seconds in zip(points, rising, strict=True):
        value = min(seconds, each * k)
        each = value / k
        found.append((k, value))
    return Curve(tuple(found))


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


def _residual(cost: Cost, points: list[tuple[int, float]]) -> float:
    return sum(abs(cost(k) - seconds) / seconds for k, seconds in points) / len(points)


def _notes(points: list[tuple[int, float]]) -> tuple[str, ...]:
    highest, notes = 0.0, list[str]()
    for k, seconds in points:
        if seconds < highest * (1 - NOISY):
            notes.append(f"{k} changes took {seconds:.3g} s, less than fewer did: smoothed")
        highest = max(highest, seconds)
    return tuple(notes)
