"""The SQL of a plan means what the plan means: DuckDB agrees with the reference."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from belvedere.algebra.relations import Rel
from reference.interpreter import Database
from reference.laws import the_sql_means_the_change, the_sql_means_the_plan
from reference.plans import TABLES, databases, plans


@given(plans(), databases())
def test_a_plan_and_its_sql_give_the_same_bag(q: Rel, db: Database) -> None:
    the_sql_means_the_plan(q, db)


@given(plans(most_depth=4), databases(), st.sets(st.sampled_from(sorted(TABLES)), min_size=1))
def test_a_change_and_its_sql_give_the_same_bag(q: Rel, db: Database, moving: set[str]) -> None:
    the_sql_means_the_change(q, db, moving)
