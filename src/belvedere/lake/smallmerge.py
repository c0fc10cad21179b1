"""Small merges without Spark: the source rows in Arrow, the write by delta-rs.

A MERGE by Spark costs seconds whatever its size. delta-rs costs tenths, compares keys of plain
types as Spark does, and its commit on a local disk is atomic. Keys of floating point stay with
Spark: the engines differ on 0.0 and -0.0.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction

from belvedere.lake.merges import Merge, datafusion
from belvedere.lake.stamps import Stamp
from belvedere.lake.tables import Table

MOST_ROWS = 200_000

_PLAIN = ("tinyint", "smallint", "int", "bigint", "string", "boolean", "date", "binary")
_PLAIN_FAMILIES = ("decimal", "timestamp")


def takes(table: Table, merge: Merge) -> bool:
    """Whether delta-rs can be trusted with a merge into this table."""
    if table.root is None or not table.legible:
        return False
    kinds = dict(table.columns)
    return all(_is_plain(kinds[k]) for k in merge.keys)


def merge_rows(root: Path, rows: pa.Table, merge: Merge, stamp: Stamp) -> int:
    """Merge rows in one stamped commit; the number of stored rows that changed."""
    table = DeltaTable(str(root))
    merger = table.merge(
        source=_as_stored(rows, table),
        predicate=datafusion(merge.on),
        source_alias="s",
        target_alias="t",
        commit_properties=CommitProperties(
            custom_metadata={"userMetadata": stamp.to_json()},
            app_transactions=[Transaction(stamp.view_id, stamp.refresh)],
        ),
        post_commithook_properties=PostCommitHookProperties(
            create_checkpoint=True, cleanup_expired_logs=False
        ),
    )
    if merge.delete_when is not None:
        merger = merger.when_matched_delete(datafusion(merge.delete_when))
    if merge.update:
        updates = {f'"{c}"': datafusion(v) for c, v in merge.update.items()}
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


def _text(condition: Any) -> str | None:
    return None if condition is None else datafusion(condition)


def _is_plain(kind: str) -> bool:
    return kind in _PLAIN or kind.startswith(_PLAIN_FAMILIES)
