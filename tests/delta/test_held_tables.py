"""Small tables that are read whole stay in memory: the last two versions, no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from belvedere.delta import lookups
from belvedere.delta.lookups import read_whole
from belvedere.lake.tables.table import Table
from tests import small_lake
from tests.local_tables import table_in


@pytest.fixture
def at(tmp_path: Path) -> list[Table]:
    """Five versions of a table, each with one more row."""
    found = []
    for value in range(5):
        small_lake.write(tmp_path / "log", {"video_id": [value]})
        found.append(table_in(tmp_path / "log", "log"))
    return found


def values(table: Table, most: int = 100) -> list[int] | None:
    rows = read_whole(table, table.version, ["video_id"], most)
    return None if rows is None else sorted(rows["video_id"].to_pylist())


def test_the_last_two_versions_are_not_read_again(
    at: list[Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    for table in at:
        assert values(table) == list(range(table.version + 1))
    monkeypatch.setattr(lookups, "_whole", None)
    for table in at[-2:]:
        assert values(table) == list(range(table.version + 1))
    assert values(at[-1], most=4) is None
    with pytest.raises(TypeError, match="NoneType"):
        values(at[-3])


def test_what_is_held_has_a_bound(at: list[Table], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "HELD_BYTES", 40)
    assert values(at[-1]) == [0, 1, 2, 3, 4]
    assert values(at[0]) == [0]
    monkeypatch.setattr(lookups, "_whole", None)
    with pytest.raises(TypeError, match="NoneType"):
        values(at[-1])
