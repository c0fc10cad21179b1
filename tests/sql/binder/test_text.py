"""Expressions come back as Spark SQL that means what the user wrote."""

from __future__ import annotations

import pytest

from belvedere.algebra.printing import text
from belvedere.algebra.relations import Project
from tests.sql.shop import bound

UNCHANGED = [
    "a / b", "a DIV b", "a % b", "a - (b - 1)", "-(a + b)", "NOT (a = b)", "a || c", "a & b | ~b", "a BETWEEN 1 AND 2",
    "a IN (1, 2, NULL)", "c LIKE 'x\\\\_%'", "c LIKE ANY ('x', 'y')", "c RLIKE '^a\\\\d'", "c ILIKE 'x'", "a IS NULL",
    "a IS NOT DISTINCT FROM b", "a IS DISTINCT FROM b",
    "CASE WHEN a > 1 THEN 'x' ELSE 'y' END", "CASE a WHEN 1 THEN 2 END", "if(a > 1, b, 0)", "coalesce(a, b, 0)",
    "nvl(a, b)", "nullif(a, b)", "greatest(a, b)", "round(a, 2)", "floor(a)", "ceil(a, 2)", "pmod(a, 3)", "mod(a, 3)",
    "try_divide(a, b)", "try_add(a, b)", "try_cast(c AS INT)", "CAST(a AS DECIMAL(10, 2))", "CAST(a AS STRING)",
    "CAST(c AS TIMESTAMP_NTZ)", "bigint(c)", "date(c)",
    "substring(c, 1, 2)", "left(c, 2)", "split(c, ',')[0]", "regexp_replace(c, '(a)', '$1')", "concat_ws('-', a, c)", "trim(c)",
    "date_add(c, 3)", "date_sub(c, a + 1)", "datediff(c, c)", "timestampadd(DAY, 1, c)", "datediff(DAY, c, c)",
    "date_trunc('MONTH', c)", "trunc(c, 'MM')", "year(c)", "extract(YEAR FROM c)", "date_format(c, 'yyyy-MM')",
    "to_date(c, 'dd/MM/yyyy')", "to_timestamp(c)", "unix_timestamp(c)", "from_unixtime(a)", "months_between(c, c)", "last_day(c)",
    "CAST('2020-01-31' AS DATE) - INTERVAL '1' MONTH", "INTERVAL '1-2' YEAR TO MONTH", "INTERVAL '3' DAY * a",
    "array(a, b)[0]", "map('x', a)['x']", "named_struct('x', a).x", "size(array(a))", "element_at(array(a), 1)",
    "transform(array(a), x -> x + b)", "filter(array(a), x -> x > 1)", "aggregate(array(a), 0, (acc, x) -> acc + x)",
    "exists(array(a), x -> x > 1)", "get_json_object(c, '$.a')", "hash(a, b)", "sha2(c, 256)", "md5(c)", "decode(a, 1, 'x', 'y')",
    "1e3", "1.50", "X'1f'", "'a\\'b'", "'\\\\d'", "TRUE", "NULL",
]  # fmt: skip

SAME_IN_OTHER_WORDS = {
    "DATE '2020-01-01'": "CAST('2020-01-01' AS DATE)",
    "TIMESTAMP '2020-01-01 00:00:00'": "CAST('2020-01-01 00:00:00' AS TIMESTAMP)",
    "INTERVAL 1 DAY": "INTERVAL '1' DAY",
    "INTERVAL 1 YEAR 2 MONTHS": "INTERVAL '1' YEAR + INTERVAL '2' MONTHS",
    "a <=> b": "a IS NOT DISTINCT FROM b",
    "a == b": "a = b",
    "a != b": "a <> b",
    "!(a > 1)": "NOT (a > 1)",
    "a::bigint": "CAST(a AS BIGINT)",
    "1L": "CAST(1 AS BIGINT)",
    "1.5BD": "CAST('1.5' AS DECIMAL(2, 1))",
    "'it''s'": "'it\\'s'",
    '"it\'s"': "'it\\'s'",
    "r'\\d'": "'\\\\d'",
    "struct(a, b AS z)": "struct(a AS a, b AS z)",
    "dateadd(month, 1, c)": "dateadd(MONTH, 1, c)",
    "position('x' IN c)": "locate('x', c)",
    "substring(c FROM 2 FOR 3)": "substring(c, 2, 3)",
    "A + R.B": "a + b",
}


def value(written: str) -> str:
    plan = bound(f"SELECT {written} AS v FROM r").plan
    assert isinstance(plan, Project)
    return text(plan.outputs[0].value)


@pytest.mark.parametrize("written", UNCHANGED)
def test_an_expression_comes_back_as_written(written: str) -> None:
    assert value(written).lower() == written.lower()


@pytest.mark.parametrize(("written", "back"), SAME_IN_OTHER_WORDS.items())
def test_an_expression_comes_back_in_other_words(written: str, back: str) -> None:
    assert value(written) == back


def test_an_unknown_function_is_taken_as_it_is_and_noted() -> None:
    result = bound("SELECT my_own(a) AS v FROM r")
    assert "my_own()" in result.notes[0]


def test_order_by_alone_is_dropped_with_a_note() -> None:
    assert "ORDER BY without LIMIT" in bound("SELECT a FROM r ORDER BY a").notes[0]


def test_a_known_function_is_not_worth_a_note() -> None:
    assert bound("SELECT concat_ws('-', c) AS v FROM r").notes == ()
