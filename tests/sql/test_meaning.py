"""The plan of a query gives the rows the query's own text gives, in DuckDB."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from belvedere.algebra.relations import Change, Scan
from belvedere.sql.render import render
from tests.sql.queries_by_feature import QUERIES
from tests.sql.shop import bound

ROWS = {
    "r": [
        (1, 1, "x"),
        (1, 1, "x"),
        (1, 2, None),
        (2, None, "y"),
        (None, 1, "x"),
        (None, None, None),
        (3, 7, "z"),
        (4, 0, "x"),
    ],
    "s": [
        (1, 1, "x"),
        (1, 2, "y"),
        (2, 2, "x"),
        (2, 2, "x"),
        (None, 3, None),
        (5, None, "z"),
        (3, 7, "z"),
    ],
    "t": [(1, 10, 1), (2, 20, None), (2, 5, 3), (None, 1, 1), (7, 10, 2), (3, None, 3)],
    "empty": [],
    "log": [
        (1, 1, 10, "2024-01-03"),
        (2, 1, 20, "2024-02-03"),
        (3, 2, None, "2023-12-31"),
        (4, None, 5, None),
        (4, 2, 5, "2024-02-29"),
    ],
    "video": [(1, "ann", 1.5), (2, "bob", None), (3, "ann", 2.0), (3, None, 0.5)],
}
SPEC = {
    "r": "a int, b int, c varchar",
    "s": "a int, d int, e varchar",
    "t": "k int, x int, y int",
    "empty": "k int, x int, y int",
    "log": "session_id bigint, video_id bigint, bytes bigint, day date",
    "video": "video_id bigint, owner varchar, duration double",
}


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    """The shop's tables with NULLs and duplicates."""
    connection = duckdb.connect(config={"threads": 1})
    for name, rows in ROWS.items():
        connection.execute(f"CREATE TABLE {name} ({SPEC[name]})")
        for row in rows:
            marks = ", ".join("?" * len(row))
            connection.execute(f"INSERT INTO {name} VALUES ({marks})", row)
    yield connection
    connection.close()


def bag(duck: duckdb.DuckDBPyConnection, query: str) -> Counter[tuple[object, ...]]:
    return Counter(duck.execute(query).fetchall())


def table(leaf: Scan | Change) -> exp.Table:
    return exp.to_table(leaf.table)


def as_spark_marks(query: exp.Expr) -> exp.Expr:
    """IN (SELECT …) shown as a column is never NULL in Spark: unknown is false."""
    for item in query.selects if isinstance(query, exp.Select) else []:
        value = item.unalias()
        marked = value.this if isinstance(value, exp.Not) else value
        if isinstance(marked, exp.In) and marked.args.get("query"):
            value.replace(exp.func("coalesce", value.copy(), exp.false()))
    return query


@pytest.mark.parametrize("text", QUERIES)
def test_a_bound_plan_means_its_text(duck: duckdb.DuckDBPyConnection, text: str) -> None:
    plan = bound(text).plan
    rendered = render(plan, table).sql(dialect="duckdb").replace("RAISE_ERROR(", "error(")
    asked = as_spark_marks(sqlglot.parse_one(text, dialect="spark")).sql(dialect="duckdb")
    assert bag(duck, rendered) == bag(duck, asked), rendered
