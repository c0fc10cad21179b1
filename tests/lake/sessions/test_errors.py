"""Spark's errors in the data as a user reads them."""

from __future__ import annotations

import pytest

from belvedere.errors import Invalid
from belvedere.lake.sessions.errors import MANY_ROWS, computing, data_error
from belvedere.lake.sessions.machine import blaming_the_machine

MODE = 'If necessary set "spark.sql.ansi.enabled" to "false" to bypass this error.'
STACK = """An error occurred while calling o45.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:70)
Caused by: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed. SQLSTATE: 58030
Caused by: org.apache.spark.SparkNumberFormatException: [CAST_INVALID_INPUT] The value 'No. Use it'
 of the type "STRING" cannot be cast to "INT" because it is malformed. Correct the value as per the
 syntax, or change its target type. Use `try_cast` to tolerate malformed input. SQLSTATE: 22018
== SQL (line 1, position 967) ==
SELECT `t1`.`id` AS `id`, CAST(`t1`.`s` AS INT) AS `r`
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.error(QueryExecutionErrors.scala:145)"""


def test_the_error_in_a_stack_is_told_without_stack_sql_and_other_modes() -> None:
    found = data_error(RuntimeError(STACK), "view 'v'")
    assert found is not None
    assert found.reason == "CAST_INVALID_INPUT"
    assert found.message.startswith("view 'v' cannot be computed: The value 'No. Use it'")
    assert found.message.endswith("because it is malformed.")
    assert "try_cast" in found.hint
    divided = f"[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` instead. {MODE} SQLSTATE: 22012"
    found = data_error(RuntimeError(divided))
    assert found is not None
    assert (found.message, found.hint) == (
        "the query cannot be computed: Division by zero.",
        "correct the rows, or change the query. Use `try_divide` instead.",
    )


@pytest.mark.parametrize(
    "text",
    [
        "[USER_RAISED_EXCEPTION] a subquery used as a value gave more than one row SQLSTATE: P0001",
        "[SCALAR_SUBQUERY_TOO_MANY_ROWS] More than one row returned. SQLSTATE: 21000",
    ],
)
def test_our_check_of_a_scalar_subquery_is_told_as_sparks(text: str) -> None:
    found = data_error(RuntimeError(text))
    assert found is not None
    assert (found.reason, "21000" in found.detail) == (MANY_ROWS, True)
    assert "Aggregate the subquery" in found.hint


@pytest.mark.parametrize(
    "text",
    [
        "[USER_RAISED_EXCEPTION] belvedere: STATE_MISMATCH SQLSTATE: P0001",
        "[DELTA_VERSION_NOT_FOUND] Cannot time travel to version 3. SQLSTATE: 22003",
        "[TABLE_OR_VIEW_NOT_FOUND] The table or view cannot be found. SQLSTATE: 42P01",
        "DIVIDE_BY_ZERO",
    ],
)
def test_other_errors_are_left_to_who_knows_them(text: str) -> None:
    assert data_error(RuntimeError(text)) is None
    with pytest.raises(RuntimeError), computing("v"):
        raise RuntimeError(text)


def test_a_value_that_reads_like_trouble_of_the_machine_is_not_that() -> None:
    said = "[CAST_INVALID_INPUT] The value 'Permission denied' cannot be cast. SQLSTATE: 22018"
    wanted = pytest.raises(Invalid, match="'v' cannot be computed")
    with wanted, blaming_the_machine(), computing("'v'"):
        raise RuntimeError(said)
