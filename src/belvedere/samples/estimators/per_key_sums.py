"""What the sampled keys contribute to each group: fresh, stale, and the difference.

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
class Rows:
    """Rows of a sample: their group, their hashed key, what each adds to each total."""

    group: Ids
    unit: Ids
    adds: Array


@dataclass(frozen=True)
class Cells:
    """Contributions per group and hashed key, of a sample with a ratio; `exact` are outliers'."""

    ratio: float
    groups: int
    group: Ids
    exact: NDArray[np.bool_]
    fresh: Array
    stale: Array

    @cached_property
    def change(self) -> Array:
        """What each cell gained."""
        return self.fresh - self.stale

    def estimate(self, what: Array) -> Array:
        """The totals of a population per group: exact cells count once, sampled ones 1/ratio."""
        weight = np.where(self.exact, 1.0, 1.0 / self.ratio)
        return _by_group(self.group, what * weight[:, None], self.groups)

    def variance(self, along: Array) -> Array:
        """Horvitz–Thompson, of a linear combination per group: (1−m)/m² Σ (w·y)²."""
        squares = np.bincount(self.group, along * along, self.groups)
        return np.asarray(squares * ((1 - self.ratio) / self.ratio**2), np.float64)

    def along(self, what: Array, slope: Array) -> Array:
        """Each sampled cell's contribution to a linear combination; of exact ones, none."""
        along = np.einsum("ij,ij->i", what, slope[self.group])
        return np.where(self.exact, 0.0, along)

    def largest(self, along: Array) -> Array:
        """Per group the largest size of a contribution."""
        found = np.zeros(self.groups)
        np.maximum.at(found, self.group, np.abs(along))
        return found

    def outweighs(self, along: Array, size: Array) -> Array:
        """Per group the square of a size over the sum of the sampled contributions' squares."""
        along = np.where(self.exact, 0.0, along)
        top = self.largest(along)
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.nan_to_num(along / top[self.group])
            squares = np.bincount(self.group, part * part, self.groups)
            return np.asarray((size / top) ** 2 / squares, np.float64)

    def count(self, chosen: NDArray[np.bool_]) -> Array:
        """Per group, how many sampled cells are chosen."""
        some = np.asarray(chosen & ~self.exact, np.float64)
        return np.asarray(np.bincount(self.group, some, self.groups), np.float64)


def cells(fresh: Rows, stale: Rows, exact: Ids, ratio: float, groups: int) -> Cells:
    """The cells of two corresponding samples; `exact` are the outliers' hashed keys."""
    units = 1 + max((int(r.unit.max()) for r in (fresh, stale) if len(r.unit)), default=0)
    places = [r.group * units + r.unit for r in (fresh, stale)]
    found, index = np.unique(np.concatenate(places), return_inverse=True)
    split = len(places[0])
    sides = [
        _by_group(at, r.adds, len(found))
        for at, r in ((index[:split], fresh), (index[split:], stale))
    ]
    return Cells(ratio, groups, found // units, np.isin(found % units, exact), sides[0], sides[1])


def _by_group(group: Ids, values: Array, groups: int) -> Array:
    summed = [np.bincount(group, values[:, j], groups) for j in range(values.shape[1])]
    return np.stack(summed, axis=1) if summed else np.zeros((groups, 0))
