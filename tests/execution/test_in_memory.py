"""Rows in memory that stand for parts of a plan."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from belvedere.algebra.relations import Change, Field, Filter, Scan, TopK, Union
from belvedere.algebra.scalars import col, equal, lit
from belvedere.execution.change_plan import ChangePlan
from belvedere.execution.in_memory import RowsInMemory, evaluate_in_memory
from belvedere.sql.render import SIGN

FIELDS = (Field("a", "a", "int"),)
TABLES: Any = SimpleNamespace(work=SimpleNamespace(usual_decimals=True, computes_here=False))


def test_what_cannot_be_computed_stays_the_same_plan() -> None:
    """Steps know parts that were declined by identity."""
    change = ChangePlan(TopK(Filter(Scan("t", FIELDS), equal(col("a"), lit(1))), (), 3))
    assert evaluate_in_memory(change, RowsInMemory(TABLES, {})) is change


def test_the_largest_part_that_can_be_computed_is() -> None:
    rows = pa.table({"a": pa.array([1, 1, 2], pa.int32()), SIGN: pa.array([1, -1, 2])})
    memory = RowsInMemory(TABLES, {"t": rows})
    twos = Filter(Change("t", FIELDS), equal(col("a"), lit(2)))
    change = ChangePlan(Union((twos, Scan("u", FIELDS)), ("a",)))
    evaluated = evaluate_in_memory(change, memory).plan
    assert isinstance(evaluated, Union)
    result = memory.result(evaluated.children[0])
    assert result is not None
    assert result.table.to_pydict() == {"a": [2, 2], SIGN: [1, 1]}
    assert evaluated.children[1] == Scan("u", FIELDS)
