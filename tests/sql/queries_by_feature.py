"""Queries that between them use every feature, meaningful in Spark and in DuckDB alike."""

QUERIES = [
    q.strip()
    for q in """
SELECT v.video_id, owner, count(*) AS n, sum(bytes) AS bytes FROM log l JOIN video v ON l.video_id = v.video_id GROUP BY v.video_id, owner
SELECT * FROM r JOIN s USING (a)
SELECT * FROM r LEFT JOIN s USING (a)
SELECT * FROM r RIGHT JOIN s USING (a)
SELECT * FROM r FULL JOIN s USING (a)
SELECT a, b, d FROM r NATURAL JOIN s
SELECT r.a, s.a AS a2, a AS a3 FROM r FULL JOIN s USING (a)
SELECT r.*, s.d FROM r RIGHT JOIN s ON r.a = s.a AND r.b > 0 AND s.d > 1
SELECT r.a, s.d FROM r LEFT JOIN s ON r.a = s.a AND s.d > 1 WHERE r.b IS NOT NULL
SELECT r.a, s.d FROM r LEFT JOIN s ON r.a = s.a WHERE s.d IS NULL
SELECT r.a, s.d FROM r FULL JOIN s ON r.a = s.a AND r.b < s.d WHERE r.a IS NULL OR s.d > 1
SELECT r.a, s.d, t.x FROM r, s, t WHERE r.a = t.k AND s.a = t.k AND r.b >= 1 AND s.d <= t.y
SELECT r.a, s.d, t.x FROM r, s LEFT JOIN t ON s.a = t.k WHERE r.a = s.a AND s.d > 1
SELECT r.a, s.d, t.x FROM r, s FULL JOIN t ON s.a = t.k
SELECT r.a, s.d, t.x FROM r CROSS JOIN s LEFT JOIN t ON s.a = t.k AND r.b = t.y WHERE r.a = s.a
SELECT r.a, s.d, t.x FROM r, s, t FULL JOIN empty ON t.k = empty.k WHERE r.a = t.k AND s.a = t.k AND r.b > s.d
SELECT r.a, s.d, t.x, v.b FROM r, s, t LEFT JOIN r v ON t.k = v.a AND s.d = v.b WHERE r.a = t.k AND s.a = t.k AND v.b > 0
SELECT r.a, q.d FROM r JOIN (s JOIN t ON s.a = t.k) AS q ON r.a = q.a
SELECT r.a, s.d FROM r JOIN (s LEFT JOIN t ON s.a = t.k) ON r.a = s.a AND t.x > 5
SELECT x.a, y.b FROM r x JOIN r y ON x.a = y.b WHERE x.b < y.b + 1
SELECT r.a FROM r, s WHERE (r.a = s.a AND r.b = 1) OR (r.a = s.a AND s.d = 2)
SELECT a FROM r LEFT SEMI JOIN s USING (a)
SELECT r.a, c FROM r LEFT ANTI JOIN s ON r.a = s.a AND s.d > 1
SELECT a, b FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.a = r.a AND s.d <> r.b)
SELECT a, b FROM r WHERE EXISTS (SELECT * FROM s WHERE s.d > r.b)
SELECT a, b FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.a = r.a)
SELECT a, b FROM r WHERE EXISTS (SELECT 1 FROM empty)
SELECT a, b FROM r WHERE NOT EXISTS (SELECT 1 FROM empty)
SELECT a, b FROM r WHERE EXISTS (SELECT 1 FROM t WHERE x > 15)
SELECT a, b FROM r WHERE EXISTS (SELECT count(*) FROM empty WHERE k = a)
SELECT a, b FROM r WHERE NOT EXISTS (SELECT count(*) FROM empty WHERE k = a)
SELECT a, b FROM r WHERE EXISTS (SELECT d FROM s WHERE s.a = r.a GROUP BY d HAVING count(*) > 1)
SELECT a, b FROM r WHERE a IN (SELECT a FROM s WHERE e = c)
SELECT a, b FROM r WHERE a IN (SELECT DISTINCT k FROM t)
SELECT a, b FROM r WHERE (a, b) IN (SELECT a, d FROM s)
SELECT a, b FROM r WHERE a IN (SELECT max(k) FROM t WHERE t.y = r.b)
SELECT a, b FROM r WHERE b NOT IN (SELECT d FROM s)
SELECT a, b FROM r WHERE b NOT IN (SELECT d FROM s WHERE d IS NOT NULL)
SELECT a, b FROM r WHERE b NOT IN (SELECT k FROM empty)
SELECT a, b FROM r WHERE b NOT IN (SELECT d FROM s WHERE s.a = r.a)
SELECT a, b FROM r WHERE NOT (b IN (SELECT d FROM s WHERE s.a = r.a) OR a = 3)
SELECT a, b FROM r WHERE a IN (SELECT k FROM t WHERE x > 5) AND b >= (SELECT sum(d) FROM s WHERE s.a = r.a)
SELECT a, b FROM r WHERE a IN (SELECT k FROM t) OR b = 1
SELECT a, b FROM r WHERE NOT (a IN (SELECT k FROM t WHERE k IS NOT NULL) AND b = 1)
SELECT a, b FROM r WHERE EXISTS (SELECT 1 FROM t WHERE t.k = r.a) OR b IS NULL
SELECT a, a IN (SELECT d FROM s) AS q FROM r
SELECT a, a IN (SELECT d FROM s WHERE d IS NOT NULL) AS q FROM r
SELECT a, a IN (SELECT k FROM empty) AS q FROM r
SELECT a, b IN (SELECT d FROM s WHERE s.a = r.a) AS q FROM r
SELECT a, b NOT IN (SELECT d FROM s WHERE s.a = r.a) AS q FROM r
SELECT a, EXISTS (SELECT 1 FROM t WHERE t.k = r.a) AS e, NOT EXISTS (SELECT 1 FROM empty) AS f FROM r
SELECT a, CASE WHEN EXISTS (SELECT 1 FROM t WHERE t.k = r.a AND t.x > 7) THEN b ELSE 0 END AS v FROM r
SELECT a, (SELECT max(d) FROM s) AS m FROM r
SELECT a, (SELECT count(*) FROM empty) AS m, (SELECT max(k) FROM empty) AS n FROM r
SELECT a, (SELECT k FROM t WHERE x = 20) AS m FROM r
SELECT a, (SELECT k FROM empty) AS m FROM r
SELECT a, (SELECT count(*) + 1 FROM s WHERE s.a = r.a) AS m FROM r
SELECT a, (SELECT coalesce(sum(d), 0) + count(e) FROM s WHERE s.a = r.a) AS m FROM r
SELECT a, (SELECT 2 * sum(d) FROM s WHERE s.a = r.a) AS m FROM r
SELECT a, b FROM r WHERE b < (SELECT avg(d) FROM s WHERE s.a = r.a)
SELECT a, b FROM r WHERE b <= (SELECT max(d) FROM s) - 5
SELECT k, (SELECT a FROM r WHERE r.b = t.y AND r.c = 'z') AS m FROM t
SELECT a, count(*) AS n FROM r GROUP BY a HAVING count(*) > (SELECT count(*) FROM s) - 6
SELECT a, sum(b) AS n FROM r GROUP BY a HAVING EXISTS (SELECT 1 FROM s WHERE s.a = r.a)
SELECT a, sum(b) + (SELECT count(*) FROM s WHERE s.a = r.a) AS n FROM r GROUP BY a
SELECT sum((SELECT count(*) FROM s WHERE s.a = r.a)) AS n FROM r
SELECT a, (SELECT DISTINCT count(*) FROM s WHERE s.a = r.a) AS n FROM r
SELECT a FROM r WHERE EXISTS (SELECT 1 FROM s WHERE r.b > 0)
SELECT a FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.a = r.a ORDER BY d LIMIT 1)
SELECT a FROM r WHERE (a = 1) IN (SELECT d > 1 FROM s)
SELECT a, (a = 1) IN (SELECT d > 1 FROM s WHERE d IS NOT NULL) AS q FROM r
SELECT a FROM r WHERE a BETWEEN (SELECT min(k) FROM t) AND (SELECT max(y) FROM t)
SELECT 1 AS one FROM r HAVING TRUE
SELECT a, (SELECT max(d) FROM s WHERE s.a <=> r.a) AS m FROM r
SELECT a, (SELECT max(d) FROM s WHERE s.a + 1 = r.a + 1 AND s.d = 2) AS m FROM r
SELECT (SELECT max(k) FROM t WHERE y = b) AS z, count(*) AS n FROM r GROUP BY z
SELECT a FROM r WHERE a IN (SELECT s.a FROM s WHERE s.d IN (SELECT y FROM t WHERE t.k = s.a))
SELECT count(*) AS n, count(b) AS nb, sum(b) AS sb, min(c) AS lo, max(c) AS hi, avg(b) AS mean FROM r
SELECT count(*) AS n, sum(k) AS s FROM empty
SELECT count(*) AS n FROM empty GROUP BY k
SELECT count(*) AS n FROM empty HAVING count(*) > 0
SELECT a + b AS k, count(*) AS n FROM r GROUP BY a + b
SELECT a + b AS k, count(*) AS n FROM r GROUP BY k
SELECT a % 2 AS parity, count(DISTINCT b) AS n FROM r GROUP BY 1
SELECT c, a, sum(b) AS n FROM r GROUP BY ALL
SELECT a, sum(b) + 1 AS s1, sum(b) * 2 AS s2, sum(b) AS s3 FROM r GROUP BY a
SELECT a, count(*) FILTER (WHERE b > 0) AS n, sum(b) FILTER (WHERE c = 'x') AS s FROM r GROUP BY a
SELECT a, count(DISTINCT b) AS n, sum(DISTINCT b) AS s FROM r GROUP BY a
SELECT a, sum(b) AS s FROM r GROUP BY a HAVING s > 1
SELECT a AS b, sum(b) AS s FROM r GROUP BY a HAVING sum(b) > 1
SELECT c, count(*) AS n FROM r GROUP BY c HAVING max(b) > 1 AND c IS NOT NULL
SELECT year(day) AS yr, sum(bytes) AS total, sum(bytes) / count(*) AS mean FROM log GROUP BY year(day) HAVING year(day) > 2000
SELECT n, count(*) AS m FROM (SELECT a, count(*) AS n FROM r GROUP BY a) AS q GROUP BY n
SELECT a, b, sum(b) AS s, count(*) AS n FROM r GROUP BY ROLLUP (a, b)
SELECT a, c, count(*) AS n, grouping(a) AS ga, grouping(c) AS gc FROM r GROUP BY CUBE (a, c)
SELECT a, c, count(*) AS n FROM r GROUP BY GROUPING SETS ((a, c), (a), ())
SELECT a, c, count(*) AS n, grouping_id(a, c) AS g FROM r GROUP BY a, ROLLUP (c)
SELECT DISTINCT a, b FROM r
SELECT DISTINCT a FROM r ORDER BY a DESC LIMIT 2
SELECT DISTINCT (a) FROM r ORDER BY a LIMIT 2
SELECT count(DISTINCT a) AS n FROM (SELECT DISTINCT a, c FROM r) AS q
SELECT a FROM r UNION SELECT d FROM s
SELECT a FROM r UNION ALL SELECT d FROM s UNION ALL SELECT k FROM t
SELECT a FROM r INTERSECT SELECT a FROM s
SELECT a FROM r INTERSECT ALL SELECT a FROM s
SELECT a, b FROM r EXCEPT SELECT a, d FROM s
SELECT a, b FROM r EXCEPT ALL SELECT a, d FROM s
(SELECT a FROM r UNION SELECT k FROM t) EXCEPT SELECT a FROM s
SELECT a FROM r UNION ALL (SELECT d FROM s INTERSECT SELECT k FROM t)
SELECT a FROM r UNION ALL SELECT d FROM s ORDER BY a DESC LIMIT 3
SELECT a, sum(b) OVER (PARTITION BY a) AS s FROM r
SELECT a, b, sum(b) OVER (PARTITION BY a ORDER BY b) AS s FROM r
SELECT a, b, c, row_number() OVER (PARTITION BY a ORDER BY b, c) AS n FROM r
SELECT a, b, rank() OVER (ORDER BY b) AS n, dense_rank() OVER (PARTITION BY c ORDER BY b DESC) AS m FROM r
SELECT a, b, c, lag(b) OVER (PARTITION BY a ORDER BY b, c) AS n FROM r
SELECT a, b, first_value(b) OVER (PARTITION BY a ORDER BY b) AS n FROM r
SELECT a, b, sum(b) OVER (ORDER BY b, a, c ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS n, c FROM r
SELECT a, sum(sum(b)) OVER (ORDER BY a) AS s FROM r GROUP BY a
SELECT a, b, sum(b) OVER w AS s, max(b) OVER w AS m FROM r WINDOW w AS (PARTITION BY a + 1)
SELECT a, b, c FROM r QUALIFY row_number() OVER (PARTITION BY a ORDER BY b, c) = 1
SELECT a, b, row_number() OVER (PARTITION BY a ORDER BY b, c) AS n, c FROM r QUALIFY n = 1
SELECT a, b, c FROM r ORDER BY b, a, c LIMIT 3
SELECT a, b AS z FROM r ORDER BY c DESC, z, a LIMIT 3 OFFSET 1
SELECT count(*) AS n, sum((b)) AS s FROM r LIMIT 5
SELECT a, sum(b) AS s FROM r GROUP BY a ORDER BY s DESC, a LIMIT 2
SELECT a FROM r GROUP BY a ORDER BY count(*) DESC, a LIMIT 2
SELECT x.a FROM (SELECT a, b FROM r ORDER BY b DESC, a LIMIT 4) AS x WHERE x.b > 1
WITH q AS (SELECT a, b FROM r) SELECT q1.a, q2.b FROM q AS q1 JOIN q AS q2 ON q1.a = q2.b
WITH q(z) AS (SELECT a FROM r), p AS (SELECT z + 1 AS z FROM q) SELECT * FROM p UNION ALL SELECT * FROM q
WITH q AS (SELECT a FROM r) SELECT * FROM (WITH q AS (SELECT k FROM t) SELECT * FROM q) AS u, q
SELECT z, w FROM (SELECT a, b FROM r) AS q(z, w) WHERE z > 1
SELECT a + 1 AS p, p * 2 AS q FROM r
SELECT A, R.B FROM R WHERE r.C = 'x'
SELECT * EXCEPT (c) FROM r
SELECT a, CASE WHEN b > 1 THEN 'big' WHEN b IS NULL THEN NULL ELSE 'small' END AS size, CAST(a AS STRING) AS text FROM r
SELECT day + INTERVAL '1' MONTH AS later FROM log WHERE day >= DATE '2024-01-01' - INTERVAL '30' DAY
SELECT a FROM r WHERE b BETWEEN 1 AND 5 AND c LIKE 'x%' AND NOT a IN (3, 4)
SELECT a FROM r WHERE NOT (a = 1 OR NOT b = 1)
SELECT a FROM r WHERE TRUE
SELECT a FROM r WHERE 1 = 0
SELECT q.neg = TRUE AS v FROM (SELECT NOT (b > 1) AS neg FROM r) AS q
SELECT q.s * 2 AS v, -q.s AS w FROM (SELECT a - b AS s FROM r) AS q
SELECT (r.b + 1) * 2 AS v FROM r WHERE r.a <=> NULL
""".strip().splitlines()
]
