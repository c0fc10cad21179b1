"""CHAR and VARCHAR on Spark: views hold what Spark reads, whoever wrote it; and days of October 1582."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import belvedere as bv
from belvedere.delta import snapshots
from belvedere.errors import Unsupported
from belvedere.sql.names import stored_name
from tests.views.comparison import assert_fresh

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("chars")


@pytest.fixture(scope="module")
def lake(directory: Path) -> Iterator[bv.Lake]:
    with bv.connect(directory) as lake:
        yield lake


def create(lake: bv.Lake, views: dict[str, str]) -> None:
    for name, query in views.items():
        lake.sql(f"CREATE MATERIALIZED VIEW {name} REFRESH POLICY INCREMENTAL AS {query}")
        assert_fresh(lake, name, query)


def assert_follow(lake: bv.Lake, views: dict[str, str], strategy: str | None = None) -> None:
    for name, query in views.items():
        done = lake.refresh(name)
        assert strategy in (None, done.strategy), done
        assert_fresh(lake, name, query)


def test_an_inserted_value_joins_the_group_of_its_padded_text(lake: bv.Lake) -> None:
    lake.sql("CREATE TABLE grouped (id INT, ch CHAR(5))")
    lake.sql("INSERT INTO grouped VALUES (1, 'ab'), (2, 'ab'), (3, 'abcde')")
    views = {"g": "SELECT ch, count(*) AS c FROM grouped GROUP BY ch"}
    create(lake, views)
    lake.sql("INSERT INTO grouped VALUES (9, 'ab')")
    assert_follow(lake, views, "merge")
    assert ("ab   ", 3) in [tuple(row) for row in lake.sql("SELECT * FROM g").collect()]


def test_rows_that_a_vector_deletes_leave_as_they_were_read(lake: bv.Lake) -> None:
    lake.sql("CREATE TABLE deleted (id INT, ch CHAR(5), n INT)")
    lake.sql("INSERT INTO deleted VALUES (1, 'ab', 1), (2, 'ab', 2), (3, 'abcde', 3)")
    lake.sql("CREATE TABLE texts (k STRING, w INT)")
    lake.sql("INSERT INTO texts VALUES ('ab   ', 1), ('abcde', 2)")
    views = {
        "d_join": "SELECT d.id, t.w FROM deleted d JOIN texts t ON d.ch = t.k",
        "d_length": "SELECT count(*) AS c, sum(n) AS s FROM deleted WHERE length(ch) = 5",
        "d_group": "SELECT ch, count(*) AS c FROM deleted GROUP BY ch",
        "d_bag": "SELECT ch || '|' AS c, length(ch) AS l FROM deleted",
    }
    create(lake, views)
    lake.sql("DELETE FROM deleted WHERE id = 1")
    assert_follow(lake, views)


def test_rows_with_char_are_merged_by_spark(lake: bv.Lake) -> None:
    lake.sql(
        "CREATE TABLE merged (s STRUCT<x: INT, y: VARCHAR(2)>, a ARRAY<CHAR(2)>, ch CHAR(5), d DATE, f FLOAT)"
    )
    row = (
        "named_struct('x', {0}, 'y', 'y'), array('y'), '{1}', DATE'2024-02-28', CAST({0} AS FLOAT)"
    )
    lake.sql(f"INSERT INTO merged VALUES ({row.format(1, 'ab')})")
    views = {
        "m_struct": "SELECT DISTINCT s, ch FROM merged",
        "m_float": "SELECT DISTINCT d, ch, f FROM merged",
    }
    create(lake, views)
    lake.sql(f"INSERT INTO merged VALUES ({row.format(2, 'abc')}), ({row.format(1, 'ab')})")
    assert_follow(lake, views, "merge")
    with pytest.raises(Unsupported) as refused:
        lake.sql("CREATE MATERIALIZED VIEW m_nested AS SELECT DISTINCT a FROM merged")
    assert refused.value.reason == "UNSTORABLE_TYPE"


def test_values_are_compared_as_spark_compares_them(lake: bv.Lake) -> None:
    lake.sql(
        "CREATE TABLE compared (id INT, a CHAR(3), b CHAR(5), v VARCHAR(5)) PARTITIONED BY (a)"
    )
    lake.sql(
        "INSERT INTO compared VALUES (1, 'ab', 'ab', 'ab'), (2, 'abc', 'b', 'b'), (3, NULL, '', '')"
    )
    conditions = (
        *("a = 'ab'", "'ab     ' = a", "a <=> 'ab'", "NOT a <> 'ab'", "a < 'ab'", "a >= 'ab'"),
        *("a IN ('ab', 'x')", "a IN ('ab', 'abcdef', NULL)", "a NOT IN ('ab')", "a IN (b)"),
        *("a BETWEEN 'ab' AND 'ab'", "nullif(a, 'ab') IS NULL", "a = b", "a <=> b", "a = v"),
        *("CASE a WHEN 'ab' THEN 1 END", "(a, id) = ('ab', 1)", "a LIKE 'ab'", "upper(a) = 'AB'"),
        *("a IS NOT DISTINCT FROM 'ab'", "b = ''", "length(a)", "CAST(a AS STRING) = 'ab'"),
    )
    shown = ", ".join(f"{text} AS c{i}" for i, text in enumerate(conditions))
    views = {
        "c_values": f"SELECT id, {shown} FROM compared",
        "c_union": "SELECT * FROM (SELECT a FROM compared UNION ALL SELECT b FROM compared)"
        " WHERE a = 'ab'",
        "c_among": "SELECT id FROM compared WHERE a IN (SELECT b FROM compared)",
        "c_exists": "SELECT id FROM compared x"
        " WHERE EXISTS (SELECT 1 FROM compared y WHERE x.a = y.b)",
    }
    create(lake, views)
    lake.sql("INSERT INTO compared SELECT id + 10, a, b, v FROM compared")
    lake.sql("UPDATE compared SET b = 'abc' WHERE id > 11")
    assert_follow(lake, views)


def test_a_column_that_is_char_no_more_is_read_anew(lake: bv.Lake) -> None:
    lake.sql("CREATE TABLE altered (id INT, ch CHAR(5), v VARCHAR(3), f FLOAT)")
    lake.sql("INSERT INTO altered VALUES (1, 'ab', 'x', 1.5), (2, 'ab', 'y', 2.5)")
    views = {
        "a_char": "SELECT ch, count(*) AS n FROM altered GROUP BY ch",
        "a_varchar": "SELECT DISTINCT v, f FROM altered",
    }
    create(lake, views)
    # Through Belvedere it is refused: views read the columns.
    lake.spark.sql("ALTER TABLE altered ALTER COLUMN v TYPE VARCHAR(9)")
    lake.sql("INSERT INTO altered VALUES (3, 'cd', 'longer', 3.5)")
    assert_follow(lake, views, "merge")
    lake.spark.sql("ALTER TABLE altered ALTER COLUMN ch TYPE VARCHAR(5)")
    assert lake.refresh("a_char").reason == "SCHEMA_CHANGED"
    assert_follow(lake, views)


def test_a_view_that_kept_char_as_it_was_stored_is_computed_again(
    lake: bv.Lake, directory: Path
) -> None:
    lake.sql("CREATE TABLE earlier (id INT, ch CHAR(5))")
    lake.sql("INSERT INTO earlier VALUES (1, 'ab')")
    views = {"e": "SELECT ch, count(*) AS n FROM earlier GROUP BY ch"}
    create(lake, views)
    commit = directory / stored_name("e") / "_delta_log" / f"{0:020}.json"
    was = r"\"ch\",\"type\":\"string\",\"nullable\":true,\"metadata\":{"
    char = r"\"__CHAR_VARCHAR_TYPE_STRING\":\"char(5)\""
    text = commit.read_text()
    assert was in text
    commit.write_text(text.replace(was, was + char))
    # Checksums have the schema too, and tell that the commit is another.
    for checksum in [path for path in commit.parent.iterdir() if path.suffix == ".crc"]:
        checksum.unlink()
    snapshots._read.cache_clear()
    snapshots._newest.clear()
    lake.sql("INSERT INTO earlier VALUES (2, 'ab')")
    assert lake.refresh("e").reason == "REDEFINED"
    lake.sql("INSERT INTO earlier VALUES (3, 'ab')")
    assert_follow(lake, views, "merge")


def test_a_session_that_reads_char_unpadded_is_refused(lake: bv.Lake) -> None:
    lake.sql("CREATE TABLE unpadded (id INT, ch CHAR(5))")
    setting = "spark.sql.readSideCharPadding"
    lake.sql(f"SET {setting} = false")
    try:
        with pytest.raises(Unsupported) as refused:
            lake.sql("CREATE MATERIALIZED VIEW u AS SELECT ch FROM unpadded")
    finally:
        lake.spark.conf.unset(setting)
    assert refused.value.reason == "CHAR_SETTINGS"


def test_days_that_the_old_calendar_left_out_are_found(lake: bv.Lake) -> None:
    lake.sql("CREATE TABLE days (id INT, tn TIMESTAMP_NTZ, ts TIMESTAMP, d DATE)")
    lake.sql(
        "INSERT INTO days VALUES"
        " (1, TIMESTAMP_NTZ'1500-01-01 00:00:00', NULL, DATE'1500-02-28'),"
        " (2, NULL, TIMESTAMP'1582-10-15 12:00:00', DATE'1582-10-15'),"
        " (3, TIMESTAMP_NTZ'9999-12-31 23:59:59', NULL, DATE'0001-01-01')"
    )
    views = {
        "y_least": "SELECT d, count(*) AS n, min(tn) AS m FROM days GROUP BY d",
        "y_day": "SELECT id FROM days WHERE d = DATE'1582-10-05'",
        "y_moment": "SELECT id, ts FROM days WHERE ts >= TIMESTAMP'1582-10-05 12:00:00'",
    }
    create(lake, views)
    lake.sql("INSERT INTO days SELECT id + 10, tn, ts, d FROM days")
    assert_follow(lake, views)
    lake.sql(
        "UPDATE days SET d = DATE'1582-10-05', ts = TIMESTAMP'1582-10-06 12:00:00' WHERE id IN (2, 12)"
    )
    assert_follow(lake, views)
    assert lake.sql("DESCRIBE HISTORY days").count() == 4
    assert lake.sql("DESCRIBE DETAIL days").collect()[0]["createdAt"].year > 2000
