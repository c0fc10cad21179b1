"""Rows beside a request answer as all rows do: on random views, tables and requests."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from belvedere.errors import Invalid, Unsupported
from belvedere.lake.shelf import Shelf
from belvedere.updating import near as near_module
from belvedere.updating import reading, state
from belvedere.updating.base import held_columns
from belvedere.updating.checks import Check, Checker, Mode
from belvedere.updating.exact import TooMuch
from belvedere.updating.filter import Lookups
from belvedere.updating.near import agreeing, near, unseen
from belvedere.updating.state import Where, built, save, usual_lookups
from belvedere.updating.trees import Tree, join_tree
from belvedere.updating.updates import Update, run_check
from updating import shelf_lake
from updating.cases import Case, Row, random_case
from updating.shelf_lake import QUERY, make
from updating.test_filter import rules
from updating.test_search import Lists, view_row


class Found:
    """Finds rows of a case's tables, and counts them."""

    def __init__(self, case: Case) -> None:
        self.tables, self.found = case.arrow(case.tables), 0

    def find(self, table: str, values: pa.Table, most: int) -> pa.Table | None:
        rows = self.tables[table]
        kept = rows.filter(pa.array(agreeing(rows, values)))
        self.found += kept.num_rows
        return None if kept.num_rows > most else kept


def beside(case: Case, asked: list[Row]) -> tuple[Lookups, int]:
    shape, finder = case.shape, Found(case)
    tree = join_tree(shape, case.root % len(shape.positions), case.keys)
    wanted = [view_row(case, r) for r in asked]
    found = near(tree, held_columns(shape, case.keys), case.keys, finder, wanted)
    return found, sum(found.base.tables[t].size for t in shape.tables)


def answer(case: Case, rows: Lookups, delete: list[Row], insert: list[Row]) -> Any:
    """What a check comes to: possible, rows touched, side effects; or why it is refused."""
    checker = Checker(rows, rules(case), Lists(case))
    told = [[view_row(case, r) for r in some] for some in (delete, insert)]
    try:
        found: Check = checker.check(told[0], told[1], Mode.EXACT)
    except Invalid as refused:
        return refused.reason
    touched = None if found.translation is None else found.translation.touched
    return found.possible, found.extra_rows, touched if found.possible == "yes" else None


def requests(case: Case, dice: random.Random) -> list[tuple[list[Row], list[Row]]]:
    """Rows of the view to delete, rows that may be new to insert, both, several at once."""
    view = sorted(case.view(), key=str)
    new = [
        case.shown(tuple(_joined(case, dice)))
        for _ in range(4)
    ]  # fmt: skip
    found: list[tuple[list[Row], list[Row]]] = [([], [row]) for row in new]
    found.append(([], new[:2]))
    if view:
        one = dice.choice(view)
        found += [([one], []), ([one], new[:1]), (dice.sample(view, min(2, len(view))), [])]
    return found


def _joined(case: Case, dice: random.Random) -> list[Row]:
    """A base row for every position, joined: stored ones, others, with new keys here and there."""
    shape = case.shape
    names = [case.columns[p.table] for p in shape.positions]
    rows = [
        dict(zip(n, dice.choice(case.tables[p.table]), strict=True))
        if case.tables[p.table] and dice.random() < 0.7
        else {c: dice.randrange(5) for c in n}
        for p, n in zip(shape.positions, names, strict=True)
    ]
    for members in shape.classes:
        p, c = dice.choice(members)
        value = rows[p][c] if rows[p][c] is not None else dice.randrange(5)
        for q, d in members:
            rows[q][d] = value
    return [tuple(r[c] for c in n) for r, n in zip(rows, names, strict=True)]


def compared(seeds: range) -> Iterator[tuple[Any, Any, float]]:
    """What all rows answer, what those beside a request do, and what part of them these are."""
    for seed in seeds:
        dice = random.Random(seed)
        case = random_case(
            7000 + seed,
            positions=2 + seed % 3,
            keyed=seed % 2 == 0,
            cyclic=seed % 5 == 0,
            twice=seed % 7 == 0,
            rows=9,
            values=5,
        )
        whole = Lookups(case.base(), case.keys)
        assert unseen(case.shape, whole.base.held) == []
        every = sum(whole.base.tables[t].size for t in case.shape.tables)
        for delete, insert in requests(case, dice):
            rows, size = beside(case, [*delete, *insert])
            expected = answer(case, whole, delete, insert)
            yield expected, answer(case, rows, delete, insert), size / max(every, 1)


def test_rows_beside_a_request_answer_as_all_rows_do() -> None:
    answers: Counter[str] = Counter()
    parts = []
    for expected, found, part in compared(range(60)):
        assert found == expected
        answers[expected if isinstance(expected, str) else expected[0]] += 1
        parts.append(part)
    assert min(answers[kind] for kind in ("yes", "no", "ALREADY_THERE")) > 10, answers
    assert np.mean(parts) < 0.7


@pytest.mark.parametrize("missing", ["up", "down", "beyond"])
def test_rows_that_are_not_looked_for_would_be_missed(
    missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = Tree.ways.func  # type: ignore[attr-defined]

    def some(tree: Tree) -> tuple[tuple[int, int], ...]:
        def is_up(p: int, e: int) -> bool:
            return tree.parent_edge[p] == e

        return tuple(w for w in usual(tree) if is_up(*w) != (missing == "up"))

    if missing == "beyond":
        monkeypatch.setattr(near_module._Walk, "_leaving", _segments_only)
    else:
        monkeypatch.setattr(Tree, "ways", property(some))
    assert any(found != expected for expected, found, _ in compared(range(60)))


def _segments_only(walk: Any, p: int, e: int, names: Any) -> pa.Table:
    rows = walk.segments[walk.shape.positions[p].table].select(list(walk.tree.columns(p, e)))
    return near_module._distinct(rows.rename_columns(list(names)).drop_null())


def test_copies_of_a_row_are_counted_once_however_often_they_are_found() -> None:
    case = Case(
        "SELECT x.a AS p, y.a AS q FROM t AS x JOIN t AS y ON x.a = y.a",
        {"t": ("a",)},
        {"t": [(1,), (1,), (1,), (2,), (None,)]},
    )
    rows, _ = beside(case, [(1, 1)])
    assert rows.base.tables["t"].counts.tolist() == [3]


def test_rows_agree_null_with_null_on_all_columns() -> None:
    rows = pa.table({"a": [1, None, 1, 2], "b": ["x", None, None, "x"], "c": [0, 1, 2, 3]})
    values = pa.table({"a": [None, 1], "b": pa.array([None, "x"])})
    assert np.flatnonzero(agreeing(rows, values)).tolist() == [0, 1]


def test_too_many_rows_are_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near_module, "MOST_NEAR", 2)
    case = Case(
        "SELECT x.a AS p, y.b AS q, y.a AS r FROM t AS x JOIN s AS y ON x.a = y.a",
        {"t": ("a",), "s": ("a", "b")},
        {"t": [(1,)], "s": [(1, 1), (1, 2), (1, 3)]},
    )
    with pytest.raises(TooMuch, match="more than 2 rows"):
        beside(case, [(1, 7, 1)])


DEFINITION: dict[str, Any] = {
    "name": "contacts",
    "query": QUERY,
    "root": None,
    "percent": 10.0,
    "lookups": "TABLES",
}


def put(directory: Path) -> Shelf:
    """The lake of `shelf_lake`, its view's rows in the tables."""
    lake = Shelf(make(directory))
    save(lake, "contacts", built(lake, DEFINITION))
    return lake


def test_updates_go_through_a_view_whose_rows_stay_in_the_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = put(tmp_path)

    def never(*_: Any) -> None:
        raise AssertionError("a table was read whole")

    monkeypatch.setattr(state, "whole", never)
    monkeypatch.setattr(reading, "whole", never)
    before = shelf_lake.view(tmp_path)
    row = {"customer": 4, "name": "dan", "orders": 20, "day": 8, "line": 200, "item": "q"}
    done = shelf_lake.update(tmp_path, insert=row)
    assert {t for t, *_ in done.tables} == {"customer", "orders", "item"}
    assert shelf_lake.view(tmp_path) == before | {tuple(row.values())}
    shelf_lake.update(tmp_path, update=(row, {**row, "item": "r"}))
    shelf_lake.update(tmp_path, delete={**row, "item": "r"})
    assert shelf_lake.view(tmp_path) == before
    dangling = {"customer": 9, "name": "new", "orders": 12, "day": 7, "line": 102, "item": "c"}
    with pytest.raises(Invalid, match="103"):
        shelf_lake.update(tmp_path, insert=dangling)
    assert shelf_lake.update(tmp_path, insert=dangling, allowed=True).extra == 1
    held = shelf_lake.fresh(lake)
    assert held.rows is None
    assert held.vector == {t: lake.table(t).position for t in held.shape.tables}
    more = {"customer": 1, "name": "ann", "orders": 10, "day": 5, "line": 300, "item": "q"}
    fast = run_check(lake, held, Update.of(more, None, None), "FAST")
    assert (fast.possible, fast.how) == ("yes", "exact check")


def test_of_too_many_rows_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = put(tmp_path)
    monkeypatch.setattr(near_module, "MOST_NEAR", 1)
    row = {"customer": 1, "name": "ann", "orders": 10, "day": 5, "line": 300, "item": "q"}
    found = run_check(lake, shelf_lake.fresh(lake), Update.of(row, None, None), "AUTO")
    assert (found.possible, found.how) == ("unknown", "lookups in the tables")
    with pytest.raises(Invalid, match="more than 1 rows"):
        shelf_lake.update(tmp_path, insert=row)


def test_large_tables_stay_where_they_are_if_the_view_shows_their_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = put(tmp_path)
    shape = built(lake, DEFINITION).shape
    assert usual_lookups(lake, shape) is Where.MEMORY
    monkeypatch.setattr(state, "MOST_HELD", 9)
    assert usual_lookups(lake, shape) is Where.TABLES
    hiding = {**DEFINITION, "query": QUERY.replace("o.id AS orders, ", ""), "lookups": None}
    assert usual_lookups(lake, built(lake, hiding).shape) is Where.MEMORY
    with pytest.raises(Unsupported, match=r"does not show orders\.id") as refused:
        built(lake, {**hiding, "lookups": "TABLES"})
    assert refused.value.reason == "HIDDEN_KEYS"
