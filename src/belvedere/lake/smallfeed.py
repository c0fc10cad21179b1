"""Small changes without Spark: delta-rs reads the feed, Arrow nets it.

delta-rs is silently wrong for commits that remove or restore a file with a deletion vector, so
it is asked only for commits that add files without vectors, that have change files, that re-add
the same files with larger vectors, or that touch no vector at all.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from belvedere.analyses.spans import MOST, Spans
from belvedere.lake import log
from belvedere.lake.log import Action, Commit
from belvedere.lake.tables import Table

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

ROWS_AT_MOST = 200_000
BYTES_AT_MOST = 64_000_000

_COUNT = "__m"
_EXACT = re.compile(
    r"boolean|tinyint|smallint|int|bigint|float|double|decimal\(\d+,\d+\)|string|binary|date"
    r"|timestamp|timestamp_ntz"
)


def is_small(table: Table, commits: Sequence[Commit], kinds: Sequence[str]) -> bool:
    """Whether Arrow may read these commits: right, exact, and of bounded size."""
    root = table.root
    if root is None or not table.legible:
        return False
    if not all(map(is_exact, kinds)):
        return False
    if any(c.metadata is not None for c in commits) or not all(map(delta_rs_is_right, commits)):
        return False
    size = sum(_bytes(c) for c in commits)
    if size > BYTES_AT_MOST or sum(_rows(root, c) for c in commits) > ROWS_AT_MOST:
        return False
    return "timestamp" not in kinds or not any(_has_int96(root, c) for c in commits)


def is_exact(kind: str) -> bool:
    """Whether values of a type are the same in Arrow as in Spark."""
    return _EXACT.fullmatch(kind) is not None


def delta_rs_is_right(commit: Commit) -> bool:
    """Whether delta-rs's feed of a commit can be trusted."""
    if commit.cdcs or not commit.changes_data:
        return True
    if all(log.vector_of(a) is None for a in (*commit.adds, *commit.removes)):
        return True
    return _only_grows_vectors(commit)


def all_inserts(commits: Sequence[Commit]) -> bool:
    """Whether the commits that change rows only add files."""
    return all(not c.changes_data or not (c.removes or c.cdcs) for c in commits)


def signed_arrow(table: Table, old: int, new: int, columns: Sequence[str]) -> pa.Table:
    """The change feed as an Arrow table of the columns and a sign."""
    import pyarrow as pa
    import pyarrow.compute as pc

    handle = DeltaTable(table.location, version=new)
    # delta-rs reads these names as SQL: unquoted, they lose their case.
    quoted = ['"' + c.replace('"', '""') + '"' for c in (*columns, "_change_type")]
    reader = handle.load_cdf(starting_version=old + 1, ending_version=new, columns=quoted)
    raw = _without_views(pa.table(reader))
    plus = pc.is_in(raw["_change_type"], pa.array(["insert", "update_postimage"]))
    signs = pc.if_else(plus, pa.scalar(1, pa.int64()), pa.scalar(-1, pa.int64()))
    return raw.select(list(columns)).append_column(_COUNT, signs)


def net_arrow(signed: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The net changes of some columns: each row value with its signed count, not 0."""
    import pyarrow.compute as pc

    rows = signed.select([*columns, _COUNT])
    net = rows.group_by(list(columns), use_threads=False).aggregate([(_COUNT, "sum")])
    net = net.rename_columns([*net.column_names[:-1], _COUNT]).select([*columns, _COUNT])
    return net.filter(pc.not_equal(net[_COUNT], 0))


def spans_arrow(rows: pa.Table) -> dict[str, Spans]:
    """Where the values of each integer and date column lie that has any."""
    import pyarrow as pa
    import pyarrow.compute as pc

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


def _without_views(table: pa.Table) -> pa.Table:
    """delta-rs hands out string views, which Arrow's kernels do not take."""
    import pyarrow as pa

    plain = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    return table.cast(pa.schema([f.with_type(plain.get(f.type, f.type)) for f in table.schema]))


def _only_grows_vectors(commit: Commit) -> bool:
    before = {a["path"]: _deleted(a) for a in commit.removes}
    after = {a["path"]: _deleted(a) for a in commit.adds}
    return before.keys() == after.keys() and all(after[p] > before[p] for p in before)


def _deleted(action: Action) -> int:
    vector = log.vector_of(action)
    return 0 if vector is None else int(vector["cardinality"])


def _bytes(commit: Commit) -> int:
    """How much of a commit's files becomes rows of its feed."""
    if commit.cdcs:
        return sum(int(a.get("size") or 0) for a in commit.cdcs)
    if _only_grows_vectors(commit):
        return 0  # few rows of large files
    actions = (*commit.adds, *commit.removes)
    return sum(int(a.get("size") or 0) for a in actions if a.get("dataChange", True))


def _rows(root: Path, commit: Commit) -> int:
    """How many rows the feed of a commit has, from vectors and the files' footers."""
    if commit.cdcs:
        return sum(_file_rows(root, a) for a in commit.cdcs)
    if not commit.changes_data:
        return 0
    if _only_grows_vectors(commit):
        return sum(map(_deleted, commit.adds)) - sum(map(_deleted, commit.removes))
    return sum(_file_rows(root, a) for a in (*commit.adds, *commit.removes))


def _has_int96(root: Path, commit: Commit) -> bool:
    """Whether timestamps are stored in nanoseconds, which delta-rs wraps after the year 2262."""
    for action in commit.cdcs or (*commit.adds, *commit.removes):
        schema = _footer(root, action).schema
        if any(schema.column(i).physical_type == "INT96" for i in range(len(schema))):
            return True
    return False


def _file_rows(root: Path, action: Action) -> int:
    return int(_footer(root, action).num_rows)


def _footer(root: Path, action: Action) -> pq.FileMetaData:
    import pyarrow.parquet as pq

    return pq.read_metadata(log.data_file(root, action["path"]))
