CREATE MATERIALIZED VIEW unpriced AS SELECT owner, video_id FROM video WHERE owner NOT IN (SELECT owner FROM price)
