"""Values with their slopes in the totals: linearisation by automatic differentiation.

Each estimated answer is a smooth function of a few totals. A `Dual` holds its value and its slope
in each total, for all groups at once, so that the error of any expression over aggregates is the
error of one linear combination of totals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Dual:
    """A value per group, shape (G,), and its slopes in the totals, shape (G, J)."""

    value: Array
    slope: Array

    def __add__(self, other: Dual) -> Dual:
        return Dual(self.value + other.value, self.slope + other.slope)

    def __sub__(self, other: Dual) -> Dual:
        return Dual(self.value - other.value, self.slope - other.slope)

    def __mul__(self, other: Dual) -> Dual:
        slope = self.slope * other.value[:, None] + other.slope * self.value[:, None]
        return Dual(self.value * other.value, slope)

    def __truediv__(self, other: Dual) -> Dual:
        """The quotient; NaN where the divisor is zero."""
        with np.errstate(divide="ignore", invalid="ignore"):
            below = np.where(other.value == 0, np.nan, other.value)
            value = self.value / below
            slope = (self.slope - value[:, None] * other.slope) / below[:, None]
        return Dual(value, slope)

    def map(self, f: Callable[[Array], Array], derivative: Callable[[Array], Array]) -> Dual:
        """A differentiable function of the value."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return Dual(f(self.value), derivative(self.value)[:, None] * self.slope)

    def where(self, keep: NDArray[np.bool_], other: Dual) -> Dual:
        """This value where `keep` is true, the other elsewhere."""
        slope = np.where(keep[:, None], self.slope, other.slope)
        return Dual(np.where(keep, self.value, other.value), slope)


def totals(values: Array) -> list[Dual]:
    """Each total as a function of all totals: its value, and slope 1 in itself."""
    groups, count = values.shape
    unit = np.eye(count)
    return [Dual(values[:, j], np.broadcast_to(unit[j], (groups, count))) for j in range(count)]


def constant(value: float, like: Dual) -> Dual:
    """A constant: the same number in every group, with slope 0."""
    return Dual(np.full_like(like.value, value), np.zeros_like(like.slope))
