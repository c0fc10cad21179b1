"""Estimates of a join from its sample: what carries no note covers, and only counting says a number for sure."""

from __future__ import annotations

import sys
from collections import defaultdict
from math import comb, sqrt

import numpy as np
import pyarrow as pa
import pytest

from belvedere import Synopsis
from belvedere.algebra.scalars import col
from belvedere.synopses.estimate.estimates import Population, SampleEstimate, estimate, size
from belvedere.synopses.estimate.intervals import count_interval
from tests.samples.shapes import SHAPES, Tally, values

TYPES = {"x": "double", "g": "bigint"}
ASKED = ("sum(x)", "avg(x)", "count(*)", "median(x)", "percentile(x, 0.9)")
JOIN = 20_000


def population(
    x: np.ndarray, *, of: int, passing: np.ndarray | None = None, known: np.ndarray | None = None
) -> Population:
    span = None if known is None else (float(known.min()), float(known.max()))
    rows = pa.table({"x": x, "g": np.arange(len(x)) % 2})
    shown = {"x": col("x"), "g": col("g")}
    every = np.ones(len(x), bool) if passing is None else passing
    return Population(rows, TYPES, shown, every, of, False, lambda _: span)


def ints(**columns: list[int]) -> pa.Table:
    return pa.table({n: pa.array(v, pa.int32()) for n, v in columns.items()})


def test_a_join_is_counted_only_where_all_of_it_is_in_the_sample() -> None:
    """Ten and seven of twenty results pass a filter after the graph; often all of a small sample do."""
    counted, covered, alike = 0, 0, 0
    for seed in range(60):
        made = Synopsis(
            "SELECT r.x, t.y FROM r, s, t WHERE r.k = s.k AND s.b = t.b AND r.x + s.b > t.y",
            {"r": {"k": "int", "x": "int"}, "s": {"k": "int", "b": "int"}, "t": {"b": "int", "y": "int"}},
            rows=3,
            seed=seed,
        )  # fmt: skip
        made.insert("r", ints(k=[1] * 10, x=list(range(10))))
        made.insert("s", ints(k=[1], b=[1]))
        made.insert("t", ints(b=[1, 1], y=[0, 3]))
        found = made.join_size
        counted += isinstance(found, int)
        covered += found.low <= 17 <= found.high
        alike += found.high == 20
    assert counted == 0
    assert covered >= 54
    assert alike > 0


def test_the_size_of_a_join_is_counted_where_the_sample_has_all_of_it() -> None:
    some = np.array([True, False, True])
    assert size(population(np.ones(3), of=3, passing=some)) == 2
    assert isinstance(size(population(np.ones(3), of=3, passing=some)), int)
    assert size(population(np.zeros(0), of=0)) == 0
    assert isinstance(size(population(np.ones(3), of=4)), SampleEstimate)


@pytest.mark.parametrize("passes", [True, False])
def test_all_or_none_of_the_sampled_results_say_nothing_for_sure(passes: bool) -> None:
    found = size(population(np.ones(30), of=1000, passing=np.full(30, passes)))
    assert isinstance(found, SampleEstimate)
    assert (found.high == 1000) if passes else (found.low == 0)
    assert 100 < found.high - found.low < 130


def test_a_sample_without_rows_of_a_join_that_has_some_says_nothing() -> None:
    none = population(np.zeros(0), of=50)
    found = estimate(none, "count(*)", None, None, 0.95)
    assert (found.low, found.high) == (0, 50)
    for what in ASKED:
        found = estimate(none, what, None, None, 0.95)
        assert found.low < found.high
        assert what.startswith("count") or "no sampled row" in found.note
    empty = population(np.zeros(0), of=0)
    assert str(estimate(empty, "sum(x)", None, None, 0.95)) == "0"


@pytest.mark.parametrize("size_of_join", [20, 300])
@pytest.mark.parametrize("n", [3, 12, 18])
def test_counts_cover_whatever_their_share_is(size_of_join: int, n: int) -> None:
    """Exactly: over all samples, for every number of results that count."""
    for k in range(0, size_of_join + 1, max(1, size_of_join // 40)):
        covered = 0.0
        for hits in range(max(0, n + k - size_of_join), min(n, k) + 1):
            low, high = count_interval(n, hits, size_of_join, 0.95, replacement=False)
            chance = comb(k, hits) * comb(size_of_join - k, n - hits) / comb(size_of_join, n)
            covered += chance * (low <= k <= high)
        assert covered >= 0.949, (k, covered)


def test_equal_values_in_a_sample_are_no_proof_of_equal_values() -> None:
    found = estimate(population(np.ones(200), of=5000), "avg(x)", None, None, 0.95)
    assert found.low < 1 < found.high
    assert "same value" in found.note
    assert "same value" in str(found)


def measured(
    shapes: tuple[str, ...], sizes: tuple[int, ...], joins: int, samples: int, seed: int
) -> dict[tuple[str, str, str, int], Tally]:
    """By aggregate, by shape, with known extremes or not, and by size of the sample."""
    found: dict[tuple[str, str, str, int], Tally] = defaultdict(Tally)
    rng = np.random.default_rng(seed)
    for shape in shapes:
        for _ in range(joins):
            x = values(shape, JOIN, rng)
            least = float(np.quantile(x, 0.3))
            truth = {
                "sum(x)": x.sum(), "avg(x)": x.mean(), "count(*)": (x > least).sum(),
                "median(x)": np.median(x), "percentile(x, 0.9)": np.quantile(x, 0.9),
            }  # fmt: skip
            for n in sizes:
                for at in range(samples):
                    drawn = rng.choice(x, n, replace=False)
                    known = "alone" if at % 2 else "extremes"
                    of = population(drawn, of=JOIN, known=None if at % 2 else x)
                    for what, wanted in truth.items():
                        where = f"x > {least:.20f}" if what == "count(*)" else None
                        e = estimate(of, what, where, None, 0.95)
                        slack = 1e-9 * abs(wanted)
                        holds = e.low - slack <= wanted <= e.high + slack
                        shown, clean = np.isfinite(e.high - e.low), not e.note
                        found[what, shape, known, n].add(
                            *(np.array([b]) for b in (shown, clean, holds))
                        )
    return found


def pooled(
    found: dict[tuple[str, str, str, int], Tally], *places: int
) -> dict[tuple[object, ...], Tally]:
    together: dict[tuple[object, ...], Tally] = defaultdict(Tally)
    for cell, tally in found.items():
        together[tuple(cell[p] for p in places)] += tally
    return together


def test_estimates_without_a_note_cover_at_their_rate() -> None:
    found = measured(SHAPES, (6, 50, 400, 4000), joins=1, samples=12, seed=1)
    for what, tally in pooled(found, 0).items():
        chance = 2 * sqrt(0.95 * 0.05 / tally.clean)
        above = 0.97 if what[0] in ("sum(x)", "avg(x)") else 0.995
        assert 0.93 - chance <= tally.coverage <= above + chance, (what, tally)
    for (what, n), tally in pooled(found, 0, 3).items():
        if n == 6 and what in ("sum(x)", "avg(x)"):
            assert tally.clean == 0
        if n == 400:
            assert tally.clean > 0.25 * tally.answers, what


@pytest.mark.soak
def test_estimates_without_a_note_cover_in_every_cell() -> None:
    """Writes the tables of docs/benchmarks/synopses.md; `-s` shows them."""
    sizes = (6, 12, 30, 50, 100, 300, 1000, 3000, 10_000)
    found = measured(SHAPES, sizes, joins=3, samples=30, seed=2)
    for places in ((0, 2), (0, 3), (1,)):
        sys.stdout.write("\n| | estimates | without a note | of these cover |\n|---|---|---|---|\n")
        for what, tally in pooled(found, *places).items():
            share = f"{tally.clean / tally.answers:.0%}"
            name = ", ".join(map(str, what))
            sys.stdout.write(f"| {name} | {tally.answers} | {share} | {tally.coverage:.3f} |\n")
    for what, tally in pooled(found, 0, 2).items():
        assert tally.coverage >= 0.93, (what, tally)
