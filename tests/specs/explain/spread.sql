CREATE MATERIALIZED VIEW spread REFRESH POLICY INCREMENTAL AS
SELECT owner, stddev(duration) AS sd, count(DISTINCT duration) AS kinds FROM video GROUP BY owner
