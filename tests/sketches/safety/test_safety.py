"""Which attributes are safe for which query, by rule; the unsafe ones, on the data that shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from belvedere.algebra.relations import Rel
from belvedere.algebra.scalars import Scalar
from belvedere.analyses.intervals import ANYTHING, Interval, interval
from belvedere.analyses.stable import Cuts, unsafe
from belvedere.joins.partitions import Partition
from belvedere.rules.annotate import Cut, sketch
from belvedere.sql.binder.bind import bind
from tests.reference.interpreter import Database, Row
from tests.sql.shop import Shop

# g: the group, p: what the table is cut by, at 10; v: the value
TABLES = {"r": "g int, p int, v int", "s": "g int, w int"}
CUT_AT = 10


def plan(text: str) -> Rel:
    return bind(text, Shop(TABLES)).plan


def never_negative(_value: Scalar, _over: Rel) -> bool:
    return True


def sign_unknown(_value: Scalar, _over: Rel) -> bool:
    return False


def verdict(
    text: str, by: str = "p", nonnegative: Callable[[Scalar, Rel], bool] = sign_unknown
) -> str:
    why = unsafe(plan(text), Cuts({"r": by}, nonnegative=nonnegative))
    return "" if why is None else why.reason


def database(rows: list[Row], other: list[Row] | None = None) -> Database:
    state = {"r": Counter(rows), "s": Counter(other or [(1, 1), (2, 2)])}
    return Database({"r": ("g", "p", "v"), "s": ("g", "w")}, state, state)


def over_its_sketch(q: Rel, db: Database, by: str) -> Counter[Row]:
    partition = Partition("r", by, "int", (CUT_AT,))
    kept = {f for (f,) in db.bag(sketch(q, Cut("r", by, "int", partition.fragment_scalar)))}
    place = ("g", "p", "v").index(by)
    rows = Counter({r: n for r, n in db.new["r"].items() if partition.fragment(r[place]) in kept})
    state = {**db.new, "r": rows}
    return Database(db.columns, state, state).bag(q)


GROUPS = "SELECT g, {0} AS x FROM r GROUP BY g HAVING {0} {1}"
TOP = "SELECT g, {0} AS x FROM r GROUP BY g ORDER BY x {1} LIMIT 1"

# Each beside rows for which a sketch on p would answer wrongly: group 1 is kept for its rows in
# fragment 1, and group 2 loses those of its rows that are in fragment 0.
UNSAFE: dict[str, tuple[str, str, list[Row]]] = {
    "sum > with a negative value": (
        GROUPS.format("sum(v)", "> 50"),
        "SKETCH_HAVING",
        [(1, 20, 60), (2, 20, 100), (2, 5, -60)],
    ),
    "min >": (GROUPS.format("min(v)", "> 5"), "SKETCH_HAVING", [(1, 20, 9), (2, 5, 1), (2, 20, 10)]),
    "avg >": (GROUPS.format("avg(v)", "> 5"), "SKETCH_HAVING", [(1, 20, 9), (2, 5, 0), (2, 20, 8)]),
    "avg <": (GROUPS.format("avg(v)", "< 5"), "SKETCH_HAVING", [(1, 20, 1), (2, 5, 90), (2, 20, 1)]),
    "count <": (GROUPS.format("count(*)", "< 2"), "SKETCH_HAVING", [(1, 20, 0), (2, 5, 0), (2, 20, 0)]),
    "count =": (GROUPS.format("count(*)", "= 1"), "SKETCH_HAVING", [(1, 20, 0), (2, 5, 0), (2, 20, 0)]),
    "max <": (GROUPS.format("max(v)", "< 5"), "SKETCH_HAVING", [(1, 20, 1), (2, 5, 9), (2, 20, 1)]),
    "sum <": (GROUPS.format("sum(v)", "< 5"), "SKETCH_HAVING", [(1, 20, 1), (2, 5, 9), (2, 20, 1)]),
    "ascending top-k of a sum": (
        TOP.format("sum(v)", "ASC"), "SKETCH_ORDER", [(1, 20, 5), (2, 5, 90), (2, 20, 1)]
    ),
    "ascending top-k of a count": (
        TOP.format("count(*)", "ASC"), "SKETCH_ORDER",
        [(1, 20, 0), (1, 21, 0), (2, 20, 0), (2, 5, 0), (2, 6, 0)],
    ),
    "descending top-k of a min": (
        TOP.format("min(v)", "DESC"), "SKETCH_ORDER", [(1, 20, 5), (2, 5, 1), (2, 20, 9)]
    ),
    "ascending top-k of a min, NULL first": (
        TOP.format("min(v)", "ASC"), "SKETCH_ORDER", [(1, 20, 1), (2, 5, 5), (2, 20, None)]
    ),
    "a limit under a condition": (
        "SELECT g FROM (SELECT g, v FROM r ORDER BY v DESC LIMIT 2) t WHERE g = 1",
        "SKETCH_INNER_LIMIT",
        [(1, 20, 9), (2, 5, 8), (1, 20, 7)],
    ),
    "groups of groups": (
        "SELECT n, count(*) AS k FROM (SELECT g, count(*) AS n FROM r GROUP BY g) t GROUP BY n HAVING count(*) > 1",
        "SKETCH_PARTIAL_GROUPS",
        [(1, 20, 0), (2, 20, 0), (3, 20, 0), (3, 5, 0)],
    ),
    "what is left out": (
        "SELECT s.g FROM s LEFT ANTI JOIN r ON s.g = r.g", "SKETCH_NOT_MONOTONE", [(2, 5, 0)]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNSAFE)
def test_an_unsafe_attribute_is_refused(name: str) -> None:
    text, reason, _ = UNSAFE[name]
    assert verdict(text) == reason


@pytest.mark.parametrize("name", [n for n in UNSAFE if n != "what is left out"])
def test_and_would_have_given_a_wrong_answer(name: str) -> None:
    text, _, rows = UNSAFE[name]
    q, db = plan(text), database(rows)
    assert over_its_sketch(q, db, "p") != db.bag(q)


SELF_JOIN = (
    "SELECT a.p, avg(b.v) AS x FROM r a JOIN r b ON a.g = b.g {} GROUP BY a.p HAVING avg(b.v) > 5"
)


def test_a_self_join_grouped_on_one_side_only_is_refused() -> None:
    assert verdict(SELF_JOIN.format("")) == "SKETCH_HAVING"
    q = plan(SELF_JOIN.format(""))
    db = database([(1, 20, 9), (1, 5, 0), (2, 30, 9)])
    assert over_its_sketch(q, db, "p") != db.bag(q)


SAFE = {
    "no aggregate": ("SELECT v FROM r WHERE v > 3", "p"),
    "count >": (GROUPS.format("count(*)", "> 1"), "p"),
    "count >=": (GROUPS.format("count(v)", ">= 2"), "p"),
    "max >": (GROUPS.format("max(v)", "> 3"), "p"),
    "max >= the other way round": ("SELECT g FROM r GROUP BY g HAVING 3 <= max(v)", "p"),
    "min <": (GROUPS.format("min(v)", "< 2"), "p"),
    "min <=": (GROUPS.format("min(v)", "<= 2"), "p"),
    "either of two": ("SELECT g FROM r GROUP BY g HAVING max(v) > 3 OR count(*) > 2", "p"),
    "top-k of rows": ("SELECT g, v FROM r ORDER BY v DESC LIMIT 2", "p"),
    "top-k of a count": (TOP.format("count(*)", "DESC"), "p"),
    "top-k of a max": (TOP.format("max(v)", "DESC"), "p"),
    "top-k of a min": (TOP.format("min(v)", "ASC NULLS LAST"), "p"),
    "avg by the group": (GROUPS.format("avg(v)", "> 2"), "g"),
    "sum < by the group": (GROUPS.format("sum(v)", "< 2"), "g"),
    "top-k by the group": (TOP.format("avg(v)", "ASC"), "g"),
    "two levels by the group": (
        "SELECT g, max(n) AS m FROM (SELECT g, v, count(*) AS n FROM r GROUP BY g, v) t GROUP BY g HAVING max(n) < 3",
        "g",
    ),
    "joined and grouped by what is equal": (
        "SELECT s.g, avg(v) AS x FROM r JOIN s ON r.g = s.g GROUP BY s.g HAVING avg(v) < 3", "g"
    ),
    "a self join on the attribute": (
        "SELECT a.g, avg(b.v) AS x FROM r a JOIN r b ON a.g = b.g GROUP BY a.g HAVING avg(b.v) > 2", "g"
    ),
}  # fmt: skip
VALUES = st.sampled_from([None, 0, 1, 2, 3, 4, 9])
ROWS = st.lists(st.tuples(st.sampled_from([1, 2, 20]), st.sampled_from([5, 20, None]), VALUES))


@pytest.mark.parametrize("name", SAFE)
@settings(max_examples=8)
@given(rows=ROWS)
def test_a_safe_attribute_gives_the_same_answer(name: str, rows: list[Row]) -> None:
    text, by = SAFE[name]
    assert verdict(text, by) == ""
    q, db = plan(text), database(rows)
    assert over_its_sketch(q, db, by) == db.bag(q)


def test_a_sum_is_safe_where_nothing_is_negative() -> None:
    text = GROUPS.format("sum(v)", "> 50")
    assert verdict(text, nonnegative=never_negative) == ""
    assert verdict(text) == "SKETCH_HAVING"
    assert verdict(TOP.format("sum(v)", "DESC"), nonnegative=never_negative) == ""
    assert verdict(GROUPS.format("sum(v)", "< 50"), nonnegative=never_negative) != ""


def test_a_key_in_the_group_determines_every_attribute() -> None:
    text = GROUPS.format("avg(v)", "> 5")
    keys = {"r": [frozenset({"g"})]}
    assert unsafe(plan(text), Cuts({"r": "p"}, keys=keys)) is None
    assert unsafe(plan(text), Cuts({"r": "p"}, keys={"r": [frozenset({"g", "v"})]})) is not None


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("price * (1 - off)", 0, 100),
        ("price * (1 - off) * (1 + tax)", 0, 200),
        ("off - 1", -1, 0),
        ("-price", -100, 0),
        ("CASE WHEN x = 1 THEN price ELSE 0 END", 0, 100),
        ("coalesce(price, 5)", 0, 100),
    ],
)
def test_intervals_follow_arithmetic(text: str, low: int, high: int) -> None:
    from sqlglot import parse_one

    known = {
        "price": Interval(Fraction(0), Fraction(100)),
        "off": Interval(Fraction(0), Fraction(1)),
        "tax": Interval(Fraction(0), Fraction(1)),
    }
    found = interval(Scalar(parse_one(text, dialect="spark")), lambda c: known.get(c, ANYTHING))
    assert (found.low, found.high) == (low, high)


def test_numbers_that_could_wrap_around_lie_anywhere() -> None:
    from sqlglot import parse_one

    wide = Interval(Fraction(0), Fraction(2**20))
    assert interval(Scalar(parse_one("a * b")), lambda _: wide) == ANYTHING
    assert interval(Scalar(parse_one("a * b")), lambda _: wide, 2**63).nonnegative
