"""Columns of CHAR(n) in plans: what they hold and how they are compared, wherever rows come from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belvedere.errors import Unsupported
from belvedere.sql.binder.bind import bind
from belvedere.sql.binder.context import Relation
from tests.reference.chars import (
    CONDITIONS,
    ROWS,
    Row,
    grouped_as_spark_groups,
    kept_as_spark_keeps,
)


class Typed:
    """A table with CHAR, and one without."""

    def resolve(self, name: str) -> Relation:
        if name == "o":
            return Relation((("k", "string"),), "o")
        columns = (("id", "int"), ("ch", "string"), ("c8", "string"), ("st", "struct<a:string>"))
        declared = {"ch": "char(5)", "c8": "char(8)", "st": "struct<a:char(4)>", "id": ""}
        wide = (*columns, ("sw", "struct<a:string>"))
        return Relation(wide, "t", declared={**declared, "sw": "struct<a:char(6)>"})


def plan_text(query: str) -> str:
    return str(bind(query, Typed()).plan)


@given(ROWS, CONDITIONS)
def test_rows_are_kept_as_spark_keeps_them(
    rows: list[Row], condition: tuple[str, str, str | list[str]]
) -> None:
    kept_as_spark_keeps(rows, condition)


@given(ROWS, st.sampled_from(["a", "b", "s"]))
def test_rows_are_grouped_as_spark_groups_them(rows: list[Row], column: str) -> None:
    grouped_as_spark_groups(rows, column)


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("SELECT id FROM t WHERE 'ab' = ch", "'ab   '"),
        ("SELECT CASE ch WHEN 'ab' THEN 1 END AS x FROM t", "'ab   '"),
        ("SELECT ch, count(*) AS n FROM t GROUP BY ch HAVING ch = 'ab'", "'ab   '"),
        ("SELECT k FROM (SELECT ch AS k FROM t) WHERE k = 'ab'", "'ab   '"),
        ("WITH x AS (SELECT ch AS k FROM t) SELECT k FROM x WHERE k = 'ab'", "'ab   '"),
        # Spark takes the length of a union's first side for that of all.
        (
            "SELECT * FROM (SELECT c8 FROM t UNION ALL SELECT ch FROM t) WHERE c8 = 'b'",
            "'b       '",
        ),
        ("SELECT * FROM (SELECT k FROM o UNION ALL SELECT ch FROM t) WHERE k = 'b'", "'b'"),
        ("SELECT id FROM t WHERE ch IN ('ab', NULL)", "IN ('ab', NULL)"),
        ("SELECT id FROM t WHERE ch BETWEEN 'ab' AND 'b'", "BETWEEN 'ab' AND 'b'"),
        ("SELECT id FROM t WHERE CAST(ch AS STRING) = 'ab'", "= 'ab'"),
        ("SELECT id FROM t WHERE upper(ch) = 'AB'", "= 'AB'"),
    ],
)
def test_a_constant_is_padded_where_spark_pads_it(query: str, says: str) -> None:
    assert says in plan_text(query)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a.id FROM t a JOIN (SELECT c8 AS ch FROM t) b USING (ch)",
        "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM t b WHERE b.c8 = t.ch)",
    ],
)
def test_columns_of_two_lengths_are_compared_in_the_longer(query: str) -> None:
    assert "GREATEST(8, LENGTH(`ch" in plan_text(query).replace("ch_2", "ch")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id FROM t WHERE ch = lower('AB')",
        "SELECT id FROM t WHERE ch = CAST('ab' AS STRING)",
        "SELECT id FROM t WHERE decode(ch, 'ab', true)",
        "SELECT id FROM t WHERE equal_null(ch, 'ab')",
        "SELECT id FROM t WHERE st = sw",
    ],
)
def test_what_spark_compares_in_another_way_is_refused(query: str) -> None:
    with pytest.raises(Unsupported) as refused:
        bind(query, Typed())
    assert refused.value.reason == "CHAR_COMPARISON"


def test_a_table_whose_columns_of_char_are_not_read_is_just_scanned() -> None:
    assert "RPAD" not in plan_text("SELECT id, st FROM t")
