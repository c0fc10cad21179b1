"""Names that a lake in a directory cannot keep are refused, and REFRESH reaches what is derived."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import belvedere as bv

pytestmark = pytest.mark.spark

CREATIONS = [
    "CREATE MATERIALIZED VIEW {} AS SELECT id FROM t",
    "EXPLAIN CREATE MATERIALIZED VIEW {} AS SELECT id FROM t",
    "CREATE SKETCH {} ON SELECT id, count(*) AS n FROM t GROUP BY id PARTITION t BY id INTO 2 FRAGMENTS",
    "CREATE SYNOPSIS {} SAMPLE 10 ROWS AS SELECT t.id, u.id AS other FROM t JOIN u ON t.id = u.id",
    "CREATE UPDATABLE VIEW {} AS SELECT id, x FROM t",
    "CREATE TABLE {} (a INT)",
    "CREATE TABLE {} AS SELECT * FROM t",
    "CREATE OR REPLACE TABLE {} (a INT) USING DELTA",
]
ON_EXISTING = [
    "CREATE SAMPLE ON {} RATIO 10 PERCENT",
    "REFRESH MATERIALIZED VIEW {}",
    "DROP MATERIALIZED VIEW {}",
    "DROP SKETCH {}",
    "DROP SYNOPSIS {}",
    "DROP UPDATABLE VIEW {}",
    "CREATE MATERIALIZED VIEW w AS SELECT * FROM {}",
]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[bv.Lake]:
    with bv.connect(tmp_path_factory.mktemp("names")) as lake:
        for name in ("t", "u"):
            lake.sql(f"CREATE TABLE {name} (id INT, x INT)")
            lake.sql(f"INSERT INTO {name} VALUES (1, 2), (2, 3)")
        lake.sql("CREATE MATERIALIZED VIEW v AS SELECT id, sum(x) AS s FROM t GROUP BY id")
        yield lake


def files(lake: bv.Lake) -> set[str]:
    root = lake._door.directory
    assert isinstance(root, Path)
    return {str(p.relative_to(root)) for p in root.rglob("*") if ".lock" not in p.name}


@pytest.mark.parametrize("statement", CREATIONS + ON_EXISTING)
@pytest.mark.parametrize("name", ["gold.v", "x" * 300, "ü" * 60], ids=["schema", "long", "wide"])
def test_what_no_lake_in_a_directory_can_hold_is_refused_before_anything_is_written(
    lake: bv.Lake, statement: str, name: str
) -> None:
    before = files(lake)
    with pytest.raises(bv.Invalid) as caught:
        lake.sql(statement.format(name))
    assert caught.value.reason == ("OTHER_SCHEMA" if "." in name else "NAME_TOO_LONG")
    assert caught.value.hint
    assert files(lake) == before


@pytest.mark.parametrize(
    "statement", [s for s in CREATIONS if s.startswith("CREATE") and " TABLE " not in s]
)
@pytest.mark.parametrize("name", ["`a.b`", "`a``b`"])
def test_a_name_that_reads_like_two_is_refused(lake: bv.Lake, statement: str, name: str) -> None:
    before = files(lake)
    with pytest.raises(bv.Invalid, match="dot or a backquote"):
        lake.sql(statement.format(name))
    assert files(lake) == before


@pytest.mark.parametrize("statement", [s for s in CREATIONS if " TABLE " in s])
def test_a_table_that_the_catalog_refuses_leaves_nothing(lake: bv.Lake, statement: str) -> None:
    before = files(lake)
    with pytest.raises(bv.Invalid, match="Weird Name"):
        lake.sql(statement.format("`Weird Name`"))
    assert files(lake) == before


def test_a_table_whose_query_fails_leaves_nothing_and_its_name_is_free(lake: bv.Lake) -> None:
    before = files(lake)
    with pytest.raises(bv.Invalid, match="Division by zero"):
        lake.sql("CREATE TABLE half AS SELECT id, 1 / (id - 2) AS r FROM t")
    assert files(lake) == before
    lake.sql("CREATE TABLE half AS SELECT id FROM t")
    lake.sql("DROP TABLE half")


def test_the_lakes_own_schema_may_be_written_out(lake: bv.Lake) -> None:
    [row] = lake.sql("SELECT current_schema() AS own").collect()
    for name in (f"{row['own']}.V", f"spark_catalog.{row['own']}.v"):
        assert lake.refresh(name).name == "v"


def test_a_table_of_another_schema_is_not_taken_for_one_of_the_lake(lake: bv.Lake) -> None:
    with pytest.raises(bv.Invalid):
        lake.sql("DROP TABLE gold.u")
    with pytest.raises(bv.Invalid):
        lake.sql("INSERT INTO gold.u VALUES (1, 1)")
    assert len(lake.sql("SELECT * FROM u").collect()) == 2


@pytest.mark.parametrize("statement", ["REFRESH v", "REFRESH TABLE v", "refresh table `V`;"])
def test_sparks_refresh_of_a_view_refreshes_it(lake: bv.Lake, statement: str) -> None:
    lake.sql("INSERT INTO t VALUES (1, 100)")
    [row] = lake.sql(statement).collect()
    assert (row["view"], row["rows_changed"]) == ("v", 1)
    stored = lake.sql("SELECT s FROM v WHERE id = 1").collect()
    assert stored == lake.sql("SELECT sum(x) AS s FROM t WHERE id = 1").collect()


def test_sparks_refresh_reaches_other_kinds_and_leaves_tables_to_spark(lake: bv.Lake) -> None:
    lake.sql("CREATE UPDATABLE VIEW through AS SELECT id, x FROM u")
    lake.sql("INSERT INTO u VALUES (7, 7)")
    lake.sql("REFRESH through")
    assert (7, 7) in {(r["id"], r["x"]) for r in lake.sql("SELECT * FROM through").collect()}
    assert lake.sql("REFRESH TABLE u").collect() == []
    lake.sql("DROP UPDATABLE VIEW through")


CASES = {
    "group_by_column_named_all": (
        "SELECT all, city, count(*) AS n FROM (SELECT id AS all, x AS city FROM t) GROUP BY all, city"
    ),
    "column_named_current_date": (
        "SELECT current_date FROM (SELECT id AS current_date FROM t) WHERE current_date > 1"
    ),
    "true_and_null": "SELECT id FROM t WHERE true AND NULL",
    "null_in_on": "SELECT t.id FROM t LEFT JOIN u ON true AND NULL",
    "null_in_having": "SELECT id FROM t GROUP BY id HAVING true AND NULL",
    "text_as_condition": "SELECT id FROM t WHERE true AND 'true'",
    "comment_that_goes_on": "SELECT id FROM t -- all rows \\\n WHERE id = 1\n",
}


def test_words_and_conditions_mean_what_spark_says(lake: bv.Lake) -> None:
    for name, query in CASES.items():
        lake.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    lake.sql("INSERT INTO t VALUES (3, 4), (1, 2)")
    lake.refresh()
    for name, query in CASES.items():
        assert rows(lake, f"SELECT * FROM {name}") == rows(lake, query)


def rows(lake: bv.Lake, query: str) -> Counter[str]:
    return Counter(map(str, lake.sql(query).collect()))


def test_a_comment_never_allows_side_effects(lake: bv.Lake) -> None:
    for table, column in (("l", "x"), ("r", "y")):
        lake.sql(f"CREATE TABLE {table} (id INT, {column} INT)")
        lake.sql(f"INSERT INTO {table} VALUES (1, 2), (1, 3)")
    lake.sql("CREATE UPDATABLE VIEW pairs AS SELECT x, y FROM l JOIN r ON l.id = r.id")
    asked = "DELETE FROM pairs WHERE x = 2 AND y = 2"
    for comment in ("-- never WITH SIDE EFFECTS ALLOWED", "/* WITH SIDE EFFECTS ALLOWED */"):
        with pytest.raises(bv.Invalid) as caught:
            lake.sql(f"{asked} {comment}")
        assert caught.value.reason == "SIDE_EFFECTS"
    with pytest.raises(bv.Invalid, match="more than one statement"):
        lake.sql(f"{asked}; DELETE FROM pairs")
    with pytest.raises(bv.Invalid, match="syntax error"):
        lake.sql("DELETE FROM pairs WHERE x = ")
    told = lake.sql(f"/* EXPLAIN what follows */ EXPLAIN {asked}")
    assert told.columns == ["plan"]
    assert rows(lake, "SELECT count(*) AS n FROM pairs") == Counter(["Row(n=4)"])
    done = lake.sql(f"{asked} WITH SIDE EFFECTS /* as said */ ALLOWED; -- at once")
    assert done.collect()[0]["extra_rows"] == 1
