"""Query trees: what is collapsed, what is an edge, what filters before and after."""

from __future__ import annotations

import pytest
from sqlglot import parse_one

from belvedere.errors import Invalid, Unsupported
from belvedere.joins.linear import linear_range
from belvedere.joins.selectivity import TableSizes
from belvedere.sql.binder.bind import Relation, bind
from belvedere.synopses.plan.planner import plan
from belvedere.synopses.plan.query_tree import Band
from belvedere.synopses.plan.synopsis_plan import SynopsisPlan, query_block
from belvedere.synopses.plan.value_codes import band_codes
from belvedere.synopses.stream import _Schemas

TABLES = {
    "ss": {"item": "int", "ticket": "int", "day": "int", "customer": "int"},
    "sr": {"item": "int", "ticket": "int", "customer": "int"},
    "cs": {
        "customer": "int",
        "day": "int",
        "price": "decimal(7,2)",
        "at": "timestamp_ntz",
        "on": "date",
        "z": "timestamp",
    },
    "x": {
        "a": "int",
        "b": "double",
        "s": "string",
        "price": "decimal(5,1)",
        "on": "date",
        "at": "timestamp_ntz",
        "z": "timestamp",
    },
}
KEYS = {"ss": [["item", "ticket"]]}


def planned(
    query: str, keys: dict[str, list[list[str]]] | None = None, known: TableSizes | None = None
) -> SynopsisPlan:
    return plan(query_block(query, _Schemas(TABLES)), KEYS if keys is None else keys, sizes=known)


Q1 = """SELECT ss.day FROM ss, sr, cs WHERE ss.item = sr.item AND ss.ticket = sr.ticket
        AND sr.customer = cs.customer AND ss.day <= cs.day"""


def test_the_papers_first_query_is_a_tree_once_its_key_is_collapsed() -> None:
    made = planned(Q1)
    assert (made.tree.nodes, len(made.tree.edges), made.sample_filters) == (2, 1, ())
    assert made.tree.edges[0].band is not None
    assert [t.position for t in made.references[0].own] == [1, 1]
    assert len(made.edge_terms[0].equal) == 1


def test_without_the_key_its_weakest_edge_is_cut() -> None:
    made = planned(Q1, {})
    assert (made.tree.nodes, len(made.tree.edges), made.references) == (3, 2, ())
    assert [c.sql() for c in made.sample_filters] == ["`day` <= `day_2`"]
    assert "a cycle is cut" in made.notes[0]


@pytest.mark.parametrize(
    ("condition", "band"),
    [
        ("cs.day < x.a", Band(-(2**63) + 1, -1)),
        ("cs.day >= x.a", Band(0, 2**63 - 1)),
        ("cs.day - x.a BETWEEN -2 AND 3", Band(-2, 3)),
        ("abs(cs.day - x.a) < 5", Band(-4, 4)),
        ("5 >= abs(x.a - cs.day)", Band(-5, 5)),
        ("cs.day <= x.a + 1 AND cs.day > x.a - 1", Band(0, 1)),
        ("2 * cs.day <= 3 * x.a + 1", Band(-(2**63) + 1, 1)),
        ("cs.price <= x.price + 0.25", Band(-(2**63) + 1, 25)),
        ("cs.on <= x.on + 7", Band(-(2**63) + 1, 7)),
        ("cs.day <= x.b + 0.5", Band(float("-inf"), 0.5)),
        ("cs.on <= x.on + INTERVAL 7 DAYS", Band(-(2**63) + 1, 7)),
        ("cs.on - x.on BETWEEN INTERVAL '-1' DAY AND INTERVAL 1 WEEK", Band(-1, 7)),
        ("abs(cs.at - x.at) <= INTERVAL 5 MINUTES", Band(-300_000_000, 300_000_000)),
        ("cs.at - INTERVAL 1 DAY < x.at", Band(-(2**63) + 1, 86_400_000_000 - 1)),
        ("cs.at BETWEEN x.at - INTERVAL 0.5 SECOND AND x.at", Band(-500_000, 0)),
        ("cs.z >= x.z - INTERVAL 23 HOURS", Band(-82_800_000_000, 2**63 - 1)),
    ],
)
def test_ranges_become_bands_of_numbers(condition: str, band: Band) -> None:
    made = planned(f"SELECT x.a FROM cs, x WHERE {condition}")
    assert made.sample_filters == ()
    found = made.tree.edges[0].band
    assert found is not None
    assert found == band


@pytest.mark.parametrize(
    "condition",
    [
        "cs.z <= x.z + INTERVAL 1 DAY",
        "cs.z - x.z <= INTERVAL 1 HOUR",
        "cs.on <= x.on + INTERVAL 5 HOURS",
        "cs.at <= x.at + INTERVAL 1 MONTH",
        "cs.day <= x.a + INTERVAL 1 DAY",
    ],
)
def test_times_that_depend_on_a_zone_or_a_calendar_are_no_band(condition: str) -> None:
    with pytest.raises((Unsupported, Invalid)):
        planned(f"SELECT x.a FROM cs, x WHERE {condition}")


TRIANGLE = """SELECT ss.day FROM ss, sr, cs WHERE ss.item = sr.item AND sr.customer = cs.customer
              AND ss.day = cs.day"""


@pytest.mark.parametrize(
    ("few", "cut"),
    [
        ("item", "`item` = `item_2`"),
        ("customer", "`customer_2` = `customer_3`"),
        ("day", "`day` = `day_2`"),
    ],
)
def test_a_cycle_is_cut_where_most_rows_are_expected_to_meet(few: str, cut: str) -> None:
    columns = {"ss": ("item", "day"), "sr": ("item", "customer"), "cs": ("customer", "day")}
    bounds = {
        (t, c): (1, 12 if c == few else 90_000) for t, names in columns.items() for c in names
    }
    known = TableSizes(dict.fromkeys(columns, 100_000), bounds)
    made = planned(TRIANGLE, {}, known)
    assert [c.sql() for c in made.sample_filters] == [cut]
    assert "one in 12" in made.notes[0]
    assert planned(TRIANGLE, {}, TableSizes.of(known.record())) == made


def test_a_narrow_band_is_kept_and_a_wide_one_cut() -> None:
    query = """SELECT ss.day FROM ss, sr, cs WHERE abs(ss.item - sr.item) <= 1
               AND sr.customer = cs.customer AND ss.day = cs.day"""
    columns = [("ss", "item"), ("sr", "item"), ("sr", "customer"), ("cs", "customer")]
    for high, cut in ((1_000_000, "`day` = `day_2`"), (4, "ABS(`item` - `item_2`) <= 1")):
        bounds = {c: (1, high if c[1] == "item" else 5000) for c in columns}
        bounds |= {("ss", "day"): (1, 365), ("cs", "day"): (1, 365)}
        made = planned(query, {}, TableSizes(dict.fromkeys(("ss", "sr", "cs"), 10**6), bounds))
        assert [c.sql() for c in made.sample_filters] == [cut]


def test_conditions_go_where_they_can() -> None:
    made = planned(
        "SELECT x.a FROM ss, cs, x WHERE ss.customer = cs.customer AND cs.day = x.a AND ss.item > 3"
        " AND ss.day + cs.day < x.a AND cs.price < x.price AND cs.at IS NOT NULL"
    )
    assert [p.filter.sql() if p.filter else "" for p in made.block.positions] == [
        "`item` > 3",
        "NOT `at` IS NULL",
        "",
    ]
    assert [c.sql() for c in made.sample_filters] == ["`day` + `day_2` < `a`"]
    assert made.tree.edges[1].band is not None


def test_subqueries_and_views_dissolve() -> None:
    class Views(_Schemas):
        def resolve(self, name: str) -> Relation:
            if name != "v":
                return super().resolve(name)
            bound = bind("SELECT item AS i, day FROM ss WHERE ticket > 1", _Schemas(TABLES))
            return Relation((("i", "int"), ("day", "int")), plan=bound.plan)

    made = plan(
        query_block(
            "SELECT q.n, v.day FROM v JOIN (SELECT a + 1 AS n, b FROM x WHERE s = 'y') q ON q.n = v.i",
            Views(TABLES),
        ),
        {},
    )
    assert [p.table for p in made.block.positions] == ["ss", "x"]
    assert [p.filter.sql() if p.filter else "" for p in made.block.positions] == [
        "`ticket` > 1",
        "`s` = 'y'",
    ]
    [(left, right)] = made.edge_terms[0].equal
    assert {left.scalar.sql(), right.scalar.sql()} == {"`item`", "`a` + 1"}


@pytest.mark.parametrize("constant", ["1e3", "1.5E0"])
def test_whole_numbers_compared_as_doubles_are_no_exact_band(constant: str) -> None:
    for text in (f"x < y + {constant}", f"abs(x - y) <= {constant}", f"{constant} * x < y"):
        found = linear_range(parse_one(text, dialect="spark"))
        assert found is not None
        assert band_codes("bigint", "bigint", found) is None
        assert band_codes("double", "bigint", found) is not None
