"""An answer that carries no note covers at its rate: every aggregate, both methods, views of every shape."""

from __future__ import annotations

import sys
from math import sqrt

import numpy as np
import pytest

from tests.samples.shapes import AGGREGATES, KEYS, RANKS, SHAPES, Coverage, Tally, measured


def wrong(tally: Tally, above: float) -> bool:
    """Whether 95 % intervals cover less than 93 % or more than is allowed, beyond chance."""
    chance = 2 * sqrt(0.95 * 0.05 / max(tally.clean, 1))
    return not 0.93 - chance <= tally.coverage <= above + chance


def failures(found: Coverage) -> list[str]:
    """Aggregates and methods whose answers without a note cover too rarely, or too often."""
    pooled = found.pooled(lambda cell: cell[:2])
    # Equal values leave no interval of exactly 95 %: quantiles of ties may cover more.
    return [
        f"{what}: {tally.coverage:.3f} of {tally.clean}"
        for what, tally in pooled.items()
        if wrong(tally, 0.99 if what[0] in RANKS else 0.97)
    ]


@pytest.fixture(scope="module")
def found() -> Coverage:
    return measured(SHAPES, KEYS, sizes=[4000], populations=1, smooth=30, ranks=3, seed=1)


def test_answers_without_a_note_cover_at_their_rate(found: Coverage) -> None:
    assert failures(found) == []


@pytest.mark.parametrize("shape", SHAPES)
def test_answers_without_a_note_cover_for_every_shape_of_values(
    found: Coverage, shape: str
) -> None:
    tally = found.pooled(lambda cell: cell[2:3])[(shape,)]
    assert tally.coverage >= 0.93 - 3 * sqrt(0.95 * 0.05 / tally.clean * len(AGGREGATES))


def test_not_everything_carries_a_note(found: Coverage) -> None:
    pooled = found.pooled(lambda cell: cell[:2])
    for aggregate in AGGREGATES:
        alone, either = pooled[aggregate, "AQP"], pooled[aggregate, "AUTO"]
        assert alone.clean >= 0.18 * alone.answers, aggregate
        assert either.clean >= alone.clean, aggregate


def test_the_check_notices_intervals_without_the_stale_view_s_extremes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("belvedere.estimation.diagnosis.UNSEEN", np.inf)
    rare = measured(
        ["rare", "rank 2"], ["rows"], sizes=[1500], populations=3, smooth=40, ranks=1, seed=1
    )
    assert any("var" in failure for failure in failures(rare))


@pytest.mark.soak
def test_answers_without_a_note_cover_in_every_cell() -> None:
    """Writes the tables of docs/benchmarks/estimates.md; `-s` shows them."""
    found = measured(
        SHAPES, KEYS, sizes=[300, 1500, 5000], populations=5, smooth=50, ranks=6, seed=2
    )
    for title, by in (
        ("aggregate, method", lambda cell: cell[:2]),
        ("values, method", lambda cell: (cell[2], cell[1])),
        ("keys, method", lambda cell: (cell[3], cell[1])),
    ):
        sys.stdout.write(
            f"\n| {title} | answers | without a note | of these cover |\n|---|---|---|---|\n"
        )
        for what, tally in found.pooled(by).items():
            share = f"{tally.clean / tally.answers:.0%}"
            sys.stdout.write(
                f"| {', '.join(what)} | {tally.answers} | {share} | {tally.coverage:.3f} |\n"
            )
    assert failures(found) == []
    large = {cell: tally for cell, tally in found.cells.items() if tally.clean >= 1000}
    assert [c for c, t in large.items() if t.coverage < 0.91] == []


@pytest.mark.soak
def test_answers_without_a_note_cover_over_many_views() -> None:
    """Samples of one view are alike: a rate rests on the number of views."""
    found = measured(
        SHAPES, KEYS, sizes=[300, 1500, 5000], populations=100, smooth=10, ranks=0, seed=11
    )
    pooled = found.pooled(lambda cell: cell[:2])
    assert all(tally.clean >= 500 for tally in pooled.values())
    assert {what: t.coverage for what, t in pooled.items() if not 0.93 <= t.coverage <= 0.97} == {}
