"""The ledger and what history makes of it: records and stamps, together and alone; no Spark."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from belvedere.cli import main
from belvedere.derivations.history import History
from belvedere.derivations.ledger import Ledger, Record, records
from belvedere.derivations.status import history, status
from belvedere.execution.costs import Candidate
from belvedere.lake.offline import OfflineLake
from belvedere.lake.records.journal import LocalJournal
from belvedere.storage import private_files
from belvedere.views.catalog import the_view
from tests import small_lake
from tests.local_tables import store_in


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A view that was created and refreshed once, by stamps alone."""
    made = small_lake.make(tmp_path / "lake")
    small_lake.write(made / "video", {"video_id": [4], "owner": ["c"]})
    small_lake.refresh(made, "owners", 2, ["video"])
    return made


def record_of(lake: Path, number: int) -> Record:
    """A record that fits the stamp of a refresh, as the refresh would have written it."""
    shelf = OfflineLake(lake)
    (stamped,) = [p for p in history(shelf, "owners") if p.number == number]
    assert stamped.began is not None
    return Record(
        view="owners",
        view_id=the_view(shelf, "owners").definition.id,
        refresh=number,
        started=stamped.began,
        seconds=1.25,
        strategy="merge",
        reason="",
        candidates=(
            Candidate("merge", 1e6, 1.0, "one row"),
            Candidate("rebuild", None, 4.0, "three rows"),
        ),
        rows=1,
        pending={"video": 1},
        jobs=3,
        bytes_read=2048,
        vector_before={"video": 0},
        vector_after={"video": 1},
        version=1,
        engine="delta-rs",
    )


def record(lake: Path, *found: Record) -> None:
    with Ledger(OfflineLake(lake).journal) as ledger:
        for one in found:
            ledger.add(one)


def test_a_record_is_read_as_it_was_written(lake: Path) -> None:
    written = record_of(lake, 2)
    bare = replace(
        written, refresh=3, candidates=(), rows=None, pending={}, jobs=None, bytes_read=None
    )
    record(lake, written, bare)
    found = records(OfflineLake(lake), written.view_id)
    assert sorted(found, key=lambda r: r.refresh) == [written, bare]


def test_a_call_is_one_commit_and_a_call_without_work_is_none(lake: Path) -> None:
    root = lake / ".belvedere" / "refreshes"
    record(lake)
    assert not root.exists()
    record(lake, record_of(lake, 1), record_of(lake, 2))
    with Ledger(OfflineLake(lake).journal) as ledger:
        ledger.add(None)
    assert DeltaTable(str(root)).version() == 1


def test_a_call_that_fails_records_what_it_did_before(lake: Path) -> None:
    written = record_of(lake, 2)

    def call() -> None:
        with Ledger(OfflineLake(lake).journal) as ledger:
            ledger.add(written)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        call()
    assert records(OfflineLake(lake), written.view_id) == [written]


def test_history_joins_stamps_and_records(lake: Path) -> None:
    record(lake, record_of(lake, 2))
    newest, first = history(OfflineLake(lake), "owners")
    assert (newest.number, newest.seconds, newest.jobs) == (2, 1.25, 3)
    assert newest.pending == {"video": 1}
    assert [c.strategy for c in newest.candidates] == ["merge", "rebuild"]
    assert (first.number, first.strategy, first.jobs) == (1, "create", None)
    assert (first.pending, first.candidates) == ({}, ())


def test_a_refresh_of_the_same_number_is_another_if_it_began_otherwise(lake: Path) -> None:
    written = record_of(lake, 2)
    before = replace(written, started=written.started - timedelta(days=40), jobs=9)
    record(lake, before, written)
    assert [(p.number, p.jobs) for p in history(OfflineLake(lake), "owners")] == [
        (2, 3),
        (1, None),
        (2, 9),
    ]


def test_what_log_cleanup_took_is_still_in_the_history(lake: Path) -> None:
    record(lake, record_of(lake, 1), record_of(lake, 2))
    root = lake / "__bv_owners"
    small_lake.refresh(lake, "owners", 3, ["video"])
    DeltaTable(str(root)).create_checkpoint()
    for version in (0, 1):
        (root / "_delta_log" / f"{version:020}.json").unlink()
    found = history(OfflineLake(lake), "owners")
    assert [(p.number, p.jobs, p.version) for p in found] == [(3, None, 2), (2, 3, 1), (1, 3, 1)]
    assert found[1].vector == {"video": 1}


def test_a_ledger_that_cannot_be_read_leaves_the_stamps(lake: Path) -> None:
    record(lake, record_of(lake, 2))
    for file in (lake / ".belvedere" / "refreshes").glob("*.parquet"):
        file.unlink()
    assert [p.number for p in history(OfflineLake(lake), "owners")] == [2, 1]


def test_a_record_that_cannot_be_written_is_told_by_status(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (lake / ".belvedere").write_text("not a directory")
    monkeypatch.setattr(private_files, "set_aside", lambda _: None)
    shelf = OfflineLake(lake)
    with Ledger(shelf.journal) as ledger:
        ledger.add(record_of(lake, 2))
    assert shelf.journal.trouble
    assert "refreshes are not recorded: " in str(status(shelf))
    (lake / ".belvedere").unlink()
    with Ledger(shelf.journal) as ledger:
        ledger.add(record_of(lake, 2))
    assert "not recorded" not in str(status(shelf))


def test_a_view_over_a_view_names_it_in_what_was_pending(lake: Path) -> None:
    written = record_of(lake, 2)
    record(lake, replace(written, pending={"__bv_owners": 2, "video": 1}))
    assert history(OfflineLake(lake), "owners")[0].pending == {"owners": 2, "video": 1}


def test_the_command_line_shows_records_compactly(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(lake, record_of(lake, 2))
    at = ["--lake", str(lake)]
    assert main.main(["history", "owners", *at]) == 0
    line = capsys.readouterr().out.splitlines()[2]
    for shown in ("video 1", "1.2", "merge 1.0, rebuild 4.0", "  3  ", "2.0 KiB"):
        assert shown in line
    assert main.main(["history", "owners", "--json", "--limit", "1", *at]) == 0
    (newest,) = json.loads(capsys.readouterr().out)
    assert (newest["number"], newest["jobs"], newest["bytes_read"]) == (2, 3, 2048)
    assert newest["candidates"][0] == {
        "strategy": "merge",
        "work": 1e6,
        "predicted_seconds": 1.0,
        "why": "one row",
    }


@pytest.mark.parametrize("limit", ["-1", "x"])
def test_a_limit_is_a_number(lake: Path, limit: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main.main(["history", "owners", f"--limit={limit}", "--lake", str(lake)])
    assert ended.value.code == 2


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ownres", "did you mean 'owners'?"),
        ("video", "is not a materialized view"),
        ("belvedere.refreshes", "is Belvedere's own"),
    ],
)
def test_the_history_of_something_else_is_an_error(
    lake: Path, capsys: pytest.CaptureFixture[str], name: str, said: str
) -> None:
    record(lake, record_of(lake, 2))
    assert main.main(["history", name, "--lake", str(lake)]) == 1
    assert said in capsys.readouterr().err


def test_a_dropped_view_keeps_its_records_and_has_no_history(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = record_of(lake, 2)
    record(lake, written)
    shutil.rmtree(lake / "__bv_owners")
    assert records(OfflineLake(lake), written.view_id) == [written]
    assert main.main(["history", "owners", "--lake", str(lake)]) == 1
    assert "no table or view 'owners'" in capsys.readouterr().err


def test_an_empty_history_prints() -> None:
    assert str(History()) == "none"


def test_times_are_exact_in_any_zone(lake: Path) -> None:
    written = replace(record_of(lake, 2), started=datetime(2024, 2, 29, 23, 59, 59, 123456, UTC))
    record(lake, written)
    assert records(OfflineLake(lake), written.view_id)[0].started == written.started


def test_the_ledger_is_made_by_the_first_record(tmp_path: Path) -> None:
    journal = LocalJournal(store_in(tmp_path / "deep" / "refreshes"))
    journal.trouble = "before"
    with Ledger(journal) as ledger:
        ledger.add(record_of(small_lake.make(tmp_path / "lake"), 1))
    assert (journal.trouble, len(journal.read("view", "owners"))) == ("", 1)
