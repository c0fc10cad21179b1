"""Plans in memory give the rows that the plans mean, or are declined."""

from __future__ import annotations

from hypothesis import event, given

from belvedere.algebra.relations import Rel
from tests.reference.interpreter import Database
from tests.reference.laws import memory_agrees, memory_agrees_on_changes
from tests.reference.plans import changes, plans

Case = tuple[Rel, Database, set[str]]


@given(changes(plans()))
def test_a_plan_in_memory(case: Case) -> None:
    q, db, _ = case
    event(f"computed: {min(memory_agrees(q, db), 9)}")


@given(changes(plans(most_depth=4)))
def test_a_change_in_memory(case: Case) -> None:
    event(f"computed: {min(memory_agrees_on_changes(*case), 9)}")
