CREATE MATERIALIZED VIEW totals AS SELECT count(*) AS n, sum(cost) AS cost, avg(cost) AS mean, min(cost) AS least FROM price
