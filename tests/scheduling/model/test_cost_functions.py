"""Cost functions: monotone, subadditive, and the same one by one as in a list."""

from __future__ import annotations

import numpy as np
import pytest

from belvedere.errors import Invalid
from belvedere.scheduling.model.cost_functions import (
    BlockCost,
    CurveCost,
    LinearCost,
    ListedCost,
    Prices,
    from_record,
    subadditive_closure,
    tabulate,
    to_record,
)
from tests.scheduling.model.instances import random_cost


@pytest.mark.parametrize("seed", range(40))
def test_costs_are_monotone_and_subadditive(seed: int) -> None:
    cost = random_cost(np.random.default_rng(seed))
    values = [cost(k) for k in range(25)]
    assert values[0] == 0
    assert values == sorted(values)
    for x in range(25):
        for y in range(25 - x):
            assert values[x + y] <= values[x] + values[y] + 1e-9 if x + y < 25 else True


@pytest.mark.parametrize("seed", range(40))
def test_a_list_of_costs_is_what_the_function_says(seed: int) -> None:
    cost = random_cost(np.random.default_rng(seed))
    assert tabulate(cost, 20) == pytest.approx([cost(k) for k in range(21)])
    assert from_record(to_record(cost)) == cost


def test_the_closure_is_the_largest_subadditive_function_below() -> None:
    random = np.random.default_rng(7)
    for _ in range(50):
        raw = [float(v) for v in random.integers(1, 20, size=9)]
        values = subadditive_closure(raw)
        ListedCost(values)  # refuses what is not a cost function
        assert all(c <= r for c, r in zip(values, raw, strict=True))
        for k in range(9):
            # Any larger value there would break a law or pass the given cost.
            sums = [values[j] + values[k - j - 1] for j in range(k)]
            above = min([raw[k], *sums, *values[k + 1 :]])
            assert values[k] == pytest.approx(above)


@pytest.mark.parametrize(
    "make",
    [
        lambda: LinearCost(-1.0, 2.0),
        lambda: LinearCost(1.0, float("nan")),
        lambda: BlockCost(0, 1.0),
        lambda: CurveCost(((2, 1.0), (3, 2.0))),
        lambda: CurveCost(((1, 2.0), (3, 1.0))),
        lambda: CurveCost(((1, 1.0), (3, 9.0))),
        lambda: ListedCost((1.0, 3.0)),
        lambda: ListedCost(()),
        lambda: Prices((LinearCost(1.0, 1.0),), shared=3.0),
        lambda: Prices(()),
        lambda: from_record({"kind": "cubic"}),
    ],
)
def test_what_is_no_cost_function_is_refused(make: object) -> None:
    with pytest.raises(Invalid):
        make()  # type: ignore[operator]
