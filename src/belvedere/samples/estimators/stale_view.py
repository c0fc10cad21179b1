"""What the stale view, stored in full, says of the contributions that its rows and keys can make.

A row contributes a quadratic polynomial of its values to every answer that is estimated: its
largest size lies at the least value, at the greatest, or where the polynomial turns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from sqlglot import exp

from belvedere.algebra.relations import Agg
from belvedere.algebra.scalars import Scalar, col
from belvedere.estimation.linearization import Array
from belvedere.samples.estimators.per_key_sums import Ids
from belvedere.samples.estimators.smooth import StaleExtremes
from belvedere.samples.estimators.totals import Contribution, Total

_POWERS = (Contribution.VALUE, Contribution.SQUARE)


def row_extremes(totals: Sequence[Total]) -> list[Agg]:
    """The least and the greatest value of each number that is totalled."""
    found = []
    for j, value in _arguments(totals).items():
        argument = Total(Contribution.VALUE, value).argument
        assert argument is not None
        found += [Agg(f"__{f}{j}", f, (argument,)) for f in ("min", "max")]
    return found


def _arguments(totals: Sequence[Total]) -> dict[int, Scalar]:
    """Each number that is totalled, by the place of its first total."""
    found: dict[int, Scalar] = {}
    for j, total in enumerate(totals):
        if total.what in _POWERS and total.of is not None and total.of not in found.values():
            found[j] = total.of
    return found


def extremes_of(
    totals: Sequence[Total], table: pa.Table, at: Ids, groups: int, *, clusters: bool
) -> StaleExtremes:
    """The extremes of the stale view: of its rows, and of its hashed keys if these are clusters."""
    arguments = _arguments(totals)
    ends = {
        j: in_group_order(table, [f"__min{j}", f"__max{j}"], at, groups, np.nan) for j in arguments
    }
    there = np.isin(np.arange(groups), at[floats(table["__rows"]) > 0])

    def largest(slope: Array) -> Array:
        low = high = np.zeros(groups)
        for j, value in arguments.items():
            least, greatest = _polynomial_range(_coefficients(totals, value, slope), ends[j])
            low, high = low + least, high + greatest
        # What a row adds to a count it adds whatever its values are.
        for j, total in enumerate(totals):
            if total.what is Contribution.PRESENT and total.of in arguments.values():
                continue
            if total.what not in _POWERS:
                low, high = low + slope[:, j], high + slope[:, j]
        size = np.nan_to_num(np.maximum(np.abs(low), np.abs(high)))
        return np.where(there, size, np.nan)

    return StaleExtremes(largest, _largest_shares(totals, table, at, groups) if clusters else None)


def _coefficients(
    totals: Sequence[Total], value: Scalar, slope: Array
) -> dict[Contribution, Array]:
    none = np.zeros(len(slope))
    found = dict.fromkeys((Contribution.PRESENT, *_POWERS), none)
    for j, total in enumerate(totals):
        if total.of == value and total.what in found:
            found[total.what] = slope[:, j]
    return found


def _polynomial_range(by: dict[Contribution, Array], ends: Array) -> tuple[Array, Array]:
    """The least and greatest of p + b·x + c·x² between two ends."""
    p, b, c = by[Contribution.PRESENT], by[Contribution.VALUE], by[Contribution.SQUARE]
    low, high = ends.T
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        turn = np.where(c == 0, low, np.clip(-b / (2 * c), low, high))
        sizes = [p + b * x + c * x * x for x in (low, high, turn)]
    return np.min(sizes, axis=0), np.max(sizes, axis=0)


def unit_extremes(parts: Sequence[Agg]) -> tuple[Agg, ...]:
    """Over the sums of each hashed key: the greatest square, and the sum of all squares."""
    found = []
    for part in parts:
        number = exp.cast(col(part.name).expr.copy(), "double", dialect="spark")
        square = Scalar(exp.Mul(this=number, expression=number.copy()))
        found += [Agg(f"__{f}_{part.name}", f, (square,)) for f in ("max", "sum")]
    return tuple(found)


def _largest_shares(totals: Sequence[Total], table: pa.Table, at: Ids, groups: int) -> Array:
    """The largest key's share of the squares of all, for each total."""
    found = np.zeros((groups, len(totals)))
    for j, total in enumerate(totals):
        if total.what is not Contribution.UNIT:
            most, every = in_group_order(table, [f"__max_s{j}", f"__sum_s{j}"], at, groups, 0.0).T
            found[:, j] = most / np.where(every > 0, every, 1.0)
    return found


def in_group_order(table: pa.Table, names: list[str], at: Ids, groups: int, none: float) -> Array:
    """Columns of a table of groups, in the order of all groups."""
    found = np.full((groups, len(names)), none)
    for j, name in enumerate(names):
        values = floats(table[name])
        found[at, j] = values if np.isnan(none) else np.nan_to_num(values)
    return found


def floats(column: pa.ChunkedArray) -> Array:
    """Numbers, NaN for NULL."""
    return np.asarray(column.cast(pa.float64()).to_numpy(), np.float64)
