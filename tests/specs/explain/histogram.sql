CREATE MATERIALIZED VIEW histogram AS
SELECT n, count(*) AS videos FROM (SELECT video_id, count(*) AS n FROM log GROUP BY video_id) GROUP BY n
