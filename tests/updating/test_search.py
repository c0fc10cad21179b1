"""The translator against brute force: every base change over a small domain."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from itertools import chain, combinations, product
from typing import Any

import pytest

from belvedere.errors import Invalid
from belvedere.updating.asked import ViewRow
from belvedere.updating.constraints import BaseRow, TableRules
from belvedere.updating.search import Found, Request, Translation, search
from updating.cases import Case, Row, Tables, random_case


class Lists:
    """Tables as lists of rows."""

    def __init__(self, case: Case) -> None:
        self.case = case

    def where(self, table: str, equal: Mapping[str, Any]) -> list[BaseRow]:
        names = self.case.columns[table]
        rows = [dict(zip(names, r, strict=True)) for r in self.case.tables[table]]
        return [r for r in rows if all(r[c] == v for c, v in equal.items())]

    def largest(self, table: str, column: str) -> int:
        return max([0, *(r[column] for r in self.where(table, {}) if r[column] is not None)])

    def first(self, table: str, column: str, most: int) -> list[Any]:
        found = dict.fromkeys(r[column] for r in self.where(table, {}))
        return [v for v in found if v is not None][:most]


def request(case: Case, delete: list[Row], insert: list[Row]) -> Request:
    rules = {
        t: TableRules(dict.fromkeys(columns, "int"), case.keys.get(t))
        for t, columns in case.columns.items()
    }
    return Request(
        case.base(),
        rules,
        Lists(case),
        [view_row(case, r) for r in delete],
        [view_row(case, r) for r in insert],
    )


def view_row(case: Case, row: Row) -> ViewRow:
    return ViewRow(dict(zip((n for n, _ in case.shape.outputs), row, strict=True)))


def applied(case: Case, asked: Request, translation: Translation) -> Tables:
    after: dict[str, list[Row]] = {}
    for table, rows in case.tables.items():
        gone = translation.changes.gone.get(table, frozenset())
        names = case.columns[table]
        kept = [
            r
            for r in rows
            if asked.coder.number(table, dict(zip(names, r, strict=True))) not in gone
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
        found = search(asked)
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
    view, outputs = case.view(), case.shape.outputs
    for _ in range(2):
        row = tuple(dice.randrange(2) for _ in outputs)
        found = insertion(case, row)
        if found is None or row in view:
            continue
        # Values 2 to 4 are in no table: as many as a row has hidden values.
        columns = max(map(len, case.columns.values()))
        best = smallest_insertion(case, row, range(5 if columns == 1 else 3))
        if found.translation is None:
            assert found.exhausted
            assert best is None
        else:
            asked = request(case, [], [row])
            assert case.view(applied(case, asked, found.translation)) == view | {row}
            assert best is None or found.translation.touched <= best


def insertion(case: Case, row: Row) -> Found | None:
    try:
        return search(request(case, [], [row]))
    except Invalid:
        return None


@pytest.mark.parametrize("seed", range(40))
def test_a_replacement_does_what_was_asked_and_no_more(seed: int) -> None:
    case = random_case(2000 + seed, positions=2, rows=4, keyed=seed % 2 == 0)
    view, dice = case.view(), random.Random(seed)
    for old in sorted(view, key=str)[:2]:
        new = tuple(v if dice.random() < 0.7 else dice.randrange(5) for v in old)
        if new in view:
            continue
        asked = request(case, [old], [new])
        found = search(asked)
        if found.translation is not None:
            assert case.view(applied(case, asked, found.translation)) == (view - {old}) | {new}
