"""The journal: appends that all land, rows that stay, files that do not pile up."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest
from deltalake import DeltaTable, Field, Schema
from deltalake.exceptions import DeltaError
from deltalake.schema import MapType, PrimitiveType

from belvedere.errors import Invalid
from belvedere.lake.offline import OfflineLake
from belvedere.lake.records import journal as journals
from belvedere.lake.records.catalog_journal import CatalogJournal
from belvedere.lake.records.journal import LocalJournal, local_journal

TEXT, WHOLE = PrimitiveType("string"), PrimitiveType("long")
SCHEMA = Schema([Field("who", TEXT), Field("n", WHOLE), Field("seen", MapType(TEXT, WHOLE))])


@pytest.fixture
def journal(tmp_path: Path) -> LocalJournal:
    return local_journal(tmp_path)


def row(who: str, n: int) -> dict[str, object]:
    return {"who": who, "n": n, "seen": [("log", n)]}


def numbers(journal: LocalJournal, who: str) -> list[int]:
    return sorted(r["n"] for r in journal.read("who", who))


def test_rows_are_read_by_a_value(journal: LocalJournal) -> None:
    journal.append([row("a", 1), row("b", 2)], SCHEMA)
    journal.append([row("a", 3)], SCHEMA)
    assert numbers(journal, "a") == [1, 3]
    assert dict(journal.read("who", "b")[0]["seen"]) == {"log": 2}
    assert DeltaTable(journal.store.uri).version() == 2


def test_the_newest_rows_are_read_by_themselves(journal: LocalJournal) -> None:
    assert journal.newest("n", 3) == []
    for n in (5, 1, 4, 2, 3):
        journal.append([row("ab"[n % 2], n)], SCHEMA)
    assert sorted(r["n"] for r in journal.newest("n", 3)) == [3, 4, 5]
    assert sorted(r["n"] for r in journal.newest("n", 2, "who", "a")) == [2, 4]
    assert journal.newest("n", 2, "who", "c") == []


def test_a_lake_without_a_journal_has_no_rows_and_gets_none(journal: LocalJournal) -> None:
    assert journal.read("who", "a") == []
    assert not Path(journal.store.uri).exists()


def test_a_journal_is_no_table_of_the_lake(journal: LocalJournal, tmp_path: Path) -> None:
    journal.append([row("a", 1)], SCHEMA)
    shelf = OfflineLake(tmp_path)
    assert (shelf.names(), shelf.stored(), shelf.exists("refreshes")) == ([], [], False)


def test_files_are_put_together_and_no_row_is_lost(
    journal: LocalJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "MANY_FILES", 5)
    for n in range(23):
        journal.append([row("a", n)], SCHEMA)
    assert numbers(journal, "a") == list(range(23))
    assert len(DeltaTable(journal.store.uri).file_uris()) <= 6
    assert list(Path(journal.store.uri).glob("_delta_log/*.checkpoint.parquet"))


def test_a_failed_compaction_fails_no_append(
    journal: LocalJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(*_: object, **__: object) -> None:
        raise DeltaError("another process compacted")

    monkeypatch.setattr(journals, "MANY_FILES", 0)
    monkeypatch.setattr(journals.DeltaTable, "create_checkpoint", lose)
    journal.append([row("a", 1)], SCHEMA)
    assert numbers(journal, "a") == [1]


def test_threads_and_processes_that_append_at_once_all_land_once(
    journal: LocalJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "MANY_FILES", 5)
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\n"
        "from tests.lake.records.test_journal import SCHEMA, journals, local_journal, row\n"
        "journals.MANY_FILES = 5\n"
        "journal = local_journal(Path(sys.argv[2]))\n"
        "for n in range(15): journal.append([row(sys.argv[3], n)], SCHEMA)\n"
    )
    tests = str(Path(__file__).parents[3])
    writers = [
        subprocess.Popen([sys.executable, "-c", script, tests, str(tmp_path), who])
        for who in ("p", "q")
    ]
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda n: journal.append([row("t", n)], SCHEMA), range(15)))
    assert [w.wait(60) for w in writers] == [0, 0]
    for who in ("p", "q", "t"):
        assert numbers(journal, who) == list(range(15))


def test_a_column_that_a_later_release_adds_is_taken(journal: LocalJournal) -> None:
    journal.append([row("a", 1)], SCHEMA)
    wider = Schema([*SCHEMA.fields, Field("more", TEXT)])
    journal.append([{**row("a", 2), "more": "x"}], wider)
    journal.append([row("a", 3)], SCHEMA)
    found = {r["n"]: r["more"] for r in journal.read("who", "a")}
    assert found == {1: None, 2: "x", 3: None}


class Locked:
    """A session's door whose user may create nothing."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.spark = self.catalog = self

    def currentCatalog(self) -> str:
        return "main"

    def databaseExists(self, name: str) -> bool:
        return False

    def exists(self, name: str) -> bool:
        return False

    def sql(self, text: str) -> None:
        self.asked.append(text)
        raise Invalid("you may not create a schema")


def test_where_a_catalog_allows_no_schema_it_is_asked_once() -> None:
    door = Locked()
    journal = CatalogJournal(cast(Any, door))
    for number in (1, 2):
        with pytest.raises(Invalid, match="may not create"):
            journal.append([row("a", number)], SCHEMA)
    assert door.asked == ["CREATE SCHEMA IF NOT EXISTS `main`.`belvedere`"]
