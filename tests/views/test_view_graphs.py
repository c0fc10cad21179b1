"""Views over views, several deep and through more than one path: right together, and each alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import belvedere as bv
from belvedere.views.catalog import the_view
from belvedere.views.catalog_views import read_sql
from tests.views.comparison import assert_all_fresh, assert_same

pytestmark = pytest.mark.spark

# `top` reads the table by five paths, three views deep.
VIEWS = {
    "sums": "SELECT k, count(*) AS n, sum(x) AS total FROM t GROUP BY k",
    "large": "SELECT k, x FROM t WHERE x > 20",
    "beside": "SELECT s.k, s.total, l.x FROM sums s LEFT JOIN large l ON s.k = l.k",
    "top": "SELECT b.total, count(*) AS n, max(s.n) AS most FROM beside b JOIN sums s ON b.k = s.k"
    " WHERE b.k IN (SELECT k FROM large) GROUP BY b.total",
}


@pytest.fixture
def lake(spark: object, tmp_path: Path) -> Iterator[bv.Lake]:
    with bv.connect(tmp_path / "lake") as lake:
        lake.sql("CREATE TABLE t (k INT, x INT)")
        lake.sql("INSERT INTO t SELECT id % 6, id FROM range(40)")
        for name, query in VIEWS.items():
            lake.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        yield lake


def change(lake: bv.Lake, number: int) -> None:
    lake.sql(f"INSERT INTO t SELECT id % 7, id * {number} FROM range(15)")
    lake.sql(f"DELETE FROM t WHERE x % 5 = {number % 5}")
    lake.sql(f"UPDATE t SET x = NULL, k = NULL WHERE x = {number + 20}")


def refreshed_from_changes(lake: bv.Lake) -> None:
    done = lake.refresh()
    assert isinstance(done, list)
    assert [r.name for r in done if r.strategy == "rebuild"] == []
    assert {r.name for r in done} == set(VIEWS)
    assert_all_fresh(lake, VIEWS, ("t",))


def test_one_call_refreshes_all_in_order(lake: bv.Lake) -> None:
    for number in range(1, 4):
        change(lake, number)
        refreshed_from_changes(lake)


def test_a_view_brings_what_it_reads_with_it(lake: bv.Lake) -> None:
    change(lake, 1)
    lake.refresh("beside")
    assert_all_fresh(lake, {v: VIEWS[v] for v in ("sums", "large", "beside")}, ("t",))
    pending = {s.name: s.fresh for s in lake.status()}
    assert pending == {"sums": True, "large": True, "beside": True, "top": False}


def test_a_view_alone_is_its_query_over_its_inputs_as_they_are(lake: bv.Lake) -> None:
    before = vector(lake, "top")
    change(lake, 1)
    lake.refresh("beside")
    change(lake, 2)  # by now all are behind, and `top` by two changes
    newest = vector_of_inputs(lake)
    for inner in ("beside", "large", "sums"):
        lake.advance("top", inner)
        before[inner] = newest[inner]
        assert vector(lake, "top") == before
        assert_same(lake.view("top").df(), lake.sql(at(lake, before)), inner)
    assert lake.refresh("sums").rows_changed
    refreshed_from_changes(lake)


def vector(lake: bv.Lake, name: str) -> dict[str, int]:
    """Where a view is, by the versions of what it reads."""
    (found,) = (s for s in lake.status() if s.name == name)
    return dict(found.vector)


def vector_of_inputs(lake: bv.Lake) -> dict[str, int]:
    """The newest versions of the views that `top` reads."""
    door = lake._door
    return {v: door.table(the_view(door, v).stored).version for v in VIEWS if v != "top"}


def at(lake: bv.Lake, versions: dict[str, int]) -> str:
    """The query of `top` over views as they were at some versions of their rows."""
    past = ", ".join(
        f"{v} AS ({read_sql(lake._door, the_view(lake._door, v), n)})" for v, n in versions.items()
    )
    return f"WITH {past} {VIEWS['top']}"
