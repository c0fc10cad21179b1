"""Spark for what memory does not do: joins of changed rows, CHECKs, and the summary's aggregations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from belvedere.delta.stamps import Vector
from belvedere.errors import BelvedereError, Unsupported
from belvedere.joins.equijoin_tree import EquijoinTree, Keys
from belvedere.lake.capabilities import spark_lake
from belvedere.lake.offline import ReadableLake
from belvedere.lake.tables.table import Table
from belvedere.memory import kinds
from belvedere.updating.side_effects.on_spark import JoinEngine
from belvedere.updating.summary.base_tables import held_columns
from belvedere.updating.summary.in_tables.build import BuiltSummary, SummaryQueries, read_summary
from belvedere.updating.translate.constraints import BaseRow, check_texts

if TYPE_CHECKING:
    from belvedere.lake.sessions.workspace import Workspace


def table_at_version(table: Table, version: int) -> exp.Table:
    """A version of a table, in SQL."""
    table_expression = exp.to_table(table.reference, dialect="spark")
    number = exp.Literal.number(version)
    table_expression.set("version", exp.Version(this="VERSION", kind="AS OF", expression=number))
    return table_expression


def join_engine(lake: ReadableLake, vector: Vector) -> JoinEngine | None:
    """Spark as an engine over some versions of a lake's tables; None if the lake has no Spark."""
    spark = spark_lake(lake)
    if spark is None:
        return None

    def fetch(query: exp.Query) -> Sequence[Sequence[Any]]:
        with spark.work() as w:
            return _fetch_rows(w, query)

    return JoinEngine(lambda t: table_at_version(lake.table(t), vector[t].version), fetch)


def check_evaluator(lake: ReadableLake, table: Table) -> Callable[[str, BaseRow], bool] | None:
    """A function that evaluates a CHECK of a table on Spark; None if the lake has no Spark."""
    spark = spark_lake(lake)
    if spark is None:
        return None
    texts, answers = check_texts(table), dict[tuple[Any, ...], bool]()
    types = {c: kind for c, kind in table.columns if kinds.is_exact(kind)}

    def asked(name: str, row: BaseRow) -> bool:
        key = name, *(row.get(c) for c in types)
        if key not in answers:
            one = {c: pa.array([row.get(c)], kinds.arrow(kind)) for c, kind in types.items()}
            try:
                with spark.work() as w:
                    row_table = w.hold("checked", pa.table(one), types)
                    result = w.query(
                        f"SELECT NOT ({texts[name]}) AS broken FROM {row_table}"
                    ).toArrow()
            except BelvedereError as why:
                raise Unsupported(
                    f"the constraint {name} ({texts[name]}) cannot be checked of one row alone",
                    detail=why.message,
                    hint="change the tables themselves",
                    reason="CHECK_EXPRESSION",
                ) from why
            answers[key] = bool(result["broken"][0].as_py())
        return answers[key]

    return asked


def summarize_on_spark(
    lake: ReadableLake, tree: EquijoinTree, keys: Keys, vector: Vector
) -> BuiltSummary:
    """The summary of a view at some versions of its tables, computed on Spark; no base rows are fetched."""
    tables = {t: lake.table(t) for t in tree.block.tables}
    with lake.work() as w:  # type: ignore[attr-defined]

        def run(_: str, query: exp.Query) -> str:
            name: str = w.register("updating", w.keep(w.query(query.sql(dialect="spark"))))
            return name

        def table(name: str) -> exp.Table:
            return table_at_version(tables[name], vector[name].version)

        tables_made = SummaryQueries(
            tree, held_columns(tree.block, keys), keys, table, run
        ).run_all_counted()
        return read_summary(
            tree, tables_made, lambda name: w.query(f"SELECT * FROM {name}").toArrow()
        )


def _fetch_rows(w: Workspace, query: exp.Query) -> list[tuple[Any, ...]]:
    result = w.query(query.sql(dialect="spark")).toArrow()
    return list(zip(*(column.to_pylist() for column in result.columns), strict=True))
