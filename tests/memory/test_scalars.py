"""Scalars in memory are what Spark says they are, to the type; what might not be is declined."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal as D
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from sqlglot import exp, parse_one

from belvedere.algebra.relations import Agg, Aggregate, Field, Scan
from belvedere.algebra.scalars import Scalar, col
from belvedere.memory import kinds
from belvedere.memory.declined import Declined
from belvedere.memory.plans import Memory
from belvedere.memory.scalars import value
from belvedere.sql.render import render

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPES = {
    "n": "int",
    "i": "int",
    "l": "bigint",
    "y": "tinyint",
    "d": "decimal(15,2)",
    "e": "decimal(7,4)",
    "w": "decimal(32,4)",
    "s": "string",
    "u": "string",
    "day": "date",
    "b": "boolean",
    "t": "timestamp",
    "f": "double",
}
ROWS: list[tuple[Any, ...]] = [
    (1, 7, 2**40, -3, D("12.34"), D("0.0500"), D("1234567.8901"), "forest green", "a%b", dt.date(1995, 3, 15), True, dt.datetime(2020, 1, 1), 1.5),
    (2, -7, -1, 127, D("-0.01"), D("-999.9999"), D("-0.0001"), "", "", dt.date(1969, 12, 31), False, dt.datetime(1969, 7, 20, 1, 2, 3), -0.0),
    (3, 0, 0, 0, D("0.00"), D("0.0000"), D("0.0000"), "a\nb%_c", "ünïcödé 漢字", dt.date(1900, 2, 28), None, None, None),
    (4, None, None, None, None, None, None, None, None, None, None, None, float("nan")),
    (5, 2**31 - 2, 2**62, -128, D("9999999999999.99"), D("999.9999"), D("9999999999.9999"), "Forest", "forest", dt.date(2400, 2, 29), True, dt.datetime(9999, 12, 31), 0.0),
]  # fmt: skip

COMPUTED = """
i | l | y | d | e | w | s | day | b | t | f
1 | 2147483647 | 2147483648 | 0.05 | 1.50 | .5 | 'text' | TRUE | DATE '1995-01-01'
i = 7 | i = l | y < i | d > 0 | d = e | e >= 0.05 | w <> d | i <= 0.5 | s = 'forest' | s < u | day < DATE '1995-06-01'
b = TRUE | t > t | t = t | day = day | i <=> NULL_I | s <=> u | b <=> b
i IS NULL | NOT i IS NULL | i IN (7, 0) | NOT s IN ('', 'Forest') | d IN (12.34, 0) | i BETWEEN -7 AND 6 | d BETWEEN 0 AND 100.5
i IN (7) | NOT i IN (7, 0, 8) | i IN (1.5, 7.0) | i IN (7, l) | 7 IN (7, 8) | l IN (0, 4611686018427387904, 7) | d IN (0, 12.34, 1000000000000.5) | u IN ('', 'a%b', 'ünïcödé 漢字') | y IN (127, 300)
b AND i > 0 | b OR i > 0 | NOT b | b AND NOT b | (b OR s = '') AND d IS NULL
i + 1 | i - 1 | y * 2 | y + i | -i | -d | l - 1 | d + 1 | 1 - e | d * e | d * (1 - e) | d * (1 - e) * (1 + e) | d - e | d + w | w + 0.5 | w * d
d / 3 | d / 7.5 | d / CASE WHEN i = 0 THEN 3 ELSE i END | 1 / (e * e + 1) | i / (e * e + 1) | (d + 1) / 7.5 | w / CASE WHEN y = 0 THEN 7 ELSE y END | e / -1.5 | e / 0.0003 | d * i | d + y | 0.5 * d | l * e | 2 * w
d / -3 | d * -1 | d + -1 | d - -20 | -3 * e | d / (-3) | d * -(3) | d * -0.5 | -2147483648 | -2147483649 | i > -8 | l IN (-1, 0) | -0.05 | d = -0.01
CASE WHEN i > 0 THEN 1 ELSE 0 END | CASE WHEN b THEN d * (1 - e) ELSE 0 END | CASE WHEN b THEN d END | CASE WHEN b THEN NULL ELSE s END
CASE WHEN i > 0 THEN 'p' WHEN i < 0 THEN 'm' ELSE s END | CASE WHEN b THEN i ELSE l END | CASE WHEN b THEN e ELSE w END
coalesce(i, 0) | coalesce(d, 0) | coalesce(s, u, '-') | coalesce(d, e) | coalesce(i, l)
s LIKE 'forest%' | s NOT LIKE 'forest%' | s NOT LIKE '%b%' | s LIKE '%b%' | s LIKE 'a_b%' | NOT s LIKE '%rest%gr%' | u LIKE 'a%b' | u LIKE '%漢_' | s LIKE ''
substring(u, 1, 2) | substring(u, 9, 100) | substring(s, 3, 1) | year(day) | extract(YEAR FROM day)
CAST(i AS BIGINT) | CAST(i AS DECIMAL(38,0)) | CAST(d AS DECIMAL(20,4)) | CAST(d AS DECIMAL(14,0)) | CAST(e AS DECIMAL(5,1)) | CAST(w AS DECIMAL(38,3)) | CAST(d / 3 AS DECIMAL(19,6)) | CAST(NULL AS STRING) | CAST(y AS INT) | CAST(NULL AS DECIMAL(9,2)) | CAST('1999-12-31' AS DATE) | CAST(CASE WHEN b THEN 1 ELSE 0 END AS DECIMAL(38,0)) | CAST(4000000000 AS DECIMAL(12,0)) | CAST(l AS DECIMAL(19,0)) | CAST(y AS DECIMAL(5,2)) | CASE WHEN l > CAST(5 AS DECIMAL(12,0)) THEN CAST(5 AS DECIMAL(12,0)) ELSE CAST(l AS DECIMAL(19,0)) END
"""  # fmt: skip

LEFT_TO_SPARK = """
f > 1 | f = f | f + 1 | d / 0 | d / (l - 5) | i / 2 | w / w | i % 2 | l * l | i + 2147483647 | -y * l * l | w * w * w | e * e * e * w
s = 1 | day > '1995-01-01' | s || u | upper(s) | rand() | s LIKE 'a\\\\_b' | s LIKE u | u LIKE 'a!%b' ESCAPE '!'
CASE i WHEN 1 THEN 2 END | CASE WHEN b THEN f ELSE i END | CAST(d AS INT) | CAST(d AS DECIMAL(5,2)) | CAST(w AS DECIMAL(11,2)) | CAST(l AS DECIMAL(12,0)) | CAST(y AS DECIMAL(4,2)) | CAST(s AS INT) | CAST(l AS INT) | CAST('1999-13-01' AS DATE)
i BETWEEN SYMMETRIC 9 AND 1 | TRY_CAST(i AS BIGINT) | s ILIKE 'F%' | s LIKE ANY ('a%', 'b%') | i IS DISTINCT FROM l | substring(s, -2, 1) | substring(s, i, 1) | year(t) | i AND b | NULL | 1e3 | 99999999999999999999
"""  # fmt: skip


def each(text: str) -> list[str]:
    return [
        part.strip() for line in text.splitlines() for part in line.split(" | ") if part.strip()
    ]


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    utc = dt.UTC
    fixed = [
        tuple(v.replace(tzinfo=utc) if isinstance(v, dt.datetime) else v for v in r) for r in ROWS
    ]
    columns = zip(*fixed, strict=True)
    schema = pa.schema([pa.field(c, kinds.arrow(k)) for c, k in TYPES.items()])
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema)


def scalar(text: str) -> Scalar:
    return Scalar(parse_one(text.replace("NULL_I", "CAST(NULL AS INT)"), dialect="spark"))


@pytest.mark.spark
def test_what_is_computed_is_what_spark_computes(spark: SparkSession, rows: pa.Table) -> None:
    spark.createDataFrame(rows).createOrReplaceTempView("scalars")
    texts = each(COMPUTED)
    named = ", ".join(f"{scalar(text).sql()} AS v{i}" for i, text in enumerate(texts))
    frame = spark.sql(f"SELECT {named} FROM scalars ORDER BY n")
    theirs = frame.toArrow()
    told = {f.name: f.dataType.simpleString() for f in frame.schema.fields}
    for i, text in enumerate(texts):
        found = value(scalar(text), rows, TYPES)
        assert (text, found.kind) == (text, told[f"v{i}"])
        assert found.data.type == kinds.arrow(found.kind)
        assert (text, as_texts(found.data)) == (text, as_texts(theirs[f"v{i}"]))
    spark.catalog.dropTempView("scalars")


@pytest.mark.spark
def test_groups_are_what_spark_makes_of_them(spark: SparkSession, rows: pa.Table) -> None:
    spark.createDataFrame(rows).createOrReplaceTempView("scalars")
    fields = tuple(Field(c, c, kind) for c, kind in TYPES.items())
    calls = [
        ("count", "i"),
        ("count", "f"),
        *(("sum", c) for c in "yidew"),
        *(("avg", c) for c in "dew"),
    ]
    calls += [(how, c) for how in ("min", "max") for c in ("i", "d", "s", "u", "day", "b", "t")]
    aggregates = tuple(Agg(f"v{i}", how, (col(c),)) for i, (how, c) in enumerate(calls))
    for keys in ((), ("b",), ("day", "s"), ("d", "e", "y")):
        plan = Aggregate(Scan("scalars", fields), keys, (Agg("n_rows", "count"), *aggregates))
        found = Memory(lambda leaf: rows, 100).rows(plan)
        frame = spark.sql(render(plan, lambda leaf: exp.to_table(leaf.table)).sql(dialect="spark"))
        assert found.types == {f.name: f.dataType.simpleString() for f in frame.schema.fields}
        ours, theirs = (sorted(map(repr, t.to_pylist())) for t in (found.table, frame.toArrow()))
        assert ours == theirs
    spark.catalog.dropTempView("scalars")


def as_texts(column: pa.ChunkedArray) -> list[str]:
    """NaN is NaN, -0.0 is not 0.0."""
    return [repr(v) for v in column.to_pylist()]


@pytest.mark.parametrize(("column", "constants"), [
    ("i", "7, 0, 8"), ("i", "1.5, 7.0"), ("l", "0, 4611686018427387904"), ("d", "0, 12.34"),
    ("s", "'', 'Forest'"), ("y", "127, 300"), ("w", "1234567.8901, 1, 0.5"),
])  # fmt: skip
def test_a_list_of_constants_is_each_of_them_compared(
    column: str, constants: str, rows: pa.Table
) -> None:
    listed = value(scalar(f"{column} IN ({constants})"), rows, TYPES).data.to_pylist()
    each_alone = " OR ".join(f"{column} = {c}" for c in constants.split(", "))
    assert listed == value(scalar(each_alone), rows, TYPES).data.to_pylist()
    assert None in listed
    assert True in listed


@pytest.mark.parametrize("text", each(LEFT_TO_SPARK))
def test_what_is_left_to_spark(text: str, rows: pa.Table) -> None:
    with pytest.raises((Declined, pa.ArrowInvalid)):
        value(scalar(text), rows, TYPES)
