"""Updates through a view killed at any step: every table has the update, or none has it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from belvedere.errors import Invalid
from belvedere.lake.offline import OfflineLake
from belvedere.lake.tables.table import Table
from belvedere.lake.writes import row_replacement
from belvedere.lake.writes.row_replacement import Exchange
from belvedere.updating.build import build_updatable
from belvedere.updating.kind import UpdatableViews
from belvedere.updating.store import saved_vector
from tests.lake.damages import DAMAGES, cut_off, emptied, gone
from tests.updating import offline_lake
from tests.updating.apply.kill_script import ASKED, OLD, ROW
from tests.updating.offline_lake import rows, update, view

SCRIPT = Path(__file__).with_name("kill_script.py")
NEW = tuple(ROW.values())


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
    offline_lake.save(shelf, "other", build_updatable(shelf, definition))
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
    assert views.refresh("other").strategy == "nothing"


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
