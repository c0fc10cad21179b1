"""Rows of every type, whoever wrote them: the change feed in memory is what DuckDB reads of the files.

CHAR is as it was stored: the feed does not pad it, plans do.
"""

from __future__ import annotations

import datetime
import tempfile
import uuid
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema, write_deltalake
from deltalake import Field as DeltaField
from deltalake.transaction import AddAction
from hypothesis import given, settings
from hypothesis import strategies as st

from belvedere.delta import log
from belvedere.delta.files import files
from belvedere.delta.small_changes import is_small, signed_arrow
from belvedere.lake.tables.change_feed import net_arrow
from belvedere.sql.render import SIGN
from tests.local_tables import store_in, table_in
from tests.reference.recorded import engine

Row: TypeAlias = dict[str, Any]

_UTC = datetime.UTC
_DAYS = [datetime.date(*day) for day in ((1, 1, 1), (1500, 2, 28), (1582, 10, 4), (1582, 10, 5))]
_DAYS += [datetime.date(*day) for day in ((1582, 10, 14), (1969, 12, 31), (9999, 12, 31))]
_TIMES = [datetime.datetime.combine(day, datetime.time(1, 2, 3, 4)) for day in _DAYS[:-1]]
_TIMES += [datetime.datetime(9999, 12, 30, 23, 59, 59, 999999)]
_FLOATS = [float("nan"), -0.0, 0.0, float("inf"), 1.5]
_TEXTS = ["", "ab", "ab ", "ab   ", "é", "x" * 300, "x" * 299 + "y"]
TYPES: dict[str, tuple[pa.DataType, str, list[Any]]] = {
    "i1": (pa.int8(), "tinyint", [-128, 127, 0]),
    "i2": (pa.int16(), "smallint", [-32768, 32767]),
    "i4": (pa.int32(), "int", [-(2**31), 2**31 - 1]),
    "i8": (pa.int64(), "bigint", [-(2**63), 2**63 - 1, 2**53 + 1]),
    "d5": (pa.decimal128(5, 2), "decimal(5,2)", [Decimal("-999.99"), Decimal("0.10")]),
    "d38": (
        pa.decimal128(38, 10),
        "decimal(38,10)",
        [Decimal("9007199254740993.0000000001"), Decimal("-1")],
    ),
    "f": (pa.float32(), "float", _FLOATS),
    "d": (pa.float64(), "double", _FLOATS),
    "b": (pa.bool_(), "boolean", [True, False]),
    "s": (pa.string(), "string", _TEXTS),
    "c": (pa.string(), "string", _TEXTS[:5]),
    "x": (pa.binary(), "binary", [b"", b"\0", b"\0\xff\x80"]),
    "t": (pa.date32(), "date", _DAYS),
    "z": (pa.timestamp("us", "UTC"), "timestamp", [at.replace(tzinfo=_UTC) for at in _TIMES]),
    "y": (pa.timestamp("us"), "timestamp_ntz", _TIMES),
}
_SHAPE = pa.schema([pa.field(name, kind) for name, (kind, _, _) in TYPES.items()])
_WRITERS = ("delta-rs", "pyarrow", "duckdb", "delete", "update", "optimize")

rows = st.lists(
    st.fixed_dictionaries({n: st.none() | st.sampled_from(v) for n, (_, _, v) in TYPES.items()}),
    min_size=1,
    max_size=4,
)
changes = st.lists(st.tuples(st.sampled_from(_WRITERS), rows), min_size=1, max_size=4)


@settings(max_examples=25)
@given(rows, changes)
def test_the_feed_in_memory_is_what_came_and_went(
    begun: list[Row], done: list[tuple[str, list[Row]]]
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        _create(root)
        write_deltalake(str(root), pa.Table.from_pylist(begun, _SHAPE), mode="append")
        old = log.newest_version(store_in(root))
        for writer, some in done:
            _write(root, writer, pa.Table.from_pylist(some, _SHAPE))
        table = table_in(root)
        commits = log.commits(store_in(root), range(old + 1, table.version + 1))
        kinds = {name: kind for name, (_, kind, _) in TYPES.items()}
        assert not commits or is_small(table, commits, [*kinds.values()])
        net = net_arrow(signed_arrow(table, commits, kinds), [*kinds])
        after, before = _read(root, table.version), _read(root, old)
        assert _signed(net) == {
            row: n for row in {*after, *before} if (n := after[row] - before[row])
        }


def _create(root: Path) -> None:
    """A table whose column `c` is of CHAR(5)."""
    plain = Schema.from_arrow(_SHAPE).fields
    char = {"__CHAR_VARCHAR_TYPE_STRING": "char(5)"}
    fields = [DeltaField(f.name, f.type, metadata=char) if f.name == "c" else f for f in plain]
    feed = {"delta.enableChangeDataFeed": "true"}
    DeltaTable.create(str(root), Schema(fields), configuration=feed)


def _write(root: Path, writer: str, some: pa.Table) -> None:
    table = DeltaTable(str(root))
    match writer:
        case "delta-rs":
            write_deltalake(table, some, mode="append")
        case "delete":
            table.delete("i1 = 127")
        case "update":
            table.update({"c": "'ab'", "t": "DATE '1582-10-05'"}, predicate="b")
        case "optimize":
            table.optimize.compact()
        case _:
            path = f"{uuid.uuid4()}.parquet"
            if writer == "pyarrow":
                pq.write_table(some, root / path, row_group_size=2)
            else:
                engine().from_arrow(some).write_parquet(str(root / path))
            add = AddAction(path, (root / path).stat().st_size, {}, 0, True, "{}")
            table.create_write_transaction([add], mode="append", schema=table.schema())


def _read(root: Path, version: int) -> Counter[tuple[str, ...]]:
    """The rows of a version as DuckDB finds them in its files."""
    some = [str(root / f.path) for f in files(store_in(root), version) or ()]
    if not some:
        return Counter()
    found = engine().read_parquet(some).select(", ".join(TYPES)).to_arrow_table()
    return Counter(_texts(found.cast(_SHAPE)))


def _signed(net: pa.Table) -> dict[tuple[str, ...], int]:
    return dict(zip(_texts(net.select([*TYPES])), net[SIGN].to_pylist(), strict=True))


def _texts(found: pa.Table) -> list[tuple[str, ...]]:
    """Rows as texts: NaN is like NaN, and 0.0 is not -0.0."""
    columns = [[repr(value) for value in column.to_pylist()] for column in found.columns]
    return list(zip(*columns, strict=True))
