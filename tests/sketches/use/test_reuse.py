"""A sketch answers queries of its shape with other constants, where that is sound: by enumeration."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from functools import cache

import pytest
from hypothesis import given, settings
from sqlglot import parse_one

from belvedere.algebra.relations import Rel
from belvedere.algebra.scalars import Scalar
from belvedere.analyses.stable import Cuts, unsafe
from belvedere.joins.partitions import Partition
from belvedere.rules.annotate import Cut, sketch
from belvedere.sketches.use.implied_conditions import implies
from belvedere.sketches.use.query_shapes import query_shape
from belvedere.sketches.use.reuse import refusal
from belvedere.sql.binder.bind import bind
from belvedere.sql.dialect import SparkAsWritten
from tests.reference.constants import Comparison, seeds, what_is_implied_holds
from tests.reference.interpreter import Database, Row
from tests.sql.shop import Shop

SHOP = Shop({"r": "g int, p int, v int"})
PARTITION = {c: Partition("r", c, "int", (2, 4)) for c in ("g", "p")}


@cache
def plan(text: str) -> Rel:
    return bind(text, SHOP).plan


def query(having: str, where: str = "", limit: int = 0) -> str:
    top = f" ORDER BY x DESC LIMIT {limit}" if limit else ""
    condition = f" WHERE {where}" if where else ""
    aggregate = having.split(" ")[0] if having else "count(*)"
    passing = f" HAVING {having}" if having else ""
    return f"SELECT g, {aggregate} AS x FROM r{condition} GROUP BY g{passing}{top}"


QUERIES = [
    query(h, w, k)
    for h, w, k in itertools.product(
        ["sum(v) > 4", "sum(v) > 6", "avg(v) > 2", ""],
        ["", "v > 1"],
        [0, 1, 2],
    )
]


def databases(count: int) -> list[Database]:
    draw = random.Random(5)
    out = []
    for _ in range(count):
        rows: list[Row] = [
            (
                draw.randint(1, 5),
                draw.choice([0, 1, 3, 5, None]),
                draw.choice([None, 0, 1, 2, 3, 4]),
            )
            for _ in range(draw.randint(3, 9))
        ]
        state = {"r": Counter(rows)}
        out.append(Database({"r": ("g", "p", "v")}, state, state))
    return out


def over_the_sketch_of(one: Rel, two: Rel, db: Database, by: str) -> Counter[Row]:
    partition = PARTITION[by]
    kept = {f for (f,) in db.bag(sketch(one, Cut("r", by, "int", partition.fragment_scalar)))}
    place = ("g", "p", "v").index(by)
    rows = Counter({r: n for r, n in db.new["r"].items() if partition.fragment(r[place]) in kept})
    return Database(db.columns, {"r": rows}, {"r": rows}).bag(two)


def reusable(one: Rel, two: Rel, cuts: Cuts) -> bool:
    return unsafe(two, cuts) is None and refusal(query_shape(one), query_shape(two), cuts) == ""


@pytest.mark.parametrize("by", ["g", "p"])
def test_every_reuse_that_is_allowed_answers_as_over_everything(by: str) -> None:
    cuts = Cuts({"r": by}, nonnegative=lambda *_: True)
    some, allowed = databases(6), 0
    for a, b in itertools.product(QUERIES, QUERIES):
        one, two = plan(a), plan(b)
        if unsafe(one, cuts) is not None or not reusable(one, two, cuts):
            continue
        allowed += a != b
        for db in some:
            assert over_the_sketch_of(one, two, db, by) == db.bag(two), (a, b)
    assert allowed > 20


REFUSED = {
    "a weaker HAVING": (query("sum(v) > 6"), query("sum(v) > 4")),
    "more than the first": (query("", limit=1), query("", limit=2)),
    "a stricter WHERE under avg": (query("avg(v) > 2"), query("avg(v) > 2", "v > 1")),
    "a weaker WHERE": (query("sum(v) > 4", "v > 2"), query("sum(v) > 4", "v > 1")),
    "a stricter HAVING under a limit": (query("sum(v) > 4", limit=1), query("sum(v) > 6", limit=1)),
    "another group": (query("sum(v) > 4"), "SELECT p FROM r GROUP BY p HAVING sum(v) > 4"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_sound_is_refused_with_a_reason(name: str) -> None:
    one, two = (plan(q) for q in REFUSED[name])
    cuts = Cuts({"r": "g"}, nonnegative=lambda *_: True)
    assert refusal(query_shape(one), query_shape(two), cuts)


@pytest.mark.parametrize("name", ["a weaker HAVING", "more than the first", "a stricter WHERE under avg"])  # fmt: skip
def test_and_would_have_been_wrong(name: str) -> None:
    one, two = (plan(q) for q in REFUSED[name])
    assert any(over_the_sketch_of(one, two, db, "g") != db.bag(two) for db in databases(300))


@pytest.mark.parametrize(
    ("one", "other", "holds"),
    [
        ("a > 5", "a > 4", True),
        ("a > 5", "a >= 5", True),
        ("a >= 5", "a > 5", False),
        ("a = 5", "a >= 5", True),
        ("a BETWEEN 2 AND 3", "a < 4", True),
        ("a BETWEEN 2 AND 3", "a < 3", False),
        ("3 < a", "a > 2", True),
        ("a > -1", "a > -2", True),
        ("a > 5.0", "a > 4", False),
        ("b > 5", "a > 4", False),
        ("d > DATE '2026-02-01'", "d > DATE '2026-01-31'", True),
        ("s > 'b'", "s > 'a'", False),
    ],
)
def test_one_condition_implies_another(one: str, other: str, holds: bool) -> None:
    read = (Scalar(parse_one(t, dialect="spark")) for t in (one, other))
    assert implies(*read) is holds


@settings(max_examples=8)
@given(seeds)
def test_constants_of_every_type_are_compared_as_spark_compares_them(seed: int) -> None:
    what_is_implied_holds(seed)


def test_constants_are_compared_often_enough_for_that_to_say_something() -> None:
    texts = ["5", "6", "5L", "5.5", "6.5", "5e0", "6e0"]
    every = [Comparison(s, t).scalar for s in (">", ">=") for t in texts]
    allowed = sum(implies(a, b, {"x": "int"}) for a, b in itertools.product(every, every) if a != b)
    assert allowed >= 12


@pytest.mark.parametrize(
    ("one", "other", "holds"),
    [
        ("x > 1e16", "x > 10000000000000000", False),
        ("x > 10000000000000000", "x > 1e16", False),
        ("x > 2e0", "x > 1e0", True),
        ("x > 1.0D", "x > 1", False),
        ("x > 6L", "x > 5", False),
        ("x > 3000000000", "x > 5", True),
        ("s > 3000000000", "s > 5", False),
        ("s > 6", "s > 5", True),
        ("x >= 9007199254740993", "x > 9007199254740992", False),
        ("x > 9007199254740993", "x > 9007199254740992", True),
        ("x > 1.6", "x > 1.5", True),
        ("x >= 1.6", "x > 1.5", False),
        ("x > 1.50", "x > 1.5", False),
        ("sum(x) > 3000000000", "sum(x) > 5", True),
        ("d > DATE '2026-02-30'", "d > DATE '2026-01-01'", False),
        ("d > DATE '2026-03-01'", "d > DATE '2026-02-30'", False),
        ("x > X'05'", "x > X'04'", False),
        ("x > INTERVAL 2 DAYS", "x > INTERVAL 1 DAY", False),
    ],
)
def test_a_literals_type_is_part_of_the_condition(one: str, other: str, holds: bool) -> None:
    types = {"x": "bigint", "s": "string", "d": "date"}
    read = (Scalar(parse_one(t, dialect=SparkAsWritten)) for t in (one, other))
    assert implies(*read, types) is holds


def test_queries_of_no_common_shape_differ_by_the_types_of_their_constants() -> None:
    text = "SELECT g FROM r WHERE v > {} UNION ALL SELECT p FROM r"
    shapes = {
        t: query_shape(plan(text.format(t))) for t in ("5", "5L", "5e0", "5.0", "5D", "'5'", "`v`")
    }
    assert all(s.text for s in shapes.values())
    assert len({s.text for s in shapes.values()}) == len(shapes)
