"""Queries of TPC-DS as views, whole texts: those that are accepted are right after every round."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest
import sqlglot
from benchmarks.data import tpcds
from sqlglot import exp

import belvedere as bv
from tests.views.comparison import assert_all_fresh

pytestmark = [pytest.mark.spark, pytest.mark.soak]

ACCEPTED_AT_LEAST = 40


@dataclass
class Stage:
    """A lake with the views that were accepted, and why the others were not."""

    lake: bv.Lake
    tables: list[str]
    accepted: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    directory = tmp_path_factory.mktemp("tpcds")
    tables = tpcds.data(0.01, directory)
    with bv.connect(directory / "lake") as lake:
        stage = Stage(lake, tables)
        for table in tables:
            frame = lake.spark.read.parquet(f"{directory / table}.parquet")
            frame.createOrReplaceTempView("generated")
            lake.sql(f"CREATE TABLE {table} AS SELECT * FROM generated")
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda view: _create(stage, *view), _wanted().items()))
        yield stage


def test_most_queries_are_accepted(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    why = "".join(f"\n  {v}: {text.splitlines()[0]}" for v, text in sorted(stage.refused.items()))
    _tell(capsys, f"accepted {len(stage.accepted)} of {len(_wanted())}{why}")
    assert len(stage.accepted) >= min(ACCEPTED_AT_LEAST, len(_wanted()))
    _assert_fresh(stage)


@pytest.mark.parametrize("number", [3, 7])
def test_accepted_views_are_right(
    stage: Stage, number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    for statement in tpcds.moved(number):
        stage.lake.sql(statement)
    done = stage.lake.refresh()
    assert isinstance(done, list)
    rebuilt = {r.name: r.reason for r in done if r.strategy == "rebuild"}
    _tell(capsys, f"incremental {len(done) - len(rebuilt)} of {len(done)}; rebuilt: {rebuilt}")
    _assert_fresh(stage)


def _tell(capsys: pytest.CaptureFixture[str], text: str) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\n{text}\n")


def _wanted() -> dict[str, str]:
    """All queries, or those whose views BELVEDERE_TPCDS names."""
    names = os.environ.get("BELVEDERE_TPCDS", "").split()
    return {v: q for v, q in tpcds.queries().items() if not names or v in names}


def _create(stage: Stage, view: str, query: str) -> None:
    try:
        stage.lake.sql(f"CREATE MATERIALIZED VIEW {view} AS {query}")
        stage.accepted[view] = query
    except bv.Unsupported as error:
        stage.refused[view] = str(error)


def _assert_fresh(stage: Stage) -> None:
    queries = {
        view: _with_ties_broken(query, len(stage.lake.view(view).df().columns))
        for view, query in stage.accepted.items()
    }
    assert_all_fresh(stage.lake, queries, stage.tables)


def _with_ties_broken(query: str, width: int) -> str:
    """The query, its last rows those that a view takes: by all columns where its order ends."""
    tree = sqlglot.parse_one(query, dialect="spark")
    order = tree.args.get("order")
    if order is not None and tree.args.get("limit") is not None:
        for number in range(1, width + 1):
            nth = exp.Ordered(this=exp.Literal.number(number), nulls_first=True)
            order.append("expressions", nth)
    return tree.sql(dialect="spark")
