"""Any query the grammar writes means the same as its plan, in DuckDB."""

from __future__ import annotations

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from belvedere.algebra.relations import Rel
from belvedere.algebra.walks import nodes
from belvedere.sql.render import render
from tests.sql.grammar import Grammar
from tests.sql.shop import bound
from tests.sql.test_meaning import bag, duck, table

__all__ = ["duck"]


@pytest.mark.parametrize("seed", range(100))
def test_a_random_query_means_its_plan(duck: duckdb.DuckDBPyConnection, seed: int) -> None:
    text, width = Grammar(seed).query()
    plan = bound(text).plan
    assert len(plan.columns) == width
    tree = render(plan, table)
    for condition in [*tree.find_all(exp.Where), *tree.find_all(exp.Join)]:
        # DuckDB takes NULL for a condition, Spark does not.
        alone = condition.args.get("on") or condition.this
        assert not isinstance(alone.unnest(), exp.Null | exp.Literal | exp.Column), tree.sql()
    rendered = tree.sql(dialect="duckdb").replace("RAISE_ERROR(", "error(")
    asked = sqlglot.parse_one(text, dialect="spark").sql(dialect="duckdb")
    assert bag(duck, rendered) == bag(duck, asked), text


@pytest.mark.parametrize("seed", range(0, 100, 5))
def test_no_two_leaves_share_a_column_name(seed: int) -> None:
    plan: Rel = bound(Grammar(seed).query()[0]).plan
    leaves = [n for n in nodes(plan) if hasattr(n, "fields")]
    names = [c.lower() for leaf in leaves for c in leaf.columns]
    assert len(names) == len(set(names))
