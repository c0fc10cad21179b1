"""Rows and bytes that there are to read, from the log alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from belvedere.delta.change_sizes import change_bytes, change_rows, changed_at_most, version_bytes
from belvedere.lake.tables.table import Table
from tests import small_lake
from tests.local_tables import table_in


@pytest.fixture
def log(tmp_path: Path) -> Table:
    """Three rows, then two, then one."""
    for rows in ([1, 1, 2], [3, 3], [4]):
        small_lake.write(tmp_path / "log", {"video_id": rows})
    return table_in(tmp_path / "log", "log")


def sizes(table: Table) -> dict[int, int]:
    """The bytes on disk that each version added."""
    found = {}
    for version in range(table.version + 1):
        now = {Path(f).name for f in DeltaTable(table.store.uri, version=version).file_uris()}
        found[version] = sum(table.store.head(f).size for f in now)
    return found


def test_a_version_has_the_size_of_its_files(log: Table) -> None:
    assert {v: version_bytes(log, v) for v in range(3)} == sizes(log)


def test_a_change_has_the_size_and_the_rows_of_its_commits(log: Table) -> None:
    total = sizes(log)
    assert change_bytes(log, 0, 2) == total[2] - total[0]
    assert [change_rows(log, old, 2) for old in range(3)] == [3, 1, 0]
    assert change_rows(log, 0, 1) == 2


def test_a_delete_counts_its_change_file(log: Table) -> None:
    DeltaTable(log.store.uri).delete("video_id = 3")
    changes = sum(log.store.head(path).size for path in log.store.list("_change_data/"))
    assert change_bytes(log, 2, 3) == changes > 0
    assert change_rows(log, 2, 3) == 2


def test_what_the_log_does_not_have_is_not_known(log: Table) -> None:
    assert change_rows(log, 2, 0) is None
    DeltaTable(log.store.uri).create_checkpoint()
    log.store.delete(f"_delta_log/{1:020}.json")
    assert change_rows(log, 0, 2) is None
    assert change_bytes(log, 0, 2) is None
    assert change_rows(log, 1, 2) == 1
    # Nor can two versions differ by more rows than both have.
    assert changed_at_most(log, 0, 2) == 3 + 6
    assert changed_at_most(log, 1, 2) == 1
