"""Queries made by combining features, each meaningful in Spark and in DuckDB alike.

Joins of every kind, with every form of condition, before another join, and under what a query
does with them; and correlated subqueries in every place where one may stand.
"""

from __future__ import annotations

from itertools import product

JOINS = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"]

# A condition as written; then what a subquery of it says of a row of r or of s, and the condition
# over these. DuckDB takes no subquery in ON of an outer join, and is asked this other form.
CONDITIONS = [
    ("ON r.a = s.a", "TRUE", "TRUE", "ON r.a = s.a"),
    ("USING (a)", "TRUE", "TRUE", "USING (a)"),
    (
        "ON r.a = s.a AND s.d IN (SELECT k FROM t)",
        "TRUE",
        "d IN (SELECT k FROM t)",
        "ON r.a = s.a AND s.said",
    ),
    (
        "ON r.a = s.a AND r.b NOT IN (SELECT k FROM t WHERE k IS NOT NULL)",
        "b NOT IN (SELECT k FROM t WHERE k IS NOT NULL)",
        "TRUE",
        "ON r.a = s.a AND r.told",
    ),
    (
        "ON r.a = s.a AND EXISTS (SELECT 1 FROM t WHERE t.k = r.b)",
        "EXISTS (SELECT 1 FROM t WHERE t.k = b)",
        "TRUE",
        "ON r.a = s.a AND r.told",
    ),
    (
        "ON r.a = s.a AND (NOT EXISTS (SELECT 1 FROM t WHERE t.k = s.d) OR s.d = 7)",
        "TRUE",
        "NOT EXISTS (SELECT 1 FROM t WHERE t.k = d) OR d = 7",
        "ON r.a = s.a AND s.said",
    ),
    (
        "ON r.a = s.a AND r.b <= (SELECT max(k) FROM t)",
        "b <= (SELECT max(k) FROM t)",
        "TRUE",
        "ON r.a = s.a AND r.told",
    ),
    (
        "ON r.a = s.a AND s.d >= (SELECT min(x) FROM t WHERE t.y = 1) AND r.b IN (SELECT y FROM t)",
        "b IN (SELECT y FROM t)",
        "d >= (SELECT min(x) FROM t WHERE t.y = 1)",
        "ON r.a = s.a AND s.said AND r.told",
    ),
]
AFTER = [
    "SELECT r.b, r.c FROM {}",
    "SELECT r.b, q.x FROM {} NATURAL JOIN (SELECT k AS b, x FROM t) AS q",
    "SELECT r.a, q.x FROM {} LEFT JOIN t AS q ON q.k = r.a AND q.x > 5",
    "SELECT r.b, count(*) AS n FROM {} WHERE r.b IS NOT NULL GROUP BY r.b",
    "SELECT r.b FROM {} WHERE EXISTS (SELECT 1 FROM (SELECT x FROM t WHERE t.k = r.b) AS q WHERE q.x > 1)",
]


def _asked(join: str, of_r: str, of_s: str, condition: str) -> str:
    left = f"(SELECT *, {of_r} AS told FROM r) AS r"
    return f"{left} {join} (SELECT *, {of_s} AS said FROM s) AS s {condition}"


INNER = [
    "SELECT {v} FROM (SELECT d FROM s WHERE s.a = r.a) AS q",
    "SELECT {v} FROM (SELECT p.d FROM (SELECT d, e FROM s WHERE s.a = r.a) AS p WHERE p.e <> 'q') AS q",
    "SELECT {v} FROM (SELECT DISTINCT d FROM s WHERE s.a = r.a) AS q",
    "SELECT {v} FROM (SELECT d, count(*) AS n FROM s WHERE s.a = r.a GROUP BY d) AS q",
    "SELECT {v} FROM (SELECT d FROM s WHERE s.a = r.a) AS q JOIN t ON t.k = q.d",
    "SELECT {v} FROM (SELECT d FROM s WHERE s.a = r.a) AS q LEFT JOIN t ON t.k = q.d",
    "SELECT {v} FROM t RIGHT JOIN (SELECT d FROM s WHERE s.a = r.a) AS q ON t.k = q.d",
    "SELECT {v} FROM (SELECT d FROM s WHERE s.a = r.a) AS q, (SELECT x FROM t WHERE t.k = r.b) AS p",
    "SELECT {v} FROM s AS q LEFT JOIN t ON t.k = q.d AND t.x IN (SELECT x FROM t) WHERE q.a = r.a",
]
PLACES = [
    ("1", "SELECT a, b FROM r WHERE EXISTS ({})"),
    ("1", "SELECT a, b FROM r WHERE NOT EXISTS ({})"),
    ("q.d", "SELECT a, b FROM r WHERE b IN ({})"),
    ("q.d", "SELECT a, b FROM r WHERE b NOT IN ({})"),
    ("q.d", "SELECT a, b FROM r WHERE b = 1 OR b IN ({})"),
    ("max(q.d)", "SELECT a, ({}) AS m FROM r"),
    ("count(*)", "SELECT a, b FROM r WHERE ({}) > 1"),
    ("count(*) + coalesce(sum(q.d), 0)", "SELECT a, b, ({}) AS m FROM r"),
]

COMBINED = [
    (after.format(f"r {join} s {written}"), after.format(_asked(join, *asked)))
    for join, (written, *asked), after in product(JOINS, CONDITIONS, AFTER)
]
"""Queries that join, and the same for DuckDB."""

CORRELATED = [
    place.format(inner.format(v=value)) for inner, (value, place) in product(INNER, PLACES)
]
"""Queries with a subquery that is correlated through a derived table."""

NAMED = [
    (
        "SELECT a, b, c, count(*) AS n FROM r GROUP BY a, b, c GROUPING SETS ((a))",
        "SELECT a, NULL, NULL, count(*) FROM r GROUP BY a",
    ),
    (
        "SELECT a, b, c, count(*) AS n, grouping_id() AS g FROM r GROUP BY a, b, c GROUPING SETS ((b), (c, a))",
        "SELECT NULL, b, NULL, count(*), 5 FROM r GROUP BY b UNION ALL SELECT a, NULL, c, count(*), 2 FROM r GROUP BY a, c",
    ),
    (
        "SELECT a AS k, max(b) AS m FROM r GROUP BY k, c GROUPING SETS ((k), ())",
        "SELECT a, max(b) FROM r GROUP BY a UNION ALL SELECT NULL, max(b) FROM r",
    ),
    (
        "SELECT r.a, q.x FROM r LEFT JOIN s ON r.a = s.a NATURAL JOIN (SELECT k AS a, x FROM t) AS q",
        "SELECT r.a, q.x FROM r LEFT JOIN s ON r.a = s.a JOIN t AS q ON r.a = q.k",
    ),
    (
        "SELECT s.a, q.x FROM r JOIN s ON r.b = s.d JOIN (SELECT k AS a, x FROM t) AS q USING (a)",
        "SELECT s.a, q.x FROM r JOIN s ON r.b = s.d JOIN t AS q ON r.a = q.k",
    ),
    (
        "SELECT * FROM s LEFT SEMI JOIN (SELECT k AS d FROM t) AS q USING (d)",
        "SELECT d, a, e FROM s WHERE d IN (SELECT k FROM t)",
    ),
    (
        "SELECT a, sum(b) AS n FROM r GROUP BY a HAVING EXISTS (SELECT 1 FROM s WHERE s.d = sum(r.b))",
        "SELECT a, n FROM (SELECT a, sum(b) AS n FROM r GROUP BY a) WHERE n IN (SELECT d FROM s)",
    ),
    (
        "SELECT a FROM r GROUP BY a HAVING NOT EXISTS (SELECT 1 FROM s WHERE s.d >= max(r.b) + count(r.c) AND s.a = r.a)",
        "SELECT a FROM (SELECT a, max(b) + count(c) AS m FROM r GROUP BY a) AS q WHERE NOT EXISTS (SELECT 1 FROM s WHERE d >= m AND s.a = q.a)",
    ),
    (
        "SELECT a FROM r GROUP BY a HAVING max(b) IN (SELECT d FROM s WHERE s.d = min(r.b))",
        "SELECT a FROM (SELECT a, max(b) AS m, min(b) AS n FROM r GROUP BY a) WHERE m = n AND m IN (SELECT d FROM s)",
    ),
    (
        "SELECT a, (SELECT max(d) FROM (SELECT DISTINCT d FROM s WHERE s.a % 2 = r.a) AS q) AS m FROM r",
        "SELECT a, (SELECT max(d) FROM s WHERE s.a % 2 = r.a) FROM r",
    ),
    (
        "SELECT a, (SELECT DISTINCT d FROM s WHERE s.a % 5 = r.a AND d = 1) AS m FROM r",
        "SELECT a, (SELECT max(d) FROM s WHERE s.a % 5 = r.a AND d = 1) FROM r",
    ),
    (
        "SELECT * EXCEPT (r.a, s.e) FROM r JOIN s ON r.a = s.a",
        "SELECT b, c, s.a, d FROM r JOIN s ON r.a = s.a",
    ),
    (
        "SELECT DISTINCT a FROM r ORDER BY -a NULLS LAST LIMIT 2",
        "SELECT DISTINCT a FROM r ORDER BY a DESC NULLS LAST LIMIT 2",
    ),
    (
        "SELECT DISTINCT a + 1 AS z FROM r ORDER BY z * 2 NULLS LAST LIMIT 2",
        "SELECT DISTINCT a + 1 AS z FROM r ORDER BY z NULLS LAST LIMIT 2",
    ),
    ("TABLE r UNION ALL TABLE r", "SELECT * FROM r UNION ALL SELECT * FROM r"),
    ("SELECT a FROM r WHERE EXISTS (TABLE empty)", "SELECT a FROM r WHERE FALSE"),
]
"""The same queries written in two ways."""
