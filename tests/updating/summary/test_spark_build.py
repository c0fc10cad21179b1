"""The summary built by SQL is the one in arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from belvedere.updating.summary import classes, database_graph
from belvedere.updating.summary.classes import summarize
from belvedere.updating.summary.database_graph import build_graph
from belvedere.updating.summary.in_tables import build
from tests.updating.cases import Case, random_case
from tests.updating.summary.by_sql import Sql, arrays_in_words, in_words


@pytest.mark.parametrize("seed", range(12))
def test_sql_builds_the_same_summary(seed: int) -> None:
    same_summary(random_case(7000 + seed, positions=1 + seed % 5, rows=7, keyed=seed % 3 == 0))


@pytest.mark.parametrize("seed", range(6))
def test_sql_stops_at_the_greatest_cardinality_too(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (database_graph, classes, build):
        monkeypatch.setattr(module, "MOST_JOINS", 4.0)
    same_summary(random_case(7100 + seed, positions=2 + seed % 4, rows=12, values=2))


@pytest.mark.parametrize("seed", range(6))
def test_joins_that_a_class_has_no_bits_for_tell_nothing_in_sql_either(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(classes, "CLASS_BITS", 3)
    same_summary(random_case(7200 + seed, positions=4 + seed % 2, rows=9))


@pytest.mark.parametrize(
    ("what", "wrong"),
    [
        (
            "_dangles",
            lambda self, p, _: " OR ".join(f"c{f}.n IS NULL" for f in self.tree.around[p]),
        ),
        ("whole", lambda *_: "TRUE"),
    ],
)
def test_the_law_notices_what_is_not_heard(
    what: str, wrong: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build.SummaryQueries, what, wrong)
    cases = [random_case(7000 + seed, positions=2 + seed % 3, rows=7) for seed in range(16)]
    with pytest.raises(AssertionError):
        list(map(same_summary, cases))


def same_summary(case: Case) -> None:
    sql = Sql.of(case)
    base, found = sql.base, sql.summary(sql.passes().run_all_counted())
    made = build_graph(base)
    summary = summarize(base, made, [np.zeros(0, np.int64) for _ in base.shape.positions])
    assert in_words(base.tree, found) == arrays_in_words(base, made, summary)
    assert [whole for _, whole in found.rows] == [int(w.sum()) for w in made.whole]
    assert [int(s.sum()) for s in found.sizes] == [int(x.sum()) for x in made.extended]
