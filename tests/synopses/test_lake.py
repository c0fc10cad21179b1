"""Synopses of a lake: created in SQL, advanced from the change feed, saved, loaded, damaged, dropped."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from belvedere.api import Lake
from belvedere.errors import Invalid, Unsupported
from belvedere.lake.spark_lake import SparkLake, open_directory
from belvedere.synopses import build

pytestmark = pytest.mark.spark

QUERY = """SELECT s.id AS sale, c.id AS buyer, c2.id AS other, s.price
           FROM sales s, people c, people c2
           WHERE s.buyer = c.id AND c.town = c2.town AND s.price > 1"""
ALL = "CREATE SYNOPSIS pairs SAMPLE 100000 ROWS AS " + QUERY


@pytest.fixture
def lake(door: SparkLake) -> Lake:
    lake = Lake(door)
    lake.sql(
        "CREATE TABLE people (id INT, town STRING) USING DELTA TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    )
    lake.sql(
        "CREATE TABLE sales (id INT, buyer INT, price DOUBLE) USING DELTA TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    )
    lake.sql("INSERT INTO people SELECT id, concat('t', id % 4) FROM range(20)")
    lake.sql("INSERT INTO sales SELECT id, id % 25, id % 7 FROM range(60)")
    lake.declare_key("people", ["id"])
    return lake


def join(
    lake: Lake, people: int | None = None, sales: int | None = None
) -> Counter[tuple[object, ...]]:
    """The join at some versions, by Spark."""
    query = QUERY
    for table, alias, version in (
        ("sales", "s", sales),
        ("people", "c2", people),
        ("people", "c", people),
    ):
        if version is not None:
            query = query.replace(f"{table} {alias}", f"{table} VERSION AS OF {version} {alias}")
    return Counter(tuple(r) for r in lake.spark.sql(query).collect())


def sample(lake: Lake) -> Counter[tuple[object, ...]]:
    table = lake.synopsis("pairs").arrow()
    return Counter(zip(*(c.to_pylist() for c in table.columns), strict=True))


def test_a_synopsis_follows_its_tables(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_PART", 16)  # sales come from Spark, in four pieces
    lake.sql(ALL)
    assert sample(lake) == join(lake) != Counter()
    assert lake.synopsis("pairs").join_size == sum(join(lake).values())
    lake.sql("UPDATE people SET town = 't0' WHERE id % 3 = 0")
    lake.sql("INSERT INTO people VALUES (20, 't1'), (24, 't2')")
    lake.sql("DELETE FROM sales WHERE id % 5 = 0")
    lake.sql("INSERT INTO sales SELECT id, id % 25, 3 FROM range(100, 120)")
    before = {t: lake._door.table(t).version for t in ("people", "sales")}
    stale = lake.synopsis("pairs").vector
    # Only one table advanced: the sample of the join at exactly that vector.
    assert str(lake.advance("pairs", "sales")).startswith("pairs: merge")
    assert sample(lake) == join(lake, people=stale["people"], sales=before["sales"])
    done = lake.refresh("pairs")
    assert (done.strategy, done.reason) == ("merge", "")
    assert sample(lake) == join(lake)
    assert lake.refresh("pairs").strategy == "nothing"
    # Another column changes nothing, though it is there from now on.
    lake.sql("ALTER TABLE sales ADD COLUMN note STRING")
    lake.sql("INSERT INTO sales VALUES (500, 3, 4, 'new')")
    lake.refresh("pairs")
    assert sample(Lake(open_directory(lake._door.directory or ""))) == join(lake)
    assert {(r["sale"], r["other"]) for r in lake.synopsis("pairs").df().collect()} == {
        (s, o) for s, _, o, _ in join(lake)
    }
    explained = lake.explain("pairs")
    assert "sales refers to people" in explained
    assert "2 nodes" in explained or "node 1: people" in explained
    [status] = [s for s in lake.status() if s.name == "pairs"]
    assert status.fresh
    assert [r["name"] for r in lake.sql("SHOW SYNOPSES").collect()] == ["pairs"]
    assert lake.sql("DESCRIBE SYNOPSIS pairs").count() > 5
    with pytest.raises(Invalid, match="needed by pairs"):
        lake.sql("DROP TABLE people")
    with pytest.raises(Invalid, match="exists"):
        lake.sql(ALL)
    # It is there again in another connection, and damage is repaired from the tables.
    again = Lake(open_directory(lake._door.directory or ""))
    assert sample(again) == join(lake)
    [file] = (Path(lake._door.directory or "") / ".belvedere" / "synopsis").glob("*.state")
    raw = bytearray(file.read_bytes())
    raw[-3] ^= 1
    file.write_bytes(bytes(raw))
    third = Lake(open_directory(lake._door.directory or ""))
    lake.sql("DELETE FROM sales WHERE id = 1")
    done = third.refresh("pairs")
    assert (done.strategy, done.reason) == ("rebuild", "CORRUPT_STATE")
    assert sample(third) == join(lake)
    third.sql("DROP SYNOPSIS pairs")
    assert list(third.sql("SHOW SYNOPSES").collect()) == []
    third.sql("DROP SYNOPSIS IF EXISTS pairs")
    with pytest.raises(Invalid, match="no synopsis 'pairs'"):
        third.sql("DROP SYNOPSIS pairs")


BAD = [
    ("SAMPLE 0 ROWS AS " + QUERY, Invalid, "0 rows"),
    ("SAMPLE 200 PERCENT AS " + QUERY, Invalid, "rate of 2"),
    ("SAMPLE 5 ROWS AS SELECT s.id FROM sales s, people p", Invalid, "not connected"),
    ("SAMPLE 5 ROWS AS SELECT nothing FROM sales", Invalid, "no column"),
    (
        "SAMPLE 5 ROWS AS SELECT s.id FROM sales s JOIN people p ON s.id = p.town",
        Invalid,
        "not compared",
    ),
    ("SAMPLE 5 ROWS AS SELECT count(*) AS n FROM sales", Unsupported, "grouping"),
    ("SAMPLE 5 AS " + QUERY, Invalid, "expected ROWS or PERCENT"),
]


def test_bad_statements_and_rows_change_nothing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    for statement, error, words in BAD:
        with pytest.raises(error, match=words):
            lake.sql(f"CREATE SYNOPSIS pairs {statement}")
    monkeypatch.setenv("BELVEDERE_SYNOPSIS_BYTES", "1000")
    with pytest.raises(Unsupported, match="may be used"):
        lake.sql(
            "CREATE SYNOPSIS pairs SAMPLE 5 ROWS AS SELECT a.id FROM sales a, sales b WHERE a.price < b.price"
        )
    monkeypatch.delenv("BELVEDERE_SYNOPSIS_BYTES")
    assert list(lake.sql("SHOW SYNOPSES").collect()) == []
    lake.sql(ALL)
    before = sample(lake)
    lake.sql("INSERT INTO people VALUES (3, 't9')")
    with pytest.raises(Invalid, match="same id"):
        lake.refresh("pairs")
    assert sample(lake) == before
    lake.sql("DELETE FROM people WHERE id = 3 AND town = 't9'")
    lake.refresh("pairs")
    assert sample(lake) == join(lake)


def test_what_does_not_fit_is_drawn_on_spark(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELVEDERE_SYNOPSIS_BYTES", "1000")
    lake.sql(ALL)
    assert sample(lake) == join(lake)
    assert lake.synopsis("pairs").join_size == sum(join(lake).values())
    lake.sql("INSERT INTO people VALUES (20, 't1'), (24, 't2'), (24, 't2')")
    lake.sql("INSERT INTO sales SELECT id, id % 25, 3 FROM range(100, 120)")
    done = lake.refresh("pairs")
    assert (done.strategy, done.rows_changed) == ("merge", 23)
    assert sample(lake) == join(lake)
    lake.sql("DELETE FROM sales WHERE id < 20")
    done = lake.refresh("pairs")
    assert (done.strategy, done.reason) == ("rebuild", "DRAWN")
    assert lake.refresh("pairs").strategy == "nothing"
    again = Lake(open_directory(lake._door.directory or ""))
    assert sample(again) == join(lake)
    assert again.synopsis("pairs").estimate("count(*)").value == sum(join(lake).values())
    assert "drawn on Spark" in str(again.explain("pairs"))
    few = QUERY + " AND s.id + c2.id <> 40"
    lake.sql(f"CREATE OR REPLACE SYNOPSIS pairs SAMPLE 10 ROWS WITH REPLACEMENT AS {few}")
    found = sample(lake)
    assert sum(found.values()) == 10
    assert found.keys() <= {r for r in join(lake) if r[0] + r[2] != 40}  # type: ignore[operator]


KILLED = """
import os, sys
from belvedere.api import connect
from belvedere.lake.records import saved_state as saved
lake = connect(sys.argv[1])
write = saved._write
def half(file, *what):
    write(file, *what)
    file.truncate(file.tell() // 2)
    os._exit(9)
saved._write = half
lake.refresh("pairs")
"""


def test_killed_while_saving_it_is_as_it_was(lake: Lake) -> None:
    lake.sql(ALL)
    before = sample(lake)
    lake.sql("DELETE FROM sales WHERE id < 30")
    directory = str(lake._door.directory)
    assert subprocess.run([sys.executable, "-c", KILLED, directory], check=False).returncode == 9
    again = Lake(open_directory(directory))
    assert sample(again) == before
    assert again.refresh("pairs").strategy == "merge"
    assert sample(again) == join(lake)
