"""Groups are computed for the keys that an IN beside them leaves; the rows stay the same (test_meaning)."""

from __future__ import annotations

import pytest

from belvedere.algebra.printing import tree
from belvedere.algebra.relations import Aggregate, Join, JoinKind
from belvedere.algebra.walks import nodes
from tests.sql.shop import bound

CORRELATED = "(SELECT sum(d) FROM s WHERE s.a = r.a)"


@pytest.mark.parametrize(
    ("where", "reduced"),
    [
        (f"a IN (SELECT k FROM t WHERE x > 5) AND b > {CORRELATED}", True),
        (f"b > {CORRELATED} AND a IN (SELECT k FROM t WHERE x > 5)", True),
        (f"b IN (SELECT k FROM t WHERE x > 5) AND b > {CORRELATED}", False),  # another column
        (f"a IN (SELECT k FROM t) AND b > {CORRELATED}", False),  # all of a table
        (f"a NOT IN (SELECT k FROM t WHERE x > 5) AND b > {CORRELATED}", False),
        (f"(a IN (SELECT k FROM t WHERE x > 5) OR a = 1) AND b > {CORRELATED}", False),
    ],
)
def test_a_group_is_reduced_by_a_semi_join_on_its_key(where: str, reduced: bool) -> None:
    plan = bound(f"SELECT a, b FROM r WHERE {where}").plan
    groups = [n for n in nodes(plan) if isinstance(n, Aggregate) and n.keys]
    assert groups, tree(plan)
    inside = [
        n for g in groups for n in nodes(g) if isinstance(n, Join) and n.kind is JoinKind.SEMI
    ]
    assert bool(inside) is reduced, tree(plan)
