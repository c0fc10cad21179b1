"""Queries that combine features mean in DuckDB what their plans mean there."""

from __future__ import annotations

from collections.abc import Callable

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from belvedere.sql.binder.clauses import from_clause
from belvedere.sql.dialect import SparkAsWritten
from belvedere.sql.render import render
from tests.sql.combined_queries import COMBINED, CORRELATED, NAMED
from tests.sql.shop import bound
from tests.sql.test_meaning import as_spark_marks, bag, duck, table

__all__ = ["duck"]


@pytest.mark.parametrize(("text", "asked"), COMBINED)
def test_a_join_means_what_it_says(duck: duckdb.DuckDBPyConnection, text: str, asked: str) -> None:
    same_as_plan(duck, text, sqlglot.parse_one(asked, dialect="spark").sql(dialect="duckdb"))


@pytest.mark.parametrize(("text", "asked"), NAMED)
def test_a_query_means_what_it_means_in_other_words(
    duck: duckdb.DuckDBPyConnection, text: str, asked: str
) -> None:
    same_as_plan(duck, text, asked)


@pytest.mark.parametrize("text", CORRELATED)
def test_correlation_reaches_through_derived_tables(
    duck: duckdb.DuckDBPyConnection, text: str
) -> None:
    asked = as_spark_marks(sqlglot.parse_one(text, dialect="spark")).sql(dialect="duckdb")
    same_as_plan(duck, text, asked)


def same_as_plan(duck: duckdb.DuckDBPyConnection, text: str, asked: str) -> None:
    rendered = render(bound(text).plan, table).sql(dialect="duckdb")
    assert bag(duck, rendered.replace("RAISE_ERROR(", "error(")) == bag(duck, asked), rendered


MUTANTS: dict[str, tuple[str, Callable[..., object]]] = {
    "a condition on the kept side is a filter": ("_goes_below", lambda padded, kind: True),
    "a condition with a subquery is left out": (
        "_with_subquery",
        lambda side, conjunct, scope, below: [],
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_law_notices_a_condition_in_the_wrong_place(
    duck: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch, mutant: str
) -> None:
    monkeypatch.setattr(from_clause, *MUTANTS[mutant])
    with pytest.raises(AssertionError):
        _all_joins(duck)


def _all_joins(duck: duckdb.DuckDBPyConnection) -> None:
    for text, asked in COMBINED:
        same_as_plan(duck, text, sqlglot.parse_one(asked, dialect="spark").sql(dialect="duckdb"))


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("a + b << 1 & 3 | 4", "(((a + b) << 1) & 3) | 4"),
        ("a | b & 1", "a | (b & 1)"),
        ("a ^ b | c ^ 1", "(a ^ b) | (c ^ 1)"),
        ("a & b << c - 1", "a & (b << (c - 1))"),
        ("a >> b << c", "(a >> b) << c"),
        ("a || b + c", "(a || b) + c"),
        ("a || b * c - d || e", "((a || (b * c)) - d) || e"),
        ("a & b = c | d", "(a & b) = (c | d)"),
    ],
)
def test_operators_bind_as_tightly_as_in_spark(text: str, meant: str) -> None:
    assert _grouped(text) == _grouped(meant)


def _grouped(text: str) -> exp.Expr:
    """An expression without its parentheses, which the tree stands for."""
    tree = sqlglot.parse_one(text, dialect=SparkAsWritten)
    while (paren := tree.find(exp.Paren)) is not None:
        if paren is tree:
            tree = paren.this
        else:
            paren.replace(paren.this)
    return tree
