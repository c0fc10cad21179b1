"""Every operator on Spark and Delta, through rounds of mixed changes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from math import inf

import pytest

import belvedere as bv
from belvedere.execution import in_memory, lookups, steps
from belvedere.rules import backward, outward
from tests.views.comparison import assert_all_fresh
from tests.views.examples import FILL, REBUILDS, ROUNDS, TABLES, VIEWS

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[bv.Lake]:
    with bv.connect(tmp_path_factory.mktemp("rounds")) as lake:
        for name, columns in TABLES.items():
            lake.sql(f"CREATE TABLE {name} ({columns})")
        for statement in FILL:
            lake.sql(statement)
        over = {name: query for name, query in VIEWS.items() if name.startswith("v_over")}
        for some in (VIEWS.keys() - over.keys(), over.keys()):
            with ThreadPoolExecutor(2) as pool:
                create = (f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name]}" for name in some)
                for done in [pool.submit(lake.sql, statement) for statement in create]:
                    done.result()
        yield lake


def test_new_views_equal_their_queries(lake: bv.Lake) -> None:
    assert_all_fresh(lake, VIEWS, TABLES)


@pytest.mark.parametrize("number", range(len(ROUNDS)))
def test_views_equal_their_queries_after_round(
    lake: bv.Lake, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if number < 2:  # by Spark alone
        monkeypatch.setattr(in_memory, "MAX_ROWS", -1)
    if number % 2:  # as if the tables were large
        monkeypatch.setattr(in_memory, "MAX_ROWS_READ_WHOLE", -1)
        monkeypatch.setattr(lookups, "MIN_TABLE_ROWS", 0)
        monkeypatch.setattr(lookups, "MAX_PART", inf)
    if number == 1:
        monkeypatch.setattr(steps, "JOB_WORK", -1)
        monkeypatch.setattr(outward, "MUCH_LARGER", 0)
        monkeypatch.setattr(backward, "LARGE", -1)
    for statement in ROUNDS[number]:
        lake.sql(statement)
    done = lake.refresh()
    assert isinstance(done, list)
    rebuilt = {r.name: r.reason for r in done if r.strategy == "rebuild"}
    assert rebuilt.items() <= REBUILDS.items()
    assert_all_fresh(lake, VIEWS, TABLES)
