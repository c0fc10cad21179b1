"""The estimate is exact where every row is a candidate, and is the paper's where none is."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from belvedere.updating.summary.base_tables import BaseTables
from belvedere.updating.summary.classes import ClassNumbers, cardinality_codes, summarize
from belvedere.updating.summary.database_graph import DatabaseGraph, build_graph
from belvedere.updating.summary.domains import Codes
from belvedere.updating.summary.estimate import (
    InsertionEstimate,
    estimate_side_effects,
    segments_of,
)
from tests.updating.cases import Case, Row, random_case


def rows_to_insert(case: Case, dice: random.Random, most: int) -> list[tuple[Row, ...]]:
    """Segments that join, some of them new, not all there already."""
    shape = case.shape
    there = {t: set(rows) for t, rows in case.tables.items()}
    pools = []
    for p in shape.positions:
        columns = case.columns[p.table]
        drawn: list[Row] = [tuple(dice.randrange(3) for _ in columns) for _ in range(4)]
        pools.append([*case.tables[p.table], *drawn])
    picks = list(product(*(dice.sample(pool, min(len(pool), 6)) for pool in pools)))
    dice.shuffle(picks)
    found = []
    for pick in picks:
        if (
            len(found) < most
            and next(
                case.embeddings({p.table: [r] for p, r in zip(shape.positions, pick, strict=True)}),
                None,
            )
            == pick
            and any(r not in there[p.table] for p, r in zip(shape.positions, pick, strict=True))
        ):
            found.append(pick)
    return found


def estimated(
    case: Case, base: BaseTables, share: float, pick: tuple[Row, ...]
) -> InsertionEstimate:
    graph = build_graph(base)
    own = [np.flatnonzero(e)[: round(share * int(e.sum()))] for e in graph.extended]
    codes, numbers = [], []
    for p, row in zip(base.shape.positions, pick, strict=True):
        at = dict(zip(case.columns[p.table], row, strict=True))
        code = tuple(
            -2 if found is None else found
            for found in (base.domains[p.table, c].code(at[c]) for c in base.held[p.table])
        )
        codes.append(code)
        numbers.append(base.find(p.table, code))
    summary = summarize(base, graph, own)
    return estimate_side_effects(base.tree, graph, summary, segments_of(base, codes, numbers))


def real(case: Case, pick: tuple[Row, ...]) -> int:
    """How many embeddings inserting the segments makes."""
    after = {t: list(rows) for t, rows in case.tables.items()}
    for p, row in zip(case.shape.positions, pick, strict=True):
        after[p.table].append(row)
    return len(set(case.embeddings(after)) - set(case.embeddings()))


def checked(share: float, seeds: range) -> list[tuple[int, InsertionEstimate]]:
    found = []
    for seed in seeds:
        case = random_case(seed, positions=2 + seed % 3, values=4 if seed % 2 else 3)
        for pick in rows_to_insert(case, random.Random(seed), 4):
            found.append((real(case, pick), estimated(case, case.base(), share, pick)))
    return found


def test_with_every_row_a_candidate_the_estimate_is_never_wrong() -> None:
    found = checked(1.0, range(60))
    assert len(found) > 100
    assert {n > 1 for n, _ in found} == {True, False}
    assert [(n, e) for n, e in found if (n > 1) != e.declares()] == []


def of_one_new_segment(seeds: range) -> list[tuple[int, InsertionEstimate]]:
    """Insertions of which all segments but one are there, from every root, without candidates."""
    found = []
    for seed in seeds:
        positions, rows, values = (3, 14, 6) if seed % 2 else (4, 9, 4)
        plain = random_case(4000 + seed, positions=positions, rows=rows, values=values)
        there = {t: set(rows) for t, rows in plain.tables.items()}
        for pick in rows_to_insert(plain, random.Random(seed), 6):
            tables = (p.table for p in plain.shape.positions)
            if sum(r not in there[t] for t, r in zip(tables, pick, strict=True)) == 1:
                makes = real(plain, pick)
                for root in range(positions):
                    case = replace(plain, root=root)
                    found.append((makes, estimated(case, case.base(), 0.0, pick)))
    return found


def test_what_one_new_segment_completes_is_told_without_candidates() -> None:
    found = of_one_new_segment(range(80))
    assert len(found) > 200
    assert {n > 1 for n, _ in found} == {True, False}
    assert [(n, e) for n, e in found if (n > 1) != e.declares()] == []
    assert {e.rows for n, e in found if n == 1} == {1.0}


def test_the_law_of_one_new_segment_notices_classes_that_look_down_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def down_alone(names: ClassNumbers, graph: DatabaseGraph, rows: Codes) -> Codes:
        p = names.position
        return cardinality_codes(graph.jcard[p][rows], graph.joined[p][rows])

    monkeypatch.setattr(ClassNumbers, "_in_common", down_alone)
    assert any((n > 1) != e.declares() for n, e in of_one_new_segment(range(80)))


def test_without_candidates_counts_are_averaged_out() -> None:
    """Fig. 19(b): two new segments meet in one row of a class of four."""
    case = Case(
        "SELECT * FROM r, s, t WHERE r.a = s.d AND s.e = t.b",
        {"r": ("a",), "s": ("d", "e", "f"), "t": ("b",)},
        {"r": [], "s": [(1, 1, 9), (2, 2, 9), (3, 3, 9), (4, 4, 9)], "t": []},
        root=1,
    )
    insert = ((1,), (1, 1, 5), (1,))
    assert real(case, insert) == 2
    assert estimated(case, case.base(), 0.0, insert).rows == 1.25
    assert estimated(case, case.base(), 1.0, insert).rows == 2


@pytest.mark.parametrize("root", range(4))
def test_rows_that_share_a_key_of_two_columns_are_not_averaged_out(root: int) -> None:
    """The row (1, 1) of a class of four lacks three partners, and all of them come at once."""
    case = Case(
        "SELECT * FROM r, s, t, u WHERE r.a = s.d AND s.e = t.b AND s.d = u.g AND s.e = u.h",
        {"r": ("a",), "s": ("d", "e", "f"), "t": ("b",), "u": ("g", "h")},
        {"r": [], "s": [(1, 1, 9), (2, 2, 9), (3, 3, 9), (4, 4, 9)], "t": [], "u": []},
        root=root,
    )
    insert = ((1,), (1, 1, 5), (1,), (1, 1))
    assert real(case, insert) == 2
    assert estimated(case, case.base(), 0.0, insert).rows == 2


@pytest.mark.parametrize("root", range(5))
def test_their_other_joins_are_those_of_their_class(root: int) -> None:
    """Of the four rows half have a partner in v; seen from v, that is above them."""
    case = Case(
        "SELECT * FROM r, s, t, u, v"
        " WHERE r.a = s.d AND s.e = t.b AND s.d = u.g AND s.e = u.h AND s.f = v.c",
        {"r": ("a",), "s": ("d", "e", "f"), "t": ("b",), "u": ("g", "h"), "v": ("c",)},
        {
            "r": [],
            "s": [(1, 1, 9), (2, 2, 8), (3, 3, 7), (1, 1, 5)],
            "t": [],
            "u": [],
            "v": [(9,), (5,), (4,)],
        },
        root=root,
    )
    insert = ((1,), (1, 1, 4), (1,), (1, 1), (4,))
    assert real(case, insert) == 3
    assert estimated(case, case.base(), 0.0, insert).rows == 3


@pytest.fixture
def shop() -> Case:
    """Fig. 1, values numbered: S_i as i, P_i as i, C_i as i, A_i as i; LA 1, NY 2, KS 3."""
    return Case(
        "SELECT s.supplier, s.location, p.part, o.client, a.agent FROM supplier s, product p, orders o, agency a"
        " WHERE s.supplier = p.supplier AND p.part = o.part AND a.part = p.part",
        {
            "supplier": ("supplier", "location"),
            "product": ("supplier", "part"),
            "orders": ("client", "part"),
            "agency": ("agent", "part"),
        },
        {
            "supplier": [(4, 1), (1, 1), (1, 2), (2, 2), (3, 3)],
            "product": [(5, 4), (4, 6), (1, 1), (2, 2), (5, 2), (6, 3)],
            "orders": [(3, 4), (3, 6), (1, 1), (2, 2)],
            "agency": [(4, 1), (3, 2), (1, 3)],
        },
    )


def test_the_papers_first_example_has_one_side_effect(shop: Case) -> None:
    insert = ((4, 9), (4, 6), (3, 6), (5, 6))
    assert real(shop, insert) == 2
    assert estimated(shop, shop.base(), 1.0, insert).rows == 2


def test_the_papers_second_example(shop: Case) -> None:
    """Example 6.1 leaves out that the new supplier also joins p1 and p5: it makes three rows."""
    insert = ((5, 9), (5, 6), (3, 6), (4, 6))
    assert real(shop, insert) == 3
    assert estimated(shop, shop.base(), 1.0, insert).rows == 3
    assert estimated(shop, shop.base(), 0.0, insert).rows == 3.0
