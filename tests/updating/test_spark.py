"""Updatable views as a user has them: SQL in, refused or applied, visible at once, killed and reopened."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

import pytest

import belvedere as bv
from belvedere.errors import Invalid, Unsupported
from belvedere.lake.writes import row_replacement
from belvedere.updating.side_effects.in_memory import TooManyJoins
from belvedere.updating.translate import trial

pytestmark = pytest.mark.spark

FEED = "USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
QUERY = """SELECT c.id AS customer, c.name, o.id AS orders, o.day, i.line, i.item
FROM customer c JOIN orders o ON o.customer = c.id JOIN item i ON i.orders = o.id
WHERE o.day > DATE '2020-01-01'"""


def fill(lake: bv.Lake) -> None:
    lake.sql(f"CREATE TABLE customer (id BIGINT, name STRING, note STRING) {FEED}")
    lake.sql(f"CREATE TABLE orders (id BIGINT, customer BIGINT, day DATE) {FEED}")
    lake.sql(f"CREATE TABLE item (line INT, orders BIGINT, item STRING) {FEED}")
    lake.sql("INSERT INTO customer VALUES (1, 'ann', 'x'), (2, 'bob', NULL)")
    lake.sql(
        "INSERT INTO orders VALUES (10, 1, DATE '2021-01-01'), (11, 2, DATE '2021-01-02'),"
        " (12, 9, DATE '2021-01-03'), (13, 1, DATE '2019-01-01')"
    )
    lake.sql(
        "INSERT INTO item VALUES (100, 10, 'a'), (101, 10, 'b'), (102, 12, 'c'), (103, 12, 'd')"
    )
    for table, key in (("customer", "id"), ("orders", "id"), ("item", "line")):
        lake.declare_key(table, [key])
    lake.declare_foreign_key("item", ["orders"], "orders", ["id"])
    lake.sql("ALTER TABLE item ADD CONSTRAINT short CHECK (item IN ('a', 'b', 'c', 'd', 'e'))")
    lake.sql("ALTER TABLE customer ADD CONSTRAINT named CHECK (length(Name) > 1)")


def rows(lake: bv.Lake) -> set[tuple[object, ...]]:
    return {tuple(r) for r in lake.sql("SELECT line, item, name FROM contacts").collect()}


@pytest.mark.parametrize("where", ["MEMORY", "TABLES"])
def test_a_view_is_created_checked_written_through_and_reopened(
    where: str, tmp_path: Path, spark: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert spark is not None
    with bv.connect(tmp_path / "lake") as lake:
        fill(lake)
        with pytest.raises(Unsupported, match="computed"):
            lake.sql("CREATE UPDATABLE VIEW bad AS SELECT id + 1 AS n FROM customer")
        with pytest.raises(Unsupported, match="Aggregate"):
            lake.sql("CREATE UPDATABLE VIEW bad AS SELECT count(*) AS n FROM customer")
        told = lake.sql(f"EXPLAIN CREATE UPDATABLE VIEW contacts AS {QUERY}").collect()[0][0]
        assert "orders: 3 rows, 1 in view rows, 2 extended dangling" in told
        lake.sql(
            f"CREATE UPDATABLE VIEW contacts CANDIDATES 20 PERCENT LOOKUPS IN {where} AS {QUERY}"
        )
        before = rows(lake)
        assert before == {(100, "a", "ann"), (101, "b", "ann")}
        _refuses(lake)
        _joined_by_spark(lake, monkeypatch)
        plan = lake.sql(
            "EXPLAIN INSERT INTO contacts VALUES (2, 'bob', 11, DATE '2021-01-02', 110, 'e')"
        ).collect()[0][0]
        assert "possible: yes (found by schema)" in plan
        assert "insert into item" in plan
        assert rows(lake) == before
        lake.sql(
            "WITH q AS (SELECT 'e' AS item, 110 AS line) INSERT INTO contacts BY NAME"
            " SELECT item, line, 2 AS customer, 'bob' AS name, 11 AS orders, DATE '2021-01-02' AS day FROM q"
        )
        assert rows(lake) == before | {(110, "e", "bob")}
        lake.sql("UPDATE contacts AS c SET c.item = 'd' WHERE c.line = 110")
        assert rows(lake) == before | {(110, "d", "bob")}
        lake.sql("DELETE FROM contacts c WHERE c.line = 110")
        assert rows(lake) == before
        assert lake.sql("SELECT * FROM orders WHERE id = 11").count() == 1
        found = lake.sql(
            "INSERT INTO contacts VALUES (9, 'new', 12, DATE '2021-01-03', 102, 'c') WITH SIDE EFFECTS ALLOWED"
        ).collect()
        assert [(r["table"], r["inserted"], r["extra_rows"]) for r in found] == [("customer", 1, 1)]
        assert (103, "d", "new") in rows(lake)
        _changed_by_others(lake)
        _killed(lake, monkeypatch)
    with bv.connect(tmp_path / "lake") as lake:
        assert (120, "a", "ann") in rows(lake)
        assert (131, "e", "fay") in rows(lake)
        with pytest.raises(Invalid, match="needed"):
            lake.sql("DROP TABLE item")
        lake.sql("DROP UPDATABLE VIEW contacts")
        lake.sql("DROP TABLE item")


def _refuses(lake: bv.Lake) -> None:
    c = lake.check(
        "contacts",
        insert={
            "customer": 9, "name": "new", "orders": 12, "day": _day(3), "line": 102, "item": "c",
        },
    )  # fmt: skip
    assert (c.possible, c.extra_rows) == ("no", 1)
    assert ("item", 103) in {(t, r.get("line")) for t, r in c.which}
    for statement, match in {
        "INSERT INTO contacts VALUES (9, 'new', 12, DATE '2021-01-03', 102, 'c')": "does not name",
        "INSERT INTO contacts VALUES (1, 'ann', 10, DATE '2021-01-01', 100, 'a')": "already",
        "INSERT INTO contacts VALUES (2, 'bob', 11, DATE '2021-01-02', 110, 'z')": "short",
        "INSERT INTO contacts VALUES (9, 'x', 40, DATE '2021-01-02', 110, 'a')": "named",
        "INSERT INTO contacts VALUES (1, 'ann', 13, DATE '2019-01-01', 110, 'a')": "WHERE",
        "INSERT INTO contacts VALUES (2, 'bobby', 11, DATE '2021-01-02', 110, 'a')": "key of 'customer'",
        "INSERT INTO contacts (customer) VALUES (2)": "needs a value",
        "INSERT INTO contacts VALUES (2, 'bob', 11, 'soon', 110, 'a')": "its column's type",
        "INSERT INTO contacts VALUES (2, 'bob', array(11), DATE '2021-01-02', 110, 'a')": "type",
        "UPDATE contacts SET day = 'soon' WHERE line = 100": "its column's type",
        "UPDATE contacts SET day = name WHERE line = 100": "its column's type",
        "UPDATE contacts SET name = 'anna' WHERE line = 100": "does not name",
    }.items():
        with pytest.raises(Invalid, match=match):
            lake.sql(statement)

    assert lake.sql("DELETE FROM contacts WHERE line = 7").collect() == []


def _joined_by_spark(lake: bv.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is too much for memory is joined by Spark, with the same answers."""

    def too_much(*args: object, **more: object) -> None:
        raise TooManyJoins("not in memory")

    bad = {"customer": 9, "name": "new", "orders": 12, "day": _day(3), "line": 102, "item": "c"}
    good = {"customer": 2, "name": "bob", "orders": 11, "day": _day(2), "line": 110, "item": "e"}
    there = {"customer": 1, "name": "ann", "orders": 10, "day": _day(1), "line": 100, "item": "a"}
    with monkeypatch.context() as patch:
        patch.setattr(trial, "view_effect", too_much)
        c = lake.check("contacts", insert=bad)
        assert (c.possible, c.extra_rows) == ("no", 1)
        assert ("item", 103) in {(t, r.get("line")) for t, r in c.which}
        assert lake.check("contacts", insert=good).possible == "yes"
        assert lake.check("contacts", delete=there).possible == "yes"


def _day(n: int) -> object:
    import datetime

    return datetime.date(2021, 1, n)


def _changed_by_others(lake: bv.Lake) -> None:
    lake.sql("INSERT INTO item VALUES (120, 10, 'a')")
    assert (120, "a", "ann") not in rows(lake)
    assert next(s for s in lake.status() if s.name == "contacts").pending["item"].versions == 1
    assert str(lake.refresh("contacts")).startswith("contacts: merge")
    assert (120, "a", "ann") in rows(lake)
    assert re.search(r"item: \d rows, 5 in view rows", lake.explain("contacts"))


def _killed(lake: bv.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """An update that ends between its commits is settled, and shown, by the next that looks.

    The second is left for whoever opens the lake again.
    """
    before = rows(lake)
    _end_between_commits(lake, "(5, 'eve', 30, DATE '2022-01-01', 130, 'e')", monkeypatch)
    assert rows(lake) == before
    lake.explain("contacts")
    assert rows(lake) == before | {(130, "e", "eve")}
    _end_between_commits(lake, "(6, 'fay', 31, DATE '2022-01-01', 131, 'e')", monkeypatch)


def _end_between_commits(lake: bv.Lake, row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    merge, calls = row_replacement.by_delta_rs, [0]

    def once(*args: object) -> None:
        calls[0] += 1
        if calls[0] == 2:
            raise KeyboardInterrupt
        merge(*args)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(row_replacement, "by_delta_rs", once)
        with pytest.raises(KeyboardInterrupt):
            lake.sql(f"INSERT INTO contacts VALUES {row}")


def test_rows_that_only_spark_finds_are_found_by_spark(tmp_path: Path, spark: object) -> None:
    assert spark is not None
    with bv.connect(tmp_path / "lake") as lake:
        for table in ("a", "b"):
            lake.sql(f"CREATE TABLE {table} (k DECIMAL(5, 2), {table}1 INT) {FEED}")
        lake.sql("INSERT INTO a VALUES (1.5, 1), (2.5, 2), (NULL, 3)")
        lake.sql("INSERT INTO b VALUES (1.5, 4), (3.5, 5), (3.5, 6), (NULL, 7)")
        lake.sql(
            "CREATE UPDATABLE VIEW v LOOKUPS IN TABLES AS"
            " SELECT a.k, a1, b1 FROM a JOIN b ON a.k = b.k"
        )
        three = {"k": Decimal("3.50"), "a1": 9, "b1": 5}
        c = lake.check("v", insert=three)
        assert (c.possible, c.rows) == ("no", ({"k": Decimal("3.50"), "a1": 9, "b1": 6},))
        lake.sql("INSERT INTO v VALUES (3.5, 9, 5), (3.5, 9, 6), (2.5, 2, 8)")
        lake.sql("DELETE FROM v WHERE b1 = 4")
        found = sorted((r.a1, r.b1) for r in lake.sql("SELECT * FROM v").collect())
        assert found == [(2, 8), (9, 5), (9, 6)]
        assert "Rows stay in the tables" in lake.explain("v")
        with pytest.raises(Unsupported, match="does not show"):
            lake.sql(
                "CREATE UPDATABLE VIEW w LOOKUPS IN TABLES AS SELECT a1, b1 FROM a JOIN b ON a.k = b.k"
            )
