"""Spark's SQL as written: sqlglot's Spark dialect, but functions keep their own names.

sqlglot understands functions by rewriting some into others, which is right between dialects and
loses meaning within one (`percentile_cont` came back as `percentile_approx`). A view's text goes
to Spark again, so here only functions whose text comes back unchanged are understood, and every
other call stays a plain call.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser

_UNDERSTOOD = frozenset(
    "ABS AVG COALESCE CONCAT COUNT COUNT_IF GREATEST IF LEAST LOWER MAX MIN NULLIF "
    "ROUND STRUCT SUM UPPER ARRAY LIKE ILIKE RLIKE".split()
)
_SPECIAL_SYNTAX = frozenset(
    "CAST TRY_CAST EXTRACT TRIM SUBSTRING SUBSTR POSITION OVERLAY CEIL FLOOR "
    "BROADCAST BROADCASTJOIN MAPJOIN MERGE MERGEJOIN SHUFFLEMERGE SHUFFLE_HASH "
    "SHUFFLE_REPLICATE_NL".split()
)


class SparkAsWritten(Spark):
    """Spark SQL whose calls come back as they were written."""

    class Tokenizer(Spark.Tokenizer):
        # Since Spark 4, a doubled quote inside a string is a quote.
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']

    class Parser(SparkParser):
        FUNCTIONS: ClassVar[dict[str, Any]] = {
            k: v for k, v in SparkParser.FUNCTIONS.items() if k in _UNDERSTOOD
        }
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            k: v for k, v in SparkParser.FUNCTION_PARSERS.items() if k in _SPECIAL_SYNTAX
        }
        NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            k: v for k, v in SparkParser.NO_PAREN_FUNCTION_PARSERS.items() if k != "ANY"
        }
