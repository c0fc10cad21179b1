CREATE MATERIALIZED VIEW visits AS
SELECT v.video_id, owner, count(*) AS n, sum(bytes) AS bytes
FROM log l JOIN video v ON l.video_id = v.video_id
GROUP BY v.video_id, owner
