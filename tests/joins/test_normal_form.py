"""The normal form of select-project-join queries, and the trees of its joins."""

from __future__ import annotations

import pytest

from belvedere.algebra.relations import Rel
from belvedere.algebra.scalars import Scalar
from belvedere.errors import Unsupported
from belvedere.joins.equijoin_tree import equijoin_tree
from belvedere.joins.normal_form import (
    Acceptance,
    Equality,
    JoinBlock,
    OtherCondition,
    RangeCondition,
    join_block,
)
from belvedere.sql.binder.bind import Relation, bind

COLUMNS = {
    "a": (("x", "int"), ("y", "int"), ("z", "int")),
    "b": (("x", "int"), ("y", "int")),
    "c": (("y", "int"), ("w", "int")),
}


class Catalog:
    def resolve(self, name: str) -> Relation:
        return Relation(columns=COLUMNS[name], table=name)


def operator(q: Rel) -> Unsupported:
    return Unsupported(type(q).__name__, reason="OPERATOR")


def computed(name: str, value: Scalar) -> Unsupported:
    return Unsupported(f"{name} is {value}", reason="COMPUTED")


def block(query: str, acceptance: Acceptance | None = None) -> JoinBlock:
    bound = bind(query, Catalog())
    return join_block(bound.plan, bound.columns, acceptance or Acceptance(operator))


def test_conditions_belong_to_a_position_or_join_several_or_are_constant() -> None:
    made = block(
        "SELECT a.z AS n FROM a JOIN b ON a.x = b.x AND a.y < b.y + 2 JOIN c ON b.y <> c.y"
        " WHERE a.z > 1 AND a.x + b.x < c.w AND 1 = 1 AND c.w + 1 = a.z AND a.x = a.y"
    )
    assert [p.table for p in made.positions] == ["a", "b", "c"]
    assert [str(p.selection) for p in made.positions] == ["`z` > 1 AND `x` = `y`", "TRUE", "TRUE"]
    assert [(type(c), c.positions) for c in made.conditions] == [
        (Equality, (0, 1)),
        (RangeCondition, (0, 1)),
        (OtherCondition, (1, 2)),
        (OtherCondition, (0, 1, 2)),
        (Equality, (0, 2)),
    ]
    last = made.conditions[-1]
    assert isinstance(last, Equality)
    assert [str(made.refs[c]) for s in last.sides for c in s.columns] == ["(0, 'z')", "(2, 'w')"]
    assert [str(c) for c in made.constants] == ["1 = 1"]
    assert made.column_outputs == (("n", (0, "z")),)


def test_subqueries_dissolve_and_a_table_listed_twice_has_two_positions() -> None:
    made = block(
        "SELECT t.n, b.y FROM (SELECT x + 1 AS n, y FROM b WHERE x > 0) t JOIN b ON t.n = b.x"
    )
    assert made.tables == ("b",)
    assert made.at("b") == [0, 1]
    assert str(made.positions[0].selection) == "`x` > 0"
    assert made.used == {"b": {"x": "int", "y": "int"}}
    [condition] = made.conditions
    assert isinstance(condition, Equality)
    assert [made.positions_of(s) for s in condition.sides] == [[0], [1]]
    assert [name for name, _ in made.column_outputs] == ["y"]


def test_columns_that_equalities_connect_are_one_class() -> None:
    made = block(
        "SELECT c.w FROM a, b, c WHERE a.x = b.x AND (b.x) = c.y AND a.y = b.x AND a.z = 3"
    )
    assert made.classes == (((0, "x"), (0, "y"), (1, "x"), (2, "y")),)
    assert block("SELECT x FROM a WHERE x = y").classes == ()
    assert made.output_of == {(2, "w"): "w"}


@pytest.mark.parametrize(
    ("query", "acceptance", "reason"),
    [
        ("SELECT DISTINCT x FROM a", Acceptance(operator), "OPERATOR"),
        ("SELECT a.x FROM a LEFT JOIN b ON a.x = b.x", Acceptance(operator), "OPERATOR"),
        ("SELECT x + 1 AS n FROM a", Acceptance(operator, computed=computed), "COMPUTED"),
        (
            "SELECT y FROM (SELECT x + 1 AS n, y FROM a) t WHERE n > 3",
            Acceptance(operator, computed=computed),
            "COMPUTED",
        ),
    ],
)
def test_what_a_caller_does_not_accept_raises_its_error(
    query: str, acceptance: Acceptance, reason: str
) -> None:
    with pytest.raises(Unsupported) as refused:
        block(query, acceptance)
    assert refused.value.reason == reason


def test_a_caller_may_accept_distinct() -> None:
    assert block("SELECT DISTINCT x FROM a", Acceptance(operator, distinct=True)).tables == ("a",)


def test_a_tree_is_the_same_from_any_root_and_goes_down_from_it() -> None:
    made = block("SELECT c.w FROM a, b, c WHERE a.x = b.x AND b.y = c.y")
    tree = equijoin_tree(made, "c")
    assert tree.down == (2, 1, 0)
    assert [tree.rooted(0).child(e) for e in range(2)] == [1, 2]
    assert tree.rooted(0).edges == tree.edges
    assert tree.side(tree.parent_edge[1], 1) == frozenset({0, 1})
    assert [n for n, _ in tree.directed_edges] == [0, 1, 2, 1]
