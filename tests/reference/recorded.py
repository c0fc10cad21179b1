"""Files of one table by several writers, and the law of what the log records of them.

Of Spark's statistics there is a copy here, so that the law needs no Spark; a test with Spark holds
its own files to the same law.
"""

from __future__ import annotations

import datetime
import decimal
import json
import math
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import write_deltalake
from hypothesis import strategies as st

from belvedere.algebra.types import parse
from belvedere.delta import log
from belvedere.delta.files import files
from belvedere.delta.lookups import _with_room
from belvedere.delta.statistics import column_facts, table_size
from belvedere.joins.partitions import Partition
from belvedere.memory import kinds
from belvedere.sketches.safety.bounds import recorded_range
from belvedere.sketches.use.rewrite import _needed
from tests.local_tables import store_in, table_in

_WIDE = decimal.Context(prec=60)
_EPOCH = datetime.datetime(1970, 1, 1)
_LAST = 253402300799999999  # 9999-12-31 23:59:59.999999
_FIRST = -62135596800000000  # 0001-01-01
_LONG = st.builds(
    "".join, st.lists(st.sampled_from(["a" * 31, "abc", "a" * 33, "\u007f", "é", "\uffff", "😀", "😀" * 40, "b", " "]), max_size=4)
)  # fmt: skip


def _near(*values: int, least: int, most: int) -> st.SearchStrategy[int]:
    around = [v + d for v in values for d in (-1, 0, 1) if least <= v + d <= most]
    return st.one_of(st.sampled_from(around), st.integers(least, most))


def _decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    whole = _near(0, most, -most, 2**53, most // 3, least=-most, most=most)
    return whole.map(lambda n: Decimal(n).scaleb(-scale, context=_WIDE))


def _times(utc: bool) -> st.SearchStrategy[datetime.datetime]:
    zone = datetime.UTC if utc else None
    micros = _near(0, 300_789, 999_999, -1_500, _FIRST, _LAST, 1704240000300789, -2_840_140_771_876_544,
                   least=_FIRST, most=_LAST)  # fmt: skip
    return micros.map(lambda n: (_EPOCH + datetime.timedelta(microseconds=n)).replace(tzinfo=zone))


_FLOATING = [
    0.0,
    -0.0,
    math.nan,
    math.nan,
    math.inf,
    -math.inf,
    5e-324,
    0.1,
    0.7,
    1.5,
    -1e30,
    1e16,
    2.0**53,
]


def _as_float(number: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(number))


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "tinyint": _near(-128, 127, 0, least=-128, most=127),
    "int": _near(-(2**31), 2**31 - 1, 0, least=-(2**31), most=2**31 - 1),
    "bigint": _near(-(2**63), 2**63 - 1, 2**53, least=-(2**63), most=2**63 - 1),
    "decimal(15,3)": _decimals(15, 3),
    "decimal(20,2)": _decimals(20, 2),
    "decimal(38,10)": _decimals(38, 10),
    "float": st.one_of(st.sampled_from(_FLOATING).map(_as_float), st.floats(width=32)),
    "double": st.one_of(st.sampled_from(_FLOATING), st.floats()),
    "date": st.dates() | st.just(datetime.date(1582, 10, 7)),
    "timestamp": _times(utc=True),
    "timestamp_ntz": _times(utc=False),
    "string": _LONG | st.text(max_size=3).filter(lambda t: t.isprintable()),
}


@st.composite
def parts(draw: st.DrawFn, drawn: Collection[str] = tuple(VALUES)) -> pa.Table:
    """The rows of one file: a column of each type, with values and NULL in those that are drawn."""
    size = draw(st.integers(1, 3))
    columns = {
        f"c{i}": pa.array(
            [draw(st.none() | values) if kind in drawn else None for _ in range(size)],
            kinds.arrow(kind),
        )
        for i, (kind, values) in enumerate(VALUES.items())
    }
    return pa.table(columns)


def by_delta_rs(root: Path, rows: pa.Table) -> None:
    write_deltalake(str(root), rows, mode="append")


def as_spark_records(root: Path, rows: pa.Table) -> None:
    """A file of Arrow's with the statistics that Spark would record."""
    _by_arrow(root, rows, cut=32)


def with_short_texts(root: Path, rows: pa.Table) -> None:
    """The same, with texts cut to a few characters, the greatest like the least."""
    _by_arrow(root, rows, cut=2)


def _by_arrow(root: Path, rows: pa.Table, cut: int) -> None:
    path = root / f"{log.newest_version(store_in(root))}.parquet"
    pq.write_table(rows, path)
    found = {n: [v for v in rows[n].to_pylist() if v is not None] for n in rows.column_names}
    ends = {n: (min(v, key=_order), max(v, key=_order)) for n, v in found.items() if v}
    short = {n for n in found if rows[n].type == pa.float32()}
    stats = {
        "numRecords": rows.num_rows,
        "minValues": {n: _told(v, n in short, cut) for n, (v, _) in ends.items()},
        "maxValues": {n: _told(v, n in short, cut, "\U0010ffff") for n, (_, v) in ends.items()},
        "nullCount": {n: rows[n].null_count for n in found},
        "tightBounds": True,
    }
    _commit(root, path, _Exact().encode(stats))


@cache
def engine() -> duckdb.DuckDBPyConnection:
    """DuckDB, which writes and reads files in UTC."""
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def by_duckdb(root: Path, rows: pa.Table) -> None:
    """A file of DuckDB's, of which nothing but the number of rows is recorded."""
    path = root / f"{log.newest_version(store_in(root))}.parquet"
    engine().from_arrow(rows).write_parquet(str(path))
    _commit(root, path, json.dumps({"numRecords": rows.num_rows}))


WRITERS: Sequence[Callable[[Path, pa.Table], None]] = (
    by_delta_rs,
    as_spark_records,
    with_short_texts,
    by_duckdb,
)


def written_of(*drawn: str) -> st.SearchStrategy[list[Any]]:
    """Files with values of some types, and who writes each."""
    return st.lists(st.tuples(parts(drawn), st.sampled_from(WRITERS)), min_size=1, max_size=3)


written = written_of(*VALUES)


def recorded_values_are_bounds(
    some: Sequence[tuple[pa.Table, Callable[[Path, pa.Table], None]]],
) -> None:
    """A file that holds a value is read by whoever looks for that value."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        write_deltalake(directory, some[0][0].slice(0, 0))
        for rows, write in some:
            write(root, rows)
        holds(root, {f"c{i}": kind for i, kind in enumerate(VALUES)})


def holds(root: Path, columns: Mapping[str, str]) -> None:
    """The law, for the files of a table as they are."""
    table = table_in(root)
    every = files(store_in(root), table.version) or []
    held = [pq.ParquetFile(root / f.path, coerce_int96_timestamp_unit="us").read() for f in every]
    sizes = table_size(table)
    assert sizes is not None
    assert sizes.rows == sum(rows.num_rows for rows in held) - sum(f.deleted for f in every)
    for name, kind in columns.items():
        here = [rows[name].cast(kinds.arrow(kind)) for rows in held]
        values = [v for column in here for v in column.drop_null().to_pylist()]
        cuts = sorted({_order(v): v for v in values if v == v}.items())
        partition = Partition("t", name, kind, tuple(v for _, v in cuts))
        for file, column in zip(every, here, strict=True):
            ends = column_facts(table, file, name).bounds
            for value in column.drop_null().to_pylist() if ends is not None else ():
                assert _order(ends[0]) <= _order(value) <= _order(ends[1]), (file.stats_text, value)
            for fragment in set(partition.fragments(column).tolist()):
                kept = np.arange(partition.count) == fragment
                assert _needed(table, partition, kept, file), (file.stats_text, column, fragment)
            if parse(kind).is_integer:
                assert _with_room(table, [file], name, column.combine_chunks(), nulls=True) or not len(column)  # fmt: skip
        for ends in (recorded_range(table, name), sizes.bounds.get(name)):
            if ends is not None and values:
                assert ends[0] <= min(values), (name, ends)
                assert ends[1] >= max(values), (name, ends)


def _order(value: Any) -> Any:
    """By what Spark orders values of one type."""
    if isinstance(value, float):
        return (True, 0.0) if value != value else (False, value)
    return value.encode() if isinstance(value, str) else value


def _told(value: Any, short: bool, cut: int, end: str = "") -> Any:
    """A value as Spark's statistics show it."""
    match value:
        case datetime.datetime():
            text = value.isoformat(timespec="milliseconds").replace("+00:00", "")
            return text if value.tzinfo is None else f"{text}Z"
        case datetime.date():
            return value.isoformat()
        case float() if not math.isfinite(value):
            return str(value).replace("inf", "Infinity").replace("nan", "NaN")
        case float() if short:
            return Decimal(str(np.float32(value)))
        case str() if len(value) > cut:
            return value[:cut] + (end if cut == 32 and value[cut:] < end else "")
        case _:
            return value


class _Exact(json.JSONEncoder):
    """JSON with decimals digit by digit."""

    def encode(self, o: Any) -> str:
        if isinstance(o, dict):
            return "{" + ", ".join(f"{json.dumps(k)}: {self.encode(v)}" for k, v in o.items()) + "}"
        return format(o, "f") if isinstance(o, Decimal) else super().encode(o)


def _commit(root: Path, path: Path, stats: str) -> None:
    add = {
        "path": path.name,
        "partitionValues": {},
        "size": path.stat().st_size,
        "modificationTime": 0,
        "dataChange": True,
        "stats": stats,
    }
    version = log.newest_version(store_in(root)) + 1
    (root / "_delta_log" / f"{version:020}.json").write_text(json.dumps({"add": add}))
