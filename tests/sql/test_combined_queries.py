"""Queries that combine features mean in DuckDB what their plans mean there."""

from __future__ import annotations

import duckdb
import pytest
import sqlglot

from belvedere.sql.render import render
from sql.combined_queries import COMBINED, CORRELATED
from sql.shop import bound
from sql.test_meaning import as_spark_marks, bag, duck, table

__all__ = ["duck"]


@pytest.mark.parametrize(("text", "asked"), COMBINED)
def test_a_join_means_what_it_says(duck: duckdb.DuckDBPyConnection, text: str, asked: str) -> None:
    same_as_plan(duck, text, sqlglot.parse_one(asked, dialect="spark").sql(dialect="duckdb"))


@pytest.mark.parametrize("text", CORRELATED)
def test_correlation_reaches_through_derived_tables(
    duck: duckdb.DuckDBPyConnection, text: str
) -> None:
    asked = as_spark_marks(sqlglot.parse_one(text, dialect="spark")).sql(dialect="duckdb")
    same_as_plan(duck, text, asked)


def same_as_plan(duck: duckdb.DuckDBPyConnection, text: str, asked: str) -> None:
    rendered = render(bound(text).plan, table).sql(dialect="duckdb")
    assert bag(duck, rendered.replace("RAISE_ERROR(", "error(")) == bag(duck, asked), rendered
