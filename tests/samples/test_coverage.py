"""Intervals hold the answer as often as they say, over 4000 samples; estimates are not biased."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from belvedere.algebra.relations import Agg
from belvedere.algebra.scalars import col
from belvedere.estimation.diagnosis import SKEWED
from belvedere.estimation.linearization import Dual
from belvedere.samples.estimators.bootstrap import bootstrap_interval
from belvedere.samples.estimators.per_key_sums import KeySums
from belvedere.samples.estimators.smooth import (
    Method,
    MethodEstimate,
    SmoothEstimates,
    SmoothFunction,
    estimate_smooth,
)
from belvedere.samples.estimators.totals import from_totals
from tests.samples.populations import SEEDS, STREAMS, Population, population, samples

RATIO = 0.25
LEVELS = (0.5, 0.95, 0.99)
ANSWERS: dict[str, SmoothFunction] = {
    "sum": lambda t: t[0],
    "count": lambda t: t[1],
    "avg": lambda t: t[0] / t[1],
}


def repeated(of: Population, groups: int) -> np.ndarray:
    return np.broadcast_to(of.stale_totals, (groups, of.stale.shape[1]))


def truth(answer: SmoothFunction, of: Population) -> float:
    known = of.truth[None, :]
    return float(answer([Dual(known[:, j], np.zeros((1, 2))) for j in range(2)]).value[0])


def of_present_keys(of: Population) -> Population:
    """The same without the keys that add nothing in either state."""
    present = (of.stale != 0).any(axis=1) | (of.fresh != 0).any(axis=1)
    return Population(of.stale[present], of.fresh[present])


def misses(side: MethodEstimate, wanted: float) -> list[str]:
    """What is wrong with 4000 estimates of one number; empty if nothing is."""
    wrong = []
    error = side.value - wanted
    if abs(error.mean()) > 4 * error.std() / np.sqrt(len(error)):
        wrong.append(
            f"bias {error.mean():.4g}, standard error {error.std() / len(error) ** 0.5:.4g}"
        )
    for level in LEVELS:
        covered = float(side.covers(wanted, level).mean())
        if abs(covered - level) > max(0.02, 4 * np.sqrt(level * (1 - level) / len(error))):
            wrong.append(f"coverage {covered:.4f} at {level}")
    return wrong


@pytest.fixture(scope="module", params=STREAMS)
def sampled(request: pytest.FixtureRequest) -> tuple[Population, dict[str, SmoothEstimates]]:
    """A population, and 4000 estimates of each answer about it."""
    of = population(request.param, size=1400)
    cells, stale = samples(of, RATIO), repeated(of, SEEDS)
    return of, {name: estimate_smooth(f, cells, stale, 0.95) for name, f in ANSWERS.items()}


@pytest.mark.parametrize("answer", ANSWERS)
def test_intervals_cover_at_their_rate(
    sampled: tuple[Population, dict[str, SmoothEstimates]], answer: str
) -> None:
    of, estimates = sampled
    enough = {m: s for m, s in estimates[answer].sides.items() if np.median(s.keys) >= 100}
    assert Method.AQP in enough or answer == "count"
    for side in enough.values():
        assert misses(side, truth(ANSWERS[answer], of)) == []


def test_intervals_of_a_predicate_cover_at_their_rate() -> None:
    of = of_present_keys(population("update-heavy", size=3000, share=0.4))
    found = estimate_smooth(ANSWERS["avg"], samples(of, RATIO), repeated(of, SEEDS), 0.95)
    for side in found.sides.values():
        assert np.median(side.keys) >= 100
        assert misses(side, truth(ANSWERS["avg"], of)) == []


def test_the_method_chosen_by_itself_covers_at_its_rate(
    sampled: tuple[Population, dict[str, SmoothEstimates]],
) -> None:
    of, estimates = sampled
    covered = _covered(estimates["sum"], truth(ANSWERS["sum"], of))
    assert abs(covered - 0.95) <= 0.02


def test_near_the_break_even_the_method_chosen_by_itself_covers_at_its_rate() -> None:
    of = population("delete-heavy", size=3000)
    found = estimate_smooth(ANSWERS["sum"], samples(of, 0.15), repeated(of, SEEDS), 0.95)
    assert 0.3 < np.mean([m == "CORR" for m in found.method]) < 0.7
    assert abs(_covered(found, truth(ANSWERS["sum"], of)) - 0.95) <= 0.014


def test_grouped_answers_cover_at_their_rate() -> None:
    parts = [population(s, size=2000, seed=i) for i, s in enumerate(STREAMS)]
    each = [samples(p, 0.2, seeds=1000, seed=i) for i, p in enumerate(parts)]
    together = KeySums(
        0.2,
        3000,
        np.concatenate([c.group * 3 + i for i, c in enumerate(each)]),
        np.concatenate([c.exact for c in each]),
        np.concatenate([c.fresh for c in each]),
        np.concatenate([c.stale for c in each]),
    )
    stale = np.tile(np.stack([p.stale_totals for p in parts]), (1000, 1))
    found = estimate_smooth(ANSWERS["sum"], together, stale, 0.95)
    for i, p in enumerate(parts):
        wanted = truth(ANSWERS["sum"], p)
        inside = (found.low[i::3] <= wanted) & (wanted <= found.high[i::3])
        assert abs(inside.mean() - 0.95) <= 4 * np.sqrt(0.95 * 0.05 / 1000)


def test_rows_that_are_sampled_together_are_summed_before_they_are_squared() -> None:
    of, rng = population("update-heavy", size=6000), np.random.default_rng(3)
    cluster = np.sort(rng.integers(0, 1200, 6000))

    def summed(adds: np.ndarray) -> np.ndarray:
        return np.stack([np.bincount(cluster, adds[:, j], 1200) for j in range(2)], axis=1)

    by_key = Population(summed(of.stale), summed(of.fresh))
    found = estimate_smooth(ANSWERS["sum"], samples(by_key, 0.2), repeated(by_key, SEEDS), 0.95)
    for side in found.sides.values():
        assert misses(side, truth(ANSWERS["sum"], of)) == []


def test_deviations_cover_and_the_bootstrap_of_keys_agrees() -> None:
    def deviation(t: list[Dual]) -> Dual:
        return from_totals(Agg("s", "stddev", (col("x"),)), [t[0], t[1], t[2]])

    of = population("update-heavy", size=1400)
    square = [np.column_stack([s, s[:, 0] ** 2]) for s in (of.stale, of.fresh)]
    wide = Population(*square)
    cells = samples(wide, RATIO)
    found = estimate_smooth(deviation, cells, np.broadcast_to(wide.stale_totals, (SEEDS, 3)), 0.95)
    values = of.fresh[of.fresh[:, 1] > 0, 0]
    for side in found.sides.values():
        inside = side.covers(values.std(ddof=1), 0.95)
        assert 0.92 <= inside.mean() <= 0.98
    few = samples(wide, RATIO, seeds=20)
    base = np.broadcast_to(wide.stale_totals, (20, 3))
    own = estimate_smooth(deviation, few, base, 0.95)
    for method, given in ((Method.AQP, None), (Method.CORR, base)):
        low, high = bootstrap_interval(deviation, few, given, 0.95)
        ratio = (high - low) / sum(own.sides[method].reach(0.95))
        assert 0.85 < np.median(ratio) < 1.15


def skewed() -> Population:
    of, rng = population("update-heavy", size=1500), np.random.default_rng(5)
    heavy = 100.0 / (rng.permutation(1500) + 1) ** 1.5 * 1500
    fresh, stale = of.fresh.copy(), of.stale.copy()
    fresh[:, 0] += heavy * fresh[:, 1]
    stale[:, 0] += heavy * stale[:, 1] * rng.choice([0.7, 1.0], 1500)
    return Population(stale, fresh)


def test_skewed_values_cover_with_an_outlier_index_and_are_marked_without() -> None:
    of = skewed()
    without = estimate_smooth(ANSWERS["sum"], samples(of, 0.3), None, 0.95)
    assert np.mean(["skewed" in note for note in without.notes]) > 0.5
    assert _covered(without, truth(ANSWERS["sum"], of)) < 0.93
    for method in (Method.AQP, Method.CORR):
        what = of.fresh if method is Method.AQP else of.fresh - of.stale
        exact = np.zeros(1500, bool)
        exact[np.argsort(-np.abs(what[:, 0]))[:60]] = True
        base = None if method is Method.AQP else repeated(of, SEEDS)
        found = estimate_smooth(ANSWERS["sum"], samples(of, 0.3, exact), base, 0.95)
        assert misses(found.sides[method], truth(ANSWERS["sum"], of)) == []
        assert found.sides[method].skew.max() <= SKEWED


@pytest.mark.parametrize("cap", [10, 25, 50])
def test_values_by_zipfs_law_cover_up_to_50_times_their_mean(cap: int) -> None:
    of = zipfian(cap, keys=2000 if cap < 50 else 4000)
    side = estimate_smooth(ANSWERS["sum"], samples(of, 0.1), None, 0.95).sides[Method.AQP]
    wanted = truth(ANSWERS["sum"], of)
    assert np.median(side.keys) >= 100
    assert misses(side, wanted) == []
    usual = replace(side, lopsided=0 * side.lopsided, freedom=side.keys - 1)
    assert usual.covers(wanted, 0.99).mean() < side.covers(wanted, 0.99).mean() - 0.004


def zipfian(cap: float, keys: int) -> Population:
    """Values whose r-th largest is proportional to 1/r, cut where they are so much over the mean."""
    end = cap
    for _ in range(100):
        end = cap * np.log(end) * end / (end - 1)
    # At even steps, so that the largest is there.
    value = 1 / (1 - np.linspace(0, 1, keys) * (1 - 1 / end))
    fresh = np.column_stack([value, np.ones(keys)])
    return Population(np.zeros_like(fresh), fresh)


def test_the_check_notices_biased_and_overconfident_estimates(
    sampled: tuple[Population, dict[str, SmoothEstimates]],
) -> None:
    of, estimates = sampled
    wanted = truth(ANSWERS["sum"], of)
    side = estimates["sum"].sides[Method.AQP]
    assert misses(replace(side, value=side.value * 1.01), wanted)
    # §5.2.1's interval, which is that of a mean; rows squared before they are summed likewise.
    assert misses(replace(side, variance=side.variance / side.keys), wanted)
    assert misses(replace(side, variance=side.variance * 1.3), wanted)


def test_two_samples_that_do_not_correspond_are_noticed() -> None:
    of = population("update-heavy")
    a, b = (samples(of, RATIO, seeds=400, seed=seed) for seed in (1, 2))
    size = min(len(a.group), len(b.group))
    apart = replace(a, group=a.group[:size], exact=a.exact[:size], fresh=a.fresh[:size])
    apart = replace(apart, stale=b.stale[:size])
    side = estimate_smooth(ANSWERS["sum"], apart, repeated(of, 400), 0.95).sides[Method.CORR]
    right = estimate_smooth(ANSWERS["sum"], a, repeated(of, 400), 0.95).sides[Method.CORR]
    assert np.median(side.variance) > 2 * np.median(right.variance)


def test_too_few_rows_show_no_interval_and_say_so() -> None:
    of = population("insert-heavy", size=60)
    found = estimate_smooth(ANSWERS["sum"], samples(of, 0.1, seeds=50), repeated(of, 50), 0.95)
    few = [k < 12 for k in found.sides[Method.AQP].keys]
    assert any(few)
    for low, note, is_few in zip(found.low, found.notes, few, strict=True):
        assert np.isnan(low) == is_few
        assert ("too few" in note) == is_few
        assert "RATIO" in note


def test_a_sample_of_everything_is_exact() -> None:
    of = population("delete-heavy", size=500)
    found = estimate_smooth(ANSWERS["avg"], samples(of, 1.0, seeds=3), repeated(of, 3), 0.95)
    assert found.value == pytest.approx(truth(ANSWERS["avg"], of))
    assert found.low == pytest.approx(found.high)
    assert found.notes == ["", "", ""]


def _covered(found: SmoothEstimates, wanted: float) -> float:
    return float(((found.low <= wanted) & (wanted <= found.high)).mean())
