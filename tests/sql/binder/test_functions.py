"""Every function of Spark is classified, and what is not a function of its arguments is refused."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from belvedere.errors import Unsupported
from belvedere.sql.binder.builtins import (
    AGGREGATE_FUNCTIONS,
    GENERATOR_FUNCTIONS,
    NOT_REPEATABLE_SCALARS,
    SCALARS,
    SPARK_FUNCTIONS,
    TABLE_FUNCTIONS,
    WINDOW_FUNCTIONS,
)
from belvedere.sql.binder.functions import (
    AGGREGATES,
    GENERATORS,
    NOT_REPEATABLE,
    RANKINGS,
    REFUSED_AGGREGATES,
    ROW_MOVERS,
    ROW_PICKERS,
)
from tests.sql.shop import bound

KINDS = (
    SCALARS,
    NOT_REPEATABLE_SCALARS,
    AGGREGATE_FUNCTIONS,
    WINDOW_FUNCTIONS,
    GENERATOR_FUNCTIONS,
    TABLE_FUNCTIONS,
)
CONSTANTS = {
    *("array", "arrays_zip", "concat", "e", "make_dt_interval", "make_interval"),
    *("make_ym_interval", "map", "map_concat", "named_struct", "pi", "struct"),
}


def test_a_function_is_of_one_kind_and_each_kind_is_kept_or_refused() -> None:
    assert sum(map(len, KINDS)) == len(SPARK_FUNCTIONS)
    assert NOT_REPEATABLE.keys() >= NOT_REPEATABLE_SCALARS
    assert not SCALARS & NOT_REPEATABLE.keys()
    assert AGGREGATES | REFUSED_AGGREGATES.keys() >= AGGREGATE_FUNCTIONS
    assert not AGGREGATES & REFUSED_AGGREGATES.keys()
    assert WINDOW_FUNCTIONS <= RANKINGS | ROW_MOVERS | ROW_PICKERS
    assert GENERATOR_FUNCTIONS <= GENERATORS


@pytest.mark.parametrize("name", sorted(NOT_REPEATABLE_SCALARS - {"unix_timestamp"}))
def test_what_is_not_repeatable_is_refused_by_name(name: str) -> None:
    arguments = "c, 'key'" if name == "aes_encrypt" else ""
    with pytest.raises(Unsupported, match=name) as caught:
        bound(f"SELECT {name}({arguments}) AS x FROM r")
    assert caught.value.reason == "NOT_REPEATABLE"


REPEATABLE = [
    "unix_timestamp(c)",
    "aes_encrypt(c, 'key', 'ECB')",
    "aes_encrypt(c, 'key', 'ECB', 'PKCS')",
    "aes_encrypt(c, 'key', 'GCM', 'DEFAULT', X'00')",
    "aes_encrypt(c, 'key', 'CBC', 'DEFAULT', unhex('00'), 'more')",
]
NOT_ALWAYS = [
    "unix_timestamp()",
    "aes_encrypt(c, 'key', 'GCM')",
    "aes_encrypt(c, 'key', c)",
    "aes_encrypt(c, 'key', 'GCM', 'DEFAULT', '')",
    "aes_encrypt(c, 'key', 'GCM', 'DEFAULT', X'')",
    "aes_encrypt(c, 'key', 'GCM', 'DEFAULT', c)",
]


@pytest.mark.parametrize("call", REPEATABLE)
def test_a_call_whose_arguments_make_it_repeatable_is_kept(call: str) -> None:
    assert bound(f"SELECT {call} AS x FROM r").columns


@pytest.mark.parametrize("call", NOT_ALWAYS)
def test_a_call_that_may_give_another_value_is_refused(call: str) -> None:
    with pytest.raises(Unsupported, match="cannot be kept up to date"):
        bound(f"SELECT {call} AS x FROM r")


@pytest.mark.spark
def test_every_function_of_the_session_is_classified(spark: SparkSession) -> None:
    names = {row[0] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    assert {name for name in names if name.isidentifier()} <= SPARK_FUNCTIONS


@pytest.mark.spark
def test_a_value_without_arguments_is_a_constant_or_refused(spark: SparkSession) -> None:
    def is_value(name: str) -> bool:
        try:
            return bool(spark.sql(f"SELECT {name}()").columns)
        except PySparkException:
            return False

    jvm: Any = spark._jvm
    identifier = getattr(jvm, "org.apache.spark.sql.catalyst.FunctionIdentifier")
    catalog = spark._jsparkSession.sessionState().catalog()
    names = [row[0] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()]
    usages = {n: catalog.lookupFunctionInfo(identifier(n)).getUsage() or "" for n in names}
    forms = {n: usage.replace("_FUNC_", n) for n, usage in usages.items()}
    without = {n for n, form in forms.items() if f"{n}()" in form or f"{n}([" in form}
    assert {"uuid", "current_path", "unix_timestamp", "version"} <= without
    assert {name for name in sorted(SCALARS & without) if is_value(name)} <= CONSTANTS
