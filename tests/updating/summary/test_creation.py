"""A view is made under its lock, and what a killed creation of its summary left is taken away."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from belvedere.derivations.registry import the_saves
from belvedere.errors import Invalid
from belvedere.lake.offline import OfflineLake
from belvedere.sql.statements.updatable_views import CreateUpdatable
from belvedere.storage.locks import Conflict
from belvedere.updating import kind
from belvedere.updating.kind import UpdatableViews
from belvedere.updating.store import KIND
from belvedere.updating.summary.in_tables import creation
from belvedere.updating.summary.in_tables.creation import (
    UNFINISHED,
    drop_unfinished,
    recorded_creation,
)
from tests.updating.offline_lake import QUERY, make

Dropped = list[tuple[str, list[str]]]


@pytest.fixture
def lake(tmp_path: Path) -> OfflineLake:
    return OfflineLake(make(tmp_path))


@pytest.fixture
def dropped(monkeypatch: pytest.MonkeyPatch) -> Dropped:
    found: Dropped = []
    monkeypatch.setattr(
        creation.parts, "drop_parts", lambda _, name, some: found.append((name, some))
    )
    return found


def killed(lake: OfflineLake, name: str) -> None:
    the_saves(lake).save(UNFINISHED, name, {"pieces": [f"{name}_summary_k_0"]}, {}, {})


@contextmanager
def locked_elsewhere(lake: OfflineLake, name: str) -> Iterator[None]:
    """Someone else holds the lock of a view."""
    there, done = threading.Event(), threading.Event()

    def hold() -> None:
        with the_saves(lake).locked(KIND, name):
            there.set()
            done.wait()

    other = threading.Thread(target=hold)
    other.start()
    there.wait()
    try:
        yield
    finally:
        done.set()
        other.join()


def is_locked(lake: OfflineLake, name: str) -> bool:
    """Whether another thread would find a view locked."""
    found: list[bool] = []

    def look() -> None:
        try:
            with the_saves(lake).locked(KIND, name, timeout=0):
                found.append(False)
        except Conflict:
            found.append(True)

    other = threading.Thread(target=look)
    other.start()
    other.join()
    return found[0]


def test_what_a_killed_creation_left_is_dropped_with_its_note(
    lake: OfflineLake, dropped: Dropped
) -> None:
    killed(lake, "v")
    drop_unfinished(lake)
    assert dropped == [("v", ["v_summary_k_0"])]
    drop_unfinished(lake)
    assert len(dropped) == 1
    assert not the_saves(lake).names(UNFINISHED)


def test_of_a_view_that_was_saved_only_the_note_goes(lake: OfflineLake, dropped: Dropped) -> None:
    killed(lake, "contacts")
    drop_unfinished(lake)
    assert not dropped
    assert not the_saves(lake).names(UNFINISHED)


def test_what_another_process_is_making_is_left_to_it(lake: OfflineLake, dropped: Dropped) -> None:
    killed(lake, "v")
    with locked_elsewhere(lake, "v"):
        drop_unfinished(lake)
    assert not dropped
    assert the_saves(lake).names(UNFINISHED) == ["v"]


def test_the_note_stands_while_a_summary_is_made_and_goes_when_that_fails(
    lake: OfflineLake,
) -> None:
    seen: list[Any] = []

    def interrupted() -> None:
        with recorded_creation(lake, "v", ["v_summary_k_0"]):
            seen.append(the_saves(lake).head(UNFINISHED, "v").definition["pieces"])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert seen == [["v_summary_k_0"]]
    assert not the_saves(lake).names(UNFINISHED)


@pytest.mark.parametrize("summary", [False, True])
def test_a_view_is_checked_for_its_name_made_and_saved_under_its_lock(
    lake: OfflineLake, monkeypatch: pytest.MonkeyPatch, summary: bool
) -> None:
    seen: list[tuple[bool, list[str]]] = []
    build_updatable = kind.build_updatable

    def watched(door: Any, definition: Any, vector: Any) -> Any:
        seen.append((is_locked(lake, "v"), the_saves(lake).names(UNFINISHED)))
        return build_updatable(door, definition, vector)

    monkeypatch.setattr(kind, "build_updatable", watched)
    monkeypatch.setattr(UpdatableViews, "_nothing", lambda _: None)
    views = UpdatableViews(lake)
    create = CreateUpdatable("v", QUERY, "item", 0.0, summary=summary)
    views._create(create)
    assert seen == [(True, ["v"] if summary else [])]
    assert "v" in views.names()
    assert not is_locked(lake, "v")
    assert not the_saves(lake).names(UNFINISHED)
    with pytest.raises(Invalid, match="exists already"):
        views._create(create)
