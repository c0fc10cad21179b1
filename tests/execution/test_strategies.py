"""Which way a refresh takes under each policy, and what it says about the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import belvedere as bv
from belvedere.derivations.cost_history import cost_history
from belvedere.execution import costs, in_memory, lookups
from belvedere.execution.strategies import Strategy
from belvedere.views.incremental import comparison
from tests.views.comparison import assert_all_fresh

pytestmark = pytest.mark.spark

QUERY = "SELECT k % 10 AS g, count(*) AS n, sum(v) AS v FROM t GROUP BY k % 10"
POLICIES = {"auto": "AUTO", "incremental": "INCREMENTAL", "strict": "INCREMENTAL STRICT"}
VIEWS = dict.fromkeys(POLICIES, QUERY)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[bv.Lake]:
    with bv.connect(tmp_path_factory.mktemp("choice")) as lake:
        lake.sql("CREATE TABLE t (k BIGINT, v INT)")
        lake.sql("INSERT INTO t SELECT id, id FROM range(1000)")
        for name, policy in POLICIES.items():
            lake.sql(f"CREATE MATERIALIZED VIEW {name} REFRESH POLICY {policy} AS {QUERY}")
        yield lake


def strategies(lake: bv.Lake) -> dict[str, str]:
    done = lake.refresh()
    assert isinstance(done, list)
    assert_all_fresh(lake, VIEWS, {"t": ""})
    return {r.name: f"{r.strategy} {r.reason}".strip() for r in done}


def test_a_small_change_is_merged(lake: bv.Lake) -> None:
    lake.sql("DELETE FROM t WHERE k = 5")
    assert strategies(lake) == dict.fromkeys(POLICIES, "merge")
    newest = lake.history("auto")[0]
    assert [c.strategy for c in newest.candidates] == ["merge", "rebuild"]
    assert all(c.predicted_seconds and c.work for c in newest.candidates)


def test_auto_rebuilds_where_that_is_predicted_to_take_less(
    lake: bv.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "WORTH_IT", 0.9)
    monkeypatch.setattr(costs, "_factor", lambda how, *_: 0.01 if how == "rebuild" else 1.0)
    lake.sql("UPDATE t SET v = v + 1")
    expected = {**dict.fromkeys(POLICIES, "merge"), "auto": "rebuild CHEAPER"}
    assert strategies(lake) == expected


def test_what_a_refresh_took_is_learned(lake: bv.Lake) -> None:
    lake.sql("INSERT INTO t VALUES (3, 3)")
    lake.refresh("auto")
    newest = lake.history("auto")[0]
    lake.sql("INSERT INTO t VALUES (4, 4)")
    lake.refresh("auto")
    took = [t for t in cost_history(lake._door, _id(lake)).own if t.strategy == "merge"]
    assert took[1].seconds == pytest.approx(newest.seconds, abs=0.05)
    with bv.connect(lake._door.directory) as again:
        assert len(cost_history(again._door, _id(again)).own) == len(lake.history("auto"))


def test_it_is_foreseen_whether_spark_has_to_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected: dict[str, bool] = {}

    def noted(strategy: Strategy, work: float, earlier: costs.CostHistory) -> costs.Candidate:
        expected[strategy.value] = earlier.of_spark
        return costs.candidate(strategy, work, earlier)

    monkeypatch.setattr(comparison, "candidate", noted)
    monkeypatch.setattr(lookups, "MIN_TABLE_ROWS", 10)
    monkeypatch.setattr(in_memory, "MAX_ROWS_READ_WHOLE", 10)
    query = "SELECT l.k, v, w FROM l JOIN r ON l.k = r.k"
    with bv.connect(tmp_path / "lake") as lake:
        for table, column in (("l", "v"), ("r", "w")):
            lake.sql(f"CREATE TABLE {table} (k BIGINT, {column} INT)")
            lake.sql(f"INSERT INTO {table} SELECT id, id FROM range(1000)")
        lake.sql(f"CREATE MATERIALIZED VIEW joined AS {query}")
        for rows in (5, 600):
            lake.sql(f"INSERT INTO l SELECT id, -id FROM range({rows})")
            assert lake.refresh("joined").strategy == "merge"
            assert (lake.history("joined")[0].jobs > 0) is (rows == 600) is expected["merge"]
        assert_all_fresh(lake, {"joined": query}, {"l": "", "r": ""})


def _id(lake: bv.Lake) -> str:
    return lake.view("auto")._view.definition.id
