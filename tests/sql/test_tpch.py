"""All of TPC-H binds, without needless products, and means what it says, in DuckDB."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from collections.abc import Iterator

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from belvedere.algebra.relations import Change, Join, JoinKind, Scan
from belvedere.algebra.walks import nodes
from belvedere.sql.binder.bind import bind
from belvedere.sql.render import render
from tests.sql.shop import Shop, fields
from tests.sql.tpch import QUERIES, TABLES

SIZES = {
    "region": 3,
    "nation": 10,
    "supplier": 20,
    "customer": 20,
    "part": 20,
    "partsupp": 200,
    "orders": 300,
    "lineitem": 1500,
}
WORDS = {
    "r_name": ["EUROPE", "ASIA", "AMERICA"],
    "n_name": ["FRANCE", "GERMANY", "BRAZIL", "CANADA", "SAUDI ARABIA"],
    "p_type": ["LARGE BRASS", "ECONOMY ANODIZED STEEL", "PROMO TIN", "MEDIUM POLISHED X"],
    "p_brand": ["Brand#12", "Brand#23", "Brand#45"],
    "p_container": ["SM CASE", "SM BOX", "MED BAG", "MED BOX"],
    "p_name": ["forest green", "green mint", "forest blush"],
    "c_mktsegment": ["BUILDING", "AUTOMOBILE"],
    "c_phone": ["13-1", "31-2", "99-3", "18-4"],
    "o_orderpriority": ["1-URGENT", "2-HIGH", "5-LOW"],
    "o_orderstatus": ["F", "O"],
    "o_comment": ["special big requests", "nothing"],
    "s_comment": ["Customer sad Complaints", "fine", "good"],
    "l_returnflag": ["R", "N"],
    "l_linestatus": ["O", "F"],
    "l_shipmode": ["MAIL", "SHIP", "AIR", "AIR REG"],
    "p_mfgr": ["M1"],
    "l_shipinstruct": ["DELIVER IN PERSON", "NONE"],
}


def value(rng: random.Random, column: str, kind: str, row: int) -> object:
    """A plausible value; keys meet, and now and then there is none."""
    if column in {f"{t[0]}_{t}key" for t in ("region", "part")} | {
        "n_nationkey",
        "s_suppkey",
        "c_custkey",
        "o_orderkey",
        "p_partkey",
        "r_regionkey",
    }:
        return row
    if column.endswith("key"):
        target = {
            "regionkey": 3,
            "nationkey": 10,
            "suppkey": 20,
            "custkey": 14,
            "partkey": 20,
            "orderkey": 300,
        }
        return rng.randrange(target[column.split("_")[1]])
    if column == "n_regionkey":
        return row % 3
    if column in ("r_name", "n_name"):
        return WORDS[column][row % len(WORDS[column])]
    if column == "ps_availqty":
        return rng.randrange(1, 400)
    if column == "p_size":
        return rng.choice([15, 49, 3])
    if column in WORDS:
        return rng.choice(WORDS[column])
    if kind == "date":
        return datetime.date(1993, 7, 1) + datetime.timedelta(days=rng.randrange(1300))
    if kind.startswith("decimal"):
        return rng.choice([0.05, 0.06]) if column == "l_discount" else rng.randrange(1, 25)
    return rng.randrange(1, 20) if kind == "int" else f"{column} {rng.randrange(5)}"


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    """A tiny TPC-H."""
    connection, rng = duckdb.connect(config={"threads": 1}), random.Random(7)
    for name, text in TABLES.items():
        pairs = fields(text)
        spec = ", ".join(f"{c} {k.replace('string', 'varchar')}" for c, k in pairs)
        connection.execute(f"CREATE TABLE {name} ({spec})")
        for i in range(SIZES[name]):
            row = [value(rng, c, k, i) for c, k in pairs]
            connection.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", row)
    yield connection
    connection.close()


def table(leaf: Scan | Change) -> exp.Table:
    return exp.to_table(leaf.table)


def rounded(rows: list[tuple[object, ...]]) -> Counter[tuple[object, ...]]:
    return Counter(
        tuple(round(float(v), 6) if isinstance(v, float) else v for v in r) for r in rows
    )


@pytest.mark.parametrize("number", QUERIES)
def test_a_tpch_plan_means_its_query(duck: duckdb.DuckDBPyConnection, number: int) -> None:
    text = QUERIES[number].strip()
    rendered = render(bind(text, Shop(TABLES)).plan, table).sql(dialect="duckdb")
    asked = sqlglot.parse_one(text, dialect="spark").sql(dialect="duckdb")
    expected = rounded(duck.execute(asked).fetchall())
    assert expected, "the tiny data should give this query something to say"
    assert rounded(duck.execute(rendered).fetchall()) == expected, rendered


@pytest.mark.parametrize("number", QUERIES)
def test_products_are_only_with_one_row(number: int) -> None:
    plan = bind(QUERIES[number].strip(), Shop(TABLES)).plan
    for node in nodes(plan):
        if isinstance(node, Join) and node.kind is JoinKind.INNER and not node.on.conjuncts:
            assert number in (11, 15, 22), "only an uncorrelated scalar subquery is joined on TRUE"
