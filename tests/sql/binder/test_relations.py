"""What a name in FROM stands for: tables under odd names, views expanded, aliases, CTEs."""

from __future__ import annotations

import pytest

from belvedere.algebra.printing import tree
from belvedere.algebra.relations import Agg, Aggregate, Field, Filter, Scan
from belvedere.algebra.scalars import call, col
from belvedere.algebra.walks import tables
from belvedere.analyses.keys import key
from belvedere.sql.binder.bind import Relation, bind
from tests.sql.shop import Shop, bound

STORED = Scan("stored_visits", (Field("a", "a", "int"), Field("n", "__n", "bigint")))
VISITS = Relation(
    (("a", "int"), ("Visits", "bigint")), plan=Filter(STORED, call("isnotnull", col("n")))
)


def test_a_view_stands_for_its_plan_under_names_of_its_own() -> None:
    result = bound(
        "SELECT v.a, w.VISITS AS n FROM visits v JOIN visits w ON v.a = w.a", visits=VISITS
    )
    assert tree(result.plan).splitlines() == [
        "Project a, n_2",
        "  Inner join on a = a_2",
        "    Filter isnotnull(n)",
        "      Scan stored_visits: a, n = __n",
        "    Filter isnotnull(n_2)",
        "      Scan stored_visits: a_2 = a, n_2 = __n",
    ]
    assert result.columns == (("a", "a"), ("n", "n_2"))


def test_a_view_that_aggregates_can_be_used_twice() -> None:
    counted = Aggregate(STORED, ("a",), (Agg("total", "sum", (col("n"),)),))
    view = Relation((("a", "int"), ("total", "bigint")), plan=counted)
    result = bound("SELECT x.total + y.total AS t FROM v x, v y WHERE x.a = y.a", v=view)
    assert tables(result.plan) == ("stored_visits",)


def test_names_with_dots_and_backticks_reach_the_catalog_quoted() -> None:
    asked: list[str] = []

    class Listening(Shop):
        def resolve(self, name: str) -> Relation:
            asked.append(name)
            return Relation((("x", "int"),), table="t")

    bind("SELECT a.x, b.x AS y FROM main.`odd.one` a, `we``ird` b, `two words` c", Listening())
    assert asked == ["main.`odd.one`", "`we``ird`", "two words"]


def test_a_qualified_table_is_known_by_all_of_its_names() -> None:
    result = bound("SELECT r.a, db.r.b AS y, main.db.r.c AS z FROM main.db.r")
    assert [name for name, _ in result.columns] == ["a", "y", "z"]


def test_odd_identifiers_work() -> None:
    result = bound("SELECT `A B` AS `x``y`, `sélect` AS `from`, `a b` + 1 AS `1` FROM odd")
    assert [name for name, _ in result.columns] == ["x`y", "from", "1"]


def test_a_column_beats_an_alias_in_group_by_and_an_alias_a_column_in_order_by() -> None:
    grouped = bound("SELECT b AS a, count(*) AS n FROM r GROUP BY a, b").plan
    assert tree(grouped).splitlines()[1].strip() == "Aggregate by a, b: n = count(*)"
    ordered = bound("SELECT b AS a FROM r ORDER BY a LIMIT 1")
    assert tree(ordered.plan).splitlines()[0] == "TopK 1 by a_2"


def test_an_inner_scope_hides_an_outer_one() -> None:
    plan = bound("SELECT a FROM r WHERE EXISTS (SELECT 1 FROM s WHERE a = d)").plan
    assert "Semi join with everything" in tree(plan)


def test_a_qualifier_is_not_taken_for_a_column_without_fields() -> None:
    plan = bound("SELECT a.b FROM r a WHERE EXISTS (SELECT 1 FROM s WHERE s.a = a.a)").plan
    assert "Semi join on a_2 = a" in tree(plan)


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        ("1", "2", True),
        ("'a'", "'b'", True),
        ("1", "1.0", False),
        ("1.0", "1.00", False),
        ("1", "1e0", False),
        ("1", "'1'", False),
        ("1.5", "2.5", False),
    ],
)
def test_parts_of_a_union_are_told_apart_by_constants_that_differ_in_every_type(
    one: str, other: str, apart: bool
) -> None:
    text = f"SELECT DISTINCT a, {one} AS t FROM v UNION ALL SELECT DISTINCT a, {other} AS t FROM v"
    found = key(bind(text, Shop({"v": "a int"})).plan, lambda _table: None)
    assert (found is not None) is apart
