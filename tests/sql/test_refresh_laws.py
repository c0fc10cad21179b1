"""Views over subqueries and joins of every form follow the changes of their tables."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from belvedere.algebra.walks import tables
from belvedere.sql.binder.bind import bind
from tests.reference.laws import the_stored_rows_follow
from tests.reference.plans import NUDGES, TABLES, histories
from tests.sql.shop import Shop

SHOP = Shop({name: ", ".join(f"{c} int" for c in columns) for name, columns in TABLES.items()})

VIEWS = """
SELECT r.a, r.b, s.c FROM r LEFT JOIN s ON r.a = s.a AND s.b IN (SELECT x FROM t)
SELECT r.a, r.b, s.c FROM r LEFT JOIN s ON r.a = s.a AND r.b IN (SELECT x FROM t)
SELECT r.a, r.b, s.c FROM r RIGHT JOIN s ON r.a = s.a AND NOT EXISTS (SELECT 1 FROM t WHERE x = s.b)
SELECT r.a, r.b, s.c FROM r FULL JOIN s ON r.a = s.a AND (r.b IN (SELECT x FROM t) OR r.b = 1)
SELECT r.a, r.b FROM r LEFT SEMI JOIN s ON r.a = s.a AND s.b IN (SELECT x FROM t)
SELECT r.a, r.b FROM r LEFT ANTI JOIN s ON r.a = s.a AND s.b NOT IN (SELECT x FROM t WHERE x IS NOT NULL)
SELECT r.a, r.b FROM r LEFT ANTI JOIN s ON r.a = s.a AND r.b IN (SELECT x FROM t)
SELECT r.a, s.c, q.x FROM r LEFT JOIN s ON r.a = s.a NATURAL JOIN (SELECT x AS a, x FROM t) AS q
SELECT b, a FROM r LEFT ANTI JOIN s USING (b, a)
SELECT a, b FROM r WHERE EXISTS (SELECT 1 FROM (SELECT b AS d FROM s WHERE s.a = r.a) AS q JOIN t ON x = d)
SELECT a, (SELECT max(q.n) FROM (SELECT b, count(*) AS n FROM s WHERE s.a = r.a GROUP BY b) AS q) AS m FROM r
SELECT a, (SELECT count(*) FROM (SELECT DISTINCT c FROM s WHERE s.a = r.a) AS q) AS m FROM r
SELECT a, b FROM r WHERE b NOT IN (SELECT q.b FROM (SELECT b FROM s WHERE s.a = r.a) AS q)
SELECT a, sum(b) AS n FROM r GROUP BY a HAVING EXISTS (SELECT 1 FROM s WHERE s.b = sum(r.b))
SELECT a, sum(b) AS n FROM r GROUP BY a HAVING NOT EXISTS (SELECT 1 FROM s WHERE s.a = r.a AND s.b >= max(r.b))
SELECT a, b, count(*) AS n FROM r GROUP BY a, b GROUPING SETS ((a), ())
SELECT a, b, c, sum(c) AS n, grouping_id() AS g FROM s GROUP BY a, b, c GROUPING SETS ((b), (a, b))
SELECT DISTINCT a, b FROM s ORDER BY a + b DESC LIMIT 2
""".strip().splitlines()


@pytest.mark.parametrize("text", VIEWS)
@settings(max_examples=4)
@given(data=st.data())
def test_the_stored_rows_follow(text: str, data: Any) -> None:
    plan = bind(text, SHOP).plan
    history = data.draw(histories(tables(plan), rounds=2, least=2, moves=NUDGES))
    the_stored_rows_follow(plan, history)
