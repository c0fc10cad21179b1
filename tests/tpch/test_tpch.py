"""The 22 queries of TPC-H as views, through rounds of changes to all their tables."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from math import inf

import pytest
from benchmarks.data import tpch

import belvedere as bv
from belvedere.execution import in_memory, lookups
from belvedere.views import parts
from tests.views.comparison import assert_all_fresh

pytestmark = [pytest.mark.spark, pytest.mark.soak]

REBUILT: dict[str, str] = {}
"""The views that no change but a rebuild reaches, with their reasons."""

TOUCHED_AS_A_WHOLE: set[str] = set()
"""The views that have an operator below the top of which a change touches everything."""

ROUNDS = {
    "orders come and go, prices change, customers move, a nation is renamed": [
        *tpch.scattered(1, 0.02),
        "UPDATE part SET p_retailprice = p_retailprice + 1, p_size = 15 WHERE p_partkey % 20 = 3",
        "UPDATE partsupp SET ps_supplycost = ps_supplycost * 0.5 WHERE ps_partkey % 10 = 3",
        "UPDATE customer SET c_nationkey = (c_nationkey + 1) % 25 WHERE c_custkey % 10 = 4",
        "UPDATE nation SET n_name = 'GERMANIA' WHERE n_name = 'GERMANY'",
    ],
    "suppliers are gone": ["DELETE FROM supplier"],
    "suppliers are back with orders, the nation has its name again": [
        "INSERT INTO supplier SELECT * FROM supplier VERSION AS OF 1",
        "UPDATE nation SET n_name = 'GERMANY' WHERE n_name = 'GERMANIA'",
        *tpch.scattered(2, 0.02),
    ],
}


@pytest.fixture(scope="module", params=["as they are", "as if large"])
def lake(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[bv.Lake]:
    """All queries as views; of tables as if they were large, with parts and look-ups."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "as if large":
            patch.setattr(in_memory, "MAX_ROWS_READ_WHOLE", -1)
            patch.setattr(lookups, "MIN_TABLE_ROWS", 0)
            patch.setattr(lookups, "MAX_PART", inf)
            patch.setattr(parts, "LARGE", 0)
            patch.setattr(parts, "REDUCES", 0)
        yield from _filled(tmp_path_factory)


def _filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[bv.Lake]:
    directory = tmp_path_factory.mktemp("tpch")
    source = tpch.data(0.01, directory)
    with bv.connect(directory / "lake") as lake:
        tpch.load(lake, source)
        with ThreadPoolExecutor(2) as pool:
            created = [
                pool.submit(lake.sql, f"CREATE MATERIALIZED VIEW {view} AS {query}")
                for view, query in tpch.queries().items()
            ]
        for done in created:
            done.result()
        yield lake


def test_new_views_equal_their_queries(lake: bv.Lake) -> None:
    assert_all_fresh(lake, tpch.queries(), tpch.TABLES)


def test_no_change_of_large_tables_touches_everything(lake: bv.Lake) -> None:
    """What is small is computed again where that is less than its change."""
    if lookups.MIN_TABLE_ROWS:
        pytest.skip("of small tables nothing is kept in parts")
    wide = {v for v in tpch.queries() if "can touch everything" in str(lake.explain(v))}
    assert wide <= TOUCHED_AS_A_WHOLE


@pytest.mark.parametrize("kind", ROUNDS)
def test_views_equal_their_queries_when(lake: bv.Lake, kind: str) -> None:
    for statement in ROUNDS[kind]:
        lake.sql(statement)
    done = lake.refresh()
    assert isinstance(done, list)
    rebuilt = {r.name: r.reason for r in done if r.strategy == "rebuild"}
    assert rebuilt.items() <= REBUILT.items()
    assert_all_fresh(lake, tpch.queries(), tpch.TABLES)
