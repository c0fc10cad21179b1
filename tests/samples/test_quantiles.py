"""Quantiles: intervals hold the answer often enough; both ways beat sampling alone."""

from __future__ import annotations

import numpy as np
import pytest

from belvedere.samples.estimators.extremes import estimate_extremum
from belvedere.samples.estimators.quantiles import (
    GroupValues,
    Quantile,
    bootstrap_quantile,
    estimate_quantile,
)

RATIO = 0.1


@pytest.fixture(scope="module")
def states() -> tuple[np.ndarray, np.ndarray]:
    """A column before and after three tenths of its rows changed."""
    rng = np.random.default_rng(2)
    before = rng.lognormal(3, 1, 10_000)
    after = before * np.where(rng.random(10_000) < 0.3, rng.uniform(0.6, 2.0, 10_000), 1.0)
    return before, after


def sides(states: tuple[np.ndarray, np.ndarray], seed: int) -> tuple[GroupValues, GroupValues]:
    unit = np.nonzero(np.random.default_rng(seed).random(10_000) < RATIO)[0]
    none = np.zeros(len(unit), bool)
    return GroupValues(states[1][unit], unit, none), GroupValues(states[0][unit], unit, none)


@pytest.mark.parametrize("p", [0.5, 0.75])
def test_inverted_distributions_cover_the_quantile(
    states: tuple[np.ndarray, np.ndarray], p: float
) -> None:
    wanted = float(np.quantile(states[1], p, method="inverted_cdf"))
    hits: dict[str, list[bool]] = {"AQP": [], "CORR": []}
    widths: dict[str, list[float]] = {"AQP": [], "CORR": []}
    for seed in range(200):
        fresh, stale = sides(states, seed)
        for name, whole in (("AQP", None), ("CORR", states[0])):
            q = estimate_quantile(p, fresh, stale, whole, RATIO, 0.95)
            hits[name].append(q.low <= wanted <= q.high)
            widths[name].append(q.high - q.low)
    assert all(np.mean(h) >= 0.92 for h in hits.values()), {n: np.mean(h) for n, h in hits.items()}
    assert np.mean(widths["CORR"]) < 0.7 * np.mean(widths["AQP"])


def test_the_bootstrap_of_keys_agrees_and_that_of_two_samples_apart_is_far_wider(
    states: tuple[np.ndarray, np.ndarray],
) -> None:
    ratios, apart = [], []
    for seed in range(4):
        fresh, stale = sides(states, seed)
        q = estimate_quantile(0.5, fresh, stale, states[0], RATIO, 0.95)
        low, high = bootstrap_quantile(0.5, fresh, stale, states[0], RATIO, 0.95, seed)
        ratios.append((high - low) / (q.high - q.low))
        alone = GroupValues(stale.value, stale.unit + 100_000, stale.exact)
        low, high = bootstrap_quantile(0.5, fresh, alone, states[0], RATIO, 0.95, seed)
        apart.append((high - low) / (q.high - q.low))
    assert 0.8 < np.mean(ratios) < 1.3
    assert np.mean(apart) > 2 * np.mean(ratios)


@pytest.mark.parametrize(("p", "wanted"), [(0.5, 3.0), (0.9, 5.0)])
def test_values_that_repeat_are_not_biased_by_a_correction(p: float, wanted: float) -> None:
    """One to five, a thousand of each, and after half a thousand more of the same kind."""
    before, after = np.arange(5000) % 5 + 1.0, np.arange(5500) % 5 + 1.0
    for seed in range(20):
        unit = np.flatnonzero(np.random.default_rng(seed).random(5500) < 0.3)
        none, old = np.zeros(len(unit), bool), unit < 5000
        fresh = GroupValues(after[unit], unit, none)
        stale = GroupValues(before[unit[old]], unit[old], none[old])
        for whole in (before, None):
            q = estimate_quantile(p, fresh, stale, whole, 0.3, 0.95)
            assert (q.low <= wanted <= q.high, abs(q.value - wanted) <= 1) == (True, True)
            if whole is not None:
                assert q.value == wanted


def test_equal_values_in_any_order_give_the_same_quantile() -> None:
    rng = np.random.default_rng(4)
    value, unit = rng.integers(1, 4, 200).astype(float), np.arange(200)
    none, turned = np.zeros(200, bool), rng.permutation(200)
    one = estimate_quantile(
        0.5,
        GroupValues(value, unit, none),
        GroupValues(value[:9], unit[:9], none[:9]),
        value,
        0.2,
        0.95,
    )
    other = estimate_quantile(
        0.5,
        GroupValues(value[turned], unit[turned], none),
        GroupValues(value[:9][::-1], unit[:9][::-1], none[:9]),
        value[turned],
        0.2,
        0.95,
    )
    assert one == other


def test_rows_that_are_all_known_are_no_sample_of_the_others() -> None:
    value, unit = np.arange(3.0), np.arange(3)
    outliers = GroupValues(value, unit, np.ones(3, bool))
    assert np.isnan(estimate_quantile(0.5, outliers, outliers, None, 0.1, 0.95).low)
    assert estimate_quantile(0.5, outliers, outliers, None, 1.0, 0.95).low == 1


def test_an_end_that_no_sampled_value_bounds_shows_no_interval() -> None:
    value, unit = np.arange(15.0), np.arange(15)
    few = GroupValues(value, unit, np.zeros(15, bool))
    for p in (0.1, 0.9):
        assert np.isnan(estimate_quantile(p, few, few, None, 0.1, 0.95).low)
    assert not np.isnan(estimate_quantile(0.5, few, few, None, 0.1, 0.95).low)


def test_few_changed_keys_show_no_interval() -> None:
    value, unit = np.arange(50.0), np.arange(50)
    same = GroupValues(value, unit, np.zeros(50, bool))
    q = estimate_quantile(0.5, same, same, np.arange(500.0), RATIO, 0.95)
    assert isinstance(q, Quantile)
    assert np.isnan(q.low)
    assert q.keys == 0


def test_a_maximum_is_corrected_and_what_was_seen_is_told() -> None:
    fresh = np.array([10.0, 50.0, 20.0])
    found = estimate_extremum(100.0, fresh, fresh, np.array([1.0, 7.0, -3.0]), largest=True)
    assert (found.value, found.certain) == (107.0, 50.0)
    assert 0 < found.beyond < 0.1
    smallest = estimate_extremum(5.0, fresh, fresh[:2], np.array([1.0, -7.0]), largest=False)
    assert (smallest.value, smallest.certain) == (-2.0, 10.0)
