"""Copies of equal rows that come and go, numbered without gaps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from belvedere.errors import Internal
from belvedere.memory.plans import Rows
from belvedere.sql.render import SIGN
from belvedere.views.incremental.copies import copies_to_write

TYPES = {"a": "bigint", "b": "string"}


def pins(stored: list[tuple[int | None, str | None]]) -> Any:
    columns = {c: [row[i] for row in stored] for i, c in enumerate(TYPES)}
    rows = pa.table(columns, schema=pa.schema([("a", pa.int64()), ("b", pa.string())]))
    return SimpleNamespace(table=lambda _: SimpleNamespace(types=TYPES), whole=lambda *_: rows)


def written(change: list[tuple[Any, ...]], stored: list[tuple[Any, ...]]) -> set[tuple[Any, ...]]:
    a, b, signs = zip(*change, strict=True)
    # As a plan may compute it: narrower than it is stored.
    table = pa.table({"a": pa.array(a, pa.int32()), "b": b, SIGN: pa.array(signs, pa.int64())})
    found = copies_to_write(Rows(table, {"a": "int", "b": "string"}), pins(stored), "v", 1)
    assert found is not None
    assert found.schema.field("a").type == pa.int64()
    rows = [tuple(row.values()) for row in found.to_pylist()]
    assert len(set(rows)) == len(rows)
    return set(rows)


def test_copies_are_numbered_on_from_those_held() -> None:
    stored = [(1, "x"), (1, "x"), (None, None), (2, "y")]
    change = [(1, "x", 1), (1, "x", 1), (None, None, 1), (3, None, 1), (2, "y", 1), (2, "y", -1)]
    assert written(change, stored) == {
        (1, "x", True, 3),
        (1, "x", True, 4),
        (None, None, True, 2),
        (3, None, True, 1),
    }


def test_the_last_copies_go_first() -> None:
    stored = [(1, "x")] * 3 + [(None, "x")]
    assert written([(1, "x", -1), (1, "x", -1), (None, "x", -1)], stored) == {
        (1, "x", False, 3),
        (1, "x", False, 2),
        (None, "x", False, 1),
    }


def test_nothing_is_held_of_an_empty_table() -> None:
    assert written([(1, "x", 1), (1, "x", 1)], []) == {(1, "x", True, 1), (1, "x", True, 2)}


def test_copies_that_are_not_there_cannot_go() -> None:
    with pytest.raises(Internal, match="not what their vector says"):
        written([(1, "x", -1)], [(2, "x")])
