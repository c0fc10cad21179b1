"""The largest contributions that rows and keys of the stale view can make to an answer.

The contribution of a row to an answer is a quadratic polynomial of its values. Its largest absolute
value is at the least value, at the greatest, or at the vertex.
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
    """The least and the greatest value of each argument of a total."""
    aggregates = []
    for j, value in _arguments(totals).items():
        argument = Total(Contribution.VALUE, value).argument
        assert argument is not None
        aggregates += [Agg(f"__{f}{j}", f, (argument,)) for f in ("min", "max")]
    return aggregates


def _arguments(totals: Sequence[Total]) -> dict[int, Scalar]:
    """Each argument of a total, by the position of its first total."""
    arguments: dict[int, Scalar] = {}
    for j, total in enumerate(totals):
        if total.what in _POWERS and total.of is not None and total.of not in arguments.values():
            arguments[j] = total.of
    return arguments


def extremes_of(
    totals: Sequence[Total], table: pa.Table, numbers: Ids, groups: int, *, clusters: bool
) -> StaleExtremes:
    """The largest contributions of stale rows; of hashed keys too, if a key has several rows."""
    arguments = _arguments(totals)
    ends = {
        j: in_group_order(table, [f"__min{j}", f"__max{j}"], numbers, groups, np.nan)
        for j in arguments
    }
    has_rows = np.isin(np.arange(groups), numbers[floats(table["__rows"]) > 0])

    def largest(slope: Array) -> Array:
        low = high = np.zeros(groups)
        for j, value in arguments.items():
            least, greatest = _polynomial_range(_coefficients(totals, value, slope), ends[j])
            low, high = low + least, high + greatest
        # The contribution of a row to a count does not depend on its values.
        for j, total in enumerate(totals):
            if total.what is Contribution.PRESENT and total.of in arguments.values():
                continue
            if total.what not in _POWERS:
                low, high = low + slope[:, j], high + slope[:, j]
        size = np.nan_to_num(np.maximum(np.abs(low), np.abs(high)))
        return np.where(has_rows, size, np.nan)

    return StaleExtremes(
        largest, _largest_shares(totals, table, numbers, groups) if clusters else None
    )


def _coefficients(
    totals: Sequence[Total], value: Scalar, slope: Array
) -> dict[Contribution, Array]:
    zero = np.zeros(len(slope))
    coefficients = dict.fromkeys((Contribution.PRESENT, *_POWERS), zero)
    for j, total in enumerate(totals):
        if total.of == value and total.what in coefficients:
            coefficients[total.what] = slope[:, j]
    return coefficients


def _polynomial_range(by: dict[Contribution, Array], ends: Array) -> tuple[Array, Array]:
    """The least and greatest of p + b·x + c·x² between two ends."""
    p, b, c = by[Contribution.PRESENT], by[Contribution.VALUE], by[Contribution.SQUARE]
    low, high = ends.T
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        vertex = np.where(c == 0, low, np.clip(-b / (2 * c), low, high))
        sizes = [p + b * x + c * x * x for x in (low, high, vertex)]
    return np.min(sizes, axis=0), np.max(sizes, axis=0)


def unit_extremes(parts: Sequence[Agg]) -> tuple[Agg, ...]:
    """Over the sums of each hashed key: the greatest square, and the sum of all squares."""
    aggregates = []
    for part in parts:
        number = exp.cast(col(part.name).expr.copy(), "double", dialect="spark")
        square = Scalar(exp.Mul(this=number, expression=number.copy()))
        aggregates += [Agg(f"__{f}_{part.name}", f, (square,)) for f in ("max", "sum")]
    return tuple(aggregates)


def _largest_shares(totals: Sequence[Total], table: pa.Table, numbers: Ids, groups: int) -> Array:
    """Per group and total, the largest key's share of the sum of squares."""
    shares = np.zeros((groups, len(totals)))
    for j, total in enumerate(totals):
        if total.what is not Contribution.UNIT:
            greatest, total_square = in_group_order(
                table, [f"__max_s{j}", f"__sum_s{j}"], numbers, groups, 0.0
            ).T
            shares[:, j] = greatest / np.where(total_square > 0, total_square, 1.0)
    return shares


def in_group_order(
    table: pa.Table, names: list[str], numbers: Ids, groups: int, default: float
) -> Array:
    """The columns of a table of groups, in the order of all groups."""
    ordered = np.full((groups, len(names)), default)
    for j, name in enumerate(names):
        values = floats(table[name])
        ordered[numbers, j] = values if np.isnan(default) else np.nan_to_num(values)
    return ordered


def floats(column: pa.ChunkedArray) -> Array:
    """Numbers, NaN for NULL."""
    return np.asarray(column.cast(pa.float64()).to_numpy(), np.float64)
