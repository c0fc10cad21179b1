"""Files beside the tables: made for their owner alone, never through a link; damaged ones are set aside."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from deltalake import Field, Schema
from deltalake.schema import PrimitiveType

from belvedere.errors import Unable
from belvedere.lake.records import saved_state as module
from belvedere.lake.records.journal import JOURNAL, LocalJournal, local_journal
from belvedere.lake.records.saved_state import Corrupt, Saves
from belvedere.lake.sessions import jars
from belvedere.scheduling import schedules
from belvedere.scheduling.notify.delivery import _append
from belvedere.scheduling.notify.notification_state import NOTIFICATION_STATE
from belvedere.scheduling.notify.subscriptions import SUBSCRIPTION
from belvedere.sketches import definition
from belvedere.storage import private_files
from belvedere.storage.locks import lock, lock_file
from belvedere.storage.private_files import USES, kept_aside
from belvedere.synopses.kind import SAVED_AS
from belvedere.updating import store as updating
from belvedere.updating.apply.base_changes import Intent, TableCommit, UpdateApplier
from belvedere.updating.summary.in_tables.creation import UNFINISHED
from tests.lake.damages import DAMAGES, a_directory, a_link, auxiliary_files, copied, cut_off, gone
from tests.local_tables import store_in
from tests.small_lake import make

SCHEMA = Schema([Field("who", PrimitiveType("string"))])
STATES = [kind for kind in USES if kind != "refreshes"]


@pytest.fixture
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def save_state(home: Path) -> Path:
    Saves(home).save("sketches", "hot", {}, {}, {"a": np.arange(3)})
    return home / "sketches" / "hot.state"


def write_intent(home: Path) -> Path:
    applying = UpdateApplier(None, home)  # type: ignore[arg-type]
    applying.write_intent(Intent("v", 1, (TableCommit("log", 1, (), ({"a": 1},)),)))
    return applying.path("v")


def notify(home: Path) -> Path:
    _append(home / "out.jsonl", '{"id": "s-1"}', "s-1", again=False)
    return home / "out.jsonl"


def remember_jars(home: Path) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BELVEDERE_CACHE", str(home))
        patch.setattr(jars, "_resolve", lambda: [__file__])
        assert jars.delta_jars() == [__file__]
    return next(home.glob("jars-*.json"))


def take_lock(home: Path) -> Path:
    with lock(home / "table"):
        return lock_file(home / "table")


WRITERS = [save_state, write_intent, notify, remember_jars, take_lock]
DRAFTED = {save_state: ".draft", write_intent: ".intent-draft", remember_jars: f".{os.getpid()}"}


@pytest.mark.usefixtures("usual_umask")
@pytest.mark.parametrize("write", WRITERS)
def test_a_file_is_for_its_owner_alone(tmp_path: Path, write: Callable[[Path], Path]) -> None:
    assert stat.S_IMODE(write(tmp_path).stat().st_mode) == 0o600


@pytest.mark.usefixtures("usual_umask")
@pytest.mark.parametrize("write", DRAFTED)
def test_a_file_that_is_written_again_is_for_its_owner_alone_from_then_on(
    tmp_path: Path, write: Callable[[Path], Path]
) -> None:
    path = write(tmp_path)
    path.write_bytes(b"[]") if write is remember_jars else None
    path.chmod(0o666)
    assert stat.S_IMODE(write(tmp_path).stat().st_mode) == 0o600


@pytest.mark.usefixtures("usual_umask")
def test_who_lets_a_group_write_a_lake_lets_it_lock(tmp_path: Path) -> None:
    take_lock(tmp_path).parent.chmod(0o770)
    with lock(tmp_path / "other"):
        assert stat.S_IMODE(lock_file(tmp_path / "other").stat().st_mode) == 0o640


@pytest.mark.parametrize("write", DRAFTED)
@pytest.mark.parametrize("there", [True, False])
def test_a_link_at_the_name_of_a_draft_is_not_followed(
    tmp_path: Path, write: Callable[[Path], Path], there: bool
) -> None:
    path, target = write(tmp_path), tmp_path / "of someone"
    if there:
        target.write_text("theirs")
    draft = path.with_suffix(DRAFTED[write])
    draft.symlink_to(target)
    path.unlink()
    assert write(tmp_path) == path
    assert path.is_file()
    assert not path.is_symlink()
    assert target.exists() is there
    assert not there or target.read_text() == "theirs"


@pytest.mark.parametrize("write", DRAFTED)
def test_a_link_at_the_name_of_the_file_is_not_followed(
    tmp_path: Path, write: Callable[[Path], Path]
) -> None:
    path, target = write(tmp_path), tmp_path / "of someone"
    whole = path.read_bytes()
    path.unlink()
    target.write_text("theirs")
    path.symlink_to(target)
    assert write(tmp_path).read_bytes() == whole
    assert not path.is_symlink()
    assert target.read_text() == "theirs"


@pytest.mark.parametrize("write", DRAFTED)
def test_a_directory_at_the_name_of_a_draft_or_file_is_set_aside(
    tmp_path: Path, write: Callable[[Path], Path]
) -> None:
    path = write(tmp_path)
    path.unlink()
    for wrong in (path, path.with_suffix(DRAFTED[write])):
        wrong.mkdir()
        (wrong / "inside").touch()
    write(tmp_path)
    assert path.is_file()
    assert len(list(path.parent.rglob("*.damaged-*/inside"))) == 2


def test_what_a_lock_file_holds_does_not_matter(tmp_path: Path) -> None:
    take_lock(tmp_path).write_bytes(os.urandom(100))
    take_lock(tmp_path)
    a_directory(lock_file(tmp_path / "table"))
    take_lock(tmp_path)
    with lock(tmp_path / "table"):
        assert not taken_elsewhere(tmp_path / "table")
    assert taken_elsewhere(tmp_path / "table")


def test_a_lock_that_is_a_link_is_refused_by_its_name(tmp_path: Path) -> None:
    a_link(take_lock(tmp_path))
    with pytest.raises(Unable, match=r"table\.lock"):
        take_lock(tmp_path)


def test_a_lock_file_that_was_taken_away_while_it_was_waited_for_is_made_again(
    tmp_path: Path,
) -> None:
    with lock(tmp_path / "table"):
        waiting = threading.Thread(target=lambda: take_lock(tmp_path))
        waiting.start()
        lock_file(tmp_path / "table").unlink()
    waiting.join(10)
    assert not waiting.is_alive()
    assert lock_file(tmp_path / "table").exists()


def taken_elsewhere(root: Path) -> bool:
    """Whether another thread can take a lock."""
    found: list[bool] = []

    def take() -> None:
        try:
            with lock(root, timeout=0):
                found.append(True)
        except Exception:
            found.append(False)

    thread = threading.Thread(target=take)
    thread.start()
    thread.join(10)
    return found[0]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda d: d.__name__)
@pytest.mark.parametrize("kind", STATES)
def test_a_damaged_state_is_as_if_it_were_not_there_and_told_and_kept(
    tmp_path: Path, kind: str, damage: Callable[[Path], None]
) -> None:
    saves = Saves(tmp_path / ".belvedere")
    for name in ("good", "bad"):
        saves.save(kind, name, {"n": 1}, {}, {})
    path = saves.home / kind / "bad.state"
    damage(path)
    was = kept(path)
    assert saves.names(kind) == ["good"]
    assert not saves.has(kind, "bad")
    assert saves.fingerprint(kind, "bad") is None
    if damage is not gone:
        with pytest.raises(Corrupt, match=r"bad\.state is damaged") as corrupt:
            saves.head(kind, "bad")
        assert corrupt.value.hint == USES[kind].mend.format(name="bad")
        ((told,),) = [saves.damages(kind)]
        assert "'bad'" in str(told)
        assert USES[kind].mend.format(name="bad") in str(told)
    # Whoever opens the lake sets it aside; it is told until there is another.
    saves.set_aside_damaged()
    assert not os.path.lexists(path)
    assert len(saves.damages()) == (0 if damage is gone else 1)
    saves.save(kind, "bad", {"n": 2}, {}, {})
    assert saves.damages() == []
    assert saves.head(kind, "bad").definition == {"n": 2}
    if damage is not gone:
        assert kept(kept_aside(path.parent)["bad.state"]) == was


def kept(path: Path) -> object:
    """What stands at a path, not looked into if it is no file."""
    kind = stat.S_IFMT(path.lstat().st_mode) if os.path.lexists(path) else 0
    return kind, path.read_bytes() if kind == stat.S_IFREG else b""


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda d: d.__name__)
def test_what_is_saved_over_a_damaged_state_keeps_that_one_too(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    saves = Saves(tmp_path)
    saves.save("sketches", "hot", {"n": 1}, {}, {})
    path = tmp_path / "sketches" / "hot.state"
    for n in (2, 3):
        damage(path)
        saves.save("sketches", "hot", {"n": n}, {}, {"a": np.arange(n)})
        assert saves.load("sketches", "hot").head.definition == {"n": n}
    assert len(list(path.parent.glob("hot.state.damaged-*"))) == (0 if damage is gone else 2)


def test_a_state_that_may_not_be_read_is_told_and_left_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saves = Saves(tmp_path)
    saves.save("sketches", "hot", {"n": 1}, {}, {})
    real = module.open_file

    def refused(path: Path) -> object:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(module, "open_file", refused)
    other = Saves(tmp_path)
    other.set_aside_damaged()
    assert other.names("sketches") == []
    (told,) = other.damages()
    assert "Permission denied" in str(told)
    monkeypatch.setattr(module, "open_file", real)
    assert Saves(tmp_path).names("sketches") == ["hot"]


def test_a_state_of_another_release_is_told_and_left_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saves = Saves(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(module, "FORMAT", 99)
        saves.save("sketches", "hot", {}, {}, {})
    saves = Saves(tmp_path)
    saves.set_aside_damaged()
    assert saves.names("sketches") == []
    (told,) = saves.damages()
    assert "format 99" in str(told)
    assert (tmp_path / "sketches" / "hot.state").exists()


def test_a_file_where_a_directory_of_states_should_be_is_set_aside(tmp_path: Path) -> None:
    for wrong in (tmp_path / ".belvedere", tmp_path / ".belvedere" / "sketches"):
        saves = Saves(tmp_path / ".belvedere")
        if wrong.parent == tmp_path:
            wrong.touch()
        else:
            wrong.rename(wrong.with_name("moved"))
            wrong.touch()
        assert saves.names("sketches") == []
        saves.set_aside_damaged()
        saves.save("sketches", "hot", {}, {}, {})
        assert saves.names("sketches") == ["hot"]


@pytest.fixture(scope="module")
def journaled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lake: Path = tmp_path_factory.mktemp("journaled") / "lake"
    for n in range(12):
        local_journal(lake).append([{"who": str(n)}], SCHEMA)
    return lake


@pytest.mark.parametrize("damage", DAMAGES[:-1], ids=lambda d: d.__name__)
@pytest.mark.parametrize(
    "some", ["0.json", "11.json", "_last_checkpoint", "checkpoint.parquet", "c000.snappy.parquet"]
)
def test_a_journal_of_which_a_file_is_damaged_goes_on_or_begins_anew(
    journaled: Path, tmp_path: Path, damage: Callable[[Path], None], some: str
) -> None:
    copy = copied(journaled, tmp_path / "copy")
    damage(copy / [path for path in auxiliary_files(copy) if path.endswith(some)][-1])
    journal = local_journal(copy)
    journal.mend()
    assert len(journal.read()) in (0, 11, 12)
    journal.append([{"who": "new"}], SCHEMA)
    assert "new" in {row["who"] for row in journal.read()}
    if journal.store.name in kept_aside(Path(journal.store.uri).parent):
        assert "history of refreshes" in str(Saves(copy / ".belvedere").damages()[0])


def test_a_journal_that_someone_else_keeps_is_left_where_it_is(tmp_path: Path) -> None:
    LocalJournal(store_in(tmp_path / "t")).append([{"who": "a"}], SCHEMA)
    next((tmp_path / "t").glob("*.parquet")).unlink()
    with pytest.raises(OSError, match="parquet"):
        LocalJournal(store_in(tmp_path / "t")).read()
    assert kept_aside(tmp_path) == {}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda d: d.__name__)
def test_a_damaged_memory_of_jars_is_resolved_again(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    damage(remember_jars(tmp_path))
    remember_jars(tmp_path)


def test_jars_that_cannot_be_remembered_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(private_files.os, "fsync", full)
    monkeypatch.setenv("BELVEDERE_CACHE", str(tmp_path))
    monkeypatch.setattr(jars, "_resolve", lambda: [__file__])
    assert jars.delta_jars() == [__file__]


def test_every_kind_of_state_has_words_for_what_is_lost_with_it() -> None:
    derivable = {updating.MOVED}
    saved = {
        schedules.KIND,
        SUBSCRIPTION,
        NOTIFICATION_STATE,
        definition.KIND,
        SAVED_AS,
        updating.KIND,
        UNFINISHED,
    }
    assert {*saved, JOURNAL} == set(USES)
    assert derivable.isdisjoint(USES)
    for use in USES.values():
        for text in (use.lost, use.mend):
            assert text.format(name="x")


def test_a_lake_without_anything_beside_its_tables_has_nothing_to_tell(tmp_path: Path) -> None:
    make(tmp_path)
    assert Saves(tmp_path / ".belvedere").damages() == []
    cut_off(tmp_path / "video" / "_delta_log" / f"{0:020}.json")
    assert Saves(tmp_path / ".belvedere").damages() == []
