"""The first rows by a column are found, whatever files they are in."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from belvedere.delta import data_files
from belvedere.delta.data_files import DataFile
from belvedere.delta.first_rows import read_first_rows
from belvedere.lake.tables.table import Table
from tests.local_tables import store_in, table_in

KINDS: dict[str, tuple[pa.DataType, Any]] = {
    "int": (pa.int32(), int),
    "decimal": (pa.decimal128(15, 2), lambda n: Decimal(int(n)) / 4),
    "date": (pa.date32(), lambda n: date(2024, 2, 27) + timedelta(int(n))),
    "text": (pa.string(), lambda n: "é" * (int(n) % 3) + str(n)),
}


def written(at: Path) -> tuple[Table, list[dict[str, Any]]]:
    """A table in four files, with NULLs and values that many rows have."""
    random = np.random.default_rng(7)
    every = []
    for number in range(4):
        values = random.integers(0, 30, 25)
        rows = [
            {"id": 100 * number + i, **{c: None if n % 9 == 8 else make(n) for c, (_, make) in KINDS.items()}}
            for i, n in enumerate(values)
        ]  # fmt: skip
        schema = pa.schema([("id", pa.int64()), *((c, kind) for c, (kind, _) in KINDS.items())])
        write_deltalake(at, pa.Table.from_pylist(rows, schema), mode="append")
        every += rows
    return table_in(at), every


@pytest.mark.parametrize("column", KINDS)
@pytest.mark.parametrize("least", [True, False])
@pytest.mark.parametrize("count", [1, 10, 40, 1000])
@pytest.mark.parametrize("batch", [4, 1 << 17])
def test_the_first_rows_by_a_column(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    column: str,
    least: bool,
    count: int,
    batch: int,
) -> None:
    monkeypatch.setattr(data_files, "_BATCH", batch)
    table, rows = written(tmp_path)
    values = sorted({row[column] for row in rows} - {None})
    for beyond in (values[0], values[len(values) // 2], values[-1]):
        found = read_first_rows(table, table.version, ["id"], column, beyond, count, least=least)
        assert found is not None
        known = {row["id"]: row[column] for row in rows}
        reached = sorted(
            (
                v
                for v in known.values()
                if v is not None and (v >= beyond if least else v <= beyond)
            ),
            reverse=not least,
        )
        ids = found["id"].to_pylist()
        assert len(set(ids)) == len(ids)
        assert sorted((known[i] for i in ids), reverse=not least) == reached[:count]


def test_deleted_rows_and_files_without_the_column_have_none(tmp_path: Path) -> None:
    rows = pa.table({"x": pa.array([3, 1, None, 2, 5])})
    pq.write_table(rows, tmp_path / "f.parquet")
    file, by = DataFile(store_in(tmp_path), "f.parquet"), pa.field("x", pa.int64())
    numbers, values = file.first_rows(by, np.array([1]), pa.scalar(1), 2, least=True)
    assert (numbers.tolist(), values.to_pylist()) == ([0, 3], [3, 2])
    absent = file.first_rows(pa.field("y", pa.int64()), np.array([1]), pa.scalar(1), 2, least=True)
    assert [len(part) for part in absent] == [0, 0]


def test_what_arrow_does_not_hold_as_spark_does_is_not_read(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"x": pa.array([1.0, 2.0])}))
    assert read_first_rows(table_in(tmp_path), 0, ["x"], "x", 0.0, 1, least=True) is None
