"""Which tables are replaced without Spark: those whose rows, and their bytes, are few by the log."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from sqlglot import exp

from belvedere.algebra.scalars import Scalar, call
from belvedere.delta import small_writes
from belvedere.delta.files import files
from belvedere.delta.small_writes import MOST_REPLACED, can_replace, merge_rows, replace_rows
from belvedere.delta.stamps import Stamp
from belvedere.delta.statistics import column_facts
from belvedere.lake.sessions.errors import StateMismatch, noticing_mismatch
from belvedere.sql.merges import Merge
from belvedere.views.maintenance import _not_negative
from tests.local_tables import store_in, table_in


@pytest.mark.parametrize(("rows", "can"), [(0, True), (MOST_REPLACED // 2, True), (MOST_REPLACED // 2 + 1, False)])  # fmt: skip
def test_half_of_the_rows_that_may_come_may_be_there(tmp_path: Path, rows: int, can: bool) -> None:
    write_deltalake(tmp_path, pa.table({"a": np.arange(rows)}))
    assert can_replace(table_in(tmp_path)) is can


def test_few_rows_of_many_bytes_are_left_to_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_deltalake(tmp_path, pa.table({"a": [np.random.default_rng(1).bytes(50_000)]}))
    assert can_replace(table_in(tmp_path))
    monkeypatch.setattr(small_writes, "MOST_BYTES", 50_000)
    assert not can_replace(table_in(tmp_path))


def test_partitions_are_left_to_spark(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"a": [1], "b": [2]}), partition_by=["b"])
    assert not can_replace(table_in(tmp_path))


def test_a_count_below_zero_is_told_as_what_it_means_and_nothing_is_written(
    tmp_path: Path,
) -> None:
    write_deltalake(tmp_path, pa.table({"k": [1], "__n": [2]}))
    count = column("s", "__n")
    merge = Merge(keys=("k",), insert={"k": column("s", "k"), "__n": _not_negative(count)})
    wrong = pa.table({"k": [7], "__n": [-1]})
    with (
        pytest.raises(StateMismatch, match="not what their vector says") as found,
        noticing_mismatch("t", by_division=True),
    ):
        merge_rows(table_in(tmp_path), wrong, merge, Stamp("v", 1, {}))
    assert found.value.reason == "STATE_MISMATCH"
    assert DeltaTable(tmp_path).version() == 0


NAN, SIGNED = (np.array([bits]).view(np.float64)[0] for bits in (0x7FF8 << 48, -(8 << 48)))


def column(table: str, name: str) -> Scalar:
    return Scalar(exp.column(name, table=table, quoted=True))


def place(value: float) -> tuple[bool, float]:
    """Where a number stands among others, for Spark."""
    return (True, 0.0) if np.isnan(value) else (False, value)


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
def test_nan_is_the_greatest_number_whatever_its_bits(tmp_path: Path, kind: pa.DataType) -> None:
    some = [None, -np.inf, 5.0, np.inf, NAN, SIGNED]
    pairs = [(a, b) for a in some for b in some]
    numbers = pa.array(range(len(pairs)))
    stored, new = (
        pa.table({"k": numbers, "low": values, "high": values})
        for values in (pa.array(side, kind) for side in zip(*pairs, strict=True))
    )
    write_deltalake(tmp_path, stored)
    update = {
        c: call(f, column("t", c), column("s", c))
        for c, f in (("low", "least"), ("high", "greatest"))
    }
    merge = Merge(("k",), {c: column("s", c) for c in stored.column_names}, update=update)
    merge_rows(table_in(tmp_path), new, merge, Stamp("v", 1, {}))
    found = DeltaTable(tmp_path).to_pyarrow_table().sort_by("k").to_pylist()
    for pair, row in zip(pairs, found, strict=True):
        there = sorted(place(v) for v in pair if v is not None)
        if there:
            assert (place(row["low"]), place(row["high"])) == (there[0], there[-1]), pair
        else:
            assert row["low"] is row["high"] is None


def test_files_record_nothing_by_which_spark_would_skip_rows_of_theirs(tmp_path: Path) -> None:
    long = pa.decimal128(20, 2)
    schema = pa.schema([("k", pa.int64()), ("z.a", pa.float64()), ("f", pa.float32()), ("d", long)])
    write_deltalake(tmp_path, schema.empty_table())
    rows = pa.table([[1, 2], [0.5, float("nan")], [-0.0, 1.0], [Decimal("12345678901234567.13")] * 2], schema=schema)  # fmt: skip
    replace_rows(store_in(tmp_path), rows, Stamp("v", 1, {}))
    table = table_in(tmp_path)
    same = {c: column("s", c) for c in schema.names}
    merge_rows(table, rows.slice(1), Merge(("k",), update=same, insert=same), Stamp("v", 2, {}))
    table = table_in(tmp_path)
    for file in files(store_in(tmp_path), table.version) or ():
        assert column_facts(table, file, "k").bounds is not None
        assert all(column_facts(table, file, c).bounds is None for c in schema.names[1:])
        group = pq.ParquetFile(tmp_path / file.path).metadata.row_group(0)
        assert [group.column(i).statistics is not None for i in range(4)] == [True, *[False] * 3]
        assert {group.column(i).compression for i in range(4)} == {"SNAPPY"}
