"""Groups inside a view, kept in tables of their own: refreshed with it, gone with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import belvedere as bv
from belvedere.lake.writes import commits
from belvedere.views import create as creation
from belvedere.views import parts
from tests.views.comparison import assert_fresh

pytestmark = pytest.mark.spark

ABOVE_AVERAGE = """
    SELECT s.shop, s.item, s.price FROM sales s
    JOIN (SELECT item, avg(price) AS price FROM sales GROUP BY item) a ON s.item = a.item
    WHERE s.price > a.price"""
BEST = """
    WITH totals AS (SELECT shop, sum(price) AS total FROM sales GROUP BY shop)
    SELECT n.name, t.total FROM shops n JOIN totals t ON n.shop = t.shop
    WHERE t.total = (SELECT max(total) FROM totals)"""
VIEWS = {"above_average": ABOVE_AVERAGE, "best": BEST}

ROUNDS = (
    "INSERT INTO sales VALUES (1, 'a', 70), (5, 'b', 1), (NULL, 'a', 2), (2, NULL, 900)",
    "UPDATE shops SET name = 'renamed' WHERE shop = 3",
    "DELETE FROM sales WHERE price > 500",
    "DELETE FROM sales",
    "INSERT INTO sales SELECT id % 3, 'a', id FROM range(20)",
)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[bv.Lake]:
    monkeypatch.setattr(parts, "LARGE", 0)
    monkeypatch.setattr(parts, "REDUCES", 0)
    with bv.connect(tmp_path / "lake") as lake:
        for statement in (
            "CREATE TABLE shops (shop INT, name STRING)",
            "CREATE TABLE sales (shop INT, item STRING, price INT)",
            "INSERT INTO shops SELECT id, concat('shop ', id) FROM range(6)",
            "INSERT INTO sales SELECT id % 5, substr('abc', id % 3 + 1, 1), id * 7 % 100 FROM range(60)",
        ):
            lake.sql(statement)
        yield lake


def create(lake: bv.Lake, *names: str) -> None:
    for name in names:
        lake.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}")


def kept(lake: bv.Lake) -> list[str]:
    """The tables of parts."""
    rows = lake.spark.sql("SHOW TABLES").collect()
    return sorted(r["tableName"] for r in rows if r["tableName"].startswith("__bvp_"))


def test_views_over_their_parts_equal_their_queries(lake: bv.Lake) -> None:
    create(lake, *VIEWS)
    assert kept(lake) == ["__bvp_above_average_1", "__bvp_best_1", "__bvp_best_2"]
    for statement in ROUNDS:
        lake.sql(statement)
        done = lake.refresh()
        assert isinstance(done, list)
        assert {r.strategy for r in done} <= {"merge", "replace keys", "nothing"}
        assert {r.name for r in done} == set(VIEWS)
        for name, query in VIEWS.items():
            assert_fresh(lake, name, query)
    assert {s.name: set(s.vector) for s in lake.status()} == {
        "above_average": {"sales"},
        "best": {"shops", "sales"},
    }
    assert all(s.fresh for s in lake.status())
    assert "Part 1, kept and refreshed before the view" in str(lake.explain("best"))
    assert "sales" in str(lake.sql("DESCRIBE MATERIALIZED VIEW best").collect())
    lake.sql("DROP MATERIALIZED VIEW best")
    assert kept(lake) == ["__bvp_above_average_1"]
    with pytest.raises(bv.Invalid, match="above_average"):
        lake.sql("DROP TABLE sales")


def test_tables_advance_alone_through_parts(lake: bv.Lake) -> None:
    create(lake, "best")
    lake.sql(ROUNDS[0])
    lake.sql("INSERT INTO shops VALUES (9, 'new')")
    before = lake.view("best").df().collect()
    done = lake.advance("best", "shops")
    assert done.vector_after == {**done.vector_before, "shops": 2}
    assert lake.view("best").df().collect() == before
    assert lake.advance("best", "sales").strategy != "rebuild"
    assert_fresh(lake, "best", BEST)


def test_a_part_that_went_on_alone_waits_or_comes_back(
    lake: bv.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(lake, "best")
    before = lake.view("best").df().collect()
    merge = commits.merge

    def cut_off(work: object, stored: str, *rest: object) -> int | None:
        if stored == "__bv_best":
            raise KeyboardInterrupt
        return merge(work, stored, *rest)  # type: ignore[arg-type]

    def dies_after(statement: str) -> None:
        lake.sql(statement)
        with monkeypatch.context() as patch:
            patch.setattr(commits, "merge", cut_off)
            with pytest.raises(KeyboardInterrupt):
                lake.refresh("best")

    dies_after("INSERT INTO sales VALUES (1, 'a', 7000)")
    assert lake.view("best").df().collect() == before
    lake.sql("UPDATE shops SET name = 'best one' WHERE shop = 1")
    # Only shops go on: the parts are needed where the view is.
    assert lake.advance("best", "shops").vector_after["sales"] == 1
    assert lake.view("best").df().collect() == before
    dies_after("INSERT INTO sales VALUES (2, 'a', 8000)")
    lake.refresh("best")
    assert_fresh(lake, "best", BEST)


@pytest.mark.soak
def test_what_a_creation_left_is_no_obstacle(
    lake: bv.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_table = commits.create

    def cut_off(work: object, stored: str, *rest: object) -> None:
        if stored == "__bv_best":
            raise KeyboardInterrupt
        create_table(work, stored, *rest)  # type: ignore[arg-type]

    def dies() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(commits, "create", cut_off)
            patch.setattr(creation, "_drop_parts", lambda *_: None)  # as if it were killed
            with pytest.raises(KeyboardInterrupt):
                create(lake, "best")

    dies()
    assert lake.refresh() == []
    assert kept(lake) != []
    lake.sql("DROP MATERIALIZED VIEW IF EXISTS best")
    assert kept(lake) == []
    dies()
    create(lake, "best")
    assert_fresh(lake, "best", BEST)
    lake.sql("CREATE OR REPLACE MATERIALIZED VIEW best AS SELECT shop, name FROM shops")
    assert kept(lake) == []


@pytest.mark.soak
def test_a_wider_column_widens_the_parts_too(lake: bv.Lake) -> None:
    create(lake, "best")
    lake.sql("ALTER TABLE sales SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    lake.spark.sql("ALTER TABLE sales ALTER COLUMN price TYPE BIGINT")
    lake.sql(f"INSERT INTO sales VALUES (1, 'a', {2**40})")
    lake.refresh("best")
    assert_fresh(lake, "best", BEST)
    assert {s.name for s in lake.status()} == {"best"}
    shown = {r["tableName"] for r in lake.spark.sql("SHOW TABLES").collect()}
    assert not [name for name in shown if " part " in name]
    lake.sql(ROUNDS[0])
    done = lake.refresh("best")
    assert isinstance(done, bv.Outcome)
    assert done.strategy != "rebuild"
    assert_fresh(lake, "best", BEST)
