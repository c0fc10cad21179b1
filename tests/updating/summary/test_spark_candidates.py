"""Candidates chosen by SQL are those chosen in arrays, and the summary with them is the one in arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from belvedere.updating.summary import candidates
from belvedere.updating.summary.candidates import best_candidates, counted_candidates
from belvedere.updating.summary.classes import summarize
from belvedere.updating.summary.database_graph import build_graph
from belvedere.updating.summary.in_tables import candidate_queries
from belvedere.updating.summary.in_tables.build import ChooseCandidates
from belvedere.updating.summary.in_tables.candidate_queries import choose_count, choose_share
from tests.updating.cases import Case, random_case
from tests.updating.summary.by_sql import Sql, arrays_in_words, in_words, rows_of

COUNTS, SHARES = (1, 3), (0.2, 0.6)


@cache
def full_cases() -> list[Case]:
    """Views without selections, tables in order and without NULL: ties are broken alike.

    Dangling rows join with whole ones in all of them.
    """
    found: list[Case] = []
    seed = 7200
    while len(found) < 4:
        seed += 1
        case = random_case(seed, positions=2 + seed % 3, rows=12, keyed=seed % 3 == 0)
        tables = {t: sorted(r for r in rows if None not in r) for t, rows in case.tables.items()}
        if not any(at.selection.conjuncts for at in case.shape.positions):
            graph = build_graph(case.base(tables))
            if any((x & w).any() for x, w in zip(graph.extended, graph.whole, strict=True)):
                found.append(replace(case, tables=tables))
    return found


@pytest.fixture
def whole_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Costs without fractions, so that no rounding breaks a tie.

    In arrays the keys of a join are numbered together with those of others on the same columns.
    """
    for module in (candidates, candidate_queries):
        monkeypatch.setattr(module, "missing_cost", lambda segments, _: 1000.0 * segments + 7)


@pytest.mark.usefixtures("whole_costs")
def test_a_share_of_the_rows_is_the_same() -> None:
    for case in full_cases():
        for share in SHARES:
            same_share(case, share)


@pytest.mark.usefixtures("whole_costs")
def test_the_rows_of_partial_view_rows_are_the_same() -> None:
    for case in full_cases():
        for count in COUNTS:
            sql = Sql.of(case)
            _, own = sql.chosen(lambda makers, n=count: choose_count(n, makers))
            wanted = counted_candidates(sql.base, build_graph(sql.base), count)
            assert [r.tolist() for r in rows_of(sql.base, own)] == [r.tolist() for r in wanted]


@pytest.mark.usefixtures("whole_costs")
@pytest.mark.parametrize(
    ("what", "wrong"),
    [
        ("_CandidateQueries._cost", lambda self, p, edges: f"CAST({len(edges)} AS DOUBLE)"),
        ("_least_of", lambda costs: "CAST(0 AS DOUBLE)"),
    ],
)
def test_the_law_notices_ranks_that_are_wrong(
    what: str, wrong: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"belvedere.updating.summary.in_tables.candidate_queries.{what}", wrong)
    with pytest.raises(AssertionError):
        list(map(same_share, full_cases()))


@pytest.mark.parametrize("seed", range(8))
def test_the_summary_with_candidates_is_the_one_in_arrays(seed: int) -> None:
    sql = Sql.of(random_case(7300 + seed, positions=1 + seed % 5, rows=9, keyed=seed % 3 == 0))
    choose = (lambda m: choose_count(2, m)) if seed % 2 else (lambda m: choose_share(0.5, m))
    found, own = sql.chosen(choose)
    base, graph = sql.base, build_graph(sql.base)
    summary = summarize(base, graph, rows_of(base, own))
    assert in_words(base.tree, found) == arrays_in_words(base, graph, summary, own)


def test_a_join_of_many_keys_costs_more() -> None:
    query = "SELECT x.a, x.b, y.a AS c, z.b AS d FROM t AS x, u AS y, w AS z WHERE x.a = y.a AND x.b = z.b"
    columns = {"t": ("a", "b"), "u": ("a",), "w": ("b",)}
    tables = {"t": [(0, 9)], "u": [(n,) for n in range(1, 6)], "w": [(n,) for n in range(3)]}
    sql = Sql.of(Case(query, columns, tables))
    sql.chosen(lambda makers: choose_share(1.0, makers))
    costs = sql.connection.execute("SELECT cost FROM f_0").fetchall()
    assert costs == [(pytest.approx(2000 + math.log(6) + math.log(4)),)]


@pytest.mark.parametrize("choose", [lambda m: choose_share(1.0, m), lambda m: choose_count(3, m)])
def test_rows_with_null_are_none(
    choose: Callable[[candidate_queries.TableMakers], ChooseCandidates],
) -> None:
    query = "SELECT x.a, x.b, y.a AS c FROM t AS x, u AS y WHERE x.a = y.a"
    tables = {"t": [(1, None), (None, 2)], "u": [(None,)]}
    sql = Sql.of(Case(query, {"t": ("a", "b"), "u": ("a",)}, tables))
    found, own = sql.chosen(choose)
    assert not any(own.values())
    assert [int(s.sum()) for s in found.sizes] == [2, 1]


def test_at_most_so_many_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidate_queries, "MOST_CANDIDATES", 3)
    sql = Sql.of(full_cases()[0])
    _, own = sql.chosen(lambda makers: choose_share(1.0, makers))
    assert sum(map(len, own.values())) == 3


def same_share(case: Case, share: float = 0.6) -> None:
    sql = Sql.of(case)
    _, own = sql.chosen(lambda makers: choose_share(share, makers))
    wanted = best_candidates(sql.base, build_graph(sql.base), share)
    assert [r.tolist() for r in rows_of(sql.base, own)] == [np.sort(r).tolist() for r in wanted]
