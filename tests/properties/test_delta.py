"""Q(NEW) = Q(OLD) + ΔQ, for random plans, tables, changes and choices of moving tables."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from reference.interpreter import Database, plus
from reference.plans import TABLES, databases, plans

from belvedere.algebra.relations import At, Field, Keys, Rel, Restrict, Scan
from belvedere.algebra.walks import at, tables
from belvedere.rules.delta import delta
from belvedere.rules.restrict import push


@given(plans(), databases(), st.sets(st.sampled_from(sorted(TABLES))))
def test_the_old_rows_and_the_change_make_the_new_rows(
    q: Rel, db: Database, moving: set[str]
) -> None:
    db = db.moving(moving)
    change = db.bag(delta(q, moving))
    assert plus(db.bag(at(q, At.OLD)), change) == db.bag(at(q, At.NEW))


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
    key = data.draw(st.lists(st.sampled_from(q.columns), min_size=1, max_size=2, unique=True))
    fields = tuple(Field(f"k{i}", f"k{i}", "int") for i in range(len(key)))
    wanted = data.draw(
        st.sets(st.tuples(*[st.sampled_from([None, 0, 1, 2, 3])] * len(key)), max_size=3)
    )
    keys = dict.fromkeys(wanted, 1)
    db = Database(
        {**db.columns, "keys": tuple(f.name for f in fields)},
        {**db.old, "keys": type(db.old["r"])(keys)},
        {**db.new, "keys": type(db.old["r"])(keys)},
    )
    restricted = Restrict(q, tuple(key), Keys(Scan("keys", fields)))
    assert db.bag(push(restricted)) == db.bag(restricted)


def test_a_table_that_does_not_move_has_no_change() -> None:
    scan = Scan("r", (Field("a", "a", "int"),))
    assert tables(delta(scan, [])) == ()
