"""Cleaning beside periodic refreshes: the best ratio, and a run that keeps to its plan."""

from __future__ import annotations

import pytest

from belvedere.errors import Invalid
from belvedere.samples.periodic import (
    JobCost,
    MaintenanceLoad,
    PeriodicPlan,
    best_plan,
    refreshes_only,
    run_plan,
    with_cleanings,
)

LOAD = MaintenanceLoad(rate=1000, refresh=JobCost(30, 4e-4), clean=JobCost(2, 2e-4))


def test_cleaning_between_refreshes_gives_smaller_errors_than_refreshes_alone() -> None:
    plan = best_plan(LOAD)
    assert plan.cleanings > 0
    assert plan.error < refreshes_only(LOAD).error / 1.2
    assert 0 < plan.ratio < 1


def test_a_smaller_sample_is_imprecise_and_a_larger_one_late() -> None:
    plan = best_plan(LOAD)
    for ratio in (plan.ratio / 20, 1.0):
        assert min(with_cleanings(LOAD, ratio, s).error for s in (0.5, 0.7, 0.9)) >= plan.error


def test_cheaper_cleaning_wants_a_larger_sample() -> None:
    cheap = MaintenanceLoad(
        LOAD.rate, LOAD.refresh, JobCost(LOAD.clean.fixed, LOAD.clean.per_row / 20)
    )
    assert best_plan(cheap).ratio >= best_plan(LOAD).ratio
    assert best_plan(cheap).error <= best_plan(LOAD).error


def test_more_rows_than_refreshes_keep_up_with_are_refused() -> None:
    with pytest.raises(Invalid, match="keep up"):
        refreshes_only(MaintenanceLoad(10_000, JobCost(1, 1e-3), JobCost(1, 1e-4)))


def test_cleanings_that_take_next_to_no_time_are_counted_at_once() -> None:
    load = MaintenanceLoad(1e-6, JobCost(1e9, 1e-3), JobCost(1e-6, 0.0))
    assert with_cleanings(load, 0.1).cleanings > 1e14


def test_costs_are_fitted_to_what_was_measured() -> None:
    fitted = JobCost.fitted([(0, 2.0), (1000, 3.0), (2000, 4.0)])
    assert fitted(1500) == pytest.approx(3.5)
    assert JobCost.fitted([(5, 1.0)])(100) == 1.0


class ClockedLake:
    """A lake whose jobs take the time that they are said to."""

    def __init__(self) -> None:
        self.now = 0.0

    def refresh(self, name: str) -> None:
        self.now += 5

    def clean(self, name: str) -> None:
        self.now += 1


def test_a_run_refreshes_once_a_period_and_cleans_in_between() -> None:
    lake, arrived = ClockedLake(), list[float]()
    jobs = run_plan(
        lake, "visits", PeriodicPlan(10, 0.1, 4, 0), 60, arrived.append, lambda: lake.now
    )
    kinds = [s.what for s in jobs]
    assert kinds.count("refresh") == 4
    assert kinds[:11] == ["clean"] * 10 + ["refresh"]
    assert arrived == [s.began for s in jobs]
    refreshes = run_plan(
        lake, "visits", PeriodicPlan(10, 0, 0, 0), 30, arrived.append, lambda: lake.now
    )
    assert {s.what for s in refreshes} == {"refresh"}
