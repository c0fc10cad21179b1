"""A value that has no result is the user's to mend: Invalid, with the view's name and Spark's words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

import belvedere as bv

pytestmark = pytest.mark.spark

VIEWS = {
    "plain_division": ("SELECT id, 10 / x AS r FROM t", "DIVIDE_BY_ZERO"),
    "summed_division": ("SELECT id, sum(10 / x) AS r FROM t GROUP BY id", "DIVIDE_BY_ZERO"),
    "plain_cast": ("SELECT id, CAST(s AS INT) AS r FROM t", "CAST_INVALID_INPUT"),
    "overflow": ("SELECT id, x * 700000000 AS r FROM t", "ARITHMETIC_OVERFLOW"),
    "subquery": ("SELECT id, (SELECT y FROM one) AS r FROM t", "SCALAR_SUBQUERY_TOO_MANY_ROWS"),
}
UNMENDED = ["INSERT INTO t VALUES (5, 0, 'zz'), (6, 9, '1')", "INSERT INTO one VALUES (2)"]
MENDED = ["DELETE FROM t WHERE id = 5 OR x = 9", "DELETE FROM one WHERE y = 2"]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[bv.Lake]:
    with bv.connect(tmp_path_factory.mktemp("data")) as lake:
        lake.sql("CREATE TABLE t (id INT, x INT, s STRING)")
        lake.sql("INSERT INTO t VALUES (1, 1, '1'), (2, 3, '4')")
        lake.sql("CREATE TABLE one (y INT)")
        lake.sql("INSERT INTO one VALUES (1)")
        for name, (query, _) in VIEWS.items():
            lake.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        lake.sql("CREATE SAMPLE ON summed_division RATIO 100 PERCENT")
        lake.sql("CREATE UPDATABLE VIEW through AS SELECT id, x, s FROM t")
        for statement in UNMENDED:
            lake.sql(statement)
        yield lake


def refused(run: object, what: str, reason: str) -> None:
    """The call is Invalid, in words of the user's: no SQL of ours, no stack of Java's."""
    assert callable(run)
    with pytest.raises(bv.Invalid) as caught:
        run()
    assert caught.value.reason == reason
    assert what in caught.value.message
    assert reason in caught.value.detail
    assert caught.value.hint.startswith("correct the rows")
    text = str(caught.value)
    assert not any(trace in text for trace in ("__bv", "== SQL", "\tat ", "t1", "spark.sql.ansi"))


@pytest.mark.parametrize("name", VIEWS)
def test_a_refresh_names_the_view_and_the_error(lake: bv.Lake, name: str) -> None:
    before = rows(lake, f"SELECT * FROM {name}")
    refused(lambda: lake.refresh(name), repr(name), VIEWS[name][1])
    assert rows(lake, f"SELECT * FROM {name}") == before


@pytest.mark.parametrize("name", ["summed_division", "subquery"])
def test_what_cannot_be_computed_whole_is_not_created(lake: bv.Lake, name: str) -> None:
    query, reason = VIEWS[name]
    refused(lambda: lake.refresh(name, full=True), repr(name), reason)
    refused(lambda: lake.sql(f"CREATE MATERIALIZED VIEW other AS {query}"), "'other'", reason)
    assert "other" not in {row["name"] for row in lake.sql("SHOW MATERIALIZED VIEWS").collect()}


def test_every_way_that_moves_a_view_says_the_same(lake: bv.Lake) -> None:
    reason = "DIVIDE_BY_ZERO"
    refused(
        lambda: lake.sql("REFRESH MATERIALIZED VIEW plain_division"), "'plain_division'", reason
    )
    refused(lambda: lake.advance("plain_division", "t"), "'plain_division'", reason)
    refused(lambda: lake.estimate("SELECT sum(r) FROM summed_division"), "summed_division", reason)
    refused(lambda: lake.sql("CREATE TABLE c AS SELECT 10 / x AS r FROM t"), "'c'", reason)
    refused(lambda: lake.sql("DELETE FROM through WHERE 10 / x > 1"), "", reason)
    with pytest.raises(bv.Invalid):
        lake.refresh()


def test_once_the_rows_are_mended_the_views_go_on(lake: bv.Lake) -> None:
    for statement in MENDED:
        lake.sql(statement)
    lake.refresh()
    for name, (query, _) in VIEWS.items():
        assert rows(lake, f"SELECT * FROM {name}") == rows(lake, query)


def rows(lake: bv.Lake, query: str) -> Counter[str]:
    return Counter(map(str, lake.sql(query).collect()))
