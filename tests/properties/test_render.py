"""The SQL of a plan means what the plan means: DuckDB agrees with the reference."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from belvedere.algebra.relations import Rel
from belvedere.rules.delta import delta
from reference.engine import Engine
from reference.interpreter import Database
from reference.plans import TABLES, databases, plans


@given(plans(), databases())
def test_a_plan_and_its_sql_give_the_same_bag(q: Rel, db: Database) -> None:
    engine = Engine(db)
    try:
        assert engine.bag(q) == db.bag(q), engine.text(q)
    finally:
        engine.close()


@given(plans(most_depth=4), databases(), st.sets(st.sampled_from(sorted(TABLES)), min_size=1))
def test_a_change_and_its_sql_give_the_same_bag(q: Rel, db: Database, moving: set[str]) -> None:
    db = db.moving(moving)
    change = delta(q, moving)
    engine = Engine(db)
    try:
        assert engine.bag(change) == db.bag(change), engine.text(change)
    finally:
        engine.close()
