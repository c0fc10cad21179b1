"""The groups in the answer: HAVING, then the first k.

Conditions are evaluated in the types that Spark gives aggregates. If rounding leaves open on which side
of a constant, or of the k-th group, a number lies, the group counts as shown: a fragment too many makes
queries slower, not wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from belvedere.algebra.relations import Order
from belvedere.algebra.scalars import Scalar
from belvedere.algebra.types import parse
from belvedere.errors import Unsupported
from belvedere.joins.value_words import Flags, has_order, in_order, nulls
from belvedere.kernels.grouping import Doubles, Words
from belvedere.memory.declined import Declined
from belvedere.memory.scalars import true


@dataclass(frozen=True)
class GroupColumn:
    """Values of groups, their type, and the bounds of their errors; None if they are exact."""

    values: pa.Array
    kind: str
    error: Doubles | None = None


Columns = Callable[[str, Words], GroupColumn]

_COMPARED: dict[type[exp.Expr], Callable[[Any, Any], Any]] = {
    exp.GT: np.greater,
    exp.GTE: np.greater_equal,
    exp.LT: np.less,
    exp.LTE: np.less_equal,
    exp.EQ: np.equal,
}
_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.EQ: exp.EQ,
}


@dataclass(frozen=True)
class HavingFilter:
    """Conditions on groups."""

    conditions: tuple[Scalar, ...]
    columns: Columns
    _floating: Mapping[int, tuple[str, type[exp.Expr], float]] = field(default_factory=dict)

    @staticmethod
    def of(conditions: Sequence[Scalar], columns: Columns) -> HavingFilter:
        """The conditions; `Unsupported` if one of them is not computed here."""
        no_groups: Words = np.zeros(0, dtype=np.int64)
        floating = {}
        for i, condition in enumerate(conditions):
            values = {c: columns(c, no_groups) for c in sorted(condition.columns)}
            kinds = {c.kind for c in values.values()}
            if any(parse(k).is_float for k in kinds):
                floating[i] = _comparison(condition)
                if "float" in kinds and not _is_float(floating[i][2]):
                    # Without ANSI mode Spark rounds an integer to a float.
                    raise _not_kept(condition)
            else:
                _true(condition, values, 0)
        return HavingFilter(tuple(conditions), columns, floating)

    def holds(self, groups: Words) -> Flags:
        """The groups for which all conditions hold, or may hold."""
        result = np.ones(len(groups), dtype=np.bool_)
        columns: dict[str, GroupColumn] = {}
        for i, condition in enumerate(self.conditions):
            for name in condition.columns - columns.keys():
                columns[name] = self.columns(name, groups)
            if i in self._floating:
                result &= _may_hold(*self._floating[i], columns)
            else:
                own = {c: columns[c] for c in condition.columns}
                result &= _true(condition, own, len(groups))
        return result


def _true(condition: Scalar, columns: Mapping[str, GroupColumn], count: int) -> Flags:
    table = pa.table({n: c.values for n, c in columns.items()} or {"": pa.nulls(count)})
    try:
        truth = true(condition, table, {n: c.kind for n, c in columns.items()})
    except Declined as why:
        raise _not_kept(condition) from why
    return np.asarray(truth.to_numpy(), dtype=np.bool_)


def _comparison(condition: Scalar) -> tuple[str, type[exp.Expr], float]:
    """The column, operator and constant of a comparison of a floating point number."""
    e = condition.expr
    if type(e) not in _COMPARED:
        raise _not_kept(condition)
    for one, other, way in (
        (e.this, e.expression, type(e)),
        (e.expression, e.this, _MIRRORED[type(e)]),
    ):
        constant = _number(other)
        if isinstance(one, exp.Column) and constant is not None:
            return one.name, way, constant
    raise _not_kept(condition)


def _is_float(number: float) -> bool:
    """Whether a comparison with floats has one result, whether the number is a float or a double."""
    with np.errstate(over="ignore"):
        return not number.is_integer() or float(np.float32(number)) == number


def _number(e: exp.Expr) -> float | None:
    match e:
        case exp.Paren():
            return _number(e.this)
        case exp.Neg():
            inner = _number(e.this)
            return None if inner is None else -inner
        case exp.Literal() if not e.is_string:
            return float(e.this)
        case exp.Cast() if e.to.is_type("double"):
            return _number(e.this)
        case _:
            return None


def _may_hold(
    name: str, way: type[exp.Expr], constant: float, columns: Mapping[str, GroupColumn]
) -> Flags:
    column = columns[name]
    numbers, absent = _numbers(column), nulls(column.values)
    holds = _COMPARED[way](numbers, constant)
    if column.error is not None:
        holds |= (column.error > 0) & (np.abs(numbers - constant) <= column.error)
    return np.asarray(holds & ~absent, dtype=np.bool_)


def _numbers(column: GroupColumn) -> Doubles:
    plain = column.values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    # NaN is greater than every number. NULL slots are excluded by the callers.
    return np.nan_to_num(
        np.asarray(plain, dtype=np.float64), nan=np.inf, posinf=np.inf, neginf=-np.inf
    )


@dataclass(frozen=True)
class FirstGroups:
    """The first k groups in an order, and all that tie with the last of them."""

    order: tuple[Order, ...]
    limit: int
    columns: Columns

    @staticmethod
    def of(order: tuple[Order, ...], limit: int, columns: Columns) -> FirstGroups:
        """The order; `Unsupported` if it is not computed here."""
        for o in order:
            kind = columns(o.column, np.zeros(0, dtype=np.int64)).kind
            if not has_order(kind):
                raise Unsupported(
                    f"an order by {kind} is not kept in memory",
                    hint="the sketch is captured anew at each refresh",
                    reason="SKETCH_NOT_KEPT",
                )
        return FirstGroups(order, limit, columns)

    def among(self, groups: Words, weights: Words) -> Flags:
        """Which groups are among the first k rows; a weight is the number of rows of a group."""
        if self.limit == 0:
            return np.zeros(len(groups), dtype=np.bool_)
        if not self.order or int(weights.sum()) <= self.limit:
            return np.ones(len(groups), dtype=np.bool_)
        keys: list[Words] = []
        for place, o in enumerate(self.order):
            column = self.columns(o.column, groups)
            if column.error is not None and (column.error > 0).any():
                if place == 0:
                    return self._roughly(column, o, weights)
                break  # The order of the groups that tie so far is open: all of them stay.
            keys += sort_keys(column.values, o)
        return self._exactly(keys, weights)

    def _exactly(self, keys: list[Words], weights: Words) -> Flags:
        order = np.lexsort(keys[::-1])
        passed = np.cumsum(weights[order])
        last = order[int(np.searchsorted(passed, self.limit, side="left"))]
        return not_after(keys, [int(key[last]) for key in keys])

    def _roughly(self, column: GroupColumn, order: Order, weights: Words) -> Flags:
        """By the first key alone: the groups that may be no worse than k others certainly are."""
        assert column.error is not None
        numbers = _numbers(column) * (-1.0 if order.descending else 1.0)
        absent = nulls(column.values)
        beyond = -np.inf if order.nulls_first else np.inf
        worst = np.where(absent, beyond, numbers + column.error)
        best = np.where(absent, beyond, numbers - column.error)
        sure = np.argsort(worst, kind="stable")
        passed = np.cumsum(weights[sure])
        last = worst[sure[int(np.searchsorted(passed, self.limit, side="left"))]]
        return np.asarray(best <= last, dtype=np.bool_)


def sort_keys(values: pa.Array, order: Order) -> list[Words]:
    """A sort key as words, the least first: the place of NULL, then the values."""
    absent = nulls(values)
    place = np.where(absent, 0 if order.nulls_first else 2, 1).astype(np.int64)
    keys = [~key if order.descending else key for key in in_order(values)]
    return [place, *(np.where(absent, 0, key) for key in keys)]


def not_after(keys: Sequence[Words], last: Sequence[int]) -> Flags:
    """Which rows, by their sort keys, do not come after a row with the keys `last`."""
    ahead = np.zeros(len(keys[0]), dtype=np.bool_)
    tied = np.ones(len(keys[0]), dtype=np.bool_)
    for key, end in zip(keys, last, strict=True):
        ahead |= tied & (key < end)
        tied &= key == end
    return ahead | tied


def _not_kept(condition: Scalar) -> Unsupported:
    return Unsupported(
        f"the condition {condition} is not computed in memory",
        hint="the sketch is captured anew at each refresh",
        reason="SKETCH_NOT_KEPT",
    )
