"""What a view hides gets a value of its type that has the asked effect, or it is said that none was found."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from sqlglot import parse_one

from belvedere.algebra.scalars import Scalar
from belvedere.lake.tables.declared_keys import ForeignKey
from belvedere.sql.dialect import SparkAsWritten
from belvedere.updating.side_effects.checks import CheckMode, UpdateCheck
from belvedere.updating.summary.domains import Domain
from belvedere.updating.translate.condition_constants import listed_values
from belvedere.updating.translate.constraints import check_condition
from belvedere.updating.translate.fresh_values import FreshValues
from tests.updating.typed import Typed

DAY = datetime.date
LAST = DAY(9999, 12, 31)
NOW = datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)


def selected(
    kind: str, where: str, rows: list[Any], mode: CheckMode = CheckMode.AUTO
) -> UpdateCheck:
    """An insertion through a view that selects by a column which it hides; rows beside it have it too."""
    return Typed(
        f"SELECT a.k, b.k AS other FROM a, b WHERE a.k = b.a AND {where}",
        {"a": {"k": "int"}, "b": {"k": "int", "a": "int", "x": kind}},
        {"a": [(1,)], "b": [(10 + i, 2, x) for i, x in enumerate(rows)]},
        {"a": ("k",), "b": ("k",)},
    ).check(insert=[(1, 5)], mode=mode)


def made(found: UpdateCheck, table: str = "b") -> Any:
    assert found.possible == "yes", str(found)
    assert found.translation is not None
    return found.translation.new[table][0]["x"]


@pytest.mark.parametrize(
    ("kind", "where"),
    [
        ("int", "b.x IS NULL"),
        ("int", "b.x = -5"),
        ("int", "b.x < -5"),
        ("int", "b.x > 5 AND b.x < 9"),
        ("int", "b.x > 2147483645"),
        ("int", "b.x BETWEEN 100 AND 200"),
        ("int", "b.x > 10.5 AND b.x < 11.5"),
        ("int", "b.x < b.k"),
        ("tinyint", "b.x > 126"),
        ("string", "b.x <> 'new 0' AND b.x <> 'new 1'"),
        ("string", "b.x > 'z'"),
        ("string", "b.x < 'b' AND b.x > 'a'"),
        ("string", "b.x LIKE 'ab%c_'"),
        ("string", "b.x = 'it''s'"),
        ("boolean", "b.x"),
        ("boolean", "NOT b.x"),
        ("boolean", "b.x = false"),
        ("decimal(5,2)", "b.x > 10.5"),
        ("decimal(5,2)", "b.x = 10.5"),
        ("decimal(5,2)", "b.x > 10.5 AND b.x < 10.52"),
        ("decimal(2,2)", "b.x < -0.5"),
        ("date", "b.x > DATE '2021-01-01'"),
        ("date", "b.x = DATE '9999-12-31'"),
        ("date", "year(b.x) = 2020"),
    ],
)
def test_a_hidden_column_gets_a_value_that_the_where_asks_for(kind: str, where: str) -> None:
    assert "x" in selected(kind, where, []).translation.new["b"][0]  # type: ignore[union-attr]


def test_between_values_that_rows_have_one_is_found() -> None:
    assert made(selected("int", "b.x > 5 AND b.x < 9", [6, 8])) in (6, 7, 8)


@pytest.mark.parametrize("where", ["b.x * 2 = 50", "b.x > 5 AND b.x < 5"])
def test_what_is_not_found_may_be_there(where: str) -> None:
    assert selected("int", where, []).possible == "unknown"


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("x BETWEEN 30 AND 40", range(30, 41)),
        ("x = 30 OR x = 40", (30, 40)),
        ("x IN (30, 40) AND k > 0", (30, 40)),
        ("x > 100000", range(100_001, 100_100)),
        ("x < -7 AND (k > 100 OR x > -9)", (-8,)),
    ],
)
def test_a_hidden_value_keeps_to_checks(text: str, values: Any) -> None:
    assert made(joined("int", [], b={"checks": {"c": check_condition(text)}})) in values


def joined(
    kind: str, taken: list[Any], mode: CheckMode = CheckMode.AUTO, **rules: Any
) -> UpdateCheck:
    """An insertion through a view that hides what it joins on; all rows there are have effects."""
    return Typed(
        "SELECT a.k, c.v FROM a, b, c WHERE a.k = b.k AND b.x = c.x",
        {"a": {"k": "int"}, "b": {"k": "int", "x": kind}, "c": {"x": kind, "v": "int"}},
        {
            "a": [(1,), (2,)],
            "b": [(k, x) for x in taken for k in (1, 2)],
            "c": [(x, 1) for x in taken],
        },
        {"a": ("k",)},
        rules,
    ).check(insert=[(1, 77)], mode=mode)


@pytest.mark.parametrize(
    ("kind", "taken"),
    [
        ("tinyint", 127),
        ("smallint", 2**15 - 1),
        ("int", 2**31 - 1),
        ("bigint", 2**63 - 1),
        ("date", LAST),
        ("timestamp_ntz", NOW),
        ("timestamp", NOW.replace(tzinfo=datetime.UTC)),
        ("decimal(3,1)", Decimal("99.9")),
        ("decimal(38,0)", Decimal(10**38 - 1)),
        ("binary", b"new 0"),
        ("string", "new 0"),
        ("boolean", True),
    ],
)
def test_a_new_value_is_one_of_its_type_though_the_last_is_taken(kind: str, taken: Any) -> None:
    found = made(joined(kind, [taken]))
    assert found is not None
    assert found != taken


def test_of_a_type_whose_ends_are_taken_a_gap_is_found() -> None:
    taken = np.array([x for x in range(-128, 128) if x != 100])
    assert list(FreshValues(["tinyint"], Domain.of_integers(taken)).values((), 2)) == [100]
    far = Domain.of_integers(np.array([-(2**63), 5, 2**63 - 1]))
    assert len(set(FreshValues(["bigint"], far).values((), 3)) - {-(2**63), 5, 2**63 - 1}) >= 3


def test_where_all_values_that_may_be_are_taken_only_a_list_of_them_shows_that_none_is_left() -> (
    None
):
    few = {"checks": {"few": check_condition("x >= 1 AND x <= 3")}}
    assert joined("int", [1, 2, 3], b=few).possible == "unknown"
    assert joined("int", [1, 2], b=few).possible == "yes"
    assert (
        joined("int", [1, 2], b={"checks": {"two": check_condition("x BETWEEN 1 AND 2")}}).possible
        == "no"
    )
    assert joined("boolean", [True, False]).possible == "no"


def test_each_of_several_rows_gets_a_value_of_its_own_near_the_end_of_a_type() -> None:
    view = Typed(
        "SELECT a.k, c.v FROM a, c WHERE a.x = c.x",
        {"a": {"k": "int", "x": "date"}, "c": {"x": "date", "v": "int"}},
        {"a": [(1, LAST)], "c": [(LAST, 1)]},
    )
    found = view.check(insert=[(5, 50), (6, 60), (7, 70)])
    assert found.translation is not None
    assert len({r["x"] for r in found.translation.new["a"]} - {LAST}) == 3


def test_columns_of_two_types_that_are_joined_get_a_value_that_both_have() -> None:
    view = Typed(
        "SELECT a.k, c.v FROM a, c WHERE a.x = c.x",
        {"a": {"k": "int", "x": "tinyint"}, "c": {"x": "bigint", "v": "int"}},
        {"a": [(1, 127)], "c": [(127, 1), (2**40, 2)]},
    )
    assert -128 <= made(view.check(insert=[(5, 50)]), "a") < 127
    # The row (2**40, 2) is there, and no row of a can ever join it: another is made.
    assert -128 <= made(view.check(insert=[(5, 2)]), "a") < 127


@pytest.mark.parametrize(("known", "possible"), [(5, "yes"), (6, "no"), (7, "yes")])
def test_a_hidden_part_of_a_foreign_key_is_that_of_a_parent_with_the_known_part(
    known: int, possible: str
) -> None:
    view = Typed(
        "SELECT a.k, a.p, c.v FROM a, c WHERE a.x = c.x",
        {
            "a": {"k": "int", "p": "int", "x": "int"},
            "c": {"x": "int", "v": "int"},
            "parent": {"p": "int", "s": "int"},
        },
        {"a": [], "c": [], "parent": [(5, 60), (7, 80), (7, 90)]},
        {"a": ("k",)},
        {"a": {"foreign": (ForeignKey(("p", "x"), "parent", ("p", "s")),)}},
    )
    found = view.check(insert=[(1, known, 9)])
    assert found.possible == possible
    assert possible == "no" or made(found, "a") in {5: (60,), 7: (80, 90)}[known]


def test_an_estimate_fills_in_what_may_be_null_and_what_nothing_fits() -> None:
    assert selected("int", "b.x IS NULL", [None], mode=CheckMode.FAST).possible == "yes"
    checks = {t: {"checks": {"c": check_condition(f"x IN ({v})")}} for t, v in (("b", 1), ("c", 2))}
    assert joined("int", [], **checks).possible == "no"
    assert joined("int", [], mode=CheckMode.FAST, **checks).possible in ("yes", "no")


@pytest.mark.parametrize(
    ("condition", "kind", "values"),
    [
        ("x = 5L", "int", [5]),
        ("x IN (1, 2L)", "bigint", [1, 2]),
        ("x = 1e3", "int", [1000]),
        ("x = 1e16", "bigint", None),
        ("x = 1e-1", "decimal(20,10)", None),
        ("x = CAST(1.7 AS INT)", "decimal(3,1)", None),
        ("x = CAST('5' AS INT)", "string", None),
        ("x = DATE '1970-01-05'", "date", [4]),
        ("x = '19700105'", "date", None),
        ("x = TIMESTAMP '1970-01-01 00:00:00'", "timestamp", None),
        ("x = '1970-01-01 00:00:00'", "timestamp_ntz", [0]),
    ],
)
def test_a_condition_leaves_the_values_that_spark_finds_equal(
    condition: str, kind: str, values: list[int] | None
) -> None:
    assert (
        listed_values(Scalar(parse_one(condition, dialect=SparkAsWritten)), ["x"], kind) == values
    )
