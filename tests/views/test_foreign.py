"""Foreign keys: what the changes are checked for, and the rows that only a change can have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import belvedere as bv
from belvedere.algebra.relations import At, Field, Scan
from belvedere.rules.lookups import LookUp
from reference.foreign import (
    Row,
    bags,
    children_of_changed_keys_are_those_of_the_change,
    relied_on,
)
from views.comparison import assert_fresh


@settings(deadline=None)
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
VIEWS = {"sales": SALES, "per_day": PER_DAY}
IN_CHANGE = "those of its change"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[bv.Lake]:
    with bv.connect(tmp_path / "lake") as lake:
        for statement in (
            "CREATE TABLE orders (id BIGINT, day DATE)",
            "CREATE TABLE items (order_id BIGINT, item STRING, price DECIMAL(9, 2))",
            "INSERT INTO orders SELECT id, date_add(DATE'2026-01-01', CAST(id % 7 AS INT)) FROM range(50)",
            "INSERT INTO items SELECT id % 50, concat('i', id), id FROM range(200)",
            "INSERT INTO items VALUES (NULL, 'none', 1)",
        ):
            lake.sql(statement)
        lake.declare_key("orders", ["id"])
        lake.declare_foreign_key("items", ["order_id"], "orders", ["id"])
        for name, query in VIEWS.items():
            lake.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        yield lake


@pytest.mark.spark
def test_a_refresh_relies_on_what_its_changes_keep(lake: bv.Lake) -> None:
    def refreshed(*statements: str) -> dict[str, bv.Refreshed]:
        for statement in statements:
            lake.sql(statement)
        done = lake.refresh()
        assert isinstance(done, list)
        for name, query in VIEWS.items():
            assert_fresh(lake, name, query)
        return {r.view: r for r in done}

    def relied(done: dict[str, bv.Refreshed]) -> bool:
        return all(any(IN_CHANGE in text for text in done[name].sql) for name in VIEWS)

    done = refreshed(
        "INSERT INTO orders VALUES (100, DATE'2026-02-01'), (101, DATE'2026-02-02')",
        "INSERT INTO items VALUES (100, 'a', 1), (100, 'a', 1), (3, 'b', 2)",
        "DELETE FROM items WHERE order_id = 7",
        "DELETE FROM orders WHERE id = 7",
    )
    assert relied(done)
    # Orders without items: the term is empty.
    done = refreshed("INSERT INTO orders VALUES (102, DATE'2026-02-01')")
    assert relied(done)
    # An order that stays has old items.
    done = refreshed("UPDATE orders SET day = DATE'2026-03-01' WHERE id = 3")
    assert not relied(done)
    assert not any(r.notes for r in done.values())
    done = refreshed(
        "INSERT INTO orders VALUES (103, NULL)", "INSERT INTO items VALUES (103, 'c', 3)"
    )
    assert relied(done)
    # Broken: it is said, and not relied on any more until everything is looked at again.
    done = refreshed(
        "INSERT INTO items VALUES (999, 'lost', 9)", "INSERT INTO orders VALUES (104, NULL)"
    )
    assert not relied(done)
    note = "items.order_id -> orders.id is not relied on: rows of items came that refer to none"
    assert all(r.notes[0].startswith(note) and "(999)" in r.notes[0] for r in done.values())
    assert note in str(done["sales"])
    assert "items.order_id -> orders.id: not known to hold" in str(lake.explain("sales"))
    done = refreshed("INSERT INTO orders VALUES (999, DATE'2026-02-01')")
    assert not relied(done)
    lake.refresh("sales", full=True)
    lake.refresh("per_day", full=True)
    done = refreshed("INSERT INTO orders VALUES (105, NULL)")
    assert relied(done)
    assert "items.order_id -> orders.id: holds" in str(lake.explain("sales"))
    done = refreshed("DELETE FROM orders WHERE id = 9")
    assert not relied(done)
    assert all("rows of orders went that items refers to (9)" in r.notes[0] for r in done.values())


@pytest.mark.spark
def test_tables_that_advance_alone_part_what_holds(lake: bv.Lake) -> None:
    lake.sql("INSERT INTO orders VALUES (100, DATE'2026-02-01')")
    lake.sql("INSERT INTO items VALUES (100, 'a', 1)")
    early = lake.advance("sales", "items")
    assert "refer to none of orders (100)" in early.notes[0]
    late = lake.advance("sales", "orders")
    assert not any(IN_CHANGE in text for text in late.sql)
    assert_fresh(lake, "sales", SALES)
    lake.advance("per_day", "orders")
    lake.sql("INSERT INTO orders VALUES (101, DATE'2026-02-01')")
    done = lake.refresh("per_day")
    assert isinstance(done, bv.Refreshed)
    assert any(IN_CHANGE in text for text in done.sql)
    assert_fresh(lake, "per_day", PER_DAY)
