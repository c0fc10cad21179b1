"""When the row that held a minimum or maximum goes, the next one is found without a look at all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import belvedere as bv
from belvedere.views.incremental import extrema
from tests.views.comparison import assert_fresh

pytestmark = pytest.mark.spark

QUERY = """SELECT min(x) AS low, max(x) AS high, max(p.s) AS last, count(*) AS n, sum(x) AS total
FROM price p JOIN shop ON p.s = shop.s WHERE place = 'here'"""
FOUND = "-- 1 row to write, computed in memory: the next extremum was found"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[bv.Lake]:
    with bv.connect(tmp_path_factory.mktemp("next")) as lake:
        lake.sql("CREATE TABLE price (k BIGINT, x DECIMAL(10,2), s BIGINT)")
        lake.sql("CREATE TABLE shop (s BIGINT, place STRING)")
        lake.sql(
            "INSERT INTO price SELECT id, IF(id % 50 = 7, NULL, id * 37 % 1000 / 4), id % 20"
            " FROM range(2000)"
        )
        lake.sql("INSERT INTO shop SELECT id, IF(id % 3 = 0, 'here', 'there') FROM range(20)")
        lake.sql(f"CREATE MATERIALIZED VIEW ends REFRESH POLICY INCREMENTAL AS {QUERY}")
        yield lake


def refreshed(lake: bv.Lake) -> tuple[str, bool]:
    """How a refresh went, and whether it found the next extremum; what it wrote is right."""
    done = lake.refresh("ends")
    assert_fresh(lake, "ends", QUERY)
    return f"{done.strategy} {done.reason}".strip(), FOUND in done.sql


def held(lake: bv.Lake, column: str) -> str:
    return str(lake.sql(f"SELECT {column} FROM ends").collect()[0][0])


def test_the_rows_that_held_them_go(lake: bv.Lake) -> None:
    for ends in ("low", "high", "low", "high"):
        lake.sql(f"DELETE FROM price WHERE x = {held(lake, ends)}")
        assert refreshed(lake) == ("merge", True)
        assert lake.history("ends")[0].jobs == 0


def test_what_they_were_joined_with_goes(lake: bv.Lake) -> None:
    lake.sql(f"UPDATE shop SET place = 'there' WHERE s = {held(lake, 'last')}")
    assert refreshed(lake) == ("merge", True)


def test_both_at_once_beside_rows_that_come(lake: bv.Lake) -> None:
    lake.sql(f"DELETE FROM price WHERE x IN ({held(lake, 'low')}, {held(lake, 'high')})")
    lake.sql(
        f"INSERT INTO price VALUES (-1, {held(lake, 'low')} + 1, 3), (-2, NULL, 3), (-3, -5, 1)"
    )
    lake.sql("UPDATE shop SET place = 'here' WHERE s = 4")
    assert refreshed(lake)[0] == "merge"


def test_an_equal_row_stays(lake: bv.Lake) -> None:
    lake.sql(f"INSERT INTO price VALUES (-4, {held(lake, 'low')}, 3)")
    lake.refresh("ends")
    lake.sql("DELETE FROM price WHERE k = -4")
    assert refreshed(lake) == ("merge", True)


def test_only_some_tables_move(lake: bv.Lake) -> None:
    lake.sql(f"DELETE FROM price WHERE x = {held(lake, 'low')}")
    lake.sql("UPDATE shop SET place = 'here' WHERE s = 5")
    assert lake.advance("ends", "price").strategy == "merge"
    assert lake.advance("ends", "shop").strategy == "merge"
    assert_fresh(lake, "ends", QUERY)


def test_where_none_is_near_all_rows_are_gone_through(
    lake: bv.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extrema, "ROWS_TRIED", (1, 2))
    lake.sql("INSERT INTO price SELECT -10 - id, -50, 1 FROM range(5)")
    lake.sql("INSERT INTO price VALUES (-9, -60, 3)")
    lake.refresh("ends")
    lake.sql("DELETE FROM price WHERE k = -9")
    assert refreshed(lake) == ("replace keys LOST_EXTREMUM", False)


def test_none_is_left(lake: bv.Lake) -> None:
    lake.sql("UPDATE shop SET place = 'there'")
    assert refreshed(lake)[1] is False
    lake.sql("UPDATE shop SET place = 'here' WHERE s = 6")
    refreshed(lake)
