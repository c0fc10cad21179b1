"""Rows as a user gives them: taken as they are or refused, never changed on the way."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from belvedere.errors import Invalid
from belvedere.lake.offline import OfflineLake
from belvedere.updating.build import build_updatable
from belvedere.updating.request.view_updates import ViewUpdate, typed_rows
from belvedere.updating.side_effects.check_update import check_in_mode
from belvedere.updating.state import UpdatableState

DAY = datetime.date(2021, 1, 2)
TIME = datetime.datetime(2021, 1, 2, 3)
GOOD: dict[str, Any] = {
    "n": 1, "small": 2, "price": Decimal("1.50"), "day": DAY, "at": TIME, "text": "t", "raw": b"r", "ok": True,
}  # fmt: skip
QUERY = "SELECT n, small, price, day, at, text, raw, ok FROM t"
TYPES = {
    "n": pa.int64(), "small": pa.int8(), "price": pa.decimal128(5, 2), "day": pa.date32(),
    "at": pa.timestamp("us", "UTC"), "text": pa.string(), "raw": pa.binary(), "ok": pa.bool_(),
}  # fmt: skip


def held(directory: Path, query: str = QUERY) -> tuple[OfflineLake, UpdatableState]:
    none = pa.table({name: pa.array([], kind) for name, kind in TYPES.items()})
    write_deltalake(str(directory / "t"), none)
    lake = OfflineLake(directory)
    return lake, build_updatable(lake, {"name": "v", "query": query, "root": None, "percent": 0.0})


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> tuple[OfflineLake, UpdatableState]:
    return held(tmp_path_factory.mktemp("lake"))


@pytest.mark.parametrize(
    ("column", "value", "taken"),
    [
        ("n", 7.0, 7),
        ("n", Decimal(7), 7),
        ("price", 3, Decimal("3.00")),
        ("price", Decimal("1.5"), Decimal("1.50")),
        ("at", TIME.replace(tzinfo=datetime.UTC), TIME.replace(tzinfo=datetime.UTC)),
        ("at", TIME, TIME.replace(tzinfo=datetime.UTC)),
        ("raw", bytearray(b"x"), b"x"),
        ("ok", None, None),
        ("ok", np.bool_(True), True),
        ("n", np.int64(5), 5),
    ],
)
def test_what_is_a_value_of_a_type_is_taken(
    view: tuple[OfflineLake, UpdatableState], column: str, value: Any, taken: Any
) -> None:
    assert typed_rows(view[1].shape, [{**GOOD, column: value}])[0].values[column] == taken


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("n", 1.5), ("n", Decimal("1.5")), ("n", True), ("n", "12"), ("n", 2**70), ("n", float("nan")),
        ("n", object()), ("n", {}), ("n", [1]), ("small", 128), ("price", Decimal("1.555")),
        ("price", Decimal(10_000)), ("price", True), ("day", TIME), ("day", "2021-01-02"), ("at", DAY),
        ("text", 5), ("text", b"x"), ("raw", "x"), ("ok", 1), ("ok", "true"),
    ],
)  # fmt: skip
def test_what_would_become_another_value_is_refused(
    view: tuple[OfflineLake, UpdatableState], column: str, value: Any
) -> None:
    with pytest.raises(Invalid) as refused:
        typed_rows(view[1].shape, [{**GOOD, column: value}])
    assert refused.value.reason == "TYPE"
    assert refused.value.detail
    assert refused.value.hint


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"insert": tuple(GOOD.values())}, "ROWS"),
        ({"insert": [tuple(GOOD.values())]}, "ROWS"),
        ({"insert": "abc"}, "ROWS"),
        ({"delete": 5}, "ROWS"),
        ({"insert": {1: 2}}, "ROWS"),
        ({"update": GOOD}, "ROWS"),
        ({"update": (GOOD,)}, "ROWS"),
        ({"insert": {**GOOD, "N": 5}}, "COLUMNS"),
    ],
)
def test_what_is_no_row_is_refused(
    view: tuple[OfflineLake, UpdatableState], asked: dict[str, Any], reason: str
) -> None:
    with pytest.raises(Invalid) as refused:
        check(view, **asked)
    assert refused.value.reason == reason


def check(view: tuple[OfflineLake, UpdatableState], **asked: Any) -> None:
    wanted = ViewUpdate.of(asked.get("insert"), asked.get("delete"), asked.get("update"))
    check_in_mode(*view, wanted, "AUTO")


def test_a_mode_that_is_none_is_refused(view: tuple[OfflineLake, UpdatableState]) -> None:
    with pytest.raises(Invalid, match="no mode"):
        check_in_mode(*view, ViewUpdate.of(GOOD, None, None), None)  # type: ignore[arg-type]


def test_columns_that_show_one_column_have_one_value(tmp_path: Path) -> None:
    lake, twice = held(tmp_path, "SELECT n, n AS m, text FROM t")
    bad = {"n": 1, "m": 2, "text": "t"}
    for asked in (ViewUpdate.of(bad, None, None), ViewUpdate.of(None, bad, None)):
        with pytest.raises(Invalid, match="cannot be in one row") as refused:
            check_in_mode(lake, twice, asked, "AUTO")
        assert refused.value.reason == "CONTRADICTION"
    assert (
        check_in_mode(lake, twice, ViewUpdate.of({**bad, "m": 1}, None, None), "AUTO").possible
        == "yes"
    )
