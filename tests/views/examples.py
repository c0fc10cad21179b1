"""Named views that between them use every operator, and rounds of changes to drive them through."""

from __future__ import annotations

TABLES = {
    "r": "k INT, a INT, b STRING, d DECIMAL(10,2), f DOUBLE, t DATE",
    "s": "k INT, c BIGINT, e STRING",
    "u": "x INT, y INT",
}

FILL = [
    """INSERT INTO r VALUES
       (1, 10, 'x', 1.10, 0.5, DATE'2024-01-01'), (1, 10, 'x', 1.10, 0.5, DATE'2024-01-01'),
       (2, 20, 'y', 2.25, 1e16, DATE'2024-02-29'), (2, NULL, 'y', NULL, NULL, NULL),
       (3, 30, NULL, 3.33, -1e16, DATE'2023-12-31'), (NULL, 40, 'z', 4.00, 2.5, DATE'2024-01-01'),
       (4, 5, 'x', 0.00, 0.1, DATE'2025-06-30')""",
    """INSERT INTO s VALUES (1, 100, 'p'), (1, 100, 'p'), (2, NULL, 'q'), (NULL, 7, 'n'),
       (5, 4000000000000000000, 'big'), (3, -1, NULL)""",
    "INSERT INTO u VALUES (1, 1), (2, 2), (10, NULL), (NULL, NULL)",
]

VIEWS = {
    "v_inner": """SELECT p.k, p.a AS a1, q.a AS a2, c, e FROM r p, r q, s
                  WHERE p.k = q.k AND p.b = q.b AND p.k = s.k AND s.e = 'p'""",
    "v_full": """SELECT a, x, 'theta' AS how FROM r FULL JOIN u ON r.k < u.x
                 UNION ALL SELECT k, c, e FROM r FULL JOIN s USING (k)""",
    "v_exists": """SELECT k, a + 1 AS a1, named_struct('a', a, 'b', upper(b)) AS pair, array(a, k) AS list,
                   CASE WHEN a > 15 THEN 'high' WHEN a IS NULL THEN NULL ELSE 'low' END AS band
                   FROM r WHERE (a > 5 OR b IS NULL)
                   AND EXISTS (SELECT 1 FROM s WHERE s.k = r.k AND s.c > 0)
                   AND NOT EXISTS (SELECT * FROM u WHERE u.x = r.k AND u.y <> r.a)""",
    "v_in": """SELECT a, true AS hit FROM r WHERE k NOT IN (SELECT x FROM u) UNION ALL
               SELECT k, k IN (SELECT x FROM u) FROM r WHERE k IN (SELECT k FROM s) OR a > 15""",
    "v_scalar": """SELECT k, a, (SELECT count(*) FROM s WHERE s.k = r.k) AS n FROM r
                   WHERE a > (SELECT avg(x) FROM u) AND EXISTS (SELECT 1 FROM u WHERE y = 1)""",
    "v_group": """SELECT r.k, b, count(*) AS n, count(a) AS na, sum(a) AS sa, avg(a) AS ma, sum(d) AS sd,
                  avg(d) AS md, sum(c) AS sc FROM s RIGHT JOIN r ON r.k = s.k AND c <> 7 GROUP BY r.k, b""",
    "v_minmax": """SELECT k, min(a) AS lo, max(t) AS hi, min(d) AS ld FROM r GROUP BY k
                   HAVING count(*) > 1 OR max(a) > 25""",
    "v_stats": """SELECT b, var_samp(a) AS v, stddev(d) AS sd, sum(f) AS sf, avg(f) AS mf, median(a) AS m,
                  percentile(a, 0.25) AS q, count(DISTINCT a) AS n, sum(DISTINCT a) AS s FROM r GROUP BY b""",
    "v_total": """SELECT count(*) AS n, sum(a) AS sa, min(t) AS first, avg(d) AS md
                  FROM u CROSS JOIN r WHERE r.a >= u.x * 10 OR u.x IS NULL""",
    "v_union": "SELECT k FROM r UNION (SELECT x FROM u UNION ALL SELECT k FROM s)",
    "v_sets": """(SELECT k FROM r INTERSECT SELECT k FROM s) UNION ALL (SELECT k FROM r EXCEPT SELECT x FROM u)
                 UNION ALL (SELECT k FROM r EXCEPT ALL SELECT k FROM s)
                 UNION ALL (SELECT k FROM s INTERSECT ALL SELECT k FROM r)""",
    "v_window": """SELECT k, a, rank() OVER (PARTITION BY k ORDER BY a) AS rk,
                   row_number() OVER (PARTITION BY b ORDER BY a DESC, k) AS rn,
                   sum(a) OVER (PARTITION BY k) AS total FROM r""",
    "v_window_all": "SELECT k, dense_rank() OVER (ORDER BY a) AS dr FROM r",
    "v_top": "SELECT k, a FROM r ORDER BY a DESC NULLS LAST, k LIMIT 3",
    "v_cte": """WITH big AS (SELECT k, sum(a) AS total FROM r GROUP BY k)
                SELECT p.k, p.total, q.total AS other FROM big p LEFT JOIN big q ON p.k = q.k + 1""",
    "v_nested": """SELECT n, count(*) AS groups, sum(top) AS tops FROM
                   (SELECT k, count(*) AS n, max(a) AS top FROM r GROUP BY k) g GROUP BY n""",
    "v_rollup": """SELECT k AS `a b`, year(t), sum(a) AS `sélect`, count(*) FILTER (WHERE b = 'x') AS `quo``te`
                   FROM r GROUP BY ROLLUP (k, year(t))""",
    "v_float_key": "SELECT round(m, 1) AS m, count(*) AS n FROM (SELECT avg(f) AS m FROM r GROUP BY k) g GROUP BY 1",
    "v_over_top": "SELECT count(*) AS n, sum(a) AS total FROM v_top",
    "v_over_having": "SELECT h.k, h.lo, u.y FROM v_minmax h LEFT JOIN u ON h.k = u.x",
}

# expected to rebuild, with their reasons
REBUILDS = {
    "v_window_all": "GLOBAL_WINDOW",
    "v_over_top": "NESTED_LIMIT",
    "v_float_key": "FLOAT_KEY",
}

ROUNDS = [
    [
        "INSERT INTO r VALUES (5, 50, 'new', 5.55, 3.25, DATE'2024-03-01'), (1, 11, 'x', 9.99, 0.25, NULL)",
        "INSERT INTO s VALUES (4, 44, 'four'), (1, 100, 'p')",
        "INSERT INTO u VALUES (3, 3), (NULL, 5)",
    ],
    [
        "UPDATE r SET a = a + 1, b = 'y' WHERE k = 1",
        "DELETE FROM r WHERE k = 2",
        "INSERT INTO r VALUES (2, 20, 'y', 2.25, 1e16, DATE'2024-02-29')",
    ],
    [
        """MERGE INTO s USING (SELECT k, max(c) AS c FROM s GROUP BY k) n ON s.k = n.k
           WHEN MATCHED THEN UPDATE SET c = s.c""",
        "INSERT INTO s SELECT k, c, e FROM s WHERE k IS NOT NULL",
        "DELETE FROM s WHERE k = 3",
    ],
    ["DELETE FROM u", "UPDATE r SET k = NULL WHERE k = 3", "DELETE FROM r WHERE b = 'x'"],
    ["INSERT INTO u VALUES (1, 1), (1, 1), (50, 2)", "TRUNCATE TABLE s", "DELETE FROM r"],
    [
        "INSERT INTO s VALUES (2, 5, 'back'), (NULL, NULL, NULL)",
        FILL[0],
        "INSERT INTO r SELECT k + 1, a, b, d, f, t FROM r WHERE k IS NOT NULL",
    ],
]
