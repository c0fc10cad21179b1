"""Keys, foreign keys, CHECKs and hidden values: fillings respect them all."""

from __future__ import annotations

import datetime
from dataclasses import replace
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from belvedere.errors import Unsupported
from belvedere.lake.offline import OfflineLake
from belvedere.lake.tables.declared_keys import ForeignKey
from belvedere.updating.request.fillings import FillingOrder, fillings
from belvedere.updating.request.view_rows import Coder
from belvedere.updating.side_effects.checks import CheckMode, UpdateCheck, UpdateChecker
from belvedere.updating.translate.completion import complete_row
from belvedere.updating.translate.constraints import (
    BaseRow,
    TableRules,
    check_condition,
    declared_rules,
)
from belvedere.updating.translate.new_rows import NewBaseRow
from belvedere.updating.translate.options import segment_options
from tests.updating.cases import Case
from tests.updating.offline_lake import put_property
from tests.updating.summary.test_estimate import estimated
from tests.updating.summary.test_filter import filter_of
from tests.updating.translate.test_translator import Lists, view_row

DAY = datetime.date(2021, 1, 1)


def courses(course: list[int]) -> Case:
    """Example 8.1: the view hides the course on which library, teaching and enrolment meet."""
    return Case(
        "SELECT e.student, t.department, l.book FROM library l, teaching t, enrolment e"
        " WHERE l.course = t.course AND e.course = t.course",
        {
            "library": ("course", "book"),
            "teaching": ("course", "department"),
            "enrolment": ("student", "course"),
        },
        {
            "library": [(1, 1), (2, 2)],
            "teaching": [(c, 1) for c in course],
            "enrolment": [(1, 1), (1, 2), (2, 1)],
        },
        {"teaching": ("course",)},
    )


def asked(
    case: Case, row: tuple[int, ...], mode: CheckMode = CheckMode.AUTO, **rules: Any
) -> UpdateCheck:
    table_rules = {
        t: TableRules(dict.fromkeys(c, "int"), case.keys.get(t), **rules.get(t, {}))
        for t, c in case.columns.items()
    }
    return UpdateChecker(filter_of(case), table_rules, Lists(case)).check(
        [], [view_row(case, row)], mode
    )


def test_a_hidden_join_value_is_new_where_it_may_be() -> None:
    found = asked(courses([1, 2]), (9, 9, 9))
    assert found.possible == "yes"
    assert found.translation is not None
    courses_put_in = {r["course"] for r in found.translation.new["teaching"]}
    assert courses_put_in.isdisjoint({1, 2})


def test_a_finite_domain_leaves_only_its_values() -> None:
    listed = {"teaching": {"checks": {"known": check_condition("course IN (1, 2)")}}}
    case = courses([1, 2])
    found = asked(case, (9, 9, 9), **listed)
    assert found.possible == "no"
    assert "key" in found.reason or found.rows
    free = asked(
        courses([1]), (9, 9, 9), teaching={"checks": {"known": check_condition("course IN (1, 3)")}}
    )
    assert free.possible == "yes"
    assert free.translation is not None
    assert free.translation.new["teaching"] == [{"course": 3, "department": 9}]


def test_a_foreign_key_needs_its_parent() -> None:
    case = Case(
        "SELECT a.k, a.p, b.k AS other FROM a, b WHERE a.j = b.k",
        {"a": ("k", "j", "p"), "b": ("k",), "parent": ("id",)},
        {"a": [], "b": [(1,)], "parent": [(5,)]},
        {"a": ("k",), "b": ("k",)},
    )
    rules = {"a": {"foreign": (ForeignKey(("p",), "parent", ("id",)),)}}
    assert asked(case, (1, 5, 1), **rules).possible == "yes"
    refused = asked(case, (1, 6, 1), **rules)
    assert refused.possible == "no"
    assert "'parent'" in refused.reason


@pytest.mark.parametrize(("text", "row", "broken"), [
    ("n > 0", {"n": 0}, True), ("n > 0", {"n": 1}, False), ("n > 0", {"n": None}, False),
])  # fmt: skip
def test_a_check_is_broken_by_false_not_by_null(
    text: str, row: dict[str, Any], broken: bool
) -> None:
    rules = TableRules({"n": "int"}, checks={"positive": check_condition(text)})
    assert (rules.violation(row) is not None) == broken


@pytest.mark.parametrize(("text", "kind", "values"), [
    ("x IN (3, NULL, -4) AND k > 0", "int", [3, -4]),
    ("x = 3 OR 4 = x", "int", [3, 4]),
    ("x BETWEEN 3 AND 5", "int", [3, 4, 5]),
    ("x IN (3, 4) AND (x = 4 OR x = 5)", "int", [4]),
    ("x IN (DATE '2021-01-01', '2021-01-02')", "date", [DAY, DAY + datetime.timedelta(1)]),
    ("x IN (1.5, 2)", "decimal(5,2)", [Decimal("1.50"), Decimal("2.00")]),
    ("x = 'it''s'", "string", ["it's"]),
    ("x > 3", "int", None),
    ("x IN (1, k)", "int", None),
    ("x = 3 OR k = 4", "int", None),
    ("x IN ('monday')", "date", None),
])  # fmt: skip
def test_a_check_may_list_the_values_that_it_leaves(
    text: str, kind: str, values: list[Any] | None
) -> None:
    rules = TableRules({"x": kind, "k": "int"}, checks={"listed": check_condition(text)})
    assert rules.values_left_by_checks("x") == values


def test_a_check_may_spell_columns_as_it_likes(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "t"), pa.table({"V": pa.array([1], pa.int32())}))
    put_property(tmp_path / "t", "delta.constraints.few", "v > 0 AND v IN (1, 2)")
    rules = declared_rules(OfflineLake(tmp_path).table("t"))
    assert rules.values_left_by_checks("V") == [1, 2]
    assert rules.violation({"V": 1}) is None
    assert "few" in str(rules.violation({"V": 3}))


def test_a_check_that_memory_does_not_compute_is_asked_of_who_does() -> None:
    checks = {"long": check_condition("length(s) > 2")}
    with pytest.raises(Unsupported) as refused:
        TableRules({"s": "string"}, checks=checks).violation({"s": "ab"})
    assert refused.value.reason == "CHECK_EXPRESSION"
    asked = TableRules(
        {"s": "string"}, checks=checks, engine_check=lambda _, row: len(row["s"]) <= 2
    )
    assert "long" in str(asked.violation({"s": "ab"}))
    assert asked.violation({"s": "abc"}) is None


def test_of_many_rows_the_first_is_found_that_breaks_nothing() -> None:
    checks = {
        "low": check_condition("v < 5 OR v IS NULL"),
        "long": check_condition("length(s) > 2"),
    }
    asked: list[str] = []

    def breaks(_: str, row: BaseRow) -> bool:
        asked.append(row["s"])
        return len(row["s"]) <= 2

    rules = TableRules({"v": "int", "s": "string"}, None, (), checks, frozenset({"s"}), breaks)
    rows = [{"v": v, "s": s} for v in (5, 9, None, 4) for s in (None, "ab", "abc")]
    alone = [row for row in rows if rules.violation(row) is None]
    asked.clear()
    assert rules.first_valid(rows) == alone[0] == {"v": None, "s": "abc"}
    assert asked == ["ab", "abc"]
    assert rules.first_valid(rows[:6]) is None


def test_a_check_without_columns_is_a_check() -> None:
    assert (
        TableRules({"v": "int"}, checks={"never": check_condition("1 > 2")}).violation({"v": 1})
        is not None
    )
    assert (
        TableRules({"v": "int"}, checks={"always": check_condition("1 < 2")}).violation({"v": 1})
        is None
    )


def test_what_other_columns_break_no_value_heals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are not tried whose told values break a CHECK already."""
    rules = TableRules(
        {"k": "int", "v": "int"},
        ("k",),
        (),
        {"told": check_condition("k < 5"), "few": check_condition("v IN (1, 2)")},
        frozenset({"v"}),
    )
    monkeypatch.setattr(TableRules, "first_valid", lambda *_: pytest.fail("rows were tried"))
    source = Lists(courses([1]))
    assert (
        complete_row(rules, source, lambda *_: False, NewBaseRow("t", {"k": 9}, []), [])["v"]
        is None
    )


def test_fillings_with_few_joining_rows_come_first() -> None:
    case = courses([1, 2])
    made = filter_of(case)
    coder = Coder(made.base, Lists(case))
    rules = {
        t: TableRules(dict.fromkeys(c, "int"), case.keys.get(t)) for t, c in case.columns.items()
    }
    (options,), _ = segment_options(coder, [view_row(case, (1, 1, 1))], rules, Lists(case))
    greedy = [
        next(iter(f.values())) for f in islice(fillings(coder, options, FillingOrder.GREEDY), 10)
    ]
    assert greedy.index(2) < greedy.index(1)
    assert greedy[0] not in (1, 2)
    random = list(islice(fillings(coder, options, FillingOrder.RANDOM), 3))
    assert len(random) == 3


@pytest.mark.parametrize("order", [FillingOrder.GREEDY, FillingOrder.ALL])
def test_only_what_the_tables_allow_counts_as_a_filling(order: FillingOrder) -> None:
    """Of forty days a teacher has another name; on the one that is left more rows meet."""
    days = [*range(40), 60]
    case = Case(
        "SELECT r.id, r.size, t.who FROM room r, teacher t WHERE r.day = t.day",
        {"room": ("id", "size", "day"), "teacher": ("day", "who")},
        {
            "room": [(1, 10, 60), (3, 30, 60)],
            "teacher": [(d, 8 if d == 60 else 7) for d in days],
        },
        {"room": ("id",), "teacher": ("day",)},
    )
    columns = {t: dict.fromkeys(c, "int") for t, c in case.columns.items()}
    rules = {t: TableRules(columns[t], case.keys[t]) for t in columns}
    listed = ", ".join(map(str, days))
    rules["room"] = replace(rules["room"], checks={"days": check_condition(f"day IN ({listed})")})
    checker = UpdateChecker(filter_of(case), rules, Lists(case), fillings=1, order=order)
    found = checker.check([], [view_row(case, (2, 20, 8))], CheckMode.FAST)
    assert found.possible == "yes"


def test_a_table_listed_twice_is_one_table_for_the_exact_check_alone() -> None:
    """A new nation is the supplier's and the customer's: the estimate knows it as one of them."""
    case = Case(
        "SELECT s.k, n.k AS n, c.k AS c, m.k AS m FROM s, nation n, c, nation m"
        " WHERE s.n = n.k AND c.s = s.k AND c.n = m.k",
        {"s": ("k", "n"), "nation": ("k",), "c": ("k", "s", "n")},
        {"s": [(1, 7)], "nation": [(8,)], "c": [(1, 1, 7), (2, 1, 8)]},
        {"s": ("k",), "nation": ("k",), "c": ("k",)},
    )
    # Nation 7 is put in for the supplier; with it, customer 1 of nation 7 joins as well.
    row = (1, 7, 2, 8)
    found = asked(case, row, CheckMode.EXACT)
    assert found.possible == "no"
    assert {"k": 1, "n": 7, "c": 1, "m": 7}.items() <= found.rows[0].items()
    pick = ((1, 7), (7,), (2, 1, 8), (8,))
    assert not estimated(case, case.base(), 1.0, pick).declares()


STAFF = Case(
    "SELECT x.id, x.name, y.id AS boss, y.name AS called FROM e x, e y WHERE x.mgr = y.id",
    {"e": ("id", "mgr", "name")},
    {"e": [(1, None, 10), (2, 1, 20)]},
    {"e": ("id",)},
)


@pytest.mark.parametrize("mode", list(CheckMode))
@pytest.mark.parametrize(("row", "put_in"), [
    ((3, 30, 1, 10), [(3, 1, 30)]),
    ((3, 30, 4, 40), [(3, 4, 30), (4, None, 40)]),
    ((3, 30, 3, 30), [(3, 3, 30)]),
    ((3, 30, 3, 31), None),
])  # fmt: skip
def test_a_row_of_a_table_listed_twice_may_fill_both_places(
    mode: CheckMode, row: tuple[int, ...], put_in: list[tuple[int | None, ...]] | None
) -> None:
    """A manager's place uses less of a row than the place of who has a manager."""
    found = asked(STAFF, row, mode)
    assert found.possible == ("no" if put_in is None else "yes")
    if put_in is not None:
        assert found.translation is not None
        assert [tuple(r.values()) for r in found.translation.new["e"]] == put_in


@pytest.mark.parametrize("shown", [", m.name", ""])
def test_a_new_row_at_two_places_has_what_either_needs(shown: str) -> None:
    case = Case(
        f"SELECT s.k, m.k AS n{shown}, c.k AS c, w.k AS n2 FROM s, nation m, c, nation w"
        f" WHERE s.n = m.k AND c.s = s.k AND c.n = w.k{'' if shown else ' AND m.name < 3'}",
        {"s": ("k", "n"), "nation": ("k", "name"), "c": ("k", "s", "n")},
        {"s": [], "nation": [(1, 1)], "c": []},
        {"s": ("k",), "nation": ("k",), "c": ("k",)},
    )
    found = asked(case, (2, 30, *([1] if shown else []), 2, 30))
    assert found.possible == "yes"
    assert found.translation is not None
    assert len(found.translation.new["nation"]) == 1
