"""Cost functions: how long it takes to apply a batch of k changes of one table.

A cost function is monotone, f(x) ≥ f(y) for x ≥ y, and subadditive, f(0) = 0 and
f(x + y) ≤ f(x) + f(y): a batch is never dearer than its parts one after the other (ABIVM, §2).
It need not be concave: a block of disk is read whole.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import ceil, isfinite
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from belvedere.errors import Invalid


@dataclass(frozen=True)
class LinearCost:
    """A fixed part for every batch and a part for every change.

    >>> LinearCost(slope=0.5, fixed=2.0)(4), LinearCost(0.5, 2.0)(0)
    (4.0, 0.0)
    """

    slope: float
    fixed: float = 0.0

    def __post_init__(self) -> None:
        _refuse_unless(_is_cost(self.slope) and _is_cost(self.fixed), self)

    def __call__(self, changes: float) -> float:
        return self.fixed + self.slope * changes if changes > 0 else 0.0


@dataclass(frozen=True)
class BlockCost:
    """A price for every block of changes that is begun.

    >>> [BlockCost(size=10, price=3.0)(k) for k in (0, 1, 10, 11)]
    [0.0, 3.0, 3.0, 6.0]
    """

    size: int
    price: float

    def __post_init__(self) -> None:
        _refuse_unless(self.size >= 1 and _is_cost(self.price), self)

    def __call__(self, changes: float) -> float:
        return self.price * ceil(changes / self.size)


@dataclass(frozen=True)
class CurveCost:
    """Straight between points (changes, cost), and on with the last slope behind them.

    The cost per change must not rise from one point to the next: between two points it is then
    monotone too, and a function whose value per change never rises is subadditive.

    >>> CurveCost(((1, 2.0), (3, 4.0)))(2), CurveCost(((1, 2.0), (3, 4.0)))(5)
    (3.0, 6.0)
    """

    points: tuple[tuple[int, float], ...]

    def __post_init__(self) -> None:
        sizes = [k for k, _ in self.points]
        rising = all(a < b for a, b in pairwise(sizes))
        _refuse_unless(sizes[:1] == [1] and rising, self)
        costs = [cost for _, cost in self.points]
        _refuse_unless(all(map(_is_cost, costs)) and costs == sorted(costs), self)
        each = [cost / k for k, cost in self.points]
        steady = all(b <= a * (1 + 1e-9) for a, b in pairwise(each))
        _refuse_unless(steady, self)

    def __call__(self, changes: float) -> float:
        if changes <= 0:
            return 0.0
        if len(self.points) == 1 or changes < 1:
            return self.points[0][1] * max(changes, 1.0)
        at = min(max(bisect_left(self.points, (changes, 0.0)), 1), len(self.points) - 1)
        (k, low), (more, high) = self.points[at - 1], self.points[at]
        return low + (high - low) * (changes - k) / (more - k)


@dataclass(frozen=True)
class ListedCost:
    """One cost for each number of changes up to the last, and in the cheapest batches behind it.

    >>> ListedCost((2.0, 3.0))(3)
    5.0
    """

    values: tuple[float, ...]

    def __post_init__(self) -> None:
        values = self.values
        _refuse_unless(bool(values) and all(map(_is_cost, values)), self)
        _refuse_unless(list(values) == sorted(values) and _subadditive(values), self)

    def __call__(self, changes: float) -> float:
        count = ceil(changes)
        known = self.values
        if count > len(known):
            known = _extend(known, 1 << (count - 1).bit_length())
        return known[count - 1] if count > 0 else 0.0


CostFunction: TypeAlias = LinearCost | BlockCost | CurveCost | ListedCost


@dataclass(frozen=True)
class Prices:
    """What batches of several tables take together: as expected, and at most.

    Each function includes `shared`, the part that one action pays once however many tables it
    empties: on a lake, the commit. The paper's model is `shared = 0`, and nothing but `each`.

    >>> prices = Prices((LinearCost(1.0, 5.0), LinearCost(2.0, 4.0)), shared=3.0)
    >>> prices.of((2, 1)), prices.at_most((2, 1))
    (10.0, 10.0)
    """

    each: tuple[CostFunction, ...]
    shared: float = 0.0
    above: tuple[CostFunction, ...] = ()
    """Functions that no batch is expected to exceed, for limits; empty where `each` are those."""
    surely_shared: float | None = None
    """The part that these share; below zero if tables took longer together than one by one."""
    error: float = 0.0
    """By how much of itself what is expected was off when it was measured."""

    def __post_init__(self) -> None:
        if not self.each:
            raise Invalid(
                "no cost functions",
                hint="one for each table that the view reads",
                reason="BAD_VALUE",
            )
        if len(self.above) not in (0, len(self.each)) or not _is_cost(self.error):
            raise Invalid(
                f"not prices of {len(self.each)} tables", detail=str(self), reason="BAD_VALUE"
            )
        for costs, shared in ((self.each, self.shared), self.worst):
            least = min(cost(1) for cost in costs)
            if not shared <= least or self.shared < 0:
                raise Invalid(
                    f"tables cannot share {shared:g} of their costs",
                    detail=f"the cheapest single change takes {least:g}",
                    reason="BAD_VALUE",
                )

    @property
    def worst(self) -> tuple[tuple[CostFunction, ...], float]:
        """The functions that limits are kept by, and what they share."""
        if not self.above:
            return self.each, self.shared
        return self.above, self.surely_shared or 0.0

    def of(self, amounts: Sequence[float]) -> float:
        """f(v): what it takes to apply these many changes of each table in one action."""
        return _joint_cost(self.each, self.shared, amounts)

    def at_most(self, amounts: Sequence[float]) -> float:
        """What it may take, by which limits are kept."""
        return _joint_cost(*self.worst, amounts)


def tabulate(cost: CostFunction, most: int) -> npt.NDArray[np.float64]:
    """What 0, 1, … `most` changes cost.

    >>> tabulate(BlockCost(2, 3.0), 3)
    array([0., 3., 3., 6.])
    """
    counts = np.arange(most + 1, dtype=np.float64)
    match cost:
        case LinearCost(slope, fixed):
            found = fixed + slope * counts
        case BlockCost(size, price):
            found = price * np.ceil(counts / size)
        case CurveCost(points):
            ends = [*points, (most + 1, cost(most + 1))] if most >= points[-1][0] else points
            found = np.interp(counts, [k for k, _ in ends], [value for _, value in ends])
        case ListedCost():
            found = np.array([cost(k) for k in range(most + 1)])
    found[0] = 0.0
    return found


def subadditive_closure(values: Sequence[float]) -> tuple[float, ...]:
    """The largest monotone subadditive function below some costs of 1, 2, … changes.

    >>> subadditive_closure([1.0, 5.0, 2.5])
    (1.0, 2.0, 2.5)
    """
    found = list(values)
    for k in range(len(found) - 2, -1, -1):
        found[k] = min(found[k], found[k + 1])
    for k in range(2, len(found) + 1):
        apart = (found[j - 1] + found[k - j - 1] for j in range(1, k // 2 + 1))
        found[k - 1] = min(found[k - 1], *apart)
    return tuple(found)


def to_record(cost: CostFunction) -> dict[str, Any]:
    """A cost function as JSON has it.

    >>> from_record(to_record(BlockCost(10, 3.0)))
    BlockCost(size=10, price=3.0)
    """
    match cost:
        case LinearCost(slope, fixed):
            return {"kind": "linear", "slope": slope, "fixed": fixed}
        case BlockCost(size, price):
            return {"kind": "block", "size": size, "price": price}
        case CurveCost(points):
            return {"kind": "curve", "points": [list(point) for point in points]}
        case ListedCost(values):
            return {"kind": "listed", "values": list(values)}


def from_record(record: dict[str, Any]) -> CostFunction:
    """The cost function of a record."""
    match record:
        case {"kind": "linear", "slope": slope, "fixed": fixed}:
            return LinearCost(float(slope), float(fixed))
        case {"kind": "block", "size": size, "price": price}:
            return BlockCost(int(size), float(price))
        case {"kind": "curve", "points": points}:
            return CurveCost(tuple((int(k), float(cost)) for k, cost in points))
        case {"kind": "listed", "values": values}:
            return ListedCost(tuple(map(float, values)))
    raise Invalid(
        f"not a cost function: {record}", hint="calibrate the view again", reason="BAD_MEASUREMENT"
    )


def _joint_cost(costs: tuple[CostFunction, ...], shared: float, amounts: Sequence[float]) -> float:
    parts = [cost(k) for cost, k in zip(costs, amounts, strict=True) if k > 0]
    return sum(parts) - shared * (len(parts) - 1) if parts else 0.0


@lru_cache(maxsize=64)
def _extend(values: tuple[float, ...], most: int) -> tuple[float, ...]:
    """The costs of up to `most` changes in batches of those that are listed."""
    found = [0.0, *values]
    for k in range(len(found), most + 1):
        found.append(min(values[j - 1] + found[k - j] for j in range(1, len(values) + 1)))
    return tuple(found[1:])


def _is_cost(value: float) -> bool:
    return isfinite(value) and value >= 0


def _subadditive(values: Sequence[float]) -> bool:
    slack = 1e-9 * values[-1]
    return all(
        values[k - 1] <= values[j - 1] + values[k - j - 1] + slack
        for k in range(2, len(values) + 1)
        for j in range(1, k // 2 + 1)
    )


def _refuse_unless(sound: bool, cost: CostFunction) -> None:
    if not sound:
        raise Invalid(
            f"not a cost function: {cost}",
            detail="costs are finite, not negative, never fall with more changes, "
            "and never rise per change by batching",
            hint="fit measured costs with scheduling.fitting.fit",
            reason="BAD_MEASUREMENT",
        )
