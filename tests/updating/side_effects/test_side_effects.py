"""Side effects: of the ways to make an update the one with the fewest, and how many there are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import write_deltalake

from belvedere.errors import Invalid
from belvedere.lake.offline import OfflineLake
from belvedere.updating.apply.updates import refusal_error
from belvedere.updating.request.view_updates import ViewUpdate
from belvedere.updating.side_effects.check_update import check_in_mode
from belvedere.updating.side_effects.checks import CheckMode, UpdateCheck, UpdateChecker
from belvedere.updating.translate import trial
from tests.updating import offline_lake
from tests.updating.cases import Case, Row, random_case
from tests.updating.summary.kept import filter_of
from tests.updating.summary.test_filter import rules
from tests.updating.translate.test_translator import Lists, deletions, view_row


def pairs(tables: str, many: int) -> Case:
    """Two rows of a meet with many of b: each is shown with all of the others."""
    return Case(
        f"SELECT a.k AS a, b.k AS b FROM {tables} WHERE a.j = b.j",
        {"a": ("k", "j"), "b": ("k", "j")},
        {"a": [(1, 0), (2, 0)], "b": [(i, 0) for i in range(many)]},
        {"a": ("k",), "b": ("k",)},
    )


def deleted(case: Case, row: Row) -> UpdateCheck:
    checker = UpdateChecker(filter_of(case), rules(case), Lists(case))
    return checker.check([view_row(case, row)], [], CheckMode.EXACT)


@pytest.mark.parametrize("tables", ["a, b", "b, a"])
def test_the_way_with_the_fewest_side_effects_is_told(tables: str) -> None:
    found = deleted(pairs(tables, 40), (1, 3))
    assert (found.possible, found.extra_rows, found.at_least) == ("no", 1, False)
    assert found.gone == (("b", {"k": 3, "j": 0}),)
    assert "with side effects allowed:\ndelete from b: k=3, j=0" in str(found)


def test_all_side_effects_are_counted_and_some_are_shown() -> None:
    case = pairs("a, b", 40)
    case = Case(case.query, case.columns, {**case.tables, "a": [(i, 0) for i in range(30)]})
    found = deleted(case, (1, 3))
    assert (found.extra_rows, found.at_least, len(found.rows)) == (29, False, trial.MOST_SHOWN)
    assert "would change 29 view rows" in refusal_error(found).message


def test_only_what_can_be_made_with_side_effects_is_offered_so() -> None:
    found = deleted(pairs("a, b", 40), (1, 3))
    assert "ALLOWED" in refusal_error(found).hint
    assert "ALLOWED" not in refusal_error(replace(found, translation=None)).hint


def test_what_would_take_long_to_count_is_at_least_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "MOST_STEPS_COUNTING", 10)
    case = pairs("a, b", 40)
    case = Case(case.query, case.columns, {**case.tables, "a": [(i, 0) for i in range(30)]})
    found = deleted(case, (1, 3))
    assert (found.extra_rows, found.at_least) == (trial.MOST_SHOWN, True)
    assert "extra rows: 5 or more" in str(found)
    assert "at least 5 view rows" in refusal_error(found).message


@pytest.mark.parametrize("seed", range(40))
def test_a_deletion_that_is_refused_has_as_many_side_effects_as_it_says(seed: int) -> None:
    case = random_case(9000 + seed, positions=2 + seed % 2, rows=4, values=2, project=seed % 3 > 0)
    view = case.view()
    for row in sorted(view, key=str)[:2]:
        found = deleted(case, row)
        if found.possible == "no":
            assert not found.at_least
            every = [case.view(after) for after, _ in deletions(case)]
            assert found.extra_rows >= min(
                len(view - some) - 1 for some in every if row not in some
            )
            assert len(found.rows) == min(found.extra_rows, trial.MOST_SHOWN)


def test_an_update_whose_side_effects_are_allowed_tells_some_of_them(lake: Path) -> None:
    row = {"customer": 9, "name": "new", "orders": 12, "day": 7, "line": 102, "item": "c"}
    done = offline_lake.update(lake, insert=row, allowed=True)
    assert (done.extra, done.at_least) == (1, False)
    assert [r["line"] for r in done.rows] == [103]


def test_many_side_effects_that_are_allowed_are_all_counted(lake: Path) -> None:
    import pyarrow as pa

    lines = pa.table({"line": range(200, 700), "orders": [12] * 500, "item": ["e"] * 500})
    write_deltalake(str(lake / "item"), lines, mode="append")
    row = {"customer": 9, "name": "new", "orders": 12, "day": 7, "line": 102, "item": "c"}
    shelf = OfflineLake(lake)
    found = check_in_mode(shelf, offline_lake.fresh(shelf), ViewUpdate((), (row,)), "AUTO")
    assert (found.extra_rows, found.at_least) == (501, False)
    with pytest.raises(Invalid, match="would change 501 view rows"):
        offline_lake.update(lake, insert=row)
    assert offline_lake.update(lake, insert=row, allowed=True).extra == 501
