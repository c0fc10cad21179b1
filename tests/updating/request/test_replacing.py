"""What a replacement leaves as it is: view rows that stay, and columns that the view does not show."""

from __future__ import annotations

from typing import Any

import pytest

from belvedere.errors import Invalid
from belvedere.updating.side_effects.checks import CheckMode, UpdateCheck, UpdateChecker
from tests.updating.cases import Case, Row, random_case
from tests.updating.replacements import asked_of
from tests.updating.summary.kept import filter_of
from tests.updating.summary.test_filter import rules
from tests.updating.translate.test_translator import Lists, view_row

ORDERS = Case(
    "SELECT o.id, i.line, i.item FROM o, i WHERE i.o = o.id",
    {"o": ("id", "note"), "i": ("line", "o", "item", "price")},
    {"o": [(10, 5), (11, 6)], "i": [(1, 10, 0, 7), (2, 10, 0, 8), (3, 10, 0, 9)]},
    {"o": ("id",), "i": ("line",)},
)
NO_KEYS = Case(ORDERS.query, ORDERS.columns, ORDERS.tables)


def asked(
    case: Case, delete: list[Row], insert: list[Row], *, replace: bool = False
) -> UpdateCheck:
    checker = UpdateChecker(filter_of(case), rules(case), Lists(case))
    pairs = {i: i for i in range(len(insert))} if replace else {}
    told = [[view_row(case, r) for r in some] for some in (delete, insert)]
    return checker.check(told[0], told[1], CheckMode.AUTO, pairs)


def changes(found: UpdateCheck) -> tuple[dict[str, int], dict[str, list[Any]]]:
    """How many rows go from each table, and those put in."""
    assert found.possible == "yes"
    assert found.translation is not None
    gone = {t: len(n) for t, n in found.translation.changes.gone.items()}
    return gone, {t: [tuple(r.values()) for r in s] for t, s in found.translation.new.items()}


def test_a_column_that_the_view_does_not_show_is_kept_with_the_key() -> None:
    found = asked(ORDERS, [(10, 1, 0)], [(10, 1, 4)])
    assert changes(found) == ({"i": 1}, {"i": [(1, 10, 4, 7)]})
    moved = asked(ORDERS, [(10, 1, 0)], [(11, 1, 0)])
    assert changes(moved) == ({"i": 1}, {"i": [(1, 11, 0, 7)]})


def test_with_another_key_it_is_kept_where_one_row_replaces_another() -> None:
    old, new = [(10, 1, 0)], [(10, 5, 0)]
    assert changes(asked(ORDERS, old, new, replace=True))[1] == {"i": [(5, 10, 0, 7)]}
    assert changes(asked(ORDERS, old, new))[1] == {"i": [(5, 10, 0, None)]}
    assert changes(asked(NO_KEYS, old, new, replace=True))[1] == {"i": [(5, 10, 0, 7)]}


def test_a_row_that_replaces_one_that_stays_is_like_it() -> None:
    """Line 2 keeps order 10; that of line 1 gets a new number."""
    found = asked(ORDERS, [(10, 1, 0)], [(30, 1, 0)], replace=True)
    assert changes(found) == ({"i": 1}, {"o": [(30, 5)], "i": [(1, 30, 0, 7)]})
    staff = Case(
        "SELECT x.id, y.id AS boss, y.name FROM e x, e y WHERE x.mgr = y.id",
        {"e": ("id", "mgr", "name", "pay")},
        {"e": [(1, 9, 0, 5), (2, 1, 0, 6), (9, None, 0, 7)]},
        {"e": ("id",)},
    )
    found = asked(staff, [(2, 1, 0)], [(2, 4, 3)], replace=True)
    assert changes(found) == ({"e": 1}, {"e": [(2, 4, 0, 6), (4, None, 3, 5)]})


def test_a_key_that_the_view_does_not_show_is_kept() -> None:
    case = Case(
        "SELECT o.id, i.item FROM o, i WHERE i.o = o.id",
        ORDERS.columns,
        {"o": [(10, 5)], "i": [(1, 10, 3, 7)]},
        ORDERS.keys,
    )
    assert changes(asked(case, [(10, 3)], [(10, 4)], replace=True)) == (
        {"i": 1},
        {"i": [(1, 10, 4, 7)]},
    )


def test_rows_that_are_moved_up_move_the_last_alone() -> None:
    old = [(10, line, 0) for line in (1, 2, 3)]
    new = [(10, line, 0) for line in (2, 3, 4)]
    assert changes(asked(ORDERS, old, new, replace=True)) == ({"i": 1}, {"i": [(4, 10, 0, 7)]})


def test_rows_that_are_exchanged_stay() -> None:
    one, other = (10, 1, 0), (10, 2, 0)
    assert changes(asked(ORDERS, [one, other], [other, one], replace=True)) == ({}, {})
    assert changes(asked(ORDERS, [one], [one])) == ({}, {})


def test_a_row_that_is_not_there_is_missed_although_it_is_inserted_too() -> None:
    with pytest.raises(Invalid, match="has no row"):
        asked(ORDERS, [(10, 9, 0)], [(10, 9, 0)])


@pytest.mark.parametrize(("old", "new", "replace", "reason", "message"), [
    ([(10, 1, 0), (10, 2, 0)], [(10, 9, 5)] * 2, True, "ROWS_BECOME_ONE", "two rows would become one"),
    ([(10, 1, 0)], [(10, 2, 0)], True, "ROWS_BECOME_ONE", "two rows would become one"),
    ([], [(10, 9, 5)] * 2, False, "NAMED_TWICE", "inserted twice"),
    ([], [(10, 1, 0)], False, "ALREADY_THERE", "already"),
])  # fmt: skip
def test_a_view_is_a_set_and_a_refusal_says_which_rows_would_be_one(
    old: list[Row], new: list[Row], replace: bool, reason: str, message: str
) -> None:
    with pytest.raises(Invalid, match=message) as refused:
        asked(ORDERS, old, new, replace=replace)
    assert refused.value.reason == reason
    assert refused.value.hint


@pytest.mark.parametrize("seed", range(30))
def test_rows_that_stay_change_nothing_of_an_answer(seed: int) -> None:
    case = random_case(8000 + seed, positions=2, rows=4, values=3, keyed=seed % 2 > 0)
    delete, insert = asked_of(case, seed)
    stay = sorted(case.view() - {*delete}, key=str)[: 1 + seed % 2]
    if not delete and not insert:
        return
    alone = asked(case, delete, insert)
    both = asked(case, [*stay, *delete], [*insert, *stay])
    assert both.possible == alone.possible
    if alone.translation is not None and both.translation is not None:
        assert both.translation.touched == alone.translation.touched


@pytest.mark.parametrize("price", [7, 8, 9])
def test_a_value_that_the_view_hides_is_kept(price: int) -> None:
    """The order on which both meet, and the price that the view selects by."""
    case = Case(
        "SELECT o.note, i.line, i.item FROM o, i WHERE i.o = o.id AND i.price < 20",
        ORDERS.columns,
        {"o": [(10, 5), (11, 5), (12, 5)], "i": [(1, 11, 0, price), (2, 10, 0, 3)]},
        ORDERS.keys,
    )
    found = asked(case, [(5, 1, 0)], [(5, 1, 4)], replace=True)
    assert changes(found) == ({"i": 1}, {"i": [(1, 11, 4, price)]})


@pytest.mark.parametrize("tables", ["c, o, i", "i, o, c", "o, c, i"])
def test_a_deletion_leaves_nothing_that_refers_to_what_went(tables: str) -> None:
    case = Case(
        f"SELECT c.id AS c, o.id AS o, i.line FROM {tables} WHERE o.c = c.id AND i.o = o.id",
        {"c": ("id",), "o": ("id", "c"), "i": ("line", "o")},
        {"c": [(1,), (2,)], "o": [(10, 1), (11, 1), (20, 2)], "i": [(1, 10), (2, 20)]},
        {"c": ("id",), "o": ("id",), "i": ("line",)},
    )
    assert changes(asked(case, [(1, 10, 1)], [])) == ({"i": 1}, {})
