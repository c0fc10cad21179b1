"""A view's saved state: rows now and then, where it is at once."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from belvedere.derivations.registry import the_saves
from belvedere.lake.offline import OfflineLake
from belvedere.updating import store
from belvedere.updating.build import build_updatable
from belvedere.updating.kind import UpdatableViews
from belvedere.updating.state import UpdatableState
from belvedere.updating.store import KIND, MOVED, load_updatable, saved_vector
from tests.updating import offline_lake
from tests.updating.offline_lake import load, make, save
from tests.updating.summary.kept import described, owners


def change(lake: Path, line: int) -> None:
    row = pa.table({"line": [line], "orders": [11], "item": ["n"]})
    write_deltalake(str(lake / "item"), row, mode="append")


def moved(lake: Path, line: int) -> UpdatableState:
    """The view after a change by others, saved."""
    change(lake, line)
    views = UpdatableViews(OfflineLake(lake))
    assert views.refresh("contacts").strategy == "merge"
    return views.state("contacts")


def same(one: UpdatableState, other: UpdatableState) -> bool:
    return one.vector == other.vector and described(one.filter, owners(one.filter)) == described(
        other.filter, owners(other.filter)
    )


def test_a_view_that_moved_a_little_is_loaded_where_it_was(tmp_path: Path) -> None:
    lake = make(tmp_path)
    rows = the_saves(OfflineLake(lake)).fingerprint(KIND, "contacts")
    for line in (200, 201, 202):
        held = moved(lake, line)
        assert same(load(OfflineLake(lake)), held)
    assert the_saves(OfflineLake(lake)).fingerprint(KIND, "contacts") == rows
    change(lake, 300)
    assert saved_vector(OfflineLake(lake), "contacts") == held.vector
    assert same(load(OfflineLake(lake)), held)


def test_once_enough_changed_all_rows_are_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = make(tmp_path)
    monkeypatch.setattr(store, "FEW", 1)
    moved(lake, 200)
    assert the_saves(OfflineLake(lake)).has(MOVED, "contacts")
    held = moved(lake, 201)
    assert not the_saves(OfflineLake(lake)).has(MOVED, "contacts")
    assert the_saves(OfflineLake(lake)).head(KIND, "contacts").vector == held.vector
    assert same(load(OfflineLake(lake)), held)


def test_killed_before_an_old_note_is_taken_away_the_rows_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = make(tmp_path)
    before = moved(lake, 200)
    monkeypatch.setattr(store, "FEW", -1)
    monkeypatch.setattr(store, "PART", 10**9)
    after = moved(lake, 201)
    the_saves(OfflineLake(lake)).save(MOVED, "contacts", {}, before.vector, {})
    assert saved_vector(OfflineLake(lake), "contacts") == after.vector
    assert same(load(OfflineLake(lake)), after)


def test_a_view_whose_changes_cannot_be_read_any_more_is_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = make(tmp_path)
    held = moved(lake, 200)
    monkeypatch.setattr(store, "net_changes", lambda *args: None)
    assert load_updatable(OfflineLake(lake), "contacts").reason == "VERSION_GONE"
    views = UpdatableViews(OfflineLake(lake))
    done = views.refresh("contacts")
    assert (done.strategy, done.reason) == ("rebuild", "VERSION_GONE")
    assert views.state("contacts").vector == held.vector
    assert not the_saves(OfflineLake(lake)).has(MOVED, "contacts")


def test_candidates_are_counted_where_that_was_asked_for(lake: Path) -> None:
    shelf = OfflineLake(lake)
    definition = {"name": "v", "query": offline_lake.QUERY, "root": "item", "percent": 0.0}
    numbers = []
    for count in (0, 1, 2):
        held = build_updatable(shelf, {**definition, "candidates": count})
        numbers.append(sum(map(len, held.filter.candidates)))
        assert held.filter.base.tree.root == held.shape.at("item")[0]
    assert numbers[0] == 0
    assert 1 <= numbers[1] < numbers[2]


def test_the_root_that_was_sampled_stays(lake: Path) -> None:
    shelf = OfflineLake(lake)
    definition = {"name": "v", "query": offline_lake.QUERY, "root": None, "percent": 10.0}
    held = build_updatable(shelf, definition)
    assert held.definition["chosen"]["sample"] >= 1
    assert {t for t, _ in held.definition["chosen"]["errors"]} == set(held.shape.tables)
    save(shelf, "v", held)
    again = build_updatable(shelf, the_saves(shelf).head(KIND, "v").definition)
    assert again.filter.base.tree.root == held.filter.base.tree.root


def test_rows_that_are_not_held_may_go_and_the_view_is_built_again(lake: Path) -> None:
    shelf = OfflineLake(lake)
    views = UpdatableViews(shelf)
    views.refresh("contacts")
    held = views.state("contacts")
    held.filter.base.tables["item"].counts[:] = 0
    DeltaTable(str(lake / "item")).delete("line = 100")
    done, after = views.refresh("contacts"), views.state("contacts")
    assert (done.strategy, done.reason) == ("rebuild", "STATE_MISMATCH")
    assert after.vector["item"] == shelf.table("item").position
    assert after.filter.base.tables["item"].counts.sum() == 3
