"""The filter: what it answers, its candidates and root; saved and loaded it is the same."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import duckdb
import pytest
from benchmarks.updating.baselines import FullPropagation, everything

from belvedere.updating.side_effects.checks import CheckMode, UpdateChecker, is_decided_by_schema
from belvedere.updating.summary.candidates import best_candidates, counted_candidates
from belvedere.updating.summary.database_graph import build_graph
from belvedere.updating.summary.filter import UpdateFilter
from belvedere.updating.summary.roots import choose_root
from belvedere.updating.summary.saved_arrays import (
    domain_groups,
    filter_from_arrays,
    filter_to_arrays,
)
from belvedere.updating.translate.constraints import TableRules
from tests.updating.cases import Case, Row, random_case
from tests.updating.side_effects.test_in_memory import engine
from tests.updating.summary.flows import flow_candidates
from tests.updating.summary.kept import described, filter_of, owners
from tests.updating.summary.test_estimate import real, rows_to_insert, shop
from tests.updating.translate.test_translator import Lists, view_row

assert shop


@pytest.mark.parametrize("seed", range(8))
def test_a_saved_filter_comes_back_the_same(seed: int) -> None:
    case = random_case(4000 + seed, positions=3, rows=6, project=seed % 2 == 0)
    made = filter_of(case)
    base = made.base
    back = filter_from_arrays(
        filter_to_arrays(made), base.tree, base.held, domain_groups(base), case.keys
    )
    assert described(back, owners(made)) == described(made, owners(made))


def rules(case: Case) -> dict[str, TableRules]:
    return {
        t: TableRules(dict.fromkeys(c, "int"), case.keys.get(t)) for t, c in case.columns.items()
    }


@pytest.mark.parametrize("mode", [CheckMode.AUTO, CheckMode.EXACT])
def test_checks_that_answer_exactly_agree_with_brute_force(mode: CheckMode) -> None:
    answers: Counter[str] = Counter()
    for seed in range(60):
        keyed = seed % 2 == 0
        case = random_case(5000 + seed, positions=2 + seed % 2, values=4, keyed=keyed)
        checker = UpdateChecker(filter_of(case), rules(case), Lists(case))
        for pick in rows_to_insert(case, random.Random(seed), 3):
            row = case.shown(pick)
            if row in case.view() or (keyed and _breaks_a_key(case, pick)):
                continue
            found = checker.check([], [view_row(case, row)], mode)
            answers[found.how] += 1
            assert found.possible == ("no" if real(case, pick) > 1 else "yes"), (case, pick, found)
            if found.possible == "no":
                assert found.rows
    assert sum(answers.values()) > 50


def _breaks_a_key(case: Case, pick: tuple[Row, ...]) -> bool:
    pairs = {(p.table, r[0]): r for p, r in zip(case.shape.positions, pick, strict=True)}
    there = {(t, r[0]): r for t, rows in case.tables.items() for r in rows}
    return any(there.get(k, r) != r for k, r in pairs.items()) or any(k[1] is None for k in pairs)


def test_the_schema_decides_where_new_rows_only_refer_by_key() -> None:
    case = Case(
        "SELECT l.k, o.k AS o, c.k AS c FROM l, o, c WHERE l.a = o.k AND o.a = c.k",
        {"l": ("k", "a"), "o": ("k", "a"), "c": ("k",)},
        {"l": [(0, 0)], "o": [(0, 0)], "c": [(0,)]},
        {"l": ("k",), "o": ("k",), "c": ("k",)},
    )
    tree = case.base().tree
    assert is_decided_by_schema(tree, case.keys, [0])
    assert not is_decided_by_schema(tree, case.keys, [1])
    assert not is_decided_by_schema(tree, {"o": ("k",)}, [0])


@pytest.mark.parametrize("seed", range(30))
def test_full_propagation_finds_what_the_estimate_with_all_candidates_finds(seed: int) -> None:
    case = random_case(6000 + seed, positions=2 + seed % 3, values=4)
    made = filter_of(case, 1.0)
    slow, all_rows = FullPropagation(made), everything(made)
    for pick in rows_to_insert(case, random.Random(seed), 3):
        segments = made.segments_known(_known(case, pick), _coder(made))
        assert slow.estimate(segments).rows == made.estimate(segments).rows
        found = all_rows._total(segments) - all_rows.without
        assert found == real(case, pick)


def _known(case: Case, pick: tuple[Row, ...]) -> list[dict[str, Any]]:
    tables = [p.table for p in case.shape.positions]
    return [dict(zip(case.columns[t], r, strict=True)) for t, r in zip(tables, pick, strict=True)]


def _coder(made: UpdateFilter) -> Any:
    from belvedere.updating.request.view_rows import Coder

    return Coder(made.base)


def test_candidates_miss_the_fewest_segments(shop: Case) -> None:
    """Example 5.8: {s1, p2, o2} and {o4, p5, a2} miss one segment, all others two."""
    base = shop.base()
    graph = build_graph(base)
    best = {(0, 0), (1, 1), (2, 1)}, {(2, 3), (1, 4), (3, 1)}
    one = counted_candidates(base, graph, 1)
    assert {(p, int(n)) for p, some in enumerate(one) for n in some} in best
    two = best_candidates(base, graph, 6 / 11)
    assert {(p, int(n)) for p, some in enumerate(two) for n in some} == best[0] | best[1]
    assert flow_candidates(base, graph, 1)[0] in best


def test_the_root_with_the_fewest_errors_is_chosen() -> None:
    case = Case(
        "SELECT * FROM r, s, t WHERE r.a = s.d AND s.e = t.b",
        {"r": ("a",), "s": ("d", "e", "f"), "t": ("b",)},
        {"r": [], "s": [(i, i, 9) for i in range(4)], "t": []},
    )
    sample = [({"a": i, "d": i, "e": i, "f": 5, "b": i}, True) for i in range(4)]

    def rooted(root: int) -> UpdateFilter:
        """With all rows candidates from one root, so that it alone makes no error."""
        return filter_of(replace(case, root=root), 1.0 if root == 2 else 0.0)

    found = choose_root([1, 0, 2], rooted, sample)
    assert found.errors == {1: 1.0, 0: 1.0, 2: 0.0}
    assert (found.root, found.error, found.is_settled) == (2, 0.0, True)


def test_a_row_that_is_there_is_refused(shop: Case) -> None:
    from belvedere.errors import Invalid

    checker = UpdateChecker(filter_of(shop), rules(shop), Lists(shop))
    there = view_row(shop, sorted(shop.view())[0])
    with pytest.raises(Invalid, match="already"):
        checker.check([], [there])


LINES = Case(
    "SELECT o.k, i.k AS line, i.item FROM o, i WHERE i.o = o.k AND i.item < 3",
    {"o": ("k",), "i": ("k", "o", "item")},
    {"o": [(10,)], "i": [(1, 10, 0), (2, 10, 4)]},
    {"o": ("k",), "i": ("k",)},
)


@pytest.mark.parametrize("mode", list(CheckMode))
@pytest.mark.parametrize(("row", "reason"), [
    ((10, 1, 2), "the key of 'i' has another row with k=1"),
    ((10, 2, 2), "the key of 'i' has another row with k=2"),
    ((11, 1, 0), "the key of 'i' has another row with k=1"),
    ((10, 3, 3), "a row of 'i' would not meet the view's WHERE"),
    ((10, 2, 4), "a row of 'i' would not meet the view's WHERE"),
    ((10, None, 0), "the key (k) of 'i' cannot be NULL"),
    ((10, 3, 1), ""),
])  # fmt: skip
def test_every_mode_refuses_what_the_tables_do_not_allow(
    mode: CheckMode, row: Row, reason: str
) -> None:
    checker = UpdateChecker(filter_of(LINES), rules(LINES), Lists(LINES))
    found = checker.check([], [view_row(LINES, row)], mode)
    assert (found.possible, found.reason) == ("no" if reason else "yes", reason)


@pytest.mark.parametrize("mode", list(CheckMode))
def test_every_mode_refuses_a_row_that_is_there(mode: CheckMode) -> None:
    from belvedere.errors import Invalid

    checker = UpdateChecker(filter_of(LINES), rules(LINES), Lists(LINES))
    with pytest.raises(Invalid, match="already"):
        checker.check([], [view_row(LINES, (10, 1, 0))], mode)


def test_rows_inserted_together_are_checked_together() -> None:
    """Each alone has a side effect that is the other: together they have none."""
    case = Case(
        "SELECT a.x, b.y FROM a, b WHERE a.j = b.j",
        {"a": ("x", "j"), "b": ("y", "j")},
        {"a": [], "b": [(1, 0), (2, 0)]},
    )
    case = Case("SELECT a.x, a.j, b.y FROM a, b WHERE a.j = b.j", case.columns, case.tables)
    checker = UpdateChecker(filter_of(case), rules(case), Lists(case))
    one, two = view_row(case, (7, 0, 1)), view_row(case, (7, 0, 2))
    assert checker.check([], [one]).possible == "no"
    assert checker.check([], [one, two]).possible == "yes"


def test_what_is_too_much_for_memory_is_joined_by_an_engine() -> None:
    """With hardly a step to take in memory, answers are those of brute force all the same."""
    connection = duckdb.connect(config={"threads": 1})
    answers = Counter[str]()
    for seed in range(6):
        case = random_case(5100 + seed, positions=2, values=3)
        made = filter_of(case)
        with_engine = UpdateChecker(
            made, rules(case), Lists(case), engine=engine(case, connection), steps=3
        )
        for pick in rows_to_insert(case, random.Random(seed), 3):
            row = case.shown(pick)
            if row in case.view():
                continue
            answer = with_engine.check([], [view_row(case, row)], CheckMode.EXACT).possible
            answers[answer] += 1
            assert answer in ("no" if real(case, pick) > 1 else "yes", "unknown")
    assert answers["yes"] > 3
    assert answers["no"] > 3
    assert answers["unknown"] < 3
