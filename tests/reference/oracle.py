"""Types without Spark: DuckDB's answer, in Spark's words, for plans of plain types."""

from __future__ import annotations

import re
from collections.abc import Mapping

import duckdb
from sqlglot import exp, transpile

_WORDS = {
    "BOOLEAN": "boolean",
    "TINYINT": "tinyint",
    "SMALLINT": "smallint",
    "INTEGER": "int",
    "BIGINT": "bigint",
    "HUGEINT": "bigint",
    "DOUBLE": "double",
    "VARCHAR": "string",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
}


def ask(expressions: Mapping[str, str], columns: Mapping[str, str]) -> dict[str, str]:
    """The type of each expression over columns of the given types."""
    row = ", ".join(f"CAST(NULL AS {t}) AS `{c}`" for c, t in columns.items()) or "1 AS one"
    asked = ", ".join(f"typeof({text}) AS `c{i}`" for i, text in enumerate(expressions.values()))
    (query,) = transpile(f"SELECT {asked} FROM (SELECT {row})", read="spark", write="duckdb")
    (found,) = duckdb.sql(query).fetchall()
    return {n: _word(t, e) for (n, e), t in zip(expressions.items(), found, strict=True)}


def _word(name: str, text: str) -> str:
    if name.startswith("DECIMAL"):
        precision, scale = (int(n) for n in re.findall(r"\d+", name))
        return f"decimal({precision},{scale})"
    return (
        _WORDS[name] if name in _WORDS else exp.DataType.build(name, dialect="duckdb").sql("spark")
    )
