"""Q(NEW) = Q(OLD) + ΔQ, for random plans, tables, changes and choices of moving tables."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from belvedere.algebra.relations import At, Field, JoinKind, Rel, Scan
from belvedere.algebra.walks import at, tables
from belvedere.rules.delta import delta
from tests.reference.interpreter import Database, plus
from tests.reference.laws import (
    emptying_keeps_the_rows,
    going_back_keeps_the_rows,
    looking_up_keeps_the_rows,
    narrowing_keeps_the_rows,
    picking_keeps_the_rows,
    pushing_keeps_the_rows,
    the_change_adds_up,
    turning_keeps_the_rows,
)
from tests.reference.plans import TABLES, changes, databases, plans, restrictions, rooted


@given(changes(plans()))
def test_the_old_rows_and_the_change_make_the_new_rows(
    case: tuple[Rel, Database, set[str]],
) -> None:
    the_change_adds_up(*case)


@given(plans(), databases(), st.permutations(sorted(TABLES)))
def test_tables_advanced_one_at_a_time_in_any_order_end_in_the_same_state(
    q: Rel, db: Database, order: list[str]
) -> None:
    state = db.bag(at(q, At.OLD))
    done: set[str] = set()
    for table in order:
        step = Database(db.columns, db.moving(done).new, db.moving({*done, table}).new)
        state = plus(state, step.bag(delta(q, {table})))
        done.add(table)
    assert state == db.bag(at(q, At.NEW))


@given(plans(), databases(), st.data())
def test_a_restriction_pushed_down_keeps_the_same_rows(
    q: Rel, db: Database, data: st.DataObject
) -> None:
    pushing_keeps_the_rows(q, db, *data.draw(restrictions(q)))


@given(changes(st.one_of(rooted("chain"), plans())))
def test_joins_in_another_order_keep_the_same_rows(case: tuple[Rel, Database, set[str]]) -> None:
    turning_keeps_the_rows(*case)


@given(changes(st.one_of(rooted("chain"), plans())))
def test_ranges_of_the_changes_keep_the_same_rows(case: tuple[Rel, Database, set[str]]) -> None:
    narrowing_keeps_the_rows(*case)


@given(changes(st.one_of(rooted("chain"), rooted("pairs", JoinKind.ANTI), plans())))
def test_rows_that_are_looked_up_are_all_that_matter(case: tuple[Rel, Database, set[str]]) -> None:
    looking_up_keeps_the_rows(*case)


@given(st.one_of(rooted("chain"), rooted("pairs", JoinKind.LEFT), plans()), databases())
def test_rows_are_picked_where_their_column_comes_from(q: Rel, db: Database) -> None:
    picking_keeps_the_rows(q, db)


@given(changes(st.one_of(rooted("groups", ["count", "sum"]), plans())))
def test_old_rows_from_new_ones_are_the_old_rows(case: tuple[Rel, Database, set[str]]) -> None:
    going_back_keeps_the_rows(*case)


@given(changes(plans()))
def test_plans_without_what_is_empty_keep_the_same_rows(
    case: tuple[Rel, Database, set[str]],
) -> None:
    emptying_keeps_the_rows(*case)


def test_a_table_that_does_not_move_has_no_change() -> None:
    scan = Scan("r", (Field("a", "a", "int"),))
    assert tables(delta(scan, [])) == ()
