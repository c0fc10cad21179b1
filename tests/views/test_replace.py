"""CREATE OR REPLACE: the view before stays until the new one is there; what fails leaves nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import belvedere as bv
from belvedere.sql.names import PART_PREFIX, STORED_PREFIX
from belvedere.views import parts
from tests.views.comparison import assert_all_fresh

pytestmark = pytest.mark.spark

BEFORE = (
    "SELECT k, n FROM (SELECT k, count(*) AS n FROM r GROUP BY k) WHERE n >"
    " (SELECT avg(n) FROM (SELECT k, count(*) AS n FROM r GROUP BY k)) - 1"
)
NOW = "SELECT b, count(*) AS n FROM (SELECT b, k, sum(a) AS s FROM r GROUP BY b, k) GROUP BY b"
FAILS = (
    "SELECT k, count(*) AS n, sum(CAST(b AS INT)) AS s"
    " FROM (SELECT k, b, max(a) AS m FROM r GROUP BY k, b) GROUP BY k"
)
PLAIN = "SELECT k, b FROM r WHERE a > 2"


@pytest.fixture
def lake(spark: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[bv.Lake]:
    monkeypatch.setattr(parts, "LARGE", 0)
    monkeypatch.setattr(parts, "REDUCES", 0)
    with bv.connect(tmp_path / "lake") as lake:
        lake.sql("CREATE TABLE r (k BIGINT, a BIGINT, b STRING)")
        more(lake)
        yield lake


def more(lake: bv.Lake) -> None:
    lake.sql("INSERT INTO r SELECT id % 3, id, concat('x', id % 2) FROM range(7)")


def ours(lake: bv.Lake) -> list[str]:
    """The directories of views' rows and of their parts."""
    assert lake._door.directory is not None
    found = (path.name for path in lake._door.directory.iterdir())
    return sorted(name for name in found if name.startswith((STORED_PREFIX, PART_PREFIX)))


def test_a_replacement_that_fails_leaves_the_view_as_it_was(lake: bv.Lake) -> None:
    lake.sql(f"CREATE MATERIALIZED VIEW v AS {BEFORE}")
    made = ours(lake)
    before = sorted(map(tuple, lake.view("v").df().collect()))
    more(lake)
    with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        lake.sql(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {FAILS}")
    assert sorted(map(tuple, lake.view("v").df().collect())) == before
    assert made == ours(lake)
    for _ in range(2):
        lake.refresh("v")
        assert_all_fresh(lake, {"v": BEFORE}, ("r",))
        more(lake)
    assert lake.refresh("v").reason == ""


def test_a_replacement_takes_the_name_and_leaves_nothing_of_the_view_before(lake: bv.Lake) -> None:
    for query, count in ((BEFORE, 2), (NOW, 2), (PLAIN, 1), (BEFORE, 2)):
        lake.sql(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {query}")
        assert_all_fresh(lake, {"v": query}, ("r",))
        assert len(ours(lake)) >= count
        more(lake)
        assert lake.refresh("v").reason == ""
        assert_all_fresh(lake, {"v": query}, ("r",))
    lake.sql("DROP MATERIALIZED VIEW v")
    assert ours(lake) == []


def test_a_new_view_that_fails_leaves_nothing(lake: bv.Lake) -> None:
    with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        lake.sql(f"CREATE MATERIALIZED VIEW v AS {FAILS}")
    assert ours(lake) == []
    assert lake.status() == []


def test_rows_that_are_computed_again_stay_in_their_table(lake: bv.Lake) -> None:
    """What reads a view would otherwise be computed again, too."""
    for name, query in (("v", BEFORE), ("w", NOW), ("x", PLAIN)):
        lake.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    before = {name: lake._door.table(name).id for name in ours(lake)}
    more(lake)
    lake.refresh(full=True)
    assert {name: lake._door.table(name).id for name in ours(lake)} == before
