"""Which tables are replaced without Spark: those whose rows, and their bytes, are few by the log."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from belvedere.lake import smallwrites, tables
from belvedere.lake.smallwrites import MOST_REPLACED, can_replace


@pytest.mark.parametrize(("rows", "can"), [(0, True), (MOST_REPLACED // 2, True), (MOST_REPLACED // 2 + 1, False)])  # fmt: skip
def test_half_of_the_rows_that_may_come_may_be_there(tmp_path: Path, rows: int, can: bool) -> None:
    write_deltalake(tmp_path, pa.table({"a": np.arange(rows)}))
    assert can_replace(tables.read("t", tmp_path)) is can


def test_few_rows_of_many_bytes_are_left_to_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_deltalake(tmp_path, pa.table({"a": [np.random.default_rng(1).bytes(50_000)]}))
    assert can_replace(tables.read("t", tmp_path))
    monkeypatch.setattr(smallwrites, "MOST_BYTES", 50_000)
    assert not can_replace(tables.read("t", tmp_path))


def test_partitions_are_left_to_spark(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"a": [1], "b": [2]}), partition_by=["b"])
    assert not can_replace(tables.read("t", tmp_path))
