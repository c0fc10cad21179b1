"""Predictions follow what refreshes took."""

from __future__ import annotations

from math import inf

import pytest

from belvedere.views import costs
from belvedere.views.choice import Strategy
from belvedere.views.costs import Took, candidate, cheaper

MERGE, REBUILD = Strategy.MERGE, Strategy.REBUILD


def seconds(strategy: Strategy, work: float, earlier: list[Took]) -> float:
    found = candidate(strategy, work, earlier).predicted_seconds
    assert found is not None
    return found


def test_more_work_takes_longer() -> None:
    assert seconds(MERGE, 1e6, []) < seconds(MERGE, 1e7, []) < seconds(REBUILD, 1e8, [])


def test_a_refresh_of_the_same_work_is_predicted_to_take_as_long() -> None:
    assert seconds(MERGE, 1e7, [Took("merge", 1e7, 3.0)]) == pytest.approx(3.0)


def test_own_refreshes_of_like_work_tell_more_than_others() -> None:
    earlier = [Took("rebuild", 1e7, 99.0), Took("merge", 1e5, 50.0), Took("merge", 1e7, 3.0)]
    assert seconds(MERGE, 1e7, earlier) == pytest.approx(3.0)
    assert seconds(REBUILD, 1e7, earlier) == pytest.approx(99.0)


def test_a_slow_refresh_among_others_changes_nothing() -> None:
    earlier = [Took("merge", 1e7, s) for s in (30.0, 3.0, 3.0)]
    assert seconds(MERGE, 1e7, earlier) == pytest.approx(3.0)


def test_only_the_newest_refreshes_count() -> None:
    earlier = [Took("merge", 1e7, s) for s in (1.0, 1.0, 1.0, 9.0, 9.0, 9.0, 9.0, 9.0)]
    assert seconds(MERGE, 1e7, earlier) == pytest.approx(1.0)


def test_what_is_not_known_is_not_compared() -> None:
    unknown = candidate(MERGE, inf, [])
    assert unknown.predicted_seconds is None
    assert not cheaper(candidate(REBUILD, 1.0, []), unknown)
    assert not cheaper(unknown, candidate(REBUILD, 1e9, []))


def test_a_small_advantage_is_not_worth_a_rebuild(monkeypatch: pytest.MonkeyPatch) -> None:
    merge = candidate(MERGE, 1e8, [])
    near = candidate(REBUILD, 0.95e8, [])
    assert (near.predicted_seconds or 0) < (merge.predicted_seconds or 0)
    monkeypatch.setattr(costs, "WORTH_IT", 0.9)
    assert not cheaper(near, merge)
    assert cheaper(candidate(REBUILD, 0.5e8, []), merge)
