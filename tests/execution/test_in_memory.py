"""Rows in memory that stand for parts of a plan."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from belvedere.algebra.relations import Change, Field, Filter, Scan, TopK, Union
from belvedere.algebra.scalars import col, equal, lit
from belvedere.analyses.sizes import NOTHING_KNOWN
from belvedere.execution.in_memory import Held
from belvedere.sql.render import SIGN

FIELDS = (Field("a", "a", "int"),)
TABLES: Any = SimpleNamespace(work=SimpleNamespace(usual_decimals=True, near=False))


def test_what_cannot_be_computed_stays_the_same_plan() -> None:
    """Steps know parts that were declined by identity."""
    plan = TopK(Filter(Scan("t", FIELDS), equal(col("a"), lit(1))), (), 3)
    folded, _ = Held(TABLES, {}).folded(plan, NOTHING_KNOWN)
    assert folded is plan


def test_the_largest_part_that_can_be_computed_is() -> None:
    rows = pa.table({"a": pa.array([1, 1, 2], pa.int32()), SIGN: pa.array([1, -1, 2])})
    held = Held(TABLES, {"t": rows})
    twos = Filter(Change("t", FIELDS), equal(col("a"), lit(2)))
    folded, _ = held.folded(Union((twos, Scan("u", FIELDS)), ("a",)), NOTHING_KNOWN)
    assert isinstance(folded, Union)
    result = held.result(folded.children[0])
    assert result is not None
    assert result.table.to_pydict() == {"a": [2, 2], SIGN: [1, 1]}
    assert folded.children[1] == Scan("u", FIELDS)
