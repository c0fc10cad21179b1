"""The operators that are said to be computed in memory are: none of them is declined."""

from __future__ import annotations

from collections import Counter

import pytest

from belvedere.algebra.relations import (
    Agg,
    Aggregate,
    At,
    Change,
    Distinct,
    Empty,
    Field,
    Filter,
    Join,
    JoinKind,
    Keys,
    Negate,
    Net,
    Output,
    Project,
    Rel,
    Restrict,
    Scan,
    Support,
    Union,
    Unsigned,
)
from belvedere.algebra.scalars import Scalar, both, col, equal, lit, same
from belvedere.algebra.walks import each_once
from tests.reference.interpreter import Database
from tests.reference.laws import memory_agrees

OLD = {"r": Counter({(1, None): 2, (2, 5): 1, (None, 5): 1}), "t": Counter({(1,): 1, (None,): 1})}
NEW = {"r": Counter({(1, None): 1, (3, 5): 2, (None, 5): 1}), "t": Counter({(1,): 3, (3,): 1})}

R = Scan("r", (Field("a", "a", "int"), Field("b", "b", "int")), At.NEW)
T = Scan("t", (Field("x", "x", "int"),), At.NEW)
CHANGE = Change("r", R.fields)
ON = equal(col("a"), col("x"))
BEFORE = Union((R, Negate(CHANGE)), ("a", "b"))

PLANS: dict[str, Rel] = {
    "filter": Filter(CHANGE, equal(col("b"), lit(5))),
    "project": Project(CHANGE, (Output("c", col("b")), Output("one", lit(1)))),
    **{kind.value: Join(R, T, kind, ON) for kind in JoinKind if kind is not JoinKind.FULL},
    "outer with nothing": Join(CHANGE, Empty(("x",)), JoinKind.LEFT, ON),
    "null-safe": Join(R, T, JoinKind.INNER, same(col("a"), col("x"))),
    "further condition": Join(R, T, JoinKind.LEFT, both(ON, equal(col("b"), lit(5)))),
    "cross": Join(CHANGE, T, JoinKind.INNER),
    "of two changes": Join(CHANGE, Change("t", T.fields), JoinKind.INNER, ON),
    "restrict": Restrict(CHANGE, ("a",), Keys(Distinct(T))),
    "union": Union((CHANGE, R), ("c", "d")),
    "distinct": Distinct(R),
    "support": Support(CHANGE),
    "net": Net(Union((CHANGE, Negate(CHANGE)), ("a", "b"))),
    "unsigned": Unsigned(BEFORE),
    "groups": Aggregate(R, ("b",), (Agg("n", "count"), Agg("s", "sum", (col("a"),)))),
    "one group": Aggregate(Filter(R, Scalar(lit(False).expr)), (), (Agg("m", "max", (col("a"),)),)),
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_an_operator_is_computed(plan: Rel) -> None:
    columns = {"r": ("a", "b"), "t": ("x",)}
    assert memory_agrees(plan, Database(columns, OLD, NEW)) == len(each_once(plan))
