"""A type is a value: its text is read, tells what it can do, and comes back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belvedere.algebra.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP_NTZ,
    TINYINT,
    VARIANT,
    VOID,
    ArrayType,
    CharType,
    DecimalType,
    IntervalType,
    MapType,
    OtherType,
    StringType,
    StructType,
    Type,
    VarcharType,
    parse,
)

SIMPLE = (TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, STRING, BOOLEAN, DATE, TIMESTAMP_NTZ)
leaves = st.one_of(
    st.sampled_from((*SIMPLE, VOID, VARIANT, IntervalType("day to second"))),
    st.builds(DecimalType, st.integers(1, 38), st.integers(0, 38)),
    st.builds(CharType, st.integers(1, 255)),
    st.builds(VarcharType, st.integers(1, 255)),
    st.just(StringType("UNICODE_CI")),
)
names = st.text(st.sampled_from("aB1_ `:,<>()"), min_size=1, max_size=6)
types = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(ArrayType, inner),
        st.builds(MapType, inner, inner),
        st.builds(StructType, st.lists(st.tuples(names, inner), max_size=3).map(tuple)),
    ),
    max_leaves=6,
)


@given(types)
def test_the_text_of_a_type_is_read_back(type_: Type) -> None:
    assert parse(str(type_)) == type_


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("bigint", BIGINT),
        ("BIGINT", BIGINT),
        ("decimal", DecimalType(10, 0)),
        ("decimal(12, 2)", DecimalType(12, 2)),
        ("string collate UTF8_LCASE", StringType("UTF8_LCASE")),
        ("interval", IntervalType()),
        ("interval year to month", IntervalType("year to month")),
        ("struct<>", StructType(())),
        ("array<varchar(5)>", ArrayType(VarcharType(5))),
        ("struct<a b:int,`c:d`:char(1)>", StructType((("a b", INT), ("c:d", CharType(1))))),
    ],
)
def test_a_type_is_read(text: str, type_: Type) -> None:
    assert parse(text) == type_


@pytest.mark.parametrize(
    "text", ["", "time(6)", "struct<a:int,... 3 more fields>", "map<int>", "array<int,int>", "char"]
)
def test_a_text_of_another_form_is_kept_as_it_is(text: str) -> None:
    assert parse(text) == OtherType(text)
    assert str(parse(text)) == text


def test_a_type_says_what_it_can_do() -> None:
    assert [t for t in SIMPLE if t.is_integer] == [TINYINT, SMALLINT, INT, BIGINT]
    assert [t for t in SIMPLE if t.is_float] == [FLOAT, DOUBLE]
    assert DecimalType(3, 1).is_decimal
    exact = [t for t in (*SIMPLE, DecimalType(3, 1)) if t.is_exact]
    assert exact == [TINYINT, SMALLINT, INT, BIGINT, DecimalType(3, 1)]
    assert {t for t in SIMPLE if t.is_number} == {*exact, FLOAT, DOUBLE} - {DecimalType(3, 1)}


def test_an_integer_has_the_bounds_and_digits_of_its_bits() -> None:
    assert (TINYINT.least, TINYINT.greatest, TINYINT.precision) == (-128, 127, 3)
    assert (BIGINT.least, BIGINT.greatest, BIGINT.scale) == (-(2**63), 2**63 - 1, 0)


def test_all_types_within_a_type_are_listed() -> None:
    nested = list(parse("map<int,array<struct<a:date>>>").nested)
    assert [str(t) for t in nested][1:] == [
        "int",
        "array<struct<a:date>>",
        "struct<a:date>",
        "date",
    ]
