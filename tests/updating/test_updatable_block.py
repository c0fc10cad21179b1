"""Which queries are updatable views, their join trees, and the statements on them."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks.updating.sampled_tpch import JOINS, KEYS, shape_of

from belvedere.errors import Invalid, Unsupported
from belvedere.joins.equijoin_tree import equijoin_tree
from belvedere.joins.normal_form import JoinBlock
from belvedere.sql.binder.bind import Relation, bind
from belvedere.sql.statements.derivations import Drop, ExplainCreate, Noun
from belvedere.sql.statements.parser import Other, parse_statement
from belvedere.sql.statements.spark import Write, WriteKind
from belvedere.sql.statements.updatable_views import CreateUpdatable, ExplainWrite
from belvedere.updating.updatable_block import updatable_block

COLUMNS = {
    "a": (("x", "int"), ("y", "string"), ("f", "double")),
    "b": (("x", "bigint"), ("y", "string"), ("z", "int")),
    "c": (("z", "int"), ("w", "date"), ("at", "timestamp")),
}


class Catalog:
    def resolve(self, name: str) -> Relation:
        return Relation(columns=COLUMNS[name], table=name)


def shape(query: str) -> JoinBlock:
    return updatable_block(bind(query, Catalog()))


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT count(*) AS n FROM a", "NOT_SPJ"),
        ("SELECT a.x FROM a LEFT JOIN b ON a.x = b.x", "NOT_SPJ"),
        ("SELECT x FROM a UNION SELECT z FROM c", "NOT_SPJ"),
        ("SELECT x + 1 AS n FROM a", "COMPUTED_COLUMN"),
        ("SELECT a.x FROM a JOIN b ON a.x < b.x", "JOIN_CONDITION"),
        ("SELECT a.x FROM a, c", "CARTESIAN_PRODUCT"),
        ("SELECT a.x FROM a JOIN b ON a.y = b.y WHERE f > 1", "UNCOMPARABLE_TYPE"),
        ("SELECT w FROM a JOIN c ON a.y = c.w", "JOIN_TYPES"),
        ("SELECT z FROM c WHERE z % 7 = 3", "SELECTION"),
        ("SELECT y FROM a WHERE upper(y) = 'AB'", "SELECTION"),
        ("SELECT w FROM c WHERE w > '2021-01-01'", "SELECTION"),
        ("SELECT z FROM c WHERE at > TIMESTAMP '2021-01-01 00:00:00'", "SELECTION"),
        ("SELECT z FROM c WHERE z > 1 AND 1 = 2", "SELECTION"),
    ],
)
def test_what_is_no_spj_view_is_refused_with_a_reason(query: str, reason: str) -> None:
    with pytest.raises(Unsupported) as refused:
        shape(query)
    assert refused.value.reason == reason


def test_conditions_that_memory_computes_are_selections_and_what_is_always_true_says_nothing() -> (
    None
):
    computed = shape("SELECT z FROM c WHERE year(w) = 2020 AND w > DATE '2020-02-01' AND z <> 3")
    assert len(computed.positions[0].selection.conjuncts) == 3
    assert not shape("SELECT z FROM c WHERE 1 = 1").positions[0].selection.conjuncts
    joined = shape("SELECT a.x FROM a JOIN b ON 1 = 1 WHERE a.x = b.x AND TRUE")
    assert len(joined.classes) == 1


def test_a_column_compared_with_itself_keeps_rows_that_have_a_value() -> None:
    assert str(shape("SELECT x FROM a WHERE x = x").positions[0].selection) == "`x` = `x`"


def test_equal_columns_of_one_table_are_one_selection_however_they_are_said() -> None:
    for condition in (
        "a.x = b.x AND b.x = a.z",
        "a.x = b.x AND a.z = a.x",
        "(a.z) = b.x AND b.x = a.x",
    ):
        made = shape(f"SELECT b.y FROM (SELECT x, z FROM b) a JOIN b ON {condition}")
        assert str(made.positions[0].selection) == "`x` = `z`"
        assert len(made.classes) == 1


def test_joins_on_several_columns_are_one_edge_and_filters_selections() -> None:
    found = shape(
        "SELECT a.x, b.z, w FROM a JOIN b ON a.x = b.x AND a.y = b.y JOIN (SELECT z, w FROM c) t USING (z)"
        " WHERE a.y = 'k'"
    )
    assert [p.table for p in found.positions] == ["a", "b", "c"]
    assert str(found.positions[0].selection) == "`y` = 'k'"
    tree = equijoin_tree(found, "c")
    assert sorted((e.left, e.right, len(e.classes)) for e in tree.edges) == [(0, 1, 2), (1, 2, 1)]
    assert tree.down == (2, 1, 0)
    assert found.output_of[1, "x"] == "x"
    with pytest.raises(Invalid, match="does not read"):
        equijoin_tree(found, "nothing")


def test_of_a_cyclic_join_the_join_that_says_least_is_dropped() -> None:
    tree = equijoin_tree(shape_of("q05 cyclic"), 0, KEYS)
    assert [sorted({c for _, c in tree.block.classes[k]}) for k in tree.dropped] == [
        ["c_nationkey", "n_nationkey", "s_nationkey"]
    ]
    assert all(not equijoin_tree(shape_of(n), 0, KEYS).dropped for n in JOINS if n != "q05 cyclic")


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        (
            "create updatable view v root t candidates 5 percent as SELECT 1",
            CreateUpdatable("v", "SELECT 1", "t", 5.0),
        ),
        (
            "CREATE UPDATABLE VIEW v LOOKUPS IN tables ROOT t AS SELECT 1",
            CreateUpdatable("v", "SELECT 1", "t", lookups="TABLES"),
        ),
        (
            "CREATE UPDATABLE VIEW v LOOKUPS IN TABLES WITH SUMMARY AS SELECT 1",
            CreateUpdatable("v", "SELECT 1", lookups="TABLES", summary=True),
        ),
        (
            "CREATE UPDATABLE VIEW v CANDIDATES 3 PERCENT LOOKUPS IN TABLES WITH SUMMARY AS SELECT 1",
            CreateUpdatable("v", "SELECT 1", percent=3.0, lookups="TABLES", summary=True),
        ),
        (
            "CREATE UPDATABLE VIEW v CANDIDATES 20 AS SELECT 1",
            CreateUpdatable("v", "SELECT 1", percent=0.0, candidates=20),
        ),
        (
            "EXPLAIN CREATE UPDATABLE VIEW v AS SELECT 1",
            ExplainCreate(CreateUpdatable("v", "SELECT 1")),
        ),
        ("DROP UPDATABLE VIEW IF EXISTS v", Drop(Noun.UPDATABLE_VIEW, "v", True)),
        (
            "explain insert into v VALUES (1)",
            ExplainWrite(Write(WriteKind.INSERT, ("v",)), "insert into v VALUES (1)"),
        ),
        ("EXPLAIN SELECT 1", Other("EXPLAIN SELECT 1")),
    ],
)
def test_statements_on_updatable_views(text: str, parsed: Any) -> None:
    assert parse_statement(text) == parsed


@pytest.mark.parametrize(
    "text",
    [
        "CREATE UPDATABLE VIEW v SELECT 1",
        "CREATE UPDATABLE VIEW v LOOKUPS IN CACHE AS SELECT 1",
        "CREATE UPDATABLE VIEW v CANDIDATES 500 PERCENT AS SELECT 1",
        "CREATE UPDATABLE VIEW v LOOKUPS IN MEMORY WITH SUMMARY AS SELECT 1",
    ],
)
def test_mistakes_in_statements_on_updatable_views_are_said(text: str) -> None:
    with pytest.raises(Invalid, match="expected"):
        parse_statement(text)
