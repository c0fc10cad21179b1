"""Predictions follow what refreshes took."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from belvedere.algebra.relations import Agg, Aggregate, Change, Field, Scan
from belvedere.analyses.effort import effort
from belvedere.analyses.sizes import Sizes, Statistics
from belvedere.execution import costs
from belvedere.execution.costs import CostHistory, MeasuredRefresh, candidate, cheaper
from belvedere.execution.strategies import Strategy
from belvedere.views.maintenance import plan_change, rebuild_work
from belvedere.views.state import state_of

MERGE, REBUILD = Strategy.MERGE, Strategy.REBUILD


def seconds(
    strategy: Strategy, work: float, own: list[MeasuredRefresh], *others: MeasuredRefresh
) -> float:
    found = candidate(strategy, work, CostHistory(own, others)).predicted_seconds
    assert found is not None
    return found


def test_more_work_takes_longer() -> None:
    assert seconds(MERGE, 1e6, []) < seconds(MERGE, 1e7, []) < seconds(REBUILD, 1e8, [])


def test_what_was_not_tried_takes_what_is_usual_here() -> None:
    slow, usual = [MeasuredRefresh("rebuild", 1e7, 99.0)], seconds(MERGE, 1e7, [])
    others = [MeasuredRefresh("merge", 1e7, 2 * usual), *slow]
    assert seconds(MERGE, 1e7, slow, *others) == pytest.approx(2 * usual)
    assert seconds(REBUILD, 1e7, [], *others) == pytest.approx(99)
    assert seconds(MERGE, 1e7, [], others[1]) > usual  # a slow machine is slow at everything


def test_changes_on_spark_are_thought_slower_than_a_rebuild_until_one_is_known() -> None:
    rebuilt, tried = MeasuredRefresh("rebuild", 5e7, 4.0), MeasuredRefresh("merge", 5e7, 3.0)

    def from_changes(*every: MeasuredRefresh) -> float:
        found = candidate(MERGE, 5e7, CostHistory((), every).on_spark()).predicted_seconds
        assert found is not None
        return found

    assert from_changes(rebuilt) == pytest.approx(2 * 4.0, rel=0.1)
    assert from_changes(rebuilt, tried) == pytest.approx(3.0)


def test_refreshes_of_the_same_work_count_the_more_the_more_there_are() -> None:
    usual = seconds(MERGE, 1e7, [])
    found = [seconds(MERGE, 1e7, [MeasuredRefresh("merge", 1e7, 30.0)] * n) for n in (0, 1, 2, 9)]
    assert found[0] == usual
    assert found[1] == pytest.approx((usual * 30.0) ** 0.5)
    assert found == sorted(found)
    assert 14 < found[-1] < 30


def test_the_newest_tell_the_most() -> None:
    slow, fast = [MeasuredRefresh("merge", 1e7, 30.0)], [MeasuredRefresh("merge", 1e7, 3.0)]
    now = seconds(MERGE, 1e7, fast * 3)
    assert seconds(MERGE, 1e7, [*fast * 2, *slow * 8]) == now
    assert seconds(MERGE, 1e7, [*slow * 2, *fast * 8]) > now


def test_own_refreshes_of_like_work_tell_more_than_others() -> None:
    own = [
        MeasuredRefresh("rebuild", 1e7, 99.0),
        MeasuredRefresh("merge", 1e5, 50.0),
        MeasuredRefresh("merge", 1e7, 3.0),
    ]
    assert seconds(MERGE, 1e7, own) == seconds(MERGE, 1e7, own[2:])
    assert seconds(REBUILD, 1e7, own) == seconds(REBUILD, 1e7, own[:1])


def test_refreshes_in_memory_tell_nothing_of_those_on_spark() -> None:
    in_memory = [MeasuredRefresh("merge", 1e6, 0.05, in_memory=True)] * 5
    on_spark = [MeasuredRefresh("merge", 1e7, 4.0)]
    found = CostHistory([*in_memory, *on_spark], [*in_memory, *on_spark]).on_spark()
    assert candidate(MERGE, 1e8, found) == candidate(MERGE, 1e8, CostHistory(on_spark, on_spark))


def test_where_spark_is_expected_own_refreshes_of_the_same_work_tell_wherever_they_ran() -> None:
    in_memory = [MeasuredRefresh("merge", 1e7, 0.5, in_memory=True)] * 3
    elsewhere = [MeasuredRefresh("merge", 1e7, 4.0)]
    expected = CostHistory(in_memory, [*in_memory, *elsewhere]).on_spark(surely=False)
    told, sure, other = (
        candidate(MERGE, work, past).predicted_seconds or inf
        for work, past in ((1e7, expected), (1e7, replace(expected, surely=True)), (1e8, expected))
    )
    assert told < 1
    assert sure == pytest.approx(4.0)
    assert other > 4


def test_a_creation_is_a_rebuild_that_was_cold() -> None:
    usual = seconds(REBUILD, 1e7, [])
    slow, fast = (MeasuredRefresh("rebuild", 1e7, s, created=True) for s in (4 * usual, usual))
    # As one refresh of its own, beside what is usual.
    assert seconds(REBUILD, 1e7, [slow]) == pytest.approx((4 / costs._COLD) ** 0.5 * usual)
    assert seconds(REBUILD, 1e7, [fast]) == pytest.approx(costs._COLD**-0.5 * usual)
    assert seconds(REBUILD, 1e7, [], fast) == pytest.approx(usual / costs._COLD)
    rebuilt = MeasuredRefresh("rebuild", 1e7, 3 * usual)
    assert seconds(REBUILD, 1e7, [rebuilt, fast]) == seconds(REBUILD, 1e7, [rebuilt])
    assert seconds(REBUILD, 1e7, [], rebuilt, fast) == pytest.approx(3 * usual)
    # What takes long is not cold for long.
    minutes = MeasuredRefresh("rebuild", 1e9, 200.0, created=True)
    assert seconds(REBUILD, 1e9, [], minutes) == pytest.approx(195)


def test_what_a_small_refresh_took_too_long_is_no_matter_of_rows() -> None:
    """The first of a large lake took 1.8 s for few rows; the next, of 39 million, is tried all the same."""
    small = MeasuredRefresh("merge", 1.2e5, 1.8, in_memory=True)
    formula = seconds(MERGE, 3.9e7, [])
    assert formula < seconds(MERGE, 3.9e7, [], small) < formula + 1.8
    assert seconds(MERGE, 2e5, [], small) == pytest.approx(1.8, rel=0.1)
    created = MeasuredRefresh("rebuild", 5e8, 17.2, created=True)
    merge, rebuild = (
        candidate(strategy, work, CostHistory([created], [small, created]))
        for strategy, work in ((MERGE, 3.9e7), (REBUILD, 5e8))
    )
    assert not cheaper(rebuild, merge)
    # What was too fast tells of rows.
    quick = MeasuredRefresh("merge", 1.2e5, 0.1)
    assert seconds(MERGE, 3.9e7, [], quick) < 0.3 * formula


def test_rebuilds_of_small_tables_tell_nothing_of_large_ones_where_creations_do() -> None:
    """Its creation took 15 s: that the lake computes small groups fast is no reason to try again."""
    created = MeasuredRefresh("rebuild", 3e7, 15.0, created=True)
    small = [MeasuredRefresh("rebuild", 1e4, 0.1)] * 3
    assert seconds(REBUILD, 3e7, [created], created, *small) == pytest.approx(10.0)
    assert seconds(REBUILD, 1e4, [], created, *small) == pytest.approx(0.1)
    # Rebuilds of the same size are what is usual, and those of another size if there is nothing else.
    assert (
        3.0 < seconds(REBUILD, 3e7, [created], *small, MeasuredRefresh("rebuild", 4e7, 4.0)) < 10.0
    )
    assert seconds(REBUILD, 3e7, [], *small) < 1.0


def test_one_view_that_is_computed_in_no_time_sets_no_other_to_be_computed_again() -> None:
    """Its filter left nothing: that says little of a view of the same size that took its time."""
    created, at_once = (
        MeasuredRefresh("rebuild", 1.7e7, 4.0, created=True),
        MeasuredRefresh("rebuild", 1.7e7, 0.4),
    )
    again = seconds(REBUILD, 1.7e7, [created], created, at_once)
    assert again == pytest.approx((0.4 * 4.0 / costs._COLD) ** 0.5)
    # Until it was not tried for long.
    merges = [MeasuredRefresh("merge", 1e6, 0.7)] * 10
    assert seconds(REBUILD, 1.7e7, [*merges, created], at_once) == pytest.approx(again / 2)


def test_what_was_not_tried_lately_is_tried_again_where_it_may_pay() -> None:
    """A rebuild was slow once; it is tried again after ten refreshes, if it may be half as long."""
    merges, rebuilt = [MeasuredRefresh("merge", 1e7, 3.0)], MeasuredRefresh("rebuild", 1e7, 4.0)
    known = seconds(REBUILD, 1e7, [*merges * 9, rebuilt])
    assert seconds(REBUILD, 1e7, [*merges * 10, rebuilt]) == pytest.approx(known / 2)
    in_memory = [replace(merges[0], in_memory=True)] * 10
    past = CostHistory([*in_memory, rebuilt]).on_spark()
    assert candidate(REBUILD, 1e7, past).predicted_seconds == pytest.approx(known / 2)


def test_a_slow_refresh_among_others_changes_nothing() -> None:
    steady = [MeasuredRefresh("merge", 1e7, 3.0)] * 3
    assert seconds(MERGE, 1e7, [MeasuredRefresh("merge", 1e7, 30.0), *steady[1:]]) == seconds(
        MERGE, 1e7, steady
    )


def test_what_is_not_known_is_not_compared() -> None:
    unknown = candidate(MERGE, inf, CostHistory())
    assert unknown.predicted_seconds is None
    assert not cheaper(candidate(REBUILD, 1.0, CostHistory()), unknown)
    assert not cheaper(unknown, candidate(REBUILD, 1e9, CostHistory()))


def test_a_small_advantage_is_not_worth_a_rebuild(monkeypatch: pytest.MonkeyPatch) -> None:
    merge = candidate(MERGE, 1e8, CostHistory())
    near = candidate(REBUILD, 0.95e8, CostHistory())
    assert (near.predicted_seconds or 0) < (merge.predicted_seconds or 0)
    monkeypatch.setattr(costs, "WORTH_IT", 0.9)
    assert not cheaper(near, merge)
    assert cheaper(candidate(REBUILD, 0.5e8, CostHistory()), merge)


def test_a_change_that_spark_reads_is_work_and_one_at_hand_is_none() -> None:
    change = Change("t", (Field("a", "a", "int"),))
    at_hand = Statistics(changed={"t": 1e5})
    assert effort(change, Sizes(at_hand), 1e5) == 0
    few, many = (effort(change, Sizes(replace(at_hand, passed={"t": n})), 1e5) for n in (1e6, 2e6))
    assert 0 < few < many


def test_writing_a_large_change_into_rows_without_a_key_is_much_work() -> None:
    columns = tuple(Field(c, c, "int") for c in "abcdefgh")
    types = dict.fromkeys("abcdefgh", "int")
    table = Scan("t", columns)
    bag, groups = (
        state_of(q, types) for q in (table, Aggregate(table, ("a",), (Agg("n", "count"),)))
    )
    known = Statistics(rows={"t": 6e6}, changed={"t": 6e5}, passed={"t": 6e6})
    to_bag, to_groups = (plan_change(state, MERGE, ["t"], types, known) for state in (bag, groups))
    assert to_bag.write_work(6e6) > 5 * rebuild_work(bag, known)
    # Among a few groups the changed ones are found for nothing.
    assert to_groups.write_work(1000) < 0.1 * rebuild_work(groups, known)
    assert to_groups.write_work(6e6) < to_bag.write_work(6e6)
