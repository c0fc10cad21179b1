"""The SQL of a plan means what the plan means: DuckDB agrees with the reference."""

from __future__ import annotations

from hypothesis import given

from belvedere.algebra.relations import Rel
from tests.reference.interpreter import Database
from tests.reference.laws import the_sql_means_the_change, the_sql_means_the_plan
from tests.reference.plans import changes, plans

Case = tuple[Rel, Database, set[str]]


@given(changes(plans()))
def test_a_plan_and_its_sql_give_the_same_bag(case: Case) -> None:
    q, db, _ = case
    the_sql_means_the_plan(q, db)


@given(changes(plans(most_depth=4)))
def test_a_change_and_its_sql_give_the_same_bag(case: Case) -> None:
    the_sql_means_the_change(*case)
