"""Cost functions: the seconds that applying a batch of k changes of one table takes.

A cost function is monotone, f(x) ≥ f(y) for x ≥ y, and subadditive, f(0) = 0 and
f(x + y) ≤ f(x) + f(y): a batch never costs more than its parts one after the other (ABIVM, §2).
It need not be concave: a block of disk is read as a whole.
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
    """A fixed cost for every batch and a cost for every change.

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
    """A price for every block of changes, also for the last, which may not be full.

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
    """Straight lines between points (changes, cost), and the last slope after the last point.

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
    """One cost for each number of changes; more changes are applied in the cheapest batches.

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
        values = self.values
        if count > len(values):
            values = _extend(values, 1 << (count - 1).bit_length())
        return values[count - 1] if count > 0 else 0.0


CostFunction: TypeAlias = LinearCost | BlockCost | CurveCost | ListedCost


@dataclass(frozen=True)
class Prices:
    """The cost of batches of several tables in one action: as expected, and at most.

    Each function includes `shared`, the part that an action pays once, however many tables it
    empties: on a lake, the commit. In the paper's model `shared` is 0 and there is only `each`.

    >>> prices = Prices((LinearCost(1.0, 5.0), LinearCost(2.0, 4.0)), shared=3.0)
    >>> prices.of((2, 1)), prices.at_most((2, 1))
    (10.0, 10.0)
    """

    each: tuple[CostFunction, ...]
    shared: float = 0.0
    above: tuple[CostFunction, ...] = ()
    """Upper bounds of the cost of a batch, for keeping limits; empty if `each` are the bounds."""
    surely_shared: float | None = None
    """The part that the upper bounds share; negative if tables took longer together than apart."""
    error: float = 0.0
    """The relative error of the expected cost in the measurements."""

    def __post_init__(self) -> None:
        if not self.each:
            raise Invalid(
                "no cost functions",
                hint="give one for each table that the view reads",
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
        """The upper bounds, which keep limits, and the part that they share."""
        if not self.above:
            return self.each, self.shared
        return self.above, self.surely_shared or 0.0

    def of(self, amounts: Sequence[float]) -> float:
        """f(v): the expected cost of applying these numbers of changes in one action."""
        return _joint_cost(self.each, self.shared, amounts)

    def at_most(self, amounts: Sequence[float]) -> float:
        """The upper bound of that cost, which keeps limits."""
        return _joint_cost(*self.worst, amounts)


def tabulate(cost: CostFunction, most: int) -> npt.NDArray[np.float64]:
    """The costs of 0, 1, … `most` changes.

    >>> tabulate(BlockCost(2, 3.0), 3)
    array([0., 3., 3., 6.])
    """
    counts = np.arange(most + 1, dtype=np.float64)
    match cost:
        case LinearCost(slope, fixed):
            costs = fixed + slope * counts
        case BlockCost(size, price):
            costs = price * np.ceil(counts / size)
        case CurveCost(points):
            ends = [*points, (most + 1, cost(most + 1))] if most >= points[-1][0] else points
            costs = np.interp(counts, [k for k, _ in ends], [value for _, value in ends])
        case ListedCost():
            costs = np.array([cost(k) for k in range(most + 1)])
    costs[0] = 0.0
    return costs


def subadditive_closure(values: Sequence[float]) -> tuple[float, ...]:
    """The largest monotone subadditive function that does not exceed given costs of 1, 2, … changes.

    >>> subadditive_closure([1.0, 5.0, 2.5])
    (1.0, 2.0, 2.5)
    """
    costs = list(values)
    for k in range(len(costs) - 2, -1, -1):
        costs[k] = min(costs[k], costs[k + 1])
    for k in range(2, len(costs) + 1):
        split = (costs[j - 1] + costs[k - j - 1] for j in range(1, k // 2 + 1))
        costs[k - 1] = min(costs[k - 1], *split)
    return tuple(costs)


def to_record(cost: CostFunction) -> dict[str, Any]:
    """The JSON record of a cost function.

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
    """The costs of up to `most` changes, in batches of the listed sizes."""
    costs = [0.0, *values]
    for k in range(len(costs), most + 1):
        costs.append(min(values[j - 1] + costs[k - j] for j in range(1, len(values) + 1)))
    return tuple(costs[1:])


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
            hint="fit measured costs: belvedere calibrate VIEW",
            reason="BAD_MEASUREMENT",
        )
