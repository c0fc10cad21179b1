"""Fitting: the form that made the measurements is found, and noise is smoothed and told."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from belvedere.errors import Invalid
from belvedere.scheduling.calibrate.fitting import (
    FittedCost,
    JointBatch,
    MeasuredBatch,
    fit_cost,
    fit_prices,
    sizes_to_measure_again,
)
from belvedere.scheduling.model.cost_functions import BlockCost, CostFunction, CurveCost, LinearCost

SIZES = (1, 10, 100, 1000, 10_000)


def times(cost: CostFunction, noise: float = 0.0, seed: int = 0) -> list[MeasuredBatch]:
    random = np.random.default_rng(seed)
    return [MeasuredBatch(k, cost(k) * (1 + noise * random.uniform(-1, 1))) for k in SIZES]


@pytest.mark.parametrize(
    "cost", [LinearCost(0.001, 0.5), LinearCost(0.0, 2.0), BlockCost(100, 0.3)]
)
def test_the_form_is_found(cost: CostFunction) -> None:
    found = fit_cost(times(cost))
    assert type(found.cost) is type(cost) or cost == LinearCost(0.0, 2.0)
    assert [found.cost(k) for k in SIZES] == pytest.approx([cost(k) for k in SIZES], rel=1e-6)
    assert found.residual == pytest.approx(0, abs=1e-6)


def test_a_line_is_found_under_noise() -> None:
    found = fit_cost(times(LinearCost(0.001, 0.5), noise=0.1))
    assert isinstance(found.cost, LinearCost)
    assert found.cost.fixed == pytest.approx(0.5, rel=0.15)
    assert found.cost.slope == pytest.approx(0.001, rel=0.15)


def test_what_is_neither_becomes_a_curve_through_the_measurements() -> None:
    bent = CurveCost(((1, 0.3), (10, 0.35), (100, 2.9), (1000, 3.0), (10_000, 3.1)))
    found = fit_cost([MeasuredBatch(k, bent(k)) for k in SIZES])
    assert isinstance(found.cost, CurveCost)
    assert found.residual < 0.01


@pytest.mark.parametrize("seed", range(20))
def test_noise_is_smoothed_and_told(seed: int) -> None:
    random = np.random.default_rng(seed)
    measured = [MeasuredBatch(k, float(random.uniform(0.2, 2.0))) for k in SIZES]
    found = fit_cost(measured)  # refused by the cost functions if not monotone and subadditive
    highest = 0.0
    for one in measured:
        told = any(note.startswith(f"{one.changes} changes") for note in found.notes)
        assert told == (one.changes in sizes_to_measure_again(measured))
        assert told == (one.seconds < highest * 0.85)
        highest = max(highest, one.seconds)


def test_what_joint_batches_save_is_shared() -> None:
    each = [
        FittedCost(LinearCost(0.001, 0.5), 0.0, ()),
        FittedCost(LinearCost(0.002, 0.9), 0.0, ()),
    ]
    joint = [JointBatch((10, 10), 0.51 + 0.92 - 0.3), JointBatch((100, 10), 0.6 + 0.92 - 0.3)]
    assert fit_prices(each, joint).shared == pytest.approx(0.3)
    assert fit_prices(each, []).shared == 0
    assert fit_prices(each, [JointBatch((1, 1), 99.0)]).shared == 0
    assert fit_prices(each, [JointBatch((1, 1), 0.0)]).shared == pytest.approx(0.501)


def test_what_is_shared_is_told_by_small_batches() -> None:
    each = [
        FittedCost(LinearCost(0.001, 0.5), 0.0, ()),
        FittedCost(LinearCost(0.002, 0.9), 0.0, ()),
    ]
    small = [JointBatch((10, 10), 0.51 + 0.92 - s) for s in (0.3, 0.28, 0.32)]
    large = [JointBatch((1000, 1000), 1.5 + 2.9 + more) for more in (0.5, 0.1, 0.9)]
    prices = fit_prices(each, [*large, *small])
    assert prices.shared == pytest.approx(0.3)
    assert prices.at_most((1000, 1000)) >= large[-1].seconds * (1 - 1e-9)


DEAR, CHEAP = LinearCost(0.0002, 1.0), LinearCost(0.0001, 0.05)


def kinds(noise: float = 0.0, seed: int = 0) -> list[MeasuredBatch]:
    """Deletes and updates cost alike, inserts a twentieth."""
    random = np.random.default_rng(seed)
    return [
        MeasuredBatch(k, cost(k) * (1 + noise * random.uniform(-1, 1)), kind)
        for kind, cost in (("delete", DEAR), ("insert", CHEAP), ("update", DEAR))
        for k in SIZES
        for _ in range(2)
    ]


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ({"update": 1.0}, 1.0),
        ({"insert": 1.0}, 0.0),
        ({"insert": 0.75, "delete": 0.25}, 0.25),
        ({}, 1.0),
    ],
)
def test_what_is_expected_follows_the_kinds_that_arrive(
    weights: dict[str, float], expected: float
) -> None:
    found = fit_cost(kinds(), weights)
    for k in SIZES:
        mixed = expected * DEAR(k) + (1 - expected) * CHEAP(k)
        assert found.cost(k) == pytest.approx(mixed, rel=0.02)
        assert found.at_most(k) >= DEAR(k) * (1 - 1e-9)


def test_a_middle_of_all_kinds_is_wrong_for_each() -> None:
    """What this is for: without kinds a stream of updates is predicted at half its cost."""
    blind = fit_cost([MeasuredBatch(m.changes, m.seconds) for m in kinds() if m.kind != "update"])
    assert blind.cost(1) < 0.6 * DEAR(1)
    assert fit_cost(kinds(), {"update": 1.0}).cost(1) == pytest.approx(DEAR(1), rel=0.02)


@pytest.mark.parametrize("seed", range(30))
def test_nothing_measured_is_above_the_curve_that_limits_are_kept_by(seed: int) -> None:
    random = np.random.default_rng(seed)
    weights = dict(zip(("insert", "delete", "update"), random.random(3), strict=True))
    measured = [
        MeasuredBatch(m.changes, float(m.seconds * random.uniform(0.3, 3.0)), m.kind)
        for m in kinds()
    ]
    found = fit_cost(measured, weights)
    assert all(found.at_most(m.changes) >= m.seconds * (1 - 1e-9) for m in measured)
    # Never below what is expected either; both were accepted as monotone and subadditive.
    assert all(found.at_most(k) >= found.cost(k) * (1 - 1e-9) for k in (*SIZES, 5, 50, 20_000))
    sizes = [1, 2, 7, 40, 300, 4000, 30_000]
    for cost in (found.cost, found.at_most):
        assert all(cost(a) <= cost(b) for a, b in pairwise(sizes))
        assert all(cost(a + b) <= (cost(a) + cost(b)) * (1 + 1e-9) for a in sizes for b in sizes)


def test_batches_timed_as_they_came_speak_for_their_size() -> None:
    own = [MeasuredBatch(1000, 3.0), MeasuredBatch(1100, 3.0)]
    found = fit_cost([*kinds(), *own], {"update": 1.0})
    assert found.cost(1000) == pytest.approx(3.0, rel=0.15)
    assert found.cost(1) == pytest.approx(DEAR(1), rel=0.15)


def test_a_joint_batch_is_compared_with_its_kind() -> None:
    each = [fit_cost(kinds(), {"update": 1.0})] * 2
    joint = [
        JointBatch((10, 10), 2 * DEAR(10) - 0.7, "delete"),
        JointBatch((10, 10), 2 * CHEAP(10) - 0.03, "insert"),
        JointBatch((10, 10), 2 * DEAR(10) - 0.7, "update"),
    ]
    prices = fit_prices(each, joint)
    assert prices.shared == pytest.approx(0.7, rel=0.05)
    # Surely shared is only what every joint batch shared.
    assert all(prices.at_most(j.changes) >= j.seconds * (1 - 1e-9) for j in joint)
    assert prices.error > 0.1  # inserts share less, and that is not hidden


def test_one_joint_batch_that_took_long_makes_costs_no_less_certain() -> None:
    each = [fit_cost(kinds(), {"update": 1.0})] * 2
    steady = [JointBatch((10, 10), 2 * DEAR(10) - 0.7, "update")] * 3
    slow = JointBatch((10, 10), 9 * DEAR(10), "update")
    prices = fit_prices(each, [*steady, slow])
    assert prices.error < 0.05
    assert prices.of((10, 10)) == pytest.approx(steady[0].seconds, rel=0.05)
    # But limits are kept by it: together the tables may take longer than one by one.
    assert prices.at_most((10, 10)) >= slow.seconds * (1 - 1e-9)
    assert prices.at_most((10, 0)) < slow.seconds / 2


@pytest.mark.parametrize(
    "bad", [MeasuredBatch(0, 1.0), MeasuredBatch(1, -0.1), MeasuredBatch(1, float("nan"))]
)
def test_what_is_not_a_measurement_is_refused(bad: MeasuredBatch) -> None:
    with pytest.raises(Invalid, match="is not a cost"):
        fit_cost([MeasuredBatch(1, 1.0), bad])
    with pytest.raises(Invalid, match="nothing was measured"):
        fit_cost([])


def test_single_changes_that_take_one_of_two_times_are_expected_to_take_their_mean() -> None:
    singles = [MeasuredBatch(1, s) for s in (0.05, 0.11, 0.05, 0.05, 0.11, 0.05, 0.05, 0.11, 0.05)]
    found = fit_cost([*singles, *(MeasuredBatch(k, 0.11) for k in (10, 100, 1000))])
    assert found.cost(1) == pytest.approx(0.07, rel=0.1)
    noisy = fit_cost([*(MeasuredBatch(1, 0.05) for _ in range(8)), MeasuredBatch(1, 2.0)])
    assert noisy.cost(1) == pytest.approx(0.05)
