"""A table at a new version is told from the version before and the commits since."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake import Field as DeltaField
from deltalake.schema import PrimitiveType

from belvedere.lake import tables


def write(root: Path, **columns: list[int]) -> None:
    write_deltalake(str(root), pa.table(dict(columns)), mode="append")


def test_a_commit_of_rows_needs_no_new_look_at_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "t"
    write(root, a=[1])
    tables.read("t", root)
    write(root, a=[2])
    wanted = tables._opened(str(root), 1)
    monkeypatch.setattr(tables, "_opened", None)
    found = tables.read("t", root)
    assert (found.version, found.id, found.mark) == (1, wanted.id, wanted.mark)
    assert found.columns == wanted.columns


def test_what_changes_a_table_is_seen(tmp_path: Path) -> None:
    root = tmp_path / "t"
    write(root, a=[1])
    tables.read("t", root)
    DeltaTable(str(root)).alter.add_columns([DeltaField("b", PrimitiveType("long"))])
    assert [c for c, _ in tables.read("t", root).columns] == ["a", "b"]
    DeltaTable(str(root)).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    assert tables.read("t", root).change_feed


def test_another_table_in_its_place_is_another_table(tmp_path: Path) -> None:
    root = tmp_path / "t"
    write(root, a=[1])
    before = tables.read("t", root)
    shutil.rmtree(root)
    for _ in range(3):
        write(root, c=[1])
    after = tables.read("t", root)
    assert after.id != before.id
    assert after.columns == (("c", "bigint"),)
