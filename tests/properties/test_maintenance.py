"""Stored rows moved by changes are those of a rebuild, round after round, without a JVM."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from belvedere.algebra.relations import Rel
from reference.laws import History, the_stored_rows_follow
from reference.plans import histories, rooted, views


@given(views(), histories())
def test_groups_that_gain_changes_are_the_groups_of_a_rebuild(q: Rel, history: History) -> None:
    the_stored_rows_follow(q, history)


@given(views(), histories())
def test_groups_computed_again_are_the_groups_of_a_rebuild(q: Rel, history: History) -> None:
    the_stored_rows_follow(q, history, recompute=True)


@given(
    st.one_of(*(rooted(o, 2) for o in ("join", "set_operation", "window", "filter", "project"))),
    histories(),
)
def test_equal_rows_stay_numbered_from_one_without_gaps(q: Rel, history: History) -> None:
    the_stored_rows_follow(q, history)
