"""The translator against brute force: every base change over a small domain."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, combinations, product

import pytest

from belvedere.errors import Invalid
from belvedere.lake.tables.declared_keys import ForeignKey
from belvedere.updating.request.view_rows import ViewRow
from belvedere.updating.translate.constraints import TableRules, check_condition
from belvedere.updating.translate.translation_request import TranslationRequest
from belvedere.updating.translate.translator import SearchResult, Translation, search_translation
from tests.updating.cases import Case, Row, Tables, random_case
from tests.updating.replacements import MOST, Foreign, asked_of, choices, smallest_replacement
from tests.updating.translate.listed import Listed


class Lists(Listed):
    """Tables of a case as lists of rows."""

    def __init__(self, case: Case) -> None:
        super().__init__(case.columns, case.tables)


def request(
    case: Case, delete: list[Row], insert: list[Row], foreign: Foreign | None = None
) -> TranslationRequest:
    declared = foreign or {}
    rules = {
        t: TableRules(dict.fromkeys(columns, "int"), case.keys.get(t), declared.get(t, ()))
        for t, columns in case.columns.items()
    }
    return TranslationRequest(
        case.base(),
        rules,
        Lists(case),
        [view_row(case, r) for r in delete],
        [view_row(case, r) for r in insert],
    )


def view_row(case: Case, row: Row) -> ViewRow:
    return ViewRow(dict(zip((n for n, _ in case.shape.column_outputs), row, strict=True)))


def applied(case: Case, asked: TranslationRequest, translation: Translation) -> Tables:
    after: dict[str, list[Row]] = {}
    for table, rows in case.tables.items():
        gone = translation.changes.gone.get(table, frozenset())
        names = case.columns[table]
        kept = [
            r
            for r in rows
            if not gone
            or asked.coder.row_number(table, dict(zip(names, r, strict=True))) not in gone
        ]
        after[table] = kept + [tuple(r[c] for c in names) for r in translation.new.get(table, [])]
    return after


def deletions(case: Case) -> Iterator[tuple[Tables, int]]:
    """Every set of base rows taken away, and how many."""
    each = [(t, r) for t, rows in case.tables.items() for r in sorted(set(rows), key=str)]
    for some in chain.from_iterable(combinations(each, n) for n in range(len(each) + 1)):
        gone = set(some)
        after = {t: [r for r in rows if (t, r) not in gone] for t, rows in case.tables.items()}
        yield after, sum(case.tables[t].count(r) for t, r in some)


def smallest_deletion(case: Case, wanted: set[Row]) -> int | None:
    return min((n for after, n in deletions(case) if case.view(after) == wanted), default=None)


@pytest.mark.parametrize("seed", range(40))
def test_a_deletion_is_the_smallest_there_is_or_impossible(seed: int) -> None:
    case = random_case(
        seed,
        positions=2 + seed % 2,
        rows=4 - seed % 2,
        values=2,
        project=seed % 3 > 0,
        twice=seed % 5 == 0,
        cyclic=seed % 7 == 0,
    )
    view = case.view()
    for row in sorted(view, key=str)[:2]:
        asked = request(case, [row], [])
        found = search_translation(asked)
        best = smallest_deletion(case, view - {row})
        if found.translation is None:
            assert found.exhausted
            assert best is None
        else:
            assert case.view(applied(case, asked, found.translation)) == view - {row}
            gone = found.translation.changes.gone
            assert sum(asked.base.tables[t].counts[n] for t, ns in gone.items() for n in ns) == best


def insertions(case: Case, most: int, values: range) -> Iterator[tuple[Tables, int]]:
    """Every set of at most so many base rows put in."""
    each = [
        (t, r)
        for t, rows in case.tables.items()
        for r in product(values, repeat=len(case.columns[t]))
        if r not in rows
    ]
    for some in chain.from_iterable(combinations(each, n) for n in range(most + 1)):
        yield (
            {t: rows + [r for u, r in some if u == t] for t, rows in case.tables.items()},
            len(some),
        )


def smallest_insertion(case: Case, row: Row, values: range) -> int | None:
    wanted, most = case.view() | {row}, len(case.shape.positions)
    return min(
        (n for after, n in insertions(case, most, values) if case.view(after) == wanted),
        default=None,
    )


@pytest.mark.parametrize("seed", range(40))
def test_an_insertion_is_the_smallest_there_is_or_impossible(seed: int) -> None:
    case = random_case(
        1000 + seed, positions=2, rows=3, values=2, project=seed % 3 > 0, twice=seed % 5 == 0
    )
    dice = random.Random(seed)
    view, outputs = case.view(), case.shape.column_outputs
    for _ in range(2):
        row = tuple(dice.randrange(2) for _ in outputs)
        found = insertion(case, row)
        if found is None or row in view:
            continue
        # Values 2 to 4 are in no table: as many as a row has hidden values.
        columns = max(map(len, case.columns.values()))
        best = smallest_insertion(case, row, range(5 if columns == 1 else 3))
        if found.translation is None:
            # A row that another position takes too may do with a value that was not tried.
            assert found.exhausted or len(case.shape.tables) < len(case.shape.positions)
            assert best is None
        else:
            asked = request(case, [], [row])
            assert case.view(applied(case, asked, found.translation)) == view | {row}
            assert best is None or found.translation.touched <= best


def insertion(case: Case, row: Row) -> SearchResult | None:
    try:
        return search_translation(request(case, [], [row]))
    except Invalid:
        return None


@pytest.mark.parametrize("seed", range(120))
def test_a_replacement_does_what_was_asked_and_no_more(seed: int) -> None:
    keyed, twice = seed % 3 > 0, seed % 4 == 3
    case = random_case(
        2000 + seed,
        positions=2 + (seed % 8 == 1),
        rows=3 + seed % 2,
        values=2 + seed % 2,
        keyed=keyed,
        project=seed % 5 == 0,
        twice=twice,
    )
    key = ForeignKey(("a",), "t0", ("k",))
    foreign = {"t1": (key,)} if keyed and not twice and seed % 6 > 1 else {}
    for again in range(4):
        delete, insert = asked_of(case, 10 * seed + again)
        domain = range(4)
        if not delete or choices(case, delete, insert, domain) > MOST:
            continue
        asked = request(case, delete, insert, foreign)
        found = search_translation(asked)
        best = smallest_replacement(case, delete, insert, domain, foreign)
        if found.translation is None:
            assert best is None or not found.exhausted
        else:
            after = applied(case, asked, found.translation)
            assert case.view(after) == (case.view() - set(delete)) | set(insert)
            assert best is None or found.translation.touched <= best


def test_a_parent_goes_where_its_child_goes_too() -> None:
    """Each view row alone would leave a line without its order, or an order without a line's."""
    case = Case(
        "SELECT o.k, i.k AS line FROM o, i WHERE i.a = o.k",
        {"o": ("k",), "i": ("k", "a")},
        {"o": [(1,)], "i": [(1, 1), (2, 1)]},
        {"o": ("k",), "i": ("k",)},
    )
    foreign = {"i": (ForeignKey(("a",), "o", ("k",)),)}
    found = search_translation(request(case, [(1, 1), (1, 2)], [(1, 3)], foreign))
    assert found.translation is not None
    gone = search_translation(request(case, [(1, 1), (1, 2)], [], foreign))
    assert gone.translation is not None
    assert gone.translation.changes.gone == {"i": frozenset({0, 1})}


def test_a_parent_that_is_null_has_no_children() -> None:
    case = Case(
        "SELECT o.k, o.b, i.k AS line FROM o, i WHERE i.k = o.k",
        {"o": ("k", "b"), "i": ("k", "a"), "c": ("a",)},
        {"o": [(1, None)], "i": [(1, 0)], "c": [(None,)]},
        {"o": ("k",), "i": ("k",)},
    )
    foreign = {"c": (ForeignKey(("a",), "o", ("b",)), ForeignKey(("a",), "i", ("a",)))}
    case.tables["i"][0] = (1, None)
    assert search_translation(request(case, [(1, None, 1)], [], foreign)).translation is not None


@pytest.mark.parametrize("order", [(5, 6), (6, 5)])
def test_rows_of_one_statement_take_hidden_keys_in_any_order(order: tuple[int, int]) -> None:
    case = Case(
        "SELECT a.k, a.v FROM a, b WHERE a.h = b.h",
        {"a": ("k", "v", "h"), "b": ("h",)},
        {"a": [], "b": [(1,), (2,)]},
        {"a": ("h",)},
    )
    asked = request(case, [], [(k, 0) for k in order])
    limits = {"few": check_condition("h IN (1, 2)"), "not so": check_condition("k <> 6 OR h <> 2")}
    asked.rules = asked.rules | {"a": replace(asked.rules["a"], checks=limits)}
    found = search_translation(asked)
    assert found.translation is not None
    assert {(r["k"], r["h"]) for r in found.translation.new["a"]} == {(5, 2), (6, 1)}
