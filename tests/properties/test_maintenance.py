"""Stored rows moved by changes are those of a rebuild, round after round, without a JVM."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from belvedere.algebra.relations import Rel
from tests.reference.interpreter import Database
from tests.reference.laws import (
    History,
    inner_aggregates,
    parts_hold_their_groups,
    the_stored_rows_follow,
)
from tests.reference.plans import databases, maintained, plans, rooted, views

Case = tuple[Rel, History]
ROWS = ("join", "set_operation", "window", "filter", "project")


@settings(max_examples=16)
@given(maintained(views()))
def test_groups_that_gain_changes_are_the_groups_of_a_rebuild(case: Case) -> None:
    the_stored_rows_follow(*case)


@settings(max_examples=16)
@given(maintained(views()))
def test_groups_computed_again_are_the_groups_of_a_rebuild(case: Case) -> None:
    the_stored_rows_follow(*case, recompute=True)


@settings(max_examples=16)
@given(maintained(st.one_of(*(rooted(operator, 1) for operator in ROWS))))
def test_equal_rows_stay_numbered_from_one_without_gaps(case: Case) -> None:
    the_stored_rows_follow(*case)


@settings(max_examples=16)
@given(plans().filter(inner_aggregates), databases())
def test_groups_kept_as_parts_are_the_groups(q: Rel, db: Database) -> None:
    parts_hold_their_groups(q, db)
