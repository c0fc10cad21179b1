"""Values of every type survive the way through the feed to the bit."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

from belvedere.lake.spark_lake import SparkLake
from belvedere.lake.tables import change_feed
from belvedere.sql.names import quote
from tests.lake.tables.feeds import changes

pytestmark = pytest.mark.spark

PLAIN = {
    "b": ("BOOLEAN", ["true", "false"]),
    "i1": ("TINYINT", ["-128", "127"]),
    "i2": ("SMALLINT", ["-32768", "32767"]),
    "i4": ("INT", ["-2147483648", "2147483647"]),
    "i8": ("BIGINT", ["-9223372036854775808", "9223372036854775807"]),
    "f": ("FLOAT", ["float('NaN')", "float('-0.0')", "float('1.4e-45')", "float('0.0')"]),
    "d": ("DOUBLE", ["double('NaN')", "double('-0.0')", "double('-Infinity')", "double('0.0')"]),
    "n": ("DECIMAL(38,18)", ["-99999999999999999999.999999999999999999", "0.000000000000000001"]),
    "m": ("DECIMAL(7,2)", ["-99999.99", "0.10"]),
    "s": ("STRING", ["''", "'\\u00fc \\U0001F600 \\'\\n'", "'NULL'", "'u\\u0308'"]),
    "x": ("BINARY", ["X''", "X'00FF80'"]),
    "t": ("DATE", ["DATE'0001-01-01'", "DATE'1582-10-04'", "DATE'9999-12-31'"]),
    "z": (
        "TIMESTAMP",
        [
            "TIMESTAMP'1900-01-01 00:00:00.000001Z'",
            "TIMESTAMP'2024-03-10 02:30:00.123456 America/New_York'",
            "TIMESTAMP'9999-12-31 23:59:59.999999Z'",
        ],
    ),
    "y": ("TIMESTAMP_NTZ", ["TIMESTAMP_NTZ'2024-03-31 02:30:00.123456'"]),
}
NESTED = {
    "a": ("ARRAY<DOUBLE>", ["array(double('-0.0'), NULL)", "array()", "array(double('NaN'))"]),
    "r": ("STRUCT<p: INT, `q-r`: STRING>", ["named_struct('p', 1, 'q-r', NULL)"]),
    "h": ("MAP<STRING, INT>", ["map('a', 1, 'b', NULL)", "map('a', 1, 'b', 0)"]),
}


@pytest.fixture
def lake(door: SparkLake) -> SparkLake:
    every = {**PLAIN, **NESTED}
    columns = ", ".join(f"{quote(c)} {kind}" for c, (kind, _) in every.items())
    door.sql(f"CREATE TABLE t (row INT, {columns})")
    longest = max(len(values) for _, values in every.values())
    rows = []
    for i in range(longest):
        cells = [values[i] if i < len(values) else "NULL" for _, values in every.values()]
        rows.append(f"SELECT {i}, {', '.join(cells)}")
    door.sql(f"INSERT INTO t {' UNION ALL '.join(rows)} UNION ALL {rows[0]}")
    return door


def texts(columns: list[str]) -> str:
    """Every value as text that tells it from its neighbours, in a fixed time zone."""
    return ", ".join(
        f"hex({quote(c)})" if c == "x" else f"CAST({quote(c)} AS STRING)" for c in columns
    )


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_values_survive_both_ways(
    lake: SparkLake, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"spark.sql.session.timeZone": zone}
    columns = ["row", *PLAIN]
    table = lake.table("t")
    with lake.work(settings) as work:
        expected = work.query(f"SELECT {texts(columns)}, count(*) FROM t GROUP BY ALL").collect()
        small = changes(work, table, 0, 1, columns)
        assert small.rows == len(expected) == 4
        monkeypatch.setattr(change_feed, "is_small", lambda *_: False)
        large = changes(work, table, 0, 1, columns)
        for found in (small, large):
            frame = work.spark.table(found.view())
            assert frame.dtypes[:-1] == [c for c in work.spark.table("t").dtypes if c[0] in columns]
            got = work.query(f"SELECT {texts(columns)}, __m FROM {found.view()}").collect()
            assert Counter(map(tuple, got)) == Counter(map(tuple, expected))


def test_timestamps_in_nanoseconds_are_left_to_spark(door: SparkLake) -> None:
    setting = "spark.sql.parquet.outputTimestampType"
    door.sql("CREATE TABLE t (z TIMESTAMP, k INT)")
    door.spark.conf.set(setting, "INT96")
    door.sql("INSERT INTO t VALUES (TIMESTAMP'9999-12-31 23:59:59.999999Z', 1)")
    door.spark.conf.unset(setting)
    with door.work({"spark.sql.session.timeZone": "UTC"}) as work:
        found = changes(work, door.table("t"), 0, 1, ["z"])
        assert found.rows is None
        got = work.query(f"SELECT CAST(z AS STRING) FROM {found.view()}").collect()
        assert got == [("9999-12-31 23:59:59.999999",)]
        assert changes(work, door.table("t"), 0, 1, ["k"]).rows == 1


def test_nested_values_survive(lake: SparkLake) -> None:
    columns = ["row", *NESTED]
    with lake.work() as work:
        found = changes(work, lake.table("t"), 0, 1, columns)
        assert found.rows is None
        expected = work.query(f"SELECT {texts(columns)}, count(*) FROM t GROUP BY ALL").collect()
        got = work.query(f"SELECT {texts(columns)}, __m FROM {found.view()}").collect()
        assert Counter(map(tuple, got)) == Counter(map(tuple, expected))


def test_types_read_from_the_log_are_those_spark_gives(lake: SparkLake) -> None:
    lake.sql("ALTER TABLE t ADD COLUMN (c VARCHAR(3), u CHAR(2))")
    by_spark = lake.output_schema("SELECT * FROM t")
    assert list(lake.table("t").columns) == by_spark
    assert dict(by_spark)["r"] == "struct<p:int,`q-r`:string>"
    kinds = lake.types({c: quote(c) for c, _ in by_spark}, dict(by_spark))
    assert list(kinds.items()) == by_spark


def test_rows_in_memory_arrive_whole_whatever_pieces_they_are_in(door: SparkLake) -> None:
    some, none = pa.table({"k": [1, 2]}), pa.table({"k": pa.array([], pa.int64())})
    with door.work() as work:
        pieces = pa.concat_tables([none, some, none, some])
        view = work.hold("pieces", pieces, {"k": "bigint"})
        assert sorted(row.k for row in work.query(f"SELECT k FROM {view}").collect()) == [
            1,
            1,
            2,
            2,
        ]
