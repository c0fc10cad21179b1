CREATE MATERIALIZED VIEW busiest AS
SELECT owner, sum(bytes) AS bytes, max(at) AS last
FROM log JOIN video USING (video_id)
GROUP BY owner HAVING sum(bytes) > 1000 ORDER BY bytes DESC LIMIT 10
