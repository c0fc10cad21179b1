"""Keeping limits while time passes: no answer is late at a load that can be kept."""

from __future__ import annotations

import pytest

from belvedere.errors import Invalid
from belvedere.scheduling.calibrate.fitting import FittedCost, JointBatch, MeasuredBatch
from belvedere.scheduling.model.arrivals import STREAMS, Arrival, random_arrivals
from belvedere.scheduling.model.cost_functions import LinearCost, Prices
from belvedere.scheduling.model.policies import new_policy
from belvedere.scheduling.model.problem import Terms
from belvedere.scheduling.schedules import Calibration, Schedule
from belvedere.scheduling.serve.deadlines import ViewScheduler, longest_wait, next_to_act
from belvedere.scheduling.serve.dry_run import dry_run
from belvedere.scheduling.serve.preview import dry_run_policy, forecast_views

PRICES = Prices((LinearCost(0.0004, 0.35), LinearCost(0.002, 1.1)), 0.3)
TERMS = Terms(PRICES, 5.0)


def scheduler(name: str = "v", policy: str = "ONLINE", terms: Terms = TERMS) -> ViewScheduler:
    return ViewScheduler(name, ("a", "b"), terms, new_policy(policy, terms), 0.5)


def arrivals(kind: str, seconds: int = 900, scale: int = 10) -> list[Arrival]:
    rows = random_arrivals(2, seconds, *STREAMS[kind], seed=4)
    return [
        Arrival(at + 0.25 * i, name, count * scale)
        for at, row in enumerate(rows)
        for i, (name, count) in enumerate(zip("ab", row, strict=True))
        if count
    ]


@pytest.mark.parametrize("kind", STREAMS)
@pytest.mark.parametrize("policy", ["NAIVE", "ONLINE"])
def test_no_answer_is_late(kind: str, policy: str) -> None:
    run = dry_run([scheduler(policy=policy)], arrivals(kind), 0.5)
    assert run.violations == []
    assert 0.4 < run.worst <= 1
    assert run.cost == pytest.approx(sum(taken.cost for taken in run.actions))


def test_a_service_that_waits_until_full_is_late() -> None:
    """What the reserves are for: without them the same stream breaks the limit."""

    class Careless(ViewScheduler):
        def must_act(self, others: float = 0.0) -> bool:
            return self.terms.full(self.pending)

        def action(self, others: float = 0.0) -> tuple[int, ...]:
            return self.pending

        def timed_terms(self, others: float = 0.0):  # type: ignore[no-untyped-def]
            return self.terms

    run = dry_run(
        [Careless("v", ("a", "b"), TERMS, new_policy("NAIVE", TERMS), 0.5)], arrivals("FU"), 0.5
    )
    assert run.violations


def test_two_views_in_one_process_keep_both_limits() -> None:
    longer = Terms(Prices((LinearCost(0.0004, 0.4), LinearCost(0.001, 0.8)), 0.3), 9.0)
    views = [scheduler("short"), scheduler("long", terms=longer)]
    run = dry_run(views, arrivals("SS"), 0.5)
    assert run.violations == []
    assert {taken.view for taken in run.actions} == {"short", "long"}


def test_the_earliest_deadline_goes_first_and_waits_for_what_runs() -> None:
    short, long = scheduler("short"), scheduler("long", terms=Terms(PRICES, 60.0))
    for each in (short, long):
        each.observe((10, 10))
    assert longest_wait([short, long], short) == pytest.approx(long.refresh_seconds())
    assert longest_wait([short, long], long) == pytest.approx(short.refresh_seconds())
    assert next_to_act([short, long]) is None
    short.pending = (10_000, 1000)
    assert next_to_act([long, short]) is short


def test_more_than_a_limit_can_hold_is_reported_with_its_cause() -> None:
    flood = [Arrival(0.1, "a", 1), Arrival(10.0, "b", 5000)]
    run = dry_run([scheduler()], flood, 0.5)
    assert run.violations[0].cause == "more arrived between two looks than one limit can hold"
    slow = dry_run([scheduler()], arrivals("FS"), 0.5, lambda terms, action: 3 * terms.cost(action))
    causes = {violation.cause for violation in slow.violations}
    assert "an action took longer than the calibration says" in causes


def test_a_limit_below_a_single_change_names_the_table_and_a_limit_that_would_do() -> None:
    with pytest.raises(Invalid, match="cannot be kept") as caught:
        scheduler(terms=Terms(PRICES, 1.0))
    assert caught.value.detail == "a single change of 'b' takes 1.1 seconds"
    assert "SET RESPONSE LIMIT 2 SECONDS" in caught.value.hint
    scheduler(terms=Terms(PRICES, 2.0))


def schedule() -> Schedule:
    fits = tuple(FittedCost(cost, 0.0, (MeasuredBatch(1, cost(1)),)) for cost in PRICES.each)
    joint = (JointBatch((1, 1), PRICES.of((1, 1))),)
    return Schedule("v", 5.0, Calibration(("a", "b"), fits, joint))


def test_an_outlook_compares_the_policies_and_takes_the_cheapest() -> None:
    found = forecast_views([schedule()], arrivals("FU", 300), 0.5)
    costs = {run.policy: run.cost for run in found.policies}
    assert costs[found.chosen] == min(costs.values()) <= costs["NAIVE"]
    assert found.best is not None
    assert found.best <= min(costs.values())
    assert "AUTO takes" in str(found)


def test_a_calibration_learns_from_what_was_timed() -> None:
    known = schedule().calibration
    assert known is not None
    for _ in range(8):
        known = known.with_measured((100, 0), 2.0)
    known = known.with_measured((50, 50), 2.5).with_measured((0, 0), 1.0)
    assert known.fits[0].cost(100) == pytest.approx(2.0, rel=0.1)
    assert len([m for m in known.fits[0].measured if m.changes == 100]) == 5
    assert known.joint[-1] == JointBatch((50, 50), 2.5)
    assert dry_run_policy([schedule()], arrivals("SS", 60), "NAIVE", 0.5).cost > 0
