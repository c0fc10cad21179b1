"""Small changes without Spark: which they are, and their net in Arrow."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from belvedere.analyses.spans import MOST, Spans
from belvedere.delta import log
from belvedere.delta.change_files import kept_files, signed_rows, touched_files
from belvedere.delta.data_files import DataFile
from belvedere.delta.log import Action, Commit
from belvedere.delta.snapshots import Snapshot
from belvedere.memory.kinds import arrow, is_exact
from belvedere.sql.render import SIGN
from belvedere.storage.store import ObjectStore

ROWS_AT_MOST = 500_000
BYTES_AT_MOST = 64_000_000
SCANNED_AT_MOST = 16_000_000_000
"""Bytes of files that are gone through, a row group at a time, for the few rows deleted of them."""

_PARTITION = re.compile(r"boolean|tinyint|smallint|int|bigint|decimal\(\d+,\d+\)|string|date")


def is_small(
    table: Snapshot, commits: Sequence[Commit], kinds: Sequence[str], times: int = 1
) -> bool:
    """Whether Arrow may read these commits: exact, and of bounded size, or so many times that."""
    if not table.legible or any(c.metadata is not None for c in commits):
        return False
    layout = [table.types[c.lower()] for c in table.partition_columns]
    if not all(map(is_exact, kinds)) or not all(map(_PARTITION.fullmatch, layout)):
        return False
    read, scanned = (sum(sizes) for sizes in zip(*map(_bytes, commits), strict=True))
    if read > times * BYTES_AT_MOST or scanned > SCANNED_AT_MOST:
        return False
    if sum(_rows(table.store, c) for c in commits) > times * ROWS_AT_MOST:
        return False
    paths = (log.data_path(a["path"]) for c in commits for a in touched_files(c))
    days = [kind for kind in kinds if kind in ("date", "timestamp")]
    return not days or not any(DataFile(table.store, path).hides_times(days) for path in paths)


def all_inserts(commits: Sequence[Commit]) -> bool:
    """Whether the commits that change rows only add files."""
    return all(not c.changes_data or not (c.removes or c.cdcs) for c in commits)


def arrow_schema(kinds: Mapping[str, str]) -> pa.Schema:
    """Columns of exact types in Arrow.

    >>> arrow_schema({"n": "bigint", "d": "decimal(12,2)"}).types
    [DataType(int64), Decimal128Type(decimal128(12, 2))]
    """
    return pa.schema([pa.field(name, arrow(kind)) for name, kind in kinds.items()])


def signed_arrow(table: Snapshot, commits: Sequence[Commit], kinds: Mapping[str, str]) -> pa.Table:
    """What commits did to some columns of a table's rows, and a sign."""
    return signed_rows(table.store, commits, arrow_schema(kinds))


def net_arrow(signed: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The net changes of some columns: each row value with its signed count, not 0."""
    rows = signed.select([*columns, SIGN])
    net = rows.group_by(list(columns), use_threads=False).aggregate([(SIGN, "sum")])
    net = net.rename_columns([*net.column_names[:-1], SIGN]).select([*columns, SIGN])
    return net.filter(pc.not_equal(net[SIGN], 0))


def spans_arrow(rows: pa.Table) -> dict[str, Spans]:
    """Where the values of each integer and date column lie that has any."""
    import pyarrow as pa

    found: dict[str, Spans] = {}
    for name, values in zip(rows.column_names, rows.columns, strict=True):
        date = pa.types.is_date32(values.type)
        if date or pa.types.is_integer(values.type):
            numbers = pc.unique(values.drop_null())
            if len(numbers):
                plain = numbers.cast(pa.int32()) if date else numbers
                spans = _spans(plain.to_numpy(zero_copy_only=False))
                if not date:
                    found[name] = spans
                elif spans[-1][1] <= _LAST_DAY and spans[0][0] >= _FIRST_DAY:
                    found[name] = tuple((_day(low), _day(high)) for low, high in spans)
    return found


def _spans(values: Any) -> tuple[tuple[int, int], ...]:
    """All values within few intervals: parted at the widest gaps."""
    import numpy as np

    values = np.sort(values.astype(np.int64))
    # As numbers without a sign: a gap can be wider than the largest number with one.
    gaps = values[1:].astype(np.uint64) - values[:-1].astype(np.uint64)
    widest = np.sort(np.argsort(gaps)[::-1][: MOST - 1])
    parts = np.split(values, widest[gaps[widest] > 1] + 1)
    return tuple((int(part[0]), int(part[-1])) for part in parts)


def _day(number: int) -> datetime.date:
    return datetime.date.fromordinal(number + _EPOCH)


_EPOCH = datetime.date(1970, 1, 1).toordinal()
# Spark's years go on after Python's 9999, and before its first.
_FIRST_DAY, _LAST_DAY = (d.toordinal() - _EPOCH for d in (datetime.date.min, datetime.date.max))


def _bytes(commit: Commit) -> tuple[int, int]:
    """How much of a commit's files is read whole, and how much is gone through."""
    kept = kept_files(commit)
    sizes = [(int(a.get("size") or 0), a["path"] in kept) for a in touched_files(commit)]
    whole = sum(size for size, again in sizes if not again)
    return whole, sum(size for size, again in sizes if again) // 2


def _rows(store: ObjectStore, commit: Commit) -> int:
    """About how many rows a commit changed, from vectors and the files' footers."""
    kept = kept_files(commit)
    whole = sum(_file_rows(store, a) for a in touched_files(commit) if a["path"] not in kept)
    after = {a["path"]: _deleted(a) for a in commit.adds}
    before = {a["path"]: _deleted(a) for a in commit.removes}
    return whole + sum(abs(after[path] - before[path]) for path in kept)


def _deleted(action: Action) -> int:
    vector = log.vector_of(action)
    return 0 if vector is None else int(vector["cardinality"])


def _file_rows(store: ObjectStore, action: Action) -> int:
    return int(_footer(store, action).num_rows)


def _footer(store: ObjectStore, action: Action) -> pq.FileMetaData:
    with store.open(log.data_path(action["path"])) as source:
        return pq.read_metadata(source)
