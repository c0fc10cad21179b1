CREATE MATERIALIZED VIEW float_groups AS
SELECT total, count(*) AS n FROM (SELECT owner, sum(duration) AS total FROM video GROUP BY owner) GROUP BY total
