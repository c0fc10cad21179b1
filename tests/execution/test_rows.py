"""The rows of a change plan: its passes in order, and the records of what ran."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp

from belvedere.algebra.relations import At, Change, Empty, Field, Filter, Join, JoinKind, Rel, Scan
from belvedere.algebra.scalars import col, equal, lit
from belvedere.analyses.sizes import Statistics
from belvedere.execution import lookups, rows
from belvedere.execution.change_plan import ChangePlan
from belvedere.execution.context import ExecutionContext, new_context
from belvedere.execution.predicted_work import predict_work
from belvedere.execution.rows import IN_MEMORY_PASSES, PASSES, rows_of
from belvedere.memory.plans import Rows
from belvedere.sql.render import SIGN

ITEMS = (Field("k", "k", "bigint"), Field("v", "v", "bigint"))
PRICES = Scan("prices", (Field("p", "p", "bigint"), Field("w", "w", "bigint")), At.NEW)
JOINED = Join(Change("items", ITEMS), PRICES, JoinKind.INNER, equal(col("k"), col("p")))
CHANGE = pa.table({"k": [1, 2], "v": [10, 20], SIGN: [1, -1]})
PRICE_ROWS = pa.table({"p": [1, 2, 3], "w": [5, 6, 7]})


def sizes(prices: float) -> Statistics:
    return Statistics(
        rows={"prices": prices}, changed={"items": 2.0}, values={("prices", "p"): 1e6}
    )


class FakeVersions:
    """The newest version of a table of prices, whole or by look-up."""

    def __init__(self, computes_here: bool = True) -> None:
        self.asked: list[str] = []
        self.opened: set[tuple[str, int]] = set()
        self.work = SimpleNamespace(
            usual_decimals=True, computes_here=computes_here, few=self._few, hold=self._hold
        )
        self.pins = SimpleNamespace(
            whole=self._whole, lookup_cache=SimpleNamespace(rows=self._rows)
        )

    def version(self, leaf: Scan) -> tuple[Any, int]:
        kinds = {"p": "bigint", "w": "bigint"}
        return SimpleNamespace(name=leaf.table, types=kinds, columns=[*kinds.items()]), 3

    def __call__(self, leaf: Scan | Change) -> Any:
        return exp.to_table(leaf.table)

    def _whole(self, *_: Any) -> pa.Table:
        self.asked.append("whole")
        return PRICE_ROWS

    def _rows(self, *asked: Any, **_: Any) -> pa.Table:
        self.asked.append("look-up")
        return PRICE_ROWS.slice(0, 2).select(asked[2])

    def _few(self, query: str, _: int) -> Rows:
        self.asked.append("job")
        return Rows(pa.table({"p": [1], "w": [5]}), {"p": "bigint", "w": "bigint"})

    def _hold(self, *_: Any) -> str:
        return "held"


@pytest.fixture
def versions(monkeypatch: pytest.MonkeyPatch) -> FakeVersions:
    monkeypatch.setattr(lookups, "can_look_up", lambda *_: True)
    return FakeVersions()


def context(versions: Any, change: pa.Table = CHANGE) -> ExecutionContext:
    return new_context(versions, {"items": change}, {}, [])


def result(found: rows.ChangeRows) -> list[dict[str, Any]]:
    assert found.in_memory is not None
    return sorted(found.in_memory.table.to_pylist(), key=lambda row: row["k"])


BOTH = [{"k": 1, "v": 10, "p": 1, "w": 5, SIGN: 1}, {"k": 2, "v": 20, "p": 2, "w": 6, SIGN: -1}]


def test_a_small_table_is_read_whole_and_nothing_is_left_for_spark(versions: FakeVersions) -> None:
    here = context(versions)
    change = ChangePlan(JOINED, sizes(prices=3))
    assert not predict_work(change, here).on_spark
    assert result(rows_of(change, here)) == BOTH
    assert versions.asked == ["whole"]
    assert here.ran == []


def test_rows_of_a_large_table_are_looked_up_and_recorded(versions: FakeVersions) -> None:
    here = context(versions)
    change = ChangePlan(JOINED, sizes(prices=1e6))
    assert not predict_work(change, here).on_spark
    assert versions.asked == []
    assert result(rows_of(change, here)) == BOTH
    assert versions.asked == ["look-up"]
    text = "2 rows of prices at version 3, looked up by 2 values of p"
    assert [(ran.step, ran.rows, str(ran)) for ran in here.ran] == [("look-up", 2, f"-- {text}")]
    assert versions.opened == {("prices", 3)}


def test_what_is_not_in_memory_is_a_query_for_spark() -> None:
    versions = FakeVersions(computes_here=False)
    here = context(versions)
    change = ChangePlan(JOINED, sizes(prices=1e6))
    assert predict_work(change, here).on_spark
    found = rows_of(change, here)
    assert found.in_memory is None
    assert not found.is_empty
    assert "prices" in found.query().sql()
    assert versions.asked == []


def test_a_total_beside_the_change_is_a_step_of_its_own(versions: FakeVersions) -> None:
    """Spark computes it first, and the rest is computed in memory."""
    versions.work.computes_here = False
    some = Filter(PRICES, equal(col("w"), lit(5)))
    joined = Join(Change("items", ITEMS), some, JoinKind.INNER, equal(col("k"), col("p")))
    change = ChangePlan(joined, sizes(prices=1000))
    here = context(versions)
    assert rows_of(change, here, IN_MEMORY_PASSES).in_memory is None
    assert here.ran == []
    assert result(rows_of(change, here)) == BOTH[:1]
    step = here.ran[0]
    assert (step.step, step.rows, str(step)) == ("step", 1, step.sql)
    assert step.seconds is not None


def test_an_empty_change_has_no_rows(versions: FakeVersions) -> None:
    found = rows_of(ChangePlan(JOINED, sizes(3)), context(versions, CHANGE.slice(0, 0)))
    assert found.is_empty
    assert found.in_memory is None


def test_passes_run_in_their_order_on_the_plan_of_the_pass_before() -> None:
    seen: list[Rel] = []
    plans = [Empty(("a",)), Empty(("b",))]

    def leads_to(plan: Rel) -> rows.Pass:
        return lambda change, _: (seen.append(change.plan), change.with_plan(plan))[1]

    here: Any = SimpleNamespace(memory=SimpleNamespace(result=lambda _: None))
    found = rows_of(ChangePlan(JOINED), here, tuple(map(leads_to, plans)))
    assert seen == [JOINED, plans[0]]
    assert found.change.plan is plans[1]
    assert [each.__name__ for each in PASSES] == [
        "resolve_lookups",
        "reorder_joins",
        "resolve_lookups",
        "run_steps",
    ]
