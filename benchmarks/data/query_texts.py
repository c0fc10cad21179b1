"""The queries of TPC-H and TPC-DS: DuckDB's texts, translated, nothing else changed."""

from __future__ import annotations

from functools import cache

import duckdb
import sqlglot
from duckdb_extensions import import_extension


@cache
def translated(benchmark: str, prefix: str) -> dict[str, str]:
    """The queries of a benchmark in Spark's SQL, by the names of their views."""
    import_extension(benchmark)
    with duckdb.connect() as db:
        db.execute(f"LOAD {benchmark}")
        texts = db.execute(f"SELECT query_nr, query FROM {benchmark}_queries() ORDER BY 1")
        return {
            f"{prefix}{number:02}": sqlglot.transpile(text, read="duckdb", write="spark")[0]
            for number, text in texts.fetchall()
        }
