"""Upkeep: fewer files, the same rows, the same vector; what a cut-off write left is gone."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from belvedere.delta import stamps
from belvedere.delta.files import files
from belvedere.delta.small_writes import stamped
from belvedere.delta.stamps import Position, Stamp
from belvedere.delta.statistics import column_facts
from belvedere.lake.writes import upkeep
from belvedere.storage.locks import lock
from belvedere.storage.private_files import LOCK_DIRECTORY
from tests.local_tables import store_in, table_in

AT_ONCE = "interval 0 seconds"


def stamp(number: int) -> Stamp:
    return Stamp("v", number, {"t": Position("id", number)})


def stored(root: Path, retention: str, commits: int = upkeep.MANY + 4) -> None:
    """A table of as many small files, each with its stamp, and a file that no version has."""
    properties = {
        "delta.enableChangeDataFeed": "true",
        "delta.deletedFileRetentionDuration": retention,
    }
    for number in range(commits):
        write_deltalake(
            str(root),
            pa.table({"k": [number, number], "n": [1, None]}),
            mode="append",
            configuration=properties if number == 0 else None,
            commit_properties=stamped(stamp(number)),
        )
    (root / "part-cut-off.parquet").write_bytes(b"half")


def kept_up(root: Path) -> None:
    table = table_in(root)
    upkeep.keep_up(table, table.version)


def rows(root: Path) -> list[dict[str, object]]:
    found = DeltaTable(str(root)).to_pyarrow_table().to_pylist()
    return sorted(found, key=lambda r: (r["k"], r["n"] is None))


def test_small_files_are_put_together_and_nothing_else_changes(tmp_path: Path) -> None:
    stored(tmp_path / "t", "interval 7 days")
    before, vector = rows(tmp_path / "t"), stamps.logged_stamp(store_in(tmp_path / "t")).stamp
    kept_up(tmp_path / "t")
    assert len(DeltaTable(str(tmp_path / "t")).file_uris()) == 1
    assert rows(tmp_path / "t") == before
    assert stamps.logged_stamp(store_in(tmp_path / "t")).stamp == vector == stamp(upkeep.MANY + 3)


def test_what_no_recent_version_uses_is_removed_and_what_a_cut_off_write_left(
    tmp_path: Path,
) -> None:
    stored(tmp_path / "t", AT_ONCE)
    before = rows(tmp_path / "t")
    kept_up(tmp_path / "t")
    left = list((tmp_path / "t").rglob("*.parquet"))
    assert [p for p in left if "_delta_log" not in p.parts and "_change" not in str(p)] == [
        Path(f) for f in DeltaTable(str(tmp_path / "t")).file_uris()
    ]
    assert rows(tmp_path / "t") == before
    assert stamps.logged_stamp(store_in(tmp_path / "t")).stamp == stamp(upkeep.MANY + 3)


def test_checksums_without_their_file_and_old_drafts_are_removed(tmp_path: Path) -> None:
    root = tmp_path / "t"
    stored(root, "interval 7 days")
    (kept, *_) = root.glob("*.parquet")
    old, new = (root / "_delta_log" / f"_commit_{n}.json.tmp" for n in range(2))
    orphans = [root / ".part-gone.parquet.crc", root / "_delta_log" / ".gone.json.crc", old]
    there = [kept.with_name(f".{kept.name}.crc"), new]
    for path in (*orphans, *there):
        path.write_bytes(b"")
    before = time.time() - upkeep.ABANDONED - 1
    os.utime(old, (before, before))
    kept_up(root)
    assert [p.exists() for p in orphans] == [False] * 3
    assert [p.exists() for p in there] == [True] * 2


def test_what_a_killed_creation_left_is_swept_but_not_what_one_is_at(tmp_path: Path) -> None:
    rows = pa.table({"k": [1]})
    for name in ("__bv_whole", "__bvp_whole_1", "__bvp_left_1", "__bvp_left_2", "__bvp_made_1"):
        write_deltalake(str(tmp_path / name), rows)
    for name in ("__bv_cut", "__bv_made", "not_ours"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "part.parquet").write_bytes(b"half")
    with ThreadPoolExecutor(1) as other, lock(tmp_path / "__bv_made"):
        other.submit(upkeep.sweep, store_in(tmp_path)).result()
    left = {path.name for path in tmp_path.iterdir() if path.name != LOCK_DIRECTORY}
    assert left == {"__bv_whole", "__bvp_whole_1", "__bv_made", "__bvp_made_1", "not_ours"}
    upkeep.sweep(store_in(tmp_path))
    assert not (tmp_path / "__bv_made").exists()
    assert not (tmp_path / "__bvp_made_1").exists()


def test_within_the_retention_nothing_is_removed(tmp_path: Path) -> None:
    stored(tmp_path / "t", "interval 7 days")
    files = set((tmp_path / "t").glob("*.parquet"))
    kept_up(tmp_path / "t")
    assert files <= set((tmp_path / "t").glob("*.parquet"))


def test_few_files_are_left_as_they_are(tmp_path: Path) -> None:
    stored(tmp_path / "t", "interval 7 days", commits=3)
    kept_up(tmp_path / "t")
    assert len(DeltaTable(str(tmp_path / "t")).file_uris()) == 3


def test_what_fails_is_left_to_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(tmp_path / "t", "interval 7 days")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(DeltaTable, "vacuum", full)
    kept_up(tmp_path / "t")
    assert len(rows(tmp_path / "t")) == 2 * (upkeep.MANY + 4)


def test_a_large_table_is_laid_out_by_a_key_and_keeps_its_rows_and_its_stamp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_deltalake(
        str(tmp_path),
        pa.table({"k": [(7 * n) % 100_003 for n in range(100_000)], "n": range(100_000)}),
        commit_properties=stamped(stamp(1)),
    )
    before, version = rows(tmp_path), table_in(tmp_path).version
    upkeep.lay_out(table_in(tmp_path), "k")
    assert table_in(tmp_path).version == version  # it is small
    monkeypatch.setattr(upkeep, "LARGE", 100_000)
    monkeypatch.setattr(upkeep, "LEAST", 100_000)
    upkeep.lay_out(table_in(tmp_path), "k")
    laid = files(store_in(tmp_path), table_in(tmp_path).version) or []
    laid_out = table_in(tmp_path)
    bounds = sorted(column_facts(laid_out, file, "k").bounds or () for file in laid)
    assert len(bounds) > 1
    assert all(one[1] <= other[0] for one, other in pairwise(bounds))
    assert rows(tmp_path) == before
    assert stamps.logged_stamp(store_in(tmp_path)).stamp == stamp(1)


def test_upkeep_puts_crumbs_together_and_leaves_the_pieces_of_a_large_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "LARGE", 100_000)
    monkeypatch.setattr(upkeep, "LEAST", 100_000)
    some = pa.table({"k": [(7 * n) % 100_003 for n in range(100_000)], "n": range(100_000)})
    write_deltalake(str(tmp_path), some, commit_properties=stamped(stamp(1)))
    upkeep.lay_out(table_in(tmp_path), "k")
    laid = set(DeltaTable(str(tmp_path)).file_uris())
    crumb = pa.table({"k": [1], "n": [1]})
    for number in range(upkeep.MANY + 4):
        properties = stamped(stamp(number + 2))
        write_deltalake(str(tmp_path), crumb, mode="append", commit_properties=properties)
    before = rows(tmp_path)
    kept_up(tmp_path)
    after = set(DeltaTable(str(tmp_path)).file_uris())
    assert len(laid) > 2
    assert len(laid - after) <= 1  # the last piece has room for crumbs
    assert len(after) <= len(laid) + 1
    assert rows(tmp_path) == before
