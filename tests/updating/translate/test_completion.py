"""What nobody tells of a new row: keys in every type, values where there must be one."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest

from belvedere.lake.tables.declared_keys import ForeignKey
from belvedere.updating.request.view_rows import ViewRow
from belvedere.updating.side_effects.checks import UpdateCheck, UpdateChecker
from belvedere.updating.translate.completion import NoFreeValue, complete_row
from belvedere.updating.translate.constraints import BaseRow, TableRules, check_condition
from belvedere.updating.translate.new_rows import NewBaseRow
from tests.updating.cases import Case
from tests.updating.summary.kept import filter_of
from tests.updating.translate.test_translator import Lists

EVERY_TINY = list(range(-128, 128))


class Column(Lists):
    """A table of one column."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = values

    def where(self, table: str, equal: Any) -> list[BaseRow]:
        return [{"k": v} for v in self.values if equal.get("k", v) == v]


def key_of(kind: str, values: Sequence[Any], taken: Sequence[Any] = ()) -> Any:
    rules = TableRules({"k": kind}, ("k",))
    others = [{"k": v} for v in taken]
    return complete_row(rules, Column(values), lambda *_: False, NewBaseRow("t", {}, []), others)[
        "k"
    ]


@pytest.mark.parametrize(("kind", "values"), [
    ("tinyint", [127]), ("tinyint", EVERY_TINY[1:]), ("tinyint", [v for v in EVERY_TINY if v != 5]),
    ("smallint", [2**15 - 1]), ("int", [2**31 - 1, -1]), ("bigint", [2**63 - 1]), ("int", []),
    ("date", [datetime.date(9999, 12, 31), datetime.date(1970, 1, 2)]), ("boolean", [False]),
    ("timestamp_ntz", [datetime.datetime.max]), ("string", ["new 1"]), ("binary", [b"new 1"]),
    ("decimal(2,1)", [Decimal(i) for i in range(1, 9)]), ("decimal(38,0)", [Decimal(1)]),
])  # fmt: skip
def test_a_key_that_is_not_told_is_a_value_of_its_type_that_no_row_has(
    kind: str, values: list[Any]
) -> None:
    import pyarrow as pa

    from belvedere.memory import kinds

    found = key_of(kind, values)
    assert found not in values
    assert pa.array([found], kinds.arrow(kind))[0].as_py() is not None
    if len(values) < 200 and kind != "boolean":
        assert key_of(kind, values, [found]) not in [*values, found]


@pytest.mark.parametrize(("kind", "values", "certain"), [
    ("tinyint", EVERY_TINY, True), ("boolean", [False, True], True), ("array<int>", [], False),
])  # fmt: skip
def test_where_no_value_is_found_it_is_known_whether_there_is_one(
    kind: str, values: list[Any], certain: bool
) -> None:
    with pytest.raises(NoFreeValue) as none:
        key_of(kind, values)
    assert none.value.certain == certain


def inserted(columns: dict[str, str], **declared: Any) -> UpdateCheck:
    """A view that shows the key of a table with more columns; a parent has 5 and 6."""
    case = Case(
        "SELECT t.k FROM t",
        {"t": ("k", *columns), "parent": ("id", "of")},
        {"t": [(1, *(0 for _ in columns))], "parent": [(5, 3), (6, 4)]},
        {"t": ("k",)},
    )
    rules = {"t": TableRules({"k": "int", **columns}, ("k",), **declared)}
    return UpdateChecker(filter_of(case), rules, Lists(case)).check([], [ViewRow({"k": 9})])


def row_of(found: UpdateCheck) -> BaseRow:
    assert found.translation is not None, found
    return found.translation.new["t"][0]


@pytest.mark.parametrize(("kind", "value"), [
    ("int", 0), ("string", ""), ("decimal(5,2)", 0), ("boolean", False), ("double", 0.0),
    ("date", datetime.date(1970, 1, 1)),
])  # fmt: skip
def test_a_column_that_must_have_a_value_gets_one_and_others_none(kind: str, value: Any) -> None:
    required = frozenset({"v"})
    assert row_of(inserted({"v": kind, "w": kind}, required=required)) == {
        "k": 9,
        "v": value,
        "w": None,
    }


def test_a_value_that_a_check_lists_is_taken() -> None:
    listed = {
        "few": check_condition("v IN ('x', 'y')"),
        "not x": check_condition("v <> 'x' OR k < 5"),
    }
    assert row_of(inserted({"v": "string"}, checks=listed, required=frozenset({"v"})))["v"] == "y"
    assert row_of(inserted({"v": "string"}, checks=listed))["v"] is None


def test_a_value_that_a_parent_has_is_taken() -> None:
    required = frozenset({"v", "w"})
    one = (ForeignKey(("v",), "parent", ("id",)),)
    assert row_of(inserted({"v": "int"}, foreign=one, required=frozenset({"v"})))["v"] == 5
    two = (ForeignKey(("v", "w"), "parent", ("id", "of")),)
    found = row_of(inserted({"v": "int", "w": "int"}, foreign=two, required=required))
    assert (found["v"], found["w"]) in [(5, 3), (6, 4)]


def test_where_no_value_that_was_tried_is_allowed_nothing_is_said() -> None:
    odd = {"odd": check_condition("v > 1000 AND v < 1003")}
    assert inserted({"v": "int"}, checks=odd, required=frozenset({"v"})).possible == "unknown"
    never = {"no": check_condition("v IN (1, 2)"), "nor": check_condition("v > 5")}
    assert inserted({"v": "int"}, checks=never, required=frozenset({"v"})).possible == "no"
    told = {"small": check_condition("k < 5"), "odd": check_condition("v > 1000 AND v < 1003")}
    assert inserted({"v": "int"}, checks=told, required=frozenset({"v"})).possible == "no"
