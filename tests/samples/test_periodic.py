"""Cleaning beside periodic refreshes: the best ratio, and a run that keeps to its plan."""

from __future__ import annotations

import pytest

from belvedere.errors import Invalid
from belvedere.samples.periodic import Cost, Load, Plan, alone, best, run, together

LOAD = Load(rate=1000, refresh=Cost(30, 4e-4), clean=Cost(2, 2e-4))


def test_cleaning_between_refreshes_gives_smaller_errors_than_refreshes_alone() -> None:
    found = best(LOAD)
    assert found.cleanings > 0
    assert found.error < alone(LOAD).error / 1.2
    assert 0 < found.ratio < 1


def test_a_smaller_sample_is_imprecise_and_a_larger_one_late() -> None:
    found = best(LOAD)
    for ratio in (found.ratio / 20, 1.0):
        assert min(together(LOAD, ratio, s).error for s in (0.5, 0.7, 0.9)) >= found.error


def test_cheaper_cleaning_wants_a_larger_sample() -> None:
    cheap = Load(LOAD.rate, LOAD.refresh, Cost(LOAD.clean.fixed, LOAD.clean.per_row / 20))
    assert best(cheap).ratio >= best(LOAD).ratio
    assert best(cheap).error <= best(LOAD).error


def test_more_rows_than_refreshes_keep_up_with_are_refused() -> None:
    with pytest.raises(Invalid, match="keep up"):
        alone(Load(10_000, Cost(1, 1e-3), Cost(1, 1e-4)))


def test_costs_are_fitted_to_what_was_measured() -> None:
    fitted = Cost.fitted([(0, 2.0), (1000, 3.0), (2000, 4.0)])
    assert fitted(1500) == pytest.approx(3.5)
    assert Cost.fitted([(5, 1.0)])(100) == 1.0


class Clocked:
    """A lake whose jobs take the time that they are said to."""

    def __init__(self) -> None:
        self.now = 0.0

    def refresh(self, name: str) -> None:
        self.now += 5

    def clean(self, name: str) -> None:
        self.now += 1


def test_a_run_refreshes_once_a_period_and_cleans_in_between() -> None:
    lake, arrived = Clocked(), list[float]()
    steps = run(lake, "visits", arrived.append, Plan(10, 0.1, 4, 0), 60, lambda: lake.now)
    kinds = [s.what for s in steps]
    assert kinds.count("refresh") == 4
    assert kinds[:11] == ["clean"] * 10 + ["refresh"]
    assert arrived == [s.began for s in steps]
    alone_steps = run(lake, "visits", arrived.append, Plan(10, 0, 0, 0), 30, lambda: lake.now)
    assert {s.what for s in alone_steps} == {"refresh"}
