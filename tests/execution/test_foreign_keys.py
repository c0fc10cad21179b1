"""Foreign keys: what the changes are checked for, and the rows that only a change can have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import belvedere as bv
from belvedere.algebra.relations import At, Field, Scan
from belvedere.execution import in_memory
from belvedere.rules.lookups import LookUp
from tests.reference.foreign import (
    Row,
    bags,
    children_of_changed_keys_are_those_of_the_change,
    relied_on,
)
from tests.views.comparison import assert_fresh


@given(st.tuples(bags, bags, bags, bags))
def test_children_of_changed_keys_are_those_of_the_change(
    states: tuple[list[Row], list[Row], list[Row], list[Row]],
) -> None:
    children_of_changed_keys_are_those_of_the_change(*states)


def test_rows_with_null_or_by_other_columns_are_not_answered() -> None:
    relied, _ = relied_on(
        {"parent": Counter(), "child": Counter()},
        {"parent": Counter({(1, 0): 1}), "child": Counter({(1, 0): 1})},
    )
    leaf = Scan("child", (Field("c", "c", "bigint"),), At.NEW)
    by_key = frozenset({("parent", "p")})
    assert relied.answers(LookUp(leaf, "c", by_key, nulls=False))
    assert not relied.answers(LookUp(leaf, "c", by_key, nulls=True))
    assert not relied.answers(LookUp(leaf, "x", by_key, nulls=False))
    assert not relied.answers(LookUp(leaf, "c", frozenset({("parent", "x")}), nulls=False))
    assert not relied.answers(LookUp(leaf, "c", by_key | {("other", "p")}, nulls=False))


SALES = "SELECT o.day, i.item, i.price FROM orders o JOIN items i ON o.id = i.order_id"
PER_DAY = "SELECT o.day, count(*) AS n, sum(i.price) AS price FROM orders o JOIN items i ON o.id = i.order_id GROUP BY o.day"


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[bv.Lake]:
    monkeypatch.setattr(in_memory, "MAX_ROWS_READ_WHOLE", -1)  # no table is simply read
    with bv.connect(tmp_path / "lake") as lake:
        for statement in (
            "CREATE TABLE orders (id BIGINT, day DATE)",
            "CREATE TABLE items (order_id BIGINT, item STRING, price DECIMAL(9, 2))",
            "INSERT INTO orders SELECT id, date_add(DATE'2026-01-01', CAST(id % 7 AS INT)) FROM range(50)",
            "INSERT INTO items SELECT nullif(id % 50, 8), concat('i', id), id FROM range(200)",
        ):
            lake.sql(statement)
        lake.declare_foreign_key("items", ["order_id"], "orders", ["id"])
        yield lake


def relies(done: bv.Outcome) -> bool:
    return any("those of its change" in text for text in done.sql)


@pytest.mark.spark
def test_a_refresh_relies_on_what_its_changes_keep(lake: bv.Lake) -> None:
    lake.sql(f"CREATE MATERIALIZED VIEW sales AS {SALES}")

    def after(*statements: str) -> bv.Outcome:
        for statement in statements:
            lake.sql(statement)
        done = lake.refresh("sales")
        assert isinstance(done, bv.Outcome)
        assert_fresh(lake, "sales", SALES)
        return done

    assert relies(
        after(
            "INSERT INTO orders VALUES (100, DATE'2026-02-01'), (101, NULL)",
            "INSERT INTO items VALUES (100, 'a', 1), (100, 'a', 1), (3, 'b', 2), (NULL, 'c', 3)",
            "DELETE FROM items WHERE order_id = 7",
            "DELETE FROM orders WHERE id = 7",
        )
    )
    # An order that stays has old items.
    done = after("UPDATE orders SET day = DATE'2026-03-01' WHERE id = 3")
    assert not relies(done)
    assert not done.notes
    # New orders without items: the term is empty.
    assert relies(after("INSERT INTO orders VALUES (102, DATE'2026-02-01')"))
    # Broken: it is said, and not relied on any more until everything was looked at.
    done = after("INSERT INTO items VALUES (999, 'lost', 9)")
    note = "items.order_id -> orders.id is not relied on: rows of items came that refer to none"
    assert done.notes[0].startswith(note)
    assert note in str(done)
    assert "items.order_id -> orders.id: not known to hold" in str(lake.explain("sales"))
    assert not relies(after("INSERT INTO orders VALUES (999, DATE'2026-02-01')"))
    lake.refresh("sales", full=True)
    assert "items.order_id -> orders.id: holds" in str(lake.explain("sales"))
    done = after("DELETE FROM orders WHERE id = 9")
    assert not relies(done)
    assert "rows of orders went that items refers to (9)" in done.notes[0]


@pytest.mark.spark
def test_tables_that_advance_alone_part_what_holds(lake: bv.Lake) -> None:
    lake.sql(f"CREATE MATERIALIZED VIEW per_day AS {PER_DAY}")
    lake.sql("INSERT INTO orders VALUES (100, DATE'2026-02-01')")
    lake.sql("INSERT INTO items VALUES (100, 'a', 1)")
    assert not lake.advance("per_day", "orders").notes
    lake.sql("INSERT INTO orders VALUES (101, DATE'2026-02-01')")
    lake.sql("INSERT INTO items VALUES (101, 'b', 1)")
    assert "refer to none of orders (101)" in lake.advance("per_day", "items").notes[0]
    assert not relies(lake.advance("per_day", "orders"))
    assert_fresh(lake, "per_day", PER_DAY)
