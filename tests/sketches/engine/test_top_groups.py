"""The first groups in an order, by values of every length."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from sqlglot import parse_one

from belvedere.algebra.relations import Order
from belvedere.algebra.scalars import Scalar
from belvedere.errors import Unsupported
from belvedere.kernels.grouping import Words
from belvedere.sketches.engine.top_groups import FirstGroups, GroupColumn, HavingFilter

DIGITS = (9, 18, 19, 38)


@pytest.mark.parametrize("digits", DIGITS)
@pytest.mark.parametrize("nulls_first", [True, False])
@pytest.mark.parametrize("descending", [True, False])
def test_the_first_are_those_that_sorting_finds(
    digits: int, descending: bool, nulls_first: bool
) -> None:
    random = np.random.default_rng(digits)
    # Of all lengths, so that the upper and the lower half of a number each decide somewhere.
    numbers: list[int | None] = [
        int(random.integers(-999, 1000)) * 10 ** int(random.integers(0, digits - 2))
        for _ in range(60)
    ]
    numbers[7] = numbers[30] = None
    given = [None if n is None else Decimal(n).scaleb(-2) for n in numbers]
    values = pa.array(given, pa.decimal128(digits, 2))
    order = Order("x", descending, nulls_first)

    def columns(_name: str, groups: Words) -> GroupColumn:
        return GroupColumn(values.take(pa.array(groups)), f"decimal({digits},2)")

    def place(n: int | None) -> tuple[int, int]:
        if n is None:
            return (0 if nulls_first else 2), 0
        return 1, -n if descending else n

    weights = np.ones(60, dtype=np.int64)
    for limit in (1, 2, 5, 20, 59):
        found = FirstGroups.of((order,), limit, columns).among(np.arange(60), weights)
        last = sorted(map(place, numbers))[limit - 1]
        assert found.tolist() == [place(n) <= last for n in numbers]


@pytest.mark.parametrize(
    ("condition", "shown"),
    [
        ("`x` > 5", [False, True, True, False]),
        ("`x` >= 1e300", [False, True, True, False]),
        ("5 < `x`", [False, True, True, False]),
        ("`x` < 5", [True, False, False, False]),
        ("`x` = 5", [False, False, False, False]),
    ],
)
def test_nan_is_greater_than_every_number_and_null_is_not(
    condition: str, shown: list[bool]
) -> None:
    values = pa.array([1.0, float("nan"), float("inf"), None])

    def columns(_name: str, groups: Words) -> GroupColumn:
        return GroupColumn(values.take(pa.array(groups)), "double")

    having = HavingFilter.of((Scalar(parse_one(condition, dialect="spark")),), columns)
    assert having.holds(np.arange(4)).tolist() == shown


def test_a_constant_that_is_no_float_is_not_compared_with_floats() -> None:
    def columns(_name: str, groups: Words) -> GroupColumn:
        return GroupColumn(pa.nulls(len(groups), pa.float32()), "float")

    def having(condition: str) -> HavingFilter:
        return HavingFilter.of((Scalar(parse_one(condition, dialect="spark")),), columns)

    having("`x` > 16777216")
    with pytest.raises(Unsupported):
        having("`x` > 16777217")
