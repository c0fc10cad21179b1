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
