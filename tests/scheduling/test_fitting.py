"""Fitting: the form that made the measurements is found, and noise is smoothed and told."""

from __future__ import annotations

import numpy as np
import pytest

from belvedere.errors import Invalid
from belvedere.scheduling.costs import Block, Cost, Curve, Linear
from belvedere.scheduling.fitting import Fit, Measured, fit, priced, to_measure_again

SIZES = (1, 10, 100, 1000, 10_000)


def times(cost: Cost, noise: float = 0.0, seed: int = 0) -> list[Measured]:
    random = np.random.default_rng(seed)
    return [Measured(k, cost(k) * (1 + noise * random.uniform(-1, 1))) for k in SIZES]


@pytest.mark.parametrize("cost", [Linear(0.001, 0.5), Linear(0.0, 2.0), Block(100, 0.3)])
def test_the_form_is_found(cost: Cost) -> None:
    found = fit(times(cost))
    assert type(found.cost) is type(cost) or cost == Linear(0.0, 2.0)
    assert [found.cost(k) for k in SIZES] == pytest.approx([cost(k) for k in SIZES], rel=1e-6)
    assert found.residual == pytest.approx(0, abs=1e-6)


def test_a_line_is_found_under_noise() -> None:
    found = fit(times(Linear(0.001, 0.5), noise=0.1))
    assert isinstance(found.cost, Linear)
    assert found.cost.fixed == pytest.approx(0.5, rel=0.15)
    assert found.cost.slope == pytest.approx(0.001, rel=0.15)


def test_what_is_neither_becomes_a_curve_through_the_measurements() -> None:
    bent = Curve(((1, 0.3), (10, 0.35), (100, 2.9), (1000, 3.0), (10_000, 3.1)))
    found = fit([Measured(k, bent(k)) for k in SIZES])
    assert isinstance(found.cost, Curve)
    assert found.residual < 0.01


@pytest.mark.parametrize("seed", range(20))
def test_noise_is_smoothed_and_told(seed: int) -> None:
    random = np.random.default_rng(seed)
    measured = [Measured(k, float(random.uniform(0.2, 2.0))) for k in SIZES]
    found = fit(measured)  # refused by the cost functions if not monotone and subadditive
    highest = 0.0
    for one in measured:
        told = any(note.startswith(f"{one.changes} changes") for note in found.notes)
        assert told == (one.changes in to_measure_again(measured))
        assert told == (one.seconds < highest * 0.85)
        highest = max(highest, one.seconds)


def test_what_joint_batches_save_is_shared() -> None:
    each = [Fit(Linear(0.001, 0.5), 0.0, ()), Fit(Linear(0.002, 0.9), 0.0, ())]
    joint = {(10, 10): 0.51 + 0.92 - 0.3, (100, 10): 0.6 + 0.92 - 0.3}
    assert priced(each, joint).shared == pytest.approx(0.3)
    assert priced(each, {}).shared == 0
    assert priced(each, {(1, 1): 99.0}).shared == 0
    assert priced(each, {(1, 1): 0.0}).shared == pytest.approx(0.501)


@pytest.mark.parametrize("bad", [Measured(0, 1.0), Measured(1, -0.1), Measured(1, float("nan"))])
def test_what_is_not_a_measurement_is_refused(bad: Measured) -> None:
    with pytest.raises(Invalid, match="is not a cost"):
        fit([Measured(1, 1.0), bad])
    with pytest.raises(Invalid, match="nothing was measured"):
        fit([])
