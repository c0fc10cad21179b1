"""Queries that Spark understands are accepted, or refused with a reason code; mistakes are Invalid.

`spark_queries.txt` has each query under what becomes of it. Spark is asked the same in one session.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from belvedere import reasons
from belvedere.errors import Invalid, Unsupported
from belvedere.reasons import REASONS, ReasonUse
from belvedere.sql.render import render
from tests.sql.combined_queries import COMBINED, CORRELATED
from tests.sql.shop import TABLES, bound
from tests.sql.test_meaning import ROWS, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXT = Path(__file__).with_name("spark_queries.txt").read_text()


def _sections() -> Iterator[tuple[str, str, str]]:
    """What becomes of each query, the reason code and the query."""
    for section in TEXT.strip().split("\n\n"):
        heading, *queries = section.splitlines()
        what, _, code = heading.strip("[]").partition(" ")
        yield from ((what, code, query) for query in queries)


ALL = list(_sections())
ACCEPTED = [query for what, _, query in ALL if what == "accepted"]
REFUSED = [(code, query) for what, code, query in ALL if what == "refused"]
MISTAKES = [(code, query) for what, code, query in ALL if what == "mistake"]
# Spark takes these in a query, and refuses them in a table.
ONLY_IN_TABLES = {"DUPLICATE_COLUMN"}
EXECUTED = [
    "SELECT a | b & 1 AS z, a ^ b | 2 AS y, a & b << 1 AS x, a + 1 << 1 & 3 AS w FROM r",
    "SELECT c || a + 1 AS z FROM r WHERE c IS NULL",
    "SELECT a, sum(b) AS s FROM r GROUP BY a HAVING EXISTS (SELECT 1 FROM s WHERE s.d = sum(r.b))",
    "SELECT a FROM r GROUP BY a HAVING EXISTS (SELECT 1 FROM s WHERE s.d = max(r.b) + count(DISTINCT r.c))",
    "SELECT a, b, c, count(*) AS n, grouping_id() AS g FROM r GROUP BY a, b, c GROUPING SETS ((a), (c, b))",
    "SELECT * FROM s LEFT SEMI JOIN (SELECT d FROM s) q USING (d)",
    "SELECT s.a, r.b FROM r LEFT JOIN s ON r.a = s.a NATURAL JOIN (SELECT a, x FROM r, t) q",
    "SELECT * EXCEPT (r.a, e) FROM r, s",
    "SELECT DISTINCT a + 1 AS z FROM r ORDER BY z + 1 LIMIT 2",
    "SELECT a, sum(b) FILTER (WHERE b > 1) OVER (PARTITION BY a) AS q FROM r",
    "TABLE r EXCEPT TABLE r",
    *(text for text, _ in COMBINED[2:240:40]),
    *CORRELATED[::24],
]


@pytest.mark.parametrize("text", ACCEPTED)
def test_what_is_accepted_has_a_plan(text: str) -> None:
    assert bound(text).columns


@pytest.mark.parametrize(("code", "text"), REFUSED)
def test_what_is_not_handled_is_no_mistake_of_the_users(code: str, text: str) -> None:
    with pytest.raises(Unsupported) as error:
        bound(text)
    assert error.value.reason == code
    assert "line 1, column" in error.value.message
    assert error.value.hint


@pytest.mark.parametrize(("code", "text"), MISTAKES)
def test_a_mistake_has_a_code(code: str, text: str) -> None:
    with pytest.raises(Invalid) as error:
        bound(text)
    assert error.value.reason == code


def test_the_codes_of_queries_all_have_a_query() -> None:
    codes = {code for _, code, _ in ALL if code}
    assert codes - set(REASONS) == set()
    elsewhere = {"PARAMETER", "NOT_READ", "QUANTIFIED", "BY_NAME", "DISTINCT_ON"}
    elsewhere |= {"TIME_TRAVEL", "JOIN_KIND", "OTHER_QUERY"}
    queries = {*reasons.TABLES[ReasonUse.NOT_MAINTAINED], *reasons.TABLES[ReasonUse.MISTAKE]}
    assert queries - codes - elsewhere == set()


@pytest.mark.spark
def test_spark_says_the_same(spark: SparkSession) -> None:
    _with_tables(spark)
    wrong = []
    for what, code, text in ALL:
        names = _columns(spark, text)
        if what == "mistake" and code not in ONLY_IN_TABLES:
            wrong += [(text, "understood")] if names is not None else []
        elif names is None:
            wrong.append((text, "not understood"))
        elif what == "accepted":
            ours = [name.lower() for name, _ in bound(text).columns]
            # An expression without an alias is named by Spark.
            pairs = [(x, y) for x, y in zip(names, ours, strict=True) if y.isidentifier()]
            wrong += [(text, f"{x} is {y}") for x, y in pairs if x != y]
    assert not wrong, "\n".join(f"{what}: {text}" for text, what in wrong)


@pytest.mark.spark
def test_a_plan_means_its_text_in_spark(spark: SparkSession) -> None:
    _with_tables(spark)
    wrong = []
    for text in EXECUTED:
        result = bound(text)
        plan = spark.sql(render(result.plan, table).sql(dialect="spark"))
        shown = plan.select(*(f"`{column}`" for _, column in result.columns))
        if Counter(spark.sql(text).collect()) != Counter(shown.collect()):
            wrong.append(text)
    assert not wrong, "\n".join(wrong)


def _with_tables(spark: SparkSession) -> None:
    for name in ("r", "s", "t", "empty"):
        spark.createDataFrame(ROWS[name], TABLES[name]).createOrReplaceTempView(name)
    for name in ("video", "log", "odd"):
        spark.createDataFrame([], TABLES[name]).createOrReplaceTempView(name)


def _columns(spark: SparkSession, text: str) -> list[str] | None:
    """The names of a query's columns, in lower case; None if Spark refuses it."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        return [name.lower() for name in spark.sql(text.rstrip(";")).columns]
    except (PySparkException, Py4JJavaError):
        return None
