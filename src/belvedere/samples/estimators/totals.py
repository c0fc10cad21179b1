"""Aggregates as functions of totals: what each row adds, and the aggregate of the totals.

count(*)   n                    sum(x)      Σx
count(x)   rows with an x       avg(x)      Σx / count(x)
variance   (Σx² − (Σx)²/n) / (n − 1), its roots and the population's likewise
count(DISTINCT key)   one per hashed key
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from sqlglot import exp

from belvedere.algebra.relations import Agg
from belvedere.algebra.scalars import Scalar, lit
from belvedere.estimation.linearization import Array, Dual, constant


class Contribution(Enum):
    """What a row adds to a total."""

    ONE = "one"
    PRESENT = "one if there is a value"
    VALUE = "its value"
    SQUARE = "its value squared"
    UNIT = "one per hashed key"


@dataclass(frozen=True)
class Total:
    """A sum over rows."""

    what: Contribution
    of: Scalar | None = None

    @property
    def argument(self) -> Scalar | None:
        """The number that is read of each row; NULL where the row adds nothing."""
        if self.of is None:
            return None
        if self.what is Contribution.PRESENT:
            is_present = exp.Not(
                this=exp.Is(this=exp.paren(self.of.expr.copy()), expression=exp.null())
            )
            one = exp.cast(lit(1).expr, "double")
            return Scalar(exp.Case(ifs=[exp.If(this=is_present, true=one)]))
        return Scalar(exp.cast(self.of.expr.copy(), "double", dialect="spark"))

    def aggregate(self, name: str) -> Agg:
        """The total over all rows of the stale view."""
        if self.what is Contribution.ONE:
            return Agg(name, "count")
        assert self.of is not None
        if self.what is Contribution.UNIT:
            return Agg(name, "count", (self.of,), distinct=True)
        value = self.argument
        assert value is not None
        if self.what is Contribution.SQUARE:
            value = Scalar(exp.Mul(this=value.expr.copy(), expression=value.expr.copy()))
        return Agg(name, "sum", (value,))

    def adds(self, values: Array) -> Array:
        """What each row adds, from the numbers that were read."""
        if self.what in (Contribution.ONE, Contribution.UNIT):
            return np.ones(len(values))
        present = np.nan_to_num(values)
        return present**2 if self.what is Contribution.SQUARE else present


def totals_of(a: Agg, unit: Scalar) -> list[Total]:
    """The totals that an aggregate is a function of."""
    if a.function == "count" and a.distinct:
        return [Total(Contribution.UNIT, unit)]
    if a.function == "count" and not a.args:
        return [Total(Contribution.ONE)]
    x = a.args[0]
    if a.function == "count":
        return [Total(Contribution.PRESENT, x)]
    if a.function == "sum":
        return [Total(Contribution.VALUE, x)]
    if a.function in ("avg", "mean"):
        return [Total(Contribution.VALUE, x), Total(Contribution.PRESENT, x)]
    return [
        Total(Contribution.VALUE, x),
        Total(Contribution.PRESENT, x),
        Total(Contribution.SQUARE, x),
    ]


def from_totals(a: Agg, totals: Sequence[Dual]) -> Dual:
    """The value of an aggregate, from its totals."""
    if a.function in ("count", "sum"):
        return totals[0]
    if a.function in ("avg", "mean"):
        return totals[0] / totals[1]
    total, count, squares = totals
    one = constant(0.0 if a.function in ("var_pop", "stddev_pop") else 1.0, count)
    variance = (squares - total * total / count) / (count - one)
    if a.function in ("variance", "var_samp", "var_pop"):
        return variance
    return variance.map(np.sqrt, lambda v: 0.5 / np.sqrt(v))
