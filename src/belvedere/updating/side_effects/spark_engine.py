"""Spark as the engine of what memory does not do: the summary's aggregations, restricted joins."""

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
    """A version of a table, as SQL reads it."""
    found = exp.to_table(table.reference, dialect="spark")
    number = exp.Literal.number(version)
    found.set("version", exp.Version(this="VERSION", kind="AS OF", expression=number))
    return found


def join_engine(lake: ReadableLake, vector: Vector) -> JoinEngine | None:
    """The tables of a lake at some versions, joined by Spark; None of a lake that has no Spark."""
    spark = spark_lake(lake)
    if spark is None:
        return None

    def fetch(query: exp.Query) -> Sequence[Sequence[Any]]:
        with spark.work() as w:
            return _fetch_rows(w, query)

    return JoinEngine(lambda t: table_at_version(lake.table(t), vector[t].version), fetch)


def check_evaluator(lake: ReadableLake, table: Table) -> Callable[[str, BaseRow], bool] | None:
    """Spark, asked whether a row breaks a CHECK of a table; None of a lake that has no Spark."""
    spark = spark_lake(lake)
    if spark is None:
        return None
    texts, known = check_texts(table), dict[tuple[Any, ...], bool]()
    types = {c: kind for c, kind in table.columns if kinds.is_exact(kind)}

    def asked(name: str, row: BaseRow) -> bool:
        key = name, *(row.get(c) for c in types)
        if key not in known:
            one = {c: pa.array([row.get(c)], kinds.arrow(kind)) for c, kind in types.items()}
            try:
                with spark.work() as w:
                    held = w.hold("checked", pa.table(one), types)
                    found = w.query(f"SELECT NOT ({texts[name]}) AS broken FROM {held}").toArrow()
            except BelvedereError as why:
                raise Unsupported(
                    f"the constraint {name} ({texts[name]}) cannot be checked of one row alone",
                    detail=why.message,
                    hint="change the tables themselves",
                    reason="CHECK_EXPRESSION",
                ) from why
            known[key] = bool(found["broken"][0].as_py())
        return known[key]

    return asked


def summarize_on_spark(
    lake: ReadableLake, tree: EquijoinTree, keys: Keys, vector: Vector
) -> BuiltSummary:
    """The summary of a view at some versions of its tables, by jobs of Spark; no rows come here."""
    tables = {t: lake.table(t) for t in tree.block.tables}
    with lake.work() as w:  # type: ignore[attr-defined]

        def run(_: str, query: exp.Query) -> str:
            name: str = w.register("updating", w.keep(w.query(query.sql(dialect="spark"))))
            return name

        def table(name: str) -> exp.Table:
            return table_at_version(tables[name], vector[name].version)

        made = SummaryQueries(
            tree, held_columns(tree.block, keys), keys, table, run
        ).run_all_counted()
        return read_summary(tree, made, lambda name: w.query(f"SELECT * FROM {name}").toArrow())


def _fetch_rows(w: Workspace, query: exp.Query) -> list[tuple[Any, ...]]:
    found = w.query(query.sql(dialect="spark")).toArrow()
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))
