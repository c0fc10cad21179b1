"""The sums of a sample per group and hashed key: fresh, stale, and the difference.

A cell is one hashed key in one group. A row that is missing on one side contributes zero there:
the correspondence subtract of SVC Def. 4. Rows that share a hashed key are sampled together, so
they are summed before anything is squared (§12.6). Cells of outlier keys are known exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from belvedere.estimation.linearization import Array

Ids: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class RowContributions:
    """Rows of a sample: group, hashed key, and what each row adds to each total."""

    group: Ids
    unit: Ids
    adds: Array


@dataclass(frozen=True)
class KeySums:
    """The sums of a sample per group and hashed key; `exact` marks the cells of outlier keys."""

    ratio: float
    groups: int
    group: Ids
    exact: NDArray[np.bool_]
    fresh: Array
    stale: Array

    @cached_property
    def change(self) -> Array:
        """The difference of each cell: fresh less stale."""
        return self.fresh - self.stale

    def estimate(self, what: Array) -> Array:
        """The estimated totals per group: exact cells count once, sampled cells 1/ratio times."""
        weight = np.where(self.exact, 1.0, 1.0 / self.ratio)
        return _by_group(self.group, what * weight[:, None], self.groups)

    def variance(self, contribution: Array) -> Array:
        """The Horvitz–Thompson variance of a linear combination per group: (1−m)/m² Σ (w·y)²."""
        squares = np.bincount(self.group, contribution * contribution, self.groups)
        return np.asarray(squares * ((1 - self.ratio) / self.ratio**2), np.float64)

    def contributions(self, what: Array, slope: Array) -> Array:
        """The contribution of each sampled cell to a linear combination; 0 for exact cells."""
        combined = np.einsum("ij,ij->i", what, slope[self.group])
        return np.where(self.exact, 0.0, combined)

    def largest(self, contribution: Array) -> Array:
        """Per group the largest absolute contribution."""
        sizes = np.zeros(self.groups)
        np.maximum.at(sizes, self.group, np.abs(contribution))
        return sizes

    def relative_square(self, contribution: Array, size: Array) -> Array:
        """Per group the square of a size over the sum of the sampled contributions' squares."""
        contribution = np.where(self.exact, 0.0, contribution)
        top = self.largest(contribution)
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.nan_to_num(contribution / top[self.group])
            squares = np.bincount(self.group, part * part, self.groups)
            return np.asarray((size / top) ** 2 / squares, np.float64)

    def count(self, chosen: NDArray[np.bool_]) -> Array:
        """Per group the number of chosen cells that are sampled."""
        counted = np.asarray(chosen & ~self.exact, np.float64)
        return np.asarray(np.bincount(self.group, counted, self.groups), np.float64)


def sum_per_key(
    fresh: RowContributions, stale: RowContributions, exact: Ids, ratio: float, groups: int
) -> KeySums:
    """The cells of two corresponding samples; `exact` are the outliers' hashed keys."""
    units = 1 + max((int(r.unit.max()) for r in (fresh, stale) if len(r.unit)), default=0)
    keys_of = [r.group * units + r.unit for r in (fresh, stale)]
    occurring, index = np.unique(np.concatenate(keys_of), return_inverse=True)
    split = len(keys_of[0])
    sides = [
        _by_group(numbers, r.adds, len(occurring))
        for numbers, r in ((index[:split], fresh), (index[split:], stale))
    ]
    return KeySums(
        ratio, groups, occurring // units, np.isin(occurring % units, exact), sides[0], sides[1]
    )


def _by_group(group: Ids, values: Array, groups: int) -> Array:
    summed = [np.bincount(group, values[:, j], groups) for j in range(values.shape[1])]
    return np.stack(summed, axis=1) if summed else np.zeros((groups, 0))
