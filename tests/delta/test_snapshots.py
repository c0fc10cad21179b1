"""A table at a new version is told from the version before and the commits since."""

from __future__ import annotations

import shutil
from pathlib import Path
from urllib.parse import quote as url_quoted

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake import Field as DeltaField
from deltalake.schema import PrimitiveType

from belvedere.delta import snapshots
from belvedere.errors import Invalid
from belvedere.lake.offline import OfflineLake
from belvedere.sql.names import database_name, quote
from belvedere.views.catalog import canonical_name, stored_of
from belvedere.views.parts import part_of
from tests.local_tables import store_in, table_in


def write(root: Path, **columns: list[int]) -> None:
    write_deltalake(str(root), pa.table(dict(columns)), mode="append")


def test_a_commit_of_rows_needs_no_new_look_at_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "t"
    write(root, a=[1])
    table_in(root)
    write(root, a=[2])
    wanted = snapshots._opened(store_in(root), 1)
    monkeypatch.setattr(snapshots, "_opened", None)
    found = table_in(root)
    assert (found.version, found.id, found.mark) == (1, wanted.id, wanted.mark)
    assert found.columns == wanted.columns


def test_what_changes_a_table_is_seen(tmp_path: Path) -> None:
    root = tmp_path / "t"
    write(root, a=[1])
    table_in(root)
    DeltaTable(str(root)).alter.add_columns([DeltaField("b", PrimitiveType("long"))])
    assert [c for c, _ in table_in(root).columns] == ["a", "b"]
    DeltaTable(str(root)).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    assert table_in(root).change_feed


def test_another_table_in_its_place_is_another_table(tmp_path: Path) -> None:
    root = tmp_path / "t"
    write(root, a=[1])
    before = table_in(root)
    shutil.rmtree(root)
    for _ in range(3):
        write(root, c=[1])
    after = table_in(root)
    assert after.id != before.id
    assert after.columns == (("c", "bigint"),)


@pytest.mark.parametrize("name", ["T", "`t`", "lake_0123456789ab.t", "spark_catalog.{own}.t"])
def test_a_name_of_the_lakes_own_schema_is_its_last_part(tmp_path: Path, name: str) -> None:
    own = database_name(tmp_path.resolve())
    assert canonical_name(OfflineLake(tmp_path), name.format(own=own)) == "t"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("gold.t", "OTHER_SCHEMA"),
        ("default.t", "OTHER_SCHEMA"),
        ("delta.`/data/t`", "OTHER_SCHEMA"),
        ("other.lake.t", "OTHER_SCHEMA"),
        ("belvedere.t", "IS_OURS"),
        ("x" * 201, "NAME_TOO_LONG"),
        ("ü" * 34, "NAME_TOO_LONG"),
        ("`" + "😀" * 17 + "`", "NAME_TOO_LONG"),
    ],
)
def test_a_name_that_no_directory_can_keep_is_refused(
    tmp_path: Path, name: str, reason: str
) -> None:
    with pytest.raises(Invalid) as caught:
        canonical_name(OfflineLake(tmp_path), name)
    assert caught.value.reason == reason
    assert caught.value.hint


@pytest.mark.parametrize("name", ["x" * 200, "ü" * 33, "😀" * 16])
def test_the_longest_names_have_files(tmp_path: Path, name: str) -> None:
    stored = stored_of(canonical_name(OfflineLake(tmp_path), quote(name)))
    for made in (stored, f"{part_of(stored, 999)}.lock", f"synopsis-{url_quoted(name)}.draft"):
        (tmp_path / made.strip("`")).touch()
