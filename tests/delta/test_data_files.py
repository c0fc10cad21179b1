"""Rows of a Parquet file by their numbers and by values, across batches and row groups."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from belvedere.delta import data_files
from belvedere.delta.data_files import DataFile
from belvedere.delta.files import File
from belvedere.delta.lookups import _with_room
from tests.local_tables import store_in, table_in

KEYS = [5, None, 7, 5, 9, None, -3, 7, 7, 100]
TEXTS = ["a", "b", None, "a", "b", "a", None, "c", "a", "b"]
SCHEMA = pa.schema(
    [("t", pa.string()), ("absent", pa.int32()), ("p", pa.date32()), ("k", pa.int64())]
)


@pytest.fixture(params=[1, 3, 100], ids=lambda size: f"{size} rows a group")
def file(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> DataFile:
    monkeypatch.setattr(data_files, "_BATCH", 2)
    rows = pa.table({"n": [{"k": 1}] * 10, "k": pa.array(KEYS, pa.int32()), "t": TEXTS})
    pq.write_table(rows, tmp_path / "f.parquet", row_group_size=request.param)
    return DataFile(store_in(tmp_path), "f.parquet", {"p": "2024-02-29"})


def test_some_rows_as_the_table_has_them(file: DataFile) -> None:
    rows = file.some(SCHEMA, np.array([0, 4, 5, 9]))
    assert rows.schema == SCHEMA
    assert rows["k"].to_pylist() == [5, 9, None, 100]
    assert rows["t"].to_pylist() == ["a", "b", "a", "b"]
    assert {str(day) for day in rows["p"].to_pylist()} == {"2024-02-29"}
    assert rows["absent"].null_count == 4


def test_rows_of_columns_that_a_file_does_not_hold_are_counted(file: DataFile) -> None:
    absent = pa.schema([SCHEMA.field("absent")])
    assert file.some(absent, np.array([1, 8])).num_rows == 2
    assert file.whole(absent, np.array([1, 8])).num_rows == 8


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("wanted", [[7], [5, 100], [6, 8], [-4, 101], []])
def test_rows_by_value(file: DataFile, wanted: list[int], nulls: bool) -> None:
    among = {*wanted, None} if nulls else set(wanted)
    expected = [i for i, k in enumerate(KEYS) if k in among]
    assert file.where("k", pa.array(wanted, pa.int64()), nulls=nulls).tolist() == expected


@pytest.mark.parametrize(
    ("told", "hides"),
    [
        ({}, False),
        ({"org.apache.spark.version": "4.2.0"}, False),
        ({"org.apache.spark.version": "2.4.8"}, True),
        ({"org.apache.spark.version": "4.2.0", "org.apache.spark.legacyDateTime": ""}, True),
    ],
)
def test_days_of_the_old_calendar_are_noticed(
    tmp_path: Path, told: dict[str, str], hides: bool
) -> None:
    rows = pa.table({"d": pa.array([0], pa.date32())}).replace_schema_metadata(told)
    pq.write_table(rows, tmp_path / "f.parquet")
    assert DataFile(store_in(tmp_path), "f.parquet").hides_times(["int", "date"]) is hides
    assert not DataFile(store_in(tmp_path), "f.parquet").hides_times(["int", "string"])


def test_rows_by_text(file: DataFile) -> None:
    found = file.where("t", pa.array(["b", "z"]), nulls=True)
    assert found.tolist() == [i for i, t in enumerate(TEXTS) if t in ("b", None)]


def test_a_column_that_a_file_does_not_hold_is_null(file: DataFile) -> None:
    values = pa.array([1], pa.int32())
    assert file.where("absent", values, nulls=False).tolist() == []
    assert file.where("absent", values, nulls=True).tolist() == list(range(10))


def test_a_column_is_not_taken_for_a_field_of_the_same_path(tmp_path: Path) -> None:
    rows = pa.table({"a": [{"b": 1}, {"b": 2}], "a.b": pa.array([70, 80])})
    pq.write_table(rows, tmp_path / "f.parquet")
    file = DataFile(store_in(tmp_path), "f.parquet")
    assert file.where("a.b", pa.array([80]), nulls=False).tolist() == [1]
    assert file.some(pa.schema([("a.b", pa.int64())]), np.array([1]))["a.b"].to_pylist() == [80]


def test_files_without_room_for_a_value_stay_closed(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), pa.table({"k": pa.array([], pa.int32())}))
    table = table_in(tmp_path)

    def file(bounds: str, nulls: int = 0) -> File:
        return File("", 0, f'{{{bounds} "nullCount": {{"k": {nulls}}}}}', None)

    low = file('"minValues": {"k": 1}, "maxValues": {"k": 9},')
    high = file('"minValues": {"k": 10}, "maxValues": {"k": 12},', nulls=1)
    mute, silent = file(""), File("", 0, "", None)
    every = [low, high, mute, silent]

    def kept(values: list[int | None], *, nulls: bool = False) -> list[int]:
        found = _with_room(table, every, "k", pa.array(values, pa.int32()), nulls=nulls)
        return [every.index(f) for f in found]

    assert kept([0, 9, 13]) == [0, 2, 3]
    assert kept([10]) == kept([12, 40]) == [1, 2, 3]
    assert kept([]) == kept([None, 0, 13]) == [2, 3]
    assert kept([5], nulls=True) == [0, 1, 2, 3]
    assert kept([0], nulls=True) == [1, 2, 3]
    texts = pa.array(["5"])
    assert _with_room(table, every, "k", texts, nulls=False) == every
