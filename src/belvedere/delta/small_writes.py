"""Small writes without Spark: the rows in Arrow, the commit by delta-rs.

A write by Spark costs seconds whatever its size. delta-rs costs tenths, compares keys of plain
types as Spark does, and its commit on a local disk is atomic. Keys of floating point stay with
Spark: the engines differ on 0.0 and -0.0.
"""

from __future__ import annotations

import json
from typing import Any, Literal, TypeAlias

import pyarrow as pa
from deltalake import (
    ColumnProperties,
    CommitProperties,
    DeltaTable,
    PostCommitHookProperties,
    Transaction,
    WriterProperties,
    write_deltalake,
)

from belvedere.algebra.types import BINARY, BOOLEAN, DATE, STRING, TIMESTAMP, TIMESTAMP_NTZ, parse
from belvedere.delta.delta_rs import open_table
from belvedere.delta.files import files
from belvedere.delta.merge_bounds import reach
from belvedere.delta.schema_types import columns_of
from belvedere.delta.snapshots import Snapshot
from belvedere.delta.stamps import Stamp
from belvedere.delta.statistics import misleads_spark
from belvedere.memory.kinds import is_exact
from belvedere.sql.merges import Merge, datafusion, nan_greatest
from belvedere.storage.store import ObjectStore

MOST_ROWS = 200_000
"""Merged at once."""
MOST_REPLACED, MOST_BYTES = 1_000_000, 32_000_000
"""Rows that replace others, and how large the files of those may be."""

_PLAIN = (STRING, BOOLEAN, DATE, BINARY, TIMESTAMP, TIMESTAMP_NTZ)


Compression: TypeAlias = Literal["SNAPPY", "ZSTD"]

CHECKPOINTS = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)


def stamped(stamp: Stamp) -> CommitProperties:
    """What makes a commit by delta-rs carry a stamp, and its number as a fence."""
    return CommitProperties(
        custom_metadata={"userMetadata": stamp.to_json()},
        app_transactions=[Transaction(stamp.view_id, stamp.refresh)],
    )


def writer_properties(table: DeltaTable, compression: Compression = "SNAPPY") -> WriterProperties:
    """What files of a table are written with, so that Spark's filters skip none of their rows."""
    columns = columns_of(json.loads(table.schema().to_json()))
    silent = ColumnProperties(statistics_enabled="NONE", dictionary_enabled=False)
    found = {name: silent for name, kind in columns if misleads_spark(kind)}
    return WriterProperties(compression=compression, column_properties=found or None)


def can_replace(table: Snapshot) -> bool:
    """Whether a table has few rows now, as its log says, and delta-rs can replace them."""
    replaceable = passes_arrow(table) and not table.partition_columns
    some = files(table.store, table.version) if replaceable else None
    if some is None or any(f.vector for f in some):
        return False
    counts = [f.rows for f in some]
    few = None not in counts and sum(c or 0 for c in counts) <= MOST_REPLACED // 2
    return few and sum(f.size for f in some) <= MOST_BYTES


def replace_rows(store: ObjectStore, rows: pa.Table, stamp: Stamp) -> None:
    """Replace all rows of a table in one stamped commit; columns by their order."""
    table = open_table(store)
    shape = pa.schema(table.schema().to_arrow())
    write_deltalake(
        table,
        rows.rename_columns(shape.names).cast(shape),
        mode="overwrite",
        writer_properties=writer_properties(table),
        commit_properties=stamped(stamp),
        post_commithook_properties=CHECKPOINTS,
    )


def takes(table: Snapshot, merge: Merge) -> bool:
    """Whether delta-rs can be trusted with a merge into this table."""
    if not passes_arrow(table):
        return False
    kinds = dict(table.columns)
    return all(_is_plain(kinds[k]) for k in merge.keys)


def merge_rows(table: Snapshot, rows: pa.Table, merge: Merge, stamp: Stamp) -> int:
    """Merge rows in one stamped commit; the number of stored rows that changed."""
    target = open_table(table.store)
    rows = _as_stored(rows, target)
    conditions = (datafusion(merge.on), reach(table, rows, merge))
    merger = target.merge(
        source=rows,
        predicate=" AND ".join(filter(None, conditions)),
        source_alias="s",
        target_alias="t",
        writer_properties=writer_properties(target),
        commit_properties=stamped(stamp),
        post_commithook_properties=CHECKPOINTS,
    )
    if merge.delete_when is not None:
        merger = merger.when_matched_delete(datafusion(merge.delete_when))
    if merge.update:
        kinds = dict(table.columns)
        updates = {
            f'"{c}"': datafusion(nan_greatest(v) if parse(kinds.get(c, "")).is_float else v)
            for c, v in merge.update.items()
        }
        merger = merger.when_matched_update(updates, _text(merge.update_when))
    inserts = {f'"{c}"': datafusion(v) for c, v in merge.insert.items()}
    metrics: dict[str, Any] = merger.when_not_matched_insert(
        inserts, _text(merge.insert_when)
    ).execute()
    return sum(
        int(metrics[f"num_target_rows_{what}"]) for what in ("inserted", "updated", "deleted")
    )


def _as_stored(rows: pa.Table, table: DeltaTable) -> pa.Table:
    """Source columns with the stored columns' types, where they have one."""
    stored = {f.name: f.type for f in pa.schema(table.schema().to_arrow())}
    fields = [pa.field(f.name, stored.get(f.name, f.type)) for f in rows.schema]
    return rows.cast(pa.schema(fields))


def passes_arrow(table: Snapshot) -> bool:
    """Whether delta-rs reads a table, and its values are the same in Arrow as in Spark."""
    return table.legible and all(is_exact(kind) for _, kind in table.columns)


def _text(condition: Any) -> str | None:
    return None if condition is None else datafusion(condition)


def _is_plain(kind: str) -> bool:
    type_ = parse(kind)
    return type_.is_exact or type_ in _PLAIN
