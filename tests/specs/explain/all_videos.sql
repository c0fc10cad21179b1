CREATE MATERIALIZED VIEW all_videos AS
SELECT v.video_id, owner, bytes FROM video v FULL JOIN log l ON v.video_id = l.video_id AND bytes > 0
