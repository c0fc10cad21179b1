"""Updates through a view on Delta tables: exactly what was asked, all or nothing, killed anywhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from belvedere.derivations.registry import the_saves
from belvedere.errors import Invalid, Unsupported
from belvedere.lake.offline import OfflineLake
from belvedere.lake.tables.declared_keys import FOREIGN_KEYS_PROPERTY
from belvedere.lake.tables.table import Table
from belvedere.lake.writes import row_replacement
from belvedere.lake.writes.row_replacement import Exchange
from belvedere.updating.apply.base_changes import Intent, Overtaken, Part
from belvedere.updating.apply.updates import Update, estimated, run_check
from belvedere.updating.kind import UpdatableViews
from belvedere.updating.request.view_rows import ViewRow
from belvedere.updating.side_effects.checks import Check
from belvedere.updating.state import KIND, bring, built, save, saved_vector
from belvedere.updating.summary.estimate import Estimate
from tests.lake.damages import DAMAGES, cut_off, emptied, gone
from tests.updating import offline_lake
from tests.updating.apply.kill_script import ASKED, OLD, ROW
from tests.updating.offline_lake import make, put_property, rows, update, view

SCRIPT = Path(__file__).with_name("kill_script.py")
NEW = tuple(ROW.values())


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return make(tmp_path)


def check(directory: Path, mode: str = "AUTO", **asked: Any) -> Check:
    shelf = OfflineLake(directory)
    wanted = Update.of(asked.get("insert"), asked.get("delete"), asked.get("update"))
    return run_check(shelf, offline_lake.fresh(shelf), wanted, mode)


def test_an_insertion_reuses_base_rows_that_are_there(lake: Path) -> None:
    before = view(lake)
    row = {"customer": 1, "name": "ann", "orders": 10, "day": 5, "line": 300, "item": "n"}
    assert check(lake, insert=row).how == "schema"
    assert update(lake, insert=row).tables == (("item", 0, 1),)
    assert view(lake) == before | {tuple(row.values())}


def test_an_insertion_with_side_effects_is_refused_with_the_rows_and_their_cause(
    lake: Path,
) -> None:
    before = rows(lake)
    row = {"customer": 9, "name": "new", "orders": 12, "day": 7, "line": 102, "item": "c"}
    assert check(lake, insert=row).possible == "no"
    with pytest.raises(Invalid, match="would change 1") as refused:
        update(lake, insert=row)
    assert refused.value.reason == "SIDE_EFFECTS"
    assert "line=103" in refused.value.detail
    assert rows(lake) == before


def test_side_effects_that_are_allowed_are_made_and_counted(lake: Path) -> None:
    row = {"customer": 9, "name": "new", "orders": 12, "day": 7, "line": 102, "item": "c"}
    assert update(lake, insert=row, allowed=True).extra == 1
    assert {r[4] for r in view(lake)} == {100, 101, 102, 103}


def test_what_cannot_be_made_at_all_is_refused_although_side_effects_are_allowed(
    lake: Path,
) -> None:
    before = rows(lake)
    with pytest.raises(Invalid):
        update(lake, insert={**ROW, "customer": None}, allowed=True)
    assert rows(lake) == before


def test_candidates_are_counted_where_that_was_asked_for(lake: Path) -> None:
    shelf = OfflineLake(lake)
    definition = {"name": "v", "query": offline_lake.QUERY, "root": "item", "percent": 0.0}
    numbers = []
    for count in (0, 1, 2):
        held = built(shelf, {**definition, "candidates": count})
        numbers.append(sum(map(len, held.filter.candidates)))
        assert held.filter.base.tree.root == held.shape.at("item")[0]
    assert numbers[0] == 0
    assert 1 <= numbers[1] < numbers[2]


def test_the_root_that_was_sampled_stays(lake: Path) -> None:
    shelf = OfflineLake(lake)
    definition = {"name": "v", "query": offline_lake.QUERY, "root": None, "percent": 10.0}
    held = built(shelf, definition)
    assert held.definition["chosen"]["sample"] >= 1
    assert {t for t, _ in held.definition["chosen"]["errors"]} == set(held.shape.tables)
    save(shelf, "v", held)
    again = built(shelf, the_saves(shelf).head(KIND, "v").definition)
    assert again.filter.base.tree.root == held.filter.base.tree.root


def test_a_row_that_a_table_outside_the_view_refers_to_stays(lake: Path) -> None:
    row = {"customer": 1, "name": "ann", "orders": 10, "day": 5, "line": 100, "item": "a"}
    write_deltalake(str(lake / "claim"), pa.table({"about": [100]}))
    keys = [{"columns": ["about"], "parent": "item", "parent_columns": ["line"]}]
    put_property(lake / "claim", FOREIGN_KEYS_PROPERTY, json.dumps(keys))
    before = rows(lake)
    assert check(lake, delete=row).possible == "no"
    with pytest.raises(Invalid):
        update(lake, delete=row)
    assert rows(lake) == before
    assert update(lake, delete={**row, "line": 101, "item": "b"}).tables == (("item", 1, 0),)


def test_a_deletion_takes_a_row_that_shows_in_no_other(lake: Path) -> None:
    before = view(lake)
    row = {"customer": 1, "name": "ann", "orders": 10, "day": 5, "line": 100, "item": "a"}
    assert update(lake, delete=row).tables == (("item", 1, 0),)
    assert view(lake) == before - {tuple(row.values())}


def test_a_replacement_changes_one_row(lake: Path) -> None:
    before = view(lake)
    old = {"customer": 1, "name": "ann", "orders": 10, "day": 5, "line": 100, "item": "a"}
    new = {**old, "item": "z"}
    assert update(lake, update=(old, new)).tables == (("item", 1, 1),)
    assert view(lake) == before - {tuple(old.values())} | {tuple(new.values())}


def test_an_update_keeps_what_the_view_does_not_show(lake: Path) -> None:
    one = {"customer": 1, "name": "ann", "orders": 10, "day": 5, "line": 100, "item": "a"}
    other = {**one, "line": 101, "item": "b"}
    new = [{**r, "name": "anna"} for r in (one, other)]
    assert update(lake, update=([one, other], new)).tables == (("customer", 1, 1),)
    assert {"id": 1, "name": "anna", "note": "x"} in rows(lake)["customer"]


def test_an_update_of_a_key_keeps_what_the_view_does_not_show(lake: Path) -> None:
    old = {"customer": 2, "name": "bob", "orders": 20, "day": 8, "line": 200, "item": "q"}
    update(lake, insert=old)
    write_deltalake(
        str(lake / "customer"), pa.table({"id": [2], "name": ["bob"], "note": ["y"]}),
        mode="overwrite", predicate="id = 2",
    )  # fmt: skip
    done = update(lake, update=(old, {**old, "customer": 5}))
    assert done.tables == (("customer", 0, 1), ("orders", 1, 1))
    assert {"id": 5, "name": "bob", "note": "y"} in rows(lake)["customer"]


def test_an_update_of_rows_to_each_other_changes_nothing(lake: Path) -> None:
    one = {"customer": 1, "name": "ann", "orders": 10, "day": 5, "line": 100, "item": "a"}
    other = {**one, "line": 101, "item": "b"}
    before = rows(lake)
    assert update(lake, update=([one, other], [other, one])).tables == ()
    assert rows(lake) == before


def test_a_replacement_of_what_several_rows_show_is_refused(lake: Path) -> None:
    old = {"customer": 1, "name": "ann", "orders": 10, "day": 5, "line": 100, "item": "a"}
    assert check(lake, update=(old, {**old, "name": "anna"})).possible == "no"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({**ROW, "line": 100}, "NOT_TRANSLATABLE"),
        ({k: v for k, v in ROW.items() if k != "item"}, "COLUMNS"),
        ({**ROW, "day": "monday"}, "TYPE"),
        ({**ROW, "customer": None}, "NOT_TRANSLATABLE"),
        (
            {"customer": 1, "name": "ann", "orders": 10, "day": 5, "line": 100, "item": "a"},
            "ALREADY_THERE",
        ),
        (
            {"customer": 1, "name": "other", "orders": 10, "day": 5, "line": 300, "item": "n"},
            "NOT_TRANSLATABLE",
        ),
    ],
)
def test_bad_rows_are_refused_before_anything_is_written(
    lake: Path, row: dict[str, Any], reason: str
) -> None:
    before = rows(lake)
    with pytest.raises(Invalid) as refused:
        update(lake, insert=row)
    assert refused.value.reason == reason
    assert rows(lake) == before


def test_a_change_by_someone_else_is_noticed_and_the_update_made_on_it(lake: Path) -> None:
    shelf = OfflineLake(lake)
    held = offline_lake.fresh(shelf)
    write_deltalake(
        str(lake / "item"), pa.table({"line": [7], "orders": [11], "item": ["s"]}), mode="append"
    )
    stale = Intent("contacts", 1, (Part("item", held.vector["item"].version, (), ({"line": 8},)),))
    with pytest.raises(Overtaken):
        offline_lake.applying(shelf).apply(stale)
    assert {r["line"] for r in rows(lake)["item"]} == {7, 100, 101, 102, 103}
    assert (1, "ann", 11, 6, 7, "s") in view(lake)
    update(lake, insert=ROW)
    assert NEW in view(lake)


def test_a_commit_that_someone_came_before_is_undone(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, merge, calls = rows(lake), row_replacement.by_delta_rs, [0]

    def overtaken(table: Table, rows: Exchange, version: int) -> None:
        calls[0] += 1
        if calls[0] == 2:
            name = table.name
            other = DeltaTable(str(lake / name)).to_pyarrow_table().slice(0, 0)
            write_deltalake(str(lake / name), other, mode="append")
            DeltaTable(str(lake / name)).create_write_transaction(
                [], mode="append", schema=DeltaTable(str(lake / name)).schema()
            )
        merge(table, rows, version)

    monkeypatch.setattr(row_replacement, "by_delta_rs", overtaken)
    monkeypatch.setattr("belvedere.updating.apply.updates.ATTEMPTS", 1)
    with pytest.raises(Overtaken):
        update(lake, insert=ROW)
    assert rows(lake) == before
    assert not offline_lake.applying(OfflineLake(lake)).path("contacts").exists()


def test_a_row_that_someone_deletes_meanwhile_stays_deleted(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    merge, calls = row_replacement.by_delta_rs, [0]

    def overtaken(table: Table, rows: Exchange, version: int) -> None:
        calls[0] += 1
        if calls[0] == 1:
            DeltaTable(str(lake / "item")).delete("line = 100")
        merge(table, rows, version)

    monkeypatch.setattr(row_replacement, "by_delta_rs", overtaken)
    with pytest.raises(Invalid) as refused:
        update(lake, update=(OLD, {**OLD, "item": "z"}))
    assert refused.value.reason == "NO_SUCH_ROW"
    assert [r["line"] for r in rows(lake)["item"]] == [101, 102, 103]


def test_what_someone_appends_while_a_commit_is_made_stays_and_the_update_is_made_on_it(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = pa.table({"line": [7], "orders": [10], "item": ["s"]})
    customer = pa.table({"id": [8], "name": ["eve"], "note": [None]})
    others, calls = {2: ("item", line), 3: ("customer", customer)}, [0]

    class Late(DeltaTable):
        """A table that someone else writes once it was opened, for a commit and for its undoing."""

        def merge(self, *args: Any, **named: Any) -> Any:
            calls[0] += 1
            if calls[0] in others:
                name, new = others[calls[0]]
                write_deltalake(str(lake / name), new, mode="append")
            return super().merge(*args, **named)

    before = view(lake)
    monkeypatch.setattr(row_replacement, "DeltaTable", Late)
    update(lake, update=(OLD, ROW))
    assert view(lake) - before == {NEW, (1, "ann", 10, 5, 7, "s")}
    assert before - view(lake) == {tuple(OLD.values())}
    assert sorted(r["id"] for r in rows(lake)["customer"]) == [1, 2, 3, 4, 8]


def test_what_cannot_be_written_is_said_and_nothing_of_the_update_is_left(lake: Path) -> None:
    put_property(lake / "item", "delta.constraints.now", "year(current_date()) > 2000")
    before, shelf = rows(lake), OfflineLake(lake)
    parts = (
        Part(
            "customer", shelf.table("customer").version, (), ({"id": 4, "name": "d", "note": None},)
        ),
        Part("item", shelf.table("item").version, (), ({"line": 8, "orders": 10, "item": "x"},)),
    )
    intent, applying = Intent("contacts", 1, parts), offline_lake.applying(shelf)
    with pytest.raises(Unsupported) as refused:
        applying.apply(intent)
    assert refused.value.reason == "UNWRITABLE_TABLE"
    assert rows(lake) == before
    again = Intent(
        "contacts", 2, (replace(parts[0], version=shelf.table("customer").version), parts[1])
    )
    applying.write_intent(again)
    applying.commit(again, again.parts[0])
    assert offline_lake.settle(shelf)
    assert rows(lake) == before


@pytest.mark.parametrize("call", ["check", "advance", "explain"])
def test_a_process_that_was_connected_before_settles_a_killed_update_first(
    lake: Path, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    views, merge, calls = UpdatableViews(OfflineLake(lake)), row_replacement.by_delta_rs, [0]

    def killed(table: Table, rows: Exchange, version: int) -> None:
        calls[0] += 1
        if calls[0] == 3:
            raise KeyboardInterrupt
        merge(table, rows, version)

    before = view(lake)
    with monkeypatch.context() as patch:
        patch.setattr(row_replacement, "by_delta_rs", killed)
        with pytest.raises(KeyboardInterrupt):
            update(lake, update=(OLD, ROW))
    match call:
        case "check":
            views.check("contacts", insert={**ROW, "line": 300})
        case "advance":
            views.advance("contacts", list(offline_lake.TABLES))
        case _:
            views.explain("contacts")
    assert not offline_lake.applying(OfflineLake(lake)).path("contacts").exists()
    assert view(lake) == before - {tuple(OLD.values())} | {NEW}
    seen = saved_vector(OfflineLake(lake), "contacts")
    now = {t: OfflineLake(lake).table(t).position for t in offline_lake.TABLES}
    assert seen == now


@pytest.fixture
def half_made(lake: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The lake after an update was killed between its second and its third commit."""
    merge, calls = row_replacement.by_delta_rs, [0]

    def killed(table: Table, rows: Exchange, version: int) -> None:
        calls[0] += 1
        if calls[0] == 3:
            raise KeyboardInterrupt
        merge(table, rows, version)

    with monkeypatch.context() as patch:
        patch.setattr(row_replacement, "by_delta_rs", killed)
        with pytest.raises(KeyboardInterrupt):
            update(lake, update=(OLD, ROW))
    return lake


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda d: d.__name__)
def test_a_damaged_record_of_a_half_made_update_stops_that_view_and_only_that(
    half_made: Path, damage: Callable[[Path], None]
) -> None:
    shelf = OfflineLake(half_made)
    definition = {"name": "other", "query": offline_lake.QUERY, "root": "item", "percent": 10.0}
    save(shelf, "other", built(shelf, definition))
    path, before = offline_lake.applying(shelf).path("contacts"), rows(half_made)
    damage(path)
    views = UpdatableViews(shelf)
    for stopped in (
        lambda: views.check("contacts", insert={**ROW, "line": 300}),
        lambda: views.refresh("contacts"),
        lambda: views.explain("contacts"),
        lambda: update(half_made, insert={**ROW, "line": 300}),
    ):
        if damage is gone:
            break
        with pytest.raises(Invalid, match="was begun and not ended") as refused:
            stopped()
        assert refused.value.reason == "HALF_MADE"
        assert str(path) in refused.value.detail
        assert "DROP UPDATABLE VIEW contacts" in refused.value.hint
        assert rows(half_made) == before
        assert os.path.lexists(path)
    told = {status.name: status.error for status in views.status()}
    assert not told["other"]
    assert (damage is gone) or "DROP UPDATABLE VIEW contacts" in told["contacts"]
    assert views.check("other", insert={**ROW, "line": 300}).possible in ("yes", "no")
    assert views.refresh("other").strategy == "advance"


def test_no_flipped_bit_of_a_record_reaches_the_tables(half_made: Path) -> None:
    applying, before = offline_lake.applying(OfflineLake(half_made)), rows(half_made)
    path = applying.path("contacts")
    whole = path.read_bytes()
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1
        path.write_bytes(changed)
        with pytest.raises(Invalid, match="not ended"):
            applying.settle("contacts", lambda: None)
    assert rows(half_made) == before
    path.write_bytes(whole)
    assert applying.settle("contacts", lambda: None)
    assert NEW in view(half_made)


def test_a_record_that_an_earlier_release_left_is_settled(half_made: Path) -> None:
    applying = offline_lake.applying(OfflineLake(half_made))
    path = applying.path("contacts")
    path.write_bytes(path.read_bytes().partition(b"\n")[2])
    assert applying.settle("contacts", lambda: None)
    assert NEW in view(half_made)


def test_the_update_of_a_view_whose_state_is_damaged_is_still_told_if_it_cannot_be_settled(
    half_made: Path,
) -> None:
    cut_off(half_made / ".belvedere" / "updating" / "contacts.intent")
    emptied(half_made / ".belvedere" / "updating" / "contacts.state")
    views = UpdatableViews(OfflineLake(half_made))
    assert list(views.names()) == []
    ((told,),) = [views.status()]
    assert "was begun and not ended" in told.error


def test_rows_that_are_not_held_may_go_and_the_view_is_built_again(lake: Path) -> None:
    shelf = OfflineLake(lake)
    held = offline_lake.fresh(shelf)
    held.filter.base.tables["item"].counts[:] = 0
    DeltaTable(str(lake / "item")).delete("line = 100")
    after, done = bring(shelf, held)
    assert (done.strategy, done.reason) == ("rebuild", "STATE_MISMATCH")
    assert after.vector["item"] == shelf.table("item").position
    assert after.filter.base.tables["item"].counts.sum() == 3


KILLS = [
    ("check", "after", "insert"),
    ("write the intent", "before", "insert"),
    ("write the intent", "after", "insert"),
    ("first commit", "before", "insert"),
    ("first commit", "after", "insert"),
    ("second commit", "after", "insert"),
    ("forget", "before", "insert"),
    ("undo", "before", "insert"),
    ("write the intent", "after", "update"),
    ("first commit", "after", "update"),
    ("second commit", "after", "update"),
    ("third commit", "before", "update"),
    ("third commit", "after", "update"),
    ("move the vector", "before", "update"),
    ("move the vector", "after", "insert"),
    ("forget", "before", "update"),
    ("undo", "before", "update"),
]


@pytest.mark.parametrize(
    ("step", "when", "what"),
    [("second commit", "after", "update"), ("move the vector", "before", "insert")],
)
def test_killed_an_update_is_made_in_all_tables_or_in_none(
    lake: Path, step: str, when: str, what: str
) -> None:
    kill(lake, step, when, what)


@pytest.mark.soak
@pytest.mark.parametrize(("step", "when", "what"), KILLS)
def test_killed_anywhere_an_update_is_made_in_all_tables_or_in_none(
    lake: Path, step: str, when: str, what: str
) -> None:
    kill(lake, step, when, what)


def kill(lake: Path, step: str, when: str, what: str) -> None:
    before = view(lake), rows(lake)
    ended = subprocess.run(
        [sys.executable, str(SCRIPT), str(lake), step, when, what],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
        capture_output=True,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    offline_lake.settle(OfflineLake(lake))
    assert offline_lake.view_at_its_vector(lake) == view(lake)
    gone = {tuple(OLD.values())} if what == "update" else set()
    whole = {n: len(r) for n, r in rows(lake).items()}
    made = {"customer": 4, "orders": 4, "item": 5 - len(gone)}
    assert (view(lake), rows(lake)) == before or (
        view(lake) == before[0] - gone | {NEW} and whole == made
    )
    assert not offline_lake.applying(OfflineLake(lake)).path("contacts").exists()
    if NEW not in view(lake):
        update(lake, **{what: ASKED[what]})
        assert NEW in view(lake)
    row = {"customer": 4, "name": "dan", "orders": 20, "day": 8, "line": 201, "item": "r"}
    update(lake, insert=row)
    assert tuple(row.values()) in view(lake)


@pytest.mark.parametrize(
    ("changed", "possible"),
    [
        ({}, "there"),
        ({"item": "other"}, "no"),
        ({"line": 300, "customer": None}, "no"),
        ({"line": 300, "orders": 30}, "yes"),
    ],
)
def test_a_summary_in_tables_is_asked_only_of_what_the_tables_allow(
    lake: Path, changed: dict[str, Any], possible: str
) -> None:
    class Summary:
        def estimate(self, keys: Any, rows: Any) -> Estimate:
            return Estimate(1.0)

    row = {"customer": 1, "name": "ann", "orders": 10, "day": 5, "line": 100, "item": "a"}
    shelf = OfflineLake(lake)
    held = offline_lake.fresh(shelf)
    if possible == "there":
        with pytest.raises(Invalid, match="already"):
            estimated(shelf, held, Summary(), ViewRow(row))  # type: ignore[arg-type]
        return
    found = estimated(shelf, held, Summary(), ViewRow({**row, **changed}))  # type: ignore[arg-type]
    assert found.possible == possible
    assert found.how == ("estimate" if possible == "yes" else "rules of the tables")
