"""Estimates and their intervals, broken."""

from __future__ import annotations

from math import comb, inf
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from belvedere.algebra.scalars import col
from belvedere.estimation import diagnosis
from belvedere.samples.estimators import quantiles
from belvedere.samples.estimators.per_key_sums import KeySums
from belvedere.samples.estimators.quantiles import GroupValues, estimate_quantile
from belvedere.samples.estimators.smooth import Method, StaleExtremes, estimate_smooth
from belvedere.synopses.estimate import estimates, intervals
from tests.mutants.hunt import Hunt, Mutants, Patch

MUTANTS = Mutants()
caught_by = MUTANTS.caught_by

# What repeats, so that a quantile lies inside a tie.
_repeating = st.lists(st.integers(1, 4), min_size=20, max_size=60)


def a_correction_of_nothing_is_the_stale_quantile(column: list[int], p: float, seed: int) -> None:
    """Where no sampled row changed, the corrected distribution is the stale one."""
    value = np.array(column, float)
    unit = np.flatnonzero(np.random.default_rng(seed).random(len(value)) < 0.5)
    same = GroupValues(value[unit], unit, np.zeros(len(unit), bool))
    found = estimate_quantile(p, same, same, value, 0.5, 0.95)
    assert found.value == np.quantile(value, p, method="inverted_cdf")


def a_number_of_rows_is_counted(passes: list[bool], more: int) -> None:
    """A size that is no estimate is of a join whose results are all in the sample."""
    rows = pa.table({"x": np.ones(len(passes))})
    shown = {"x": col("x")}
    found = estimates.size(
        estimates.Population(
            rows, {"x": "double"}, shown, np.array(passes, bool), len(passes) + more, False
        )
    )
    assert not isinstance(found, int) or more == 0


def counts_cover(n: int, more: int, k: int) -> None:
    """Over all samples of n of a join's results, of which k count."""
    size, covered = n + more, 0.0
    k = min(k, size)
    for hits in range(max(0, n + k - size), min(n, k) + 1):
        low, high = intervals.count_interval(n, hits, size, 0.95, replacement=False)
        chance = comb(k, hits) * comb(size - k, n - hits) / comb(size, n)
        covered += chance * (low <= k <= high)
    assert covered >= 0.949


def a_missed_key_that_outweighs_the_sample_is_noted(
    sampled: list[int], greatest: int, method: Method
) -> None:
    """What the stale view has and the sample has not must not outweigh all that was sampled."""
    value = np.array(sampled, float)[:, None]
    none = np.zeros(len(value))
    stale = value if method is Method.AQP else 0 * value
    cells = KeySums(0.1, 1, none.astype(np.int64), none.astype(bool), value, stale)
    known = StaleExtremes(lambda slope: np.array([float(greatest)]))
    base = np.array([[1e6]])
    found = estimate_smooth(lambda t: t[0], cells, base, 0.95, method, known)
    assert found.notes[0] or greatest**2 < 2 * (value**2).sum()


def a_few_rows_of_a_join_are_noted(rows: list[int], known: bool) -> None:
    around = np.array(rows, float) - np.mean(rows)
    assert intervals.doubt(around, len(rows), (-20.0, 20.0) if known else None)


ties = Hunt(
    "quantiles of values that repeat",
    a_correction_of_nothing_is_the_stale_quantile,
    st.tuples(_repeating, st.sampled_from([0.25, 0.5, 0.9]), st.integers(0, 99)),
    enough=20,
)
sizes = Hunt(
    "sizes of joins behind filters",
    a_number_of_rows_is_counted,
    st.tuples(st.lists(st.booleans(), min_size=1, max_size=5), st.integers(0, 9)),
    enough=20,
)
counts = Hunt(
    "counts of a join's results",
    counts_cover,
    st.tuples(st.integers(1, 20), st.integers(1, 60), st.integers(0, 80)),
    enough=20,
)
missed = Hunt(
    "keys that the sample missed",
    a_missed_key_that_outweighs_the_sample_is_noted,
    st.tuples(
        st.lists(st.integers(1, 9), min_size=100, max_size=120),
        st.integers(1, 500),
        st.sampled_from([Method.AQP, Method.CORR]),
    ),
    enough=20,
)
few = Hunt(
    "few rows of a join",
    a_few_rows_of_a_join_are_noted,
    st.tuples(st.lists(st.integers(0, 9), min_size=2, max_size=11), st.booleans()),
    enough=20,
)


@caught_by(ties)
def what_is_reached_within_a_tie_is_kept(patch: Patch) -> None:
    right = quantiles._distribution

    def curve(p: float, sides: Any, whole: Any, ratio: float) -> Any:
        made = right(p, sides, whole, ratio)
        value = np.concatenate([sides[0][0].value, whole, *(s.value for s, _ in sides[1:])])
        weight = np.concatenate(
            [
                sides[0][0].weights(ratio),
                np.ones(len(whole)),
                *(sign * s.weights(ratio) for s, sign in sides[1:]),
            ]
        )
        order = np.argsort(value, kind="stable")
        mass = np.maximum.accumulate(np.cumsum(weight[order]))
        none = np.zeros(len(mass))
        return quantiles._Distribution(value[order], np.minimum(mass, made.mass[-1]), none, none)

    patch.setattr(quantiles, "_distribution", curve)


@caught_by(sizes)
def all_sampled_results_pass_and_so_all_results(patch: Patch) -> None:
    right = estimates.size

    def size(population: estimates.Population, confidence: float = 0.95) -> Any:
        if population.passing.all():
            return population.size
        return right(population, confidence)

    patch.setattr(estimates, "size", size)


@caught_by(counts)
def counts_vary_by_the_observed_share(patch: Patch) -> None:
    def interval(
        n: int, hits: int, size: int, confidence: float, *, replacement: bool
    ) -> tuple[float, float]:
        share = hits / n
        half = 1.96 * np.sqrt(share * (1 - share) / n * (1 - n / size))
        return size * (share - half), size * (share + half)

    patch.setattr(intervals, "count_interval", interval)


@caught_by(missed)
def the_stale_view_s_extremes_are_not_looked_at(patch: Patch) -> None:
    patch.setattr(diagnosis, "UNSEEN", inf)


@caught_by(few)
def an_interval_of_a_few_rows_is_as_good_as_any(patch: Patch) -> None:
    patch.setattr(intervals, "ENOUGH", 0)
    patch.setattr(intervals, "ENOUGH_ALONE", 0)
