"""Views over a session the user has, Spark Connect or classic: the core cases."""

from __future__ import annotations

from typing import Any

import belvedere as bv
from tests.views.comparison import assert_all_fresh

VIEWS = {
    "c_sum": "SELECT r.k, max(a) AS top, sum(c) AS total FROM r JOIN s ON r.k = s.k GROUP BY r.k",
    "c_rows": "SELECT r.k, a, c FROM r LEFT JOIN s ON r.k = s.k",
    "c_over": "SELECT total, count(*) AS n FROM c_sum GROUP BY total",
}


def run_views(spark: Any) -> None:
    """Create, change, refresh, advance and drop, compared with recomputation."""
    with bv.connect(spark) as lake:
        feed = "USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
        lake.sql(f"CREATE TABLE r (k INT, a INT) {feed}")
        lake.sql(f"CREATE TABLE s (k INT, c BIGINT) {feed}")
        lake.sql("INSERT INTO r VALUES (1, 1), (1, 1), (2, NULL), (NULL, 3)")
        lake.sql("INSERT INTO s VALUES (1, 10), (3, 30)")
        for name, query in VIEWS.items():
            lake.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        assert_all_fresh(lake, VIEWS)
        lake.sql("INSERT INTO s VALUES (2, 20), (NULL, 0)")
        lake.sql("DELETE FROM r WHERE k = 1")
        assert lake.advance("c_rows", "s").strategy == "merge"
        done = lake.refresh()
        assert isinstance(done, list)
        assert {r.strategy for r in done} <= {"merge", "replace keys"}
        assert_all_fresh(lake, VIEWS)
        assert len(lake.status()) == len(VIEWS)
        assert_recorded(lake)
        _estimated(lake)
        for name in reversed(VIEWS):
            lake.sql(f"DROP MATERIALIZED VIEW {name}")
        assert not lake.status()


def _estimated(lake: bv.Lake) -> None:
    """A sample of everything, cleaned, answers exactly, while its view stays behind."""
    lake.sql("CREATE SAMPLE ON c_sum RATIO 100 PERCENT OUTLIERS ON s.c TOP 1")
    lake.sql("INSERT INTO s VALUES (2, 5), (2, 6)")
    before = lake.sql("SELECT sum(total) FROM c_sum").collect()[0][0]
    (line,) = lake.estimate("SELECT sum(total) AS t, count(*) AS n FROM c_sum").arrow().to_pylist()
    (truth,) = lake.sql(f"SELECT sum(total), count(*) FROM ({VIEWS['c_sum']})").collect()
    assert (line["t"], line["n"]) == (float(truth[0]), float(truth[1]))
    assert lake.sql("SELECT sum(total) FROM c_sum").collect()[0][0] == before != truth[0]
    lake.sql("DROP SAMPLE ON c_sum")


def assert_recorded(lake: bv.Lake) -> None:
    """Creations and refreshes are in the ledger of the catalog, and in the history."""
    rows = lake.sql("SELECT view, strategy FROM belvedere.refreshes WHERE refresh > 0").collect()
    assert {r["view"] for r in rows if r["strategy"] == "create"} >= VIEWS.keys()
    newest, *_ = lake.history("c_rows")
    assert (newest.strategy, newest.number) == ("merge", 3)
    assert newest.began is not None
    assert "not recorded" not in str(lake.status())
