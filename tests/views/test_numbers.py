"""Numbers are exact where their type is, and overflow where the defining query does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import belvedere as bv
from tests.views.comparison import assert_fresh

pytestmark = pytest.mark.spark

QUERIES = {
    "sums": "SELECT g, sum(i) AS i, sum(b) AS b, sum(d) AS d, sum(w) AS w FROM n GROUP BY g",
    "means": "SELECT g, avg(i) AS i, avg(b) AS b, avg(d) AS d, avg(w) AS w FROM n GROUP BY g",
    "deep": "SELECT g, sum(s) AS s, avg(s) AS m FROM n GROUP BY g",
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[bv.Lake]:
    with bv.connect(tmp_path_factory.mktemp("numbers")) as lake:
        lake.sql(
            "CREATE TABLE n (g INT, i INT, b BIGINT, d DECIMAL(12,2), w DECIMAL(38,2),"
            " s DECIMAL(30,12), f DOUBLE)"
        )
        lake.sql(
            "INSERT INTO n SELECT id % 3, id, id * 1000003, id / 7, id * 1e20, id / 97, sqrt(id)"
            " FROM range(200)"
        )
        for name, query in QUERIES.items():
            lake.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        yield lake


def test_sums_and_means_of_exact_types_equal_recomputation_to_the_bit(lake: bv.Lake) -> None:
    lake.sql(
        "INSERT INTO n SELECT 1, -id, id * 999983, id / 13, -id * 1e19, id / 89, 1 FROM range(50)"
    )
    lake.sql("DELETE FROM n WHERE i % 11 = 3")
    lake.sql("UPDATE n SET d = d + 0.01, b = b - 1, s = s + 0.000000000001 WHERE i % 5 = 0")
    done = lake.refresh()
    assert isinstance(done, list)
    assert {r.name: r.strategy for r in done}["sums"] == "merge"
    for name, query in QUERIES.items():
        shown = {r["g"]: r for r in lake.view(name).df().collect()}
        assert shown == {r["g"]: r for r in lake.sql(query).collect()}
        assert_fresh(lake, name, query)


def test_a_sum_that_passes_bigint_fails_as_the_query_does_and_returns_with_the_rows(
    lake: bv.Lake,
) -> None:
    lake.sql("CREATE TABLE big (g INT, b BIGINT)")
    lake.sql("INSERT INTO big VALUES (1, 9223372036854775807)")
    lake.sql("CREATE MATERIALIZED VIEW most AS SELECT g, sum(b) AS total FROM big GROUP BY g")
    lake.sql("INSERT INTO big VALUES (1, 5)")
    lake.refresh("most")
    with pytest.raises(Exception, match=r"(?i)overflow"):
        lake.sql("SELECT g, sum(b) AS total FROM big GROUP BY g").collect()
    with pytest.raises(Exception, match=r"(?i)overflow"):
        lake.view("most").df().collect()
    lake.sql("DELETE FROM big WHERE b = 5")
    lake.refresh("most")
    assert lake.view("most").df().collect()[0]["total"] == 9223372036854775807


def test_a_float_sum_does_not_drift_over_many_refreshes(lake: bv.Lake) -> None:
    lake.sql("CREATE TABLE waves (g INT, f DOUBLE)")
    lake.sql("INSERT INTO waves SELECT id % 2, id / 10 FROM range(20)")
    query = "SELECT g, sum(f) AS total, avg(f) AS mean FROM waves GROUP BY g"
    lake.sql(f"CREATE MATERIALIZED VIEW waves_by_g AS {query}")
    for _ in range(3):
        lake.sql("INSERT INTO waves VALUES (0, 1e16), (1, -1e16), (0, 0.1)")
        lake.refresh("waves_by_g")
        lake.sql("DELETE FROM waves WHERE abs(f) = 1e16")
        lake.refresh("waves_by_g")
    shown = {r["g"]: r["total"] for r in lake.view("waves_by_g").df().collect()}
    values = {
        r["g"]: r
        for r in lake.sql(
            "SELECT g, sum(abs(f)) AS size, count(*) AS n FROM waves GROUP BY g"
        ).collect()
    }
    for row in lake.sql(query).collect():
        bound = 2**-52 * values[row["g"]]["n"] * values[row["g"]]["size"]
        assert abs(shown[row["g"]] - row["total"]) <= bound
