"""Updates through a view while others write its tables: made on the new state, or undone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from belvedere.delta import delta_rs
from belvedere.errors import Invalid, Unsupported
from belvedere.lake.offline import OfflineLake
from belvedere.lake.tables.table import Table
from belvedere.lake.writes import row_replacement
from belvedere.lake.writes.row_replacement import Exchange
from belvedere.updating.apply.base_changes import Intent, TableChanged, TableCommit
from tests.updating import offline_lake
from tests.updating.apply.kill_script import OLD, ROW
from tests.updating.offline_lake import put_property, rows, update, view

NEW = tuple(ROW.values())


def test_a_change_by_someone_else_is_noticed_and_the_update_made_on_it(lake: Path) -> None:
    shelf = OfflineLake(lake)
    held = offline_lake.fresh(shelf)
    write_deltalake(
        str(lake / "item"), pa.table({"line": [7], "orders": [11], "item": ["s"]}), mode="append"
    )
    stale = Intent(
        "contacts", 1, (TableCommit("item", held.vector["item"].version, (), ({"line": 8},)),)
    )
    with pytest.raises(TableChanged):
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
    with pytest.raises(TableChanged):
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
    monkeypatch.setattr(delta_rs, "DeltaTable", Late)
    update(lake, update=(OLD, ROW))
    assert view(lake) - before == {NEW, (1, "ann", 10, 5, 7, "s")}
    assert before - view(lake) == {tuple(OLD.values())}
    assert sorted(r["id"] for r in rows(lake)["customer"]) == [1, 2, 3, 4, 8]


def test_what_cannot_be_written_is_said_and_nothing_of_the_update_is_left(lake: Path) -> None:
    put_property(lake / "item", "delta.constraints.now", "year(current_date()) > 2000")
    before, shelf = rows(lake), OfflineLake(lake)
    parts = (
        TableCommit(
            "customer", shelf.table("customer").version, (), ({"id": 4, "name": "d", "note": None},)
        ),
        TableCommit(
            "item", shelf.table("item").version, (), ({"line": 8, "orders": 10, "item": "x"},)
        ),
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
