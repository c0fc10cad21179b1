"""What is asked of a lake's tables besides rows by value: values that are taken, and some that are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from belvedere.delta.lookups import look_up
from belvedere.lake.offline import OfflineLake
from belvedere.lake.tables.declared_keys import KEY_PROPERTY
from belvedere.updating import reading
from belvedere.updating.build import build_updatable
from belvedere.updating.reading import LakeRowSource
from belvedere.updating.request.view_updates import ViewUpdate
from belvedere.updating.side_effects.check_update import check_in_mode
from tests.updating.offline_lake import make, put_property


def test_the_largest_and_the_first_values_are_found_without_reading_rows_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = LakeRowSource(OfflineLake(make(tmp_path)))

    def never(*_: Any) -> None:
        raise AssertionError("a table was read whole")

    monkeypatch.setattr(reading, "read_version", never)
    assert source.largest("item", "line") == 103
    assert source.first("customer", "note", 10) == ["x", "z"]
    assert len(source.first("item", "line", 2)) == 2


def test_rows_are_looked_up_once_by_their_key_whatever_else_is_asked_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def watched(*args: Any, **options: Any) -> Any:
        asked.append(args[3])
        return look_up(*args, **options)

    monkeypatch.setattr(reading, "look_up", watched)
    source = LakeRowSource(OfflineLake(make(tmp_path)))
    (row,) = source.where("customer", {"id": 2})
    assert source.where("customer", row) == [row]
    assert source.where("customer", {"note": row["note"], "id": 2}) == [row]
    assert source.where("customer", {"note": "another", "id": 2}) == []
    assert row["note"] is None
    assert asked == ["id"]
    assert [r["id"] for r in source.where("customer", {"note": "x"})] == [1]
    assert source.where("customer", {"id": 1, "note": None}) == []
    assert asked == ["id", "note", "id"]
    assert source.where("customer", {"id": None}) == []


def test_without_bounds_in_the_log_the_column_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = OfflineLake(make(tmp_path))
    monkeypatch.setattr(reading, "files", lambda *_: None)
    assert LakeRowSource(lake).largest("orders", "id") == 12
    write_deltalake(str(tmp_path / "none"), pa.table({"id": pa.array([None], pa.int64())}))
    assert LakeRowSource(lake).largest("none", "id") == 0


def test_a_key_that_the_view_does_not_use_gets_a_value_that_no_row_has(tmp_path: Path) -> None:
    for name, kind in (("numbers", pa.int64()), ("texts", pa.string())):
        taken = [5, -3] if name == "numbers" else ["new 1", "new 2"]
        rows = pa.table({"id": pa.array(taken, kind), "x": [1, 2]})
        feed = {"delta.enableChangeDataFeed": "true"}
        write_deltalake(str(tmp_path / name), rows, configuration=feed)
        put_property(tmp_path / name, KEY_PROPERTY, '["id"]')
        lake = OfflineLake(tmp_path)
        definition = {"name": "v", "query": f"SELECT x FROM {name}", "root": None, "percent": 0.0}
        asked = ViewUpdate.of([{"x": 7}, {"x": 8}], None, None)
        found = check_in_mode(lake, build_updatable(lake, definition), asked, "AUTO")
        assert found.translation is not None
        new = [r["id"] for r in found.translation.new[name]]
        assert new == ([6, 7] if name == "numbers" else ["new 4", "new 8"])
