"""The summary built by SQL is the one in arrays."""

from __future__ import annotations

import re
from typing import Any

import duckdb
import numpy as np
import pytest
from sqlglot import exp

from belvedere.updating import building, classes, graph
from belvedere.updating.building import Built, Passes, summary_of
from belvedere.updating.classes import summarized
from belvedere.updating.graph import graph_of
from updating.cases import Case, random_case
from updating.kept import by_class


def built(case: Case) -> Built:
    connection = duckdb.connect()
    for table, rows in case.arrow(case.tables).items():
        connection.register(f"arrow_{table}", rows)

    def run(name: str, query: exp.Query) -> str:
        # Spark's parser takes WHERE (x) for a table's alias and its only column.
        assert not re.search(r"WHERE \(\w+\)", query.sql(dialect="spark"))
        connection.execute(f"CREATE TEMP TABLE {name} AS {query.sql(dialect='duckdb')}")
        return name

    base = case.base()
    passes = Passes(base.tree, base.held, case.keys, lambda t: exp.to_table(f"arrow_{t}"), run)
    made = passes.run_all_counted()
    return summary_of(base.tree, made, lambda name: connection.execute(f"FROM {name}").fetchall())


@pytest.mark.parametrize("seed", range(16))
def test_sql_builds_the_same_summary(seed: int) -> None:
    same_summary(random_case(7000 + seed, positions=1 + seed % 5, rows=7, keyed=seed % 3 == 0))


@pytest.mark.parametrize("seed", range(6))
def test_sql_stops_at_the_greatest_cardinality_too(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (graph, classes, building):
        monkeypatch.setattr(module, "MOST", 4.0)
    same_summary(random_case(7100 + seed, positions=2 + seed % 4, rows=12, values=2))


@pytest.mark.parametrize(
    ("what", "wrong"),
    [
        (
            "_dangles",
            lambda self, p, _: " OR ".join(f"c{f}.n IS NULL" for f in self.tree.around[p]),
        ),
        ("_whole", lambda *_: "TRUE"),
    ],
)
def test_the_law_notices_what_is_not_heard(
    what: str, wrong: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building.Passes, what, wrong)
    cases = [random_case(7000 + seed, positions=2 + seed % 3, rows=7) for seed in range(16)]
    with pytest.raises(AssertionError):
        list(map(same_summary, cases))


def same_summary(case: Case) -> None:
    base, found = case.base(), built(case)
    made = graph_of(base)
    summary = summarized(base, made, [np.zeros(0, np.int64) for _ in base.shape.positions])
    assert (found.sizes, found.links) == by_class(base, made, summary)
    assert [whole for _, whole in found.rows] == [int(w.sum()) for w in made.whole]
    extended = [int(x.sum()) for x in made.extended]
    assert [sum(found.of(p)) for p in range(len(extended))] == extended
