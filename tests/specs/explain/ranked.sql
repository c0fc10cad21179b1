CREATE MATERIALIZED VIEW ranked AS
SELECT owner, video_id, row_number() OVER (PARTITION BY owner ORDER BY duration DESC) AS place FROM video
