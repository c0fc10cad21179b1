"""The summary built by SQL is the one in arrays."""

from __future__ import annotations

import re

import duckdb
import numpy as np
import pytest
from sqlglot import exp

from belvedere.updating.building import Built, build
from belvedere.updating.classes import summarized
from belvedere.updating.graph import graph_of
from updating.cases import Case, random_case


def built(case: Case) -> Built:
    connection = duckdb.connect()
    for table, rows in case.arrow(case.tables).items():
        connection.register(f"arrow_{table}", rows)
    made: list[str] = []

    def run(query: exp.Query) -> str:
        made.append(f"step{len(made)}")
        # Spark's parser takes WHERE (x) for a table's alias and its only column.
        assert not re.search(r"WHERE \(\w+\)", query.sql(dialect="spark"))
        connection.execute(f"CREATE TEMP TABLE {made[-1]} AS {query.sql(dialect='duckdb')}")
        return made[-1]

    def fetch(query: exp.Query) -> list[tuple[int, ...]]:
        return connection.execute(query.sql(dialect="duckdb")).fetchall()

    base = case.base()
    return build(base.tree, base.held, lambda t: exp.to_table(f"arrow_{t}"), run, fetch)


@pytest.mark.parametrize("seed", range(16))
def test_sql_builds_the_same_summary(seed: int) -> None:
    case = random_case(7000 + seed, positions=1 + seed % 4, rows=7, keyed=seed % 3 == 0)
    base, found = case.base(), built(case)
    graph = graph_of(base)
    summary = summarized(base, graph, [np.zeros(0, np.int64) for _ in base.shape.positions])
    names = {}
    for p, of_row in enumerate(summary.of_row):
        for n in np.flatnonzero(of_row >= 0):
            names[p, int(of_row[n])] = (p, float(graph.jcard[p][n]), int(graph.joined[p][n]))
    assert found.sizes == {names[p, c]: int(summary.sizes[p][c]) for p, c in names}
    tree = base.tree
    assert found.links == {
        (names[tree.parent(e), a], names[tree.child(e), b]): w
        for e, links in summary.links.items()
        for b, a, w in zip(*(some.tolist() for some in links.entries()), strict=True)
    }
    assert [r[1:] for r in found.rows] == [
        (int(w.sum()), int(x.sum())) for w, x in zip(graph.whole, graph.extended, strict=True)
    ]
