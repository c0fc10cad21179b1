CREATE MATERIALIZED VIEW above_average AS
SELECT video_id, bytes FROM log WHERE bytes > (SELECT avg(bytes) FROM log)
