"""What can happen to a table, in one list: each event with what it makes unreadable.

The events happen to table `log`, among ordinary changes of `log` and `video`. An event says why the
changes since cannot be read, and why the old state cannot be. Both are facts about the table, so
they are the same whatever is derived from it. Most events are made without Spark.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

FEED = {"delta.enableChangeDataFeed": "true"}
LOG = {"id": pa.int32(), "video_id": pa.int32(), "bytes": pa.int32(), "spare": pa.int32()}
VIDEO = {"video_id": pa.int32(), "owner": pa.string()}
Row = Mapping[str, Any]


@dataclass
class EventTables:
    """Tables `log` and `video` in a directory, and who writes to them."""

    directory: Path
    run: Callable[[str], None] | None = None
    """Runs a statement on Spark; None where there is no Spark."""
    read: Callable[[str], list[Row]] | None = None
    """Reads a table on Spark."""
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(100))
    last: int = 0
    """The batch of rows that `log` got last."""

    @property
    def log(self) -> Path:
        return self.directory / "log"

    @property
    def video(self) -> Path:
        return self.directory / "video"

    def fill(self) -> EventTables:
        """The tables with a few rows, in some commits."""
        self.create_log()
        owners = {"video_id": [1, 2, 3], "owner": ["ada", "bob", "ada"]}
        write_deltalake(self.video, _typed(owners, VIDEO), configuration=FEED)
        for _ in range(2):
            self.change()
        return self

    def goes_on(self, last: int | None = None) -> EventTables:
        """The same for a copy of tables that were filled, up to some batch."""
        self.last = max(r["id"] for r in self.rows("log")) // 10 if last is None else last
        self.numbers = itertools.count(self.last + 100)
        return self

    def create_log(self, types: Mapping[str, pa.DataType] = LOG) -> None:
        """A new table in an empty directory, with a few rows."""
        write_deltalake(self.log, _typed(self._log_rows(), types), configuration=FEED)

    def change(self) -> None:
        """Rows come and go in `log`, and come in `video`."""
        self.change_log()
        self.change_video()

    def change_log(self) -> None:
        """Three rows come, and one of those goes that came before."""
        gone, rows = f"{self.last}2", self._log_rows()
        if not self._is_written_by_delta_rs():
            values = zip(*(rows[c] for c in LOG if c != "spare"), strict=True)
            listed = ", ".join(map(str, values))
            self.spark(
                f"INSERT INTO log (id, video_id, bytes) VALUES {listed}",
                f"DELETE FROM log WHERE id = {gone}",
            )
            return
        types = {f.name: f.type for f in pa.schema(DeltaTable(self.log).schema().to_arrow())}
        write_deltalake(self.log, _typed(rows, types), mode="append")
        (name,) = (n for n in types if n.lower() == "id")
        DeltaTable(self.log).delete(f'"{name}" = {gone}')

    def change_video(self) -> None:
        """A row comes."""
        n = next(self.numbers)
        rows = {"video_id": [n % 5 + 4], "owner": [f"o{n % 3}"]}
        write_deltalake(self.video, _typed(rows, VIDEO), mode="append")

    def spark(self, *statements: str) -> None:
        """Statements of an event that only Spark can make."""
        assert self.run is not None, "this event needs Spark"
        for statement in statements:
            self.run(statement)

    def rows(self, table: str) -> list[Row]:
        """The rows of a table now."""
        if table == "log" and self.read is not None and not self._is_written_by_delta_rs():
            return self.read(table)
        return list(DeltaTable(self.directory / table).to_pyarrow_table().to_pylist())

    def all_rows(self) -> dict[str, list[Row]]:
        """The rows of both tables now."""
        return {table: self.rows(table) for table in ("log", "video")}

    def newest(self) -> int:
        """The newest version of `log`."""
        return max(int(p.stem) for p in self.commits().values())

    def commits(self) -> dict[int, Path]:
        """The commit files of `log`, by version."""
        found = (self.log / "_delta_log").glob("*.json")
        return {int(p.stem): p for p in sorted(found) if p.stem.isdigit()}

    def _log_rows(self) -> dict[str, list[Any]]:
        n = self.last = next(self.numbers)
        ids = [int(f"{n}{k}") for k in (1, 2, 3)]
        return {"id": ids, "video_id": [1, 2, 4], "bytes": [n, n, n], "spare": [0, 0, 0]}

    def _is_written_by_delta_rs(self) -> bool:
        features = DeltaTable(self.log).protocol().writer_features or []
        return not {"columnMapping", "deletionVectors"} & set(features)


def _typed(columns: Mapping[str, Sequence[Any]], types: Mapping[str, pa.DataType]) -> pa.Table:
    """Columns that the types name, in their order and case; those that are not given are NULL."""
    given = {name.lower(): values for name, values in columns.items()}
    count = len(next(iter(columns.values())))
    none = [None] * count
    return pa.table(
        {
            name: pa.array(given.get(name.lower(), none), pa.int64()).cast(kind)
            if pa.types.is_integer(kind)
            else pa.array(given.get(name.lower(), none)).cast(kind)
            for name, kind in types.items()
        }
    )


@dataclass(frozen=True)
class Event:
    """What happens, and what cannot be read any more because of it."""

    happens: Callable[[EventTables], None]
    changes: str = ""
    """Why the changes since cannot be read."""
    state: str = ""
    """Why the old state cannot be read."""
    next_changes: str = ""
    """Why the changes after a refresh cannot be read either."""
    error: str = ""
    """Why nothing can be derived from the table as it is now."""
    by_spark: bool = False
    """Whether Spark is needed, to make the event or to read the changes after it."""


def restored(t: EventTables) -> None:
    """To a version before the one that the derivations are at; the history goes on."""
    DeltaTable(t.log).restore(1)
    # Unlike Spark, delta-rs repeats the metadata and the protocol.
    path = t.commits()[t.newest()]
    actions = [json.loads(line) for line in path.read_text().splitlines()]
    kept = [a for a in actions if not {"metaData", "protocol"} & set(a)]
    path.write_text("\n".join(map(json.dumps, kept)))


def replaced(t: EventTables) -> None:
    """CREATE OR REPLACE: the versions go on, the identity does not."""
    _replace(t, LOG)


def replaced_in_other_case(t: EventTables) -> None:
    names = {"SPARE": pa.int32(), "Bytes": pa.int32(), "Video_ID": pa.int32(), "ID": pa.int32()}
    _replace(t, names)


def _replace(t: EventTables, types: Mapping[str, pa.DataType]) -> None:
    DeltaTable.create(t.log, pa.schema(list(types.items())), mode="overwrite", configuration=FEED)
    write_deltalake(t.log, _typed(t._log_rows(), types), mode="append")


def created_again(t: EventTables) -> None:
    """DROP and CREATE: the versions begin again."""
    shutil.rmtree(t.log)
    t.create_log()


def created_again_and_written(t: EventTables) -> None:
    """DROP and CREATE, and so many commits that the versions have passed those of before."""
    before = t.newest()
    created_again(t)
    while t.newest() <= before:
        t.change_log()


def _replaced_files(t: EventTables) -> None:
    DeltaTable(t.log).update({"bytes": "bytes + 1"}, predicate="video_id = 2")


def vacuumed(t: EventTables) -> None:
    """VACUUM of the files that the old state is made of, and of change files."""
    _replaced_files(t)
    table = DeltaTable(t.log)
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    change_files_lost(t)


def compacted_and_vacuumed(t: EventTables) -> None:
    """The old files go, and so do those that the changes are read from."""
    table = DeltaTable(t.log)
    table.optimize.compact()
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)


def change_files_lost(t: EventTables) -> None:
    """The change files of an update go; data files stay."""
    _replaced_files(t)
    shutil.rmtree(t.log / "_change_data")


def commit_lost(t: EventTables) -> None:
    """A checkpoint is written, and the commits before it go."""
    t.change_log()
    DeltaTable(t.log).create_checkpoint()
    for version, path in t.commits().items():
        if version < t.newest():
            path.unlink()


def feed_off(t: EventTables) -> None:
    _set(t, {"delta.enableChangeDataFeed": "false"})
    t.change_log()


def feed_off_and_on(t: EventTables) -> None:
    """Nothing changes in between."""
    _set(t, {"delta.enableChangeDataFeed": "false"})
    _set(t, {"delta.enableChangeDataFeed": "true"})


def feed_off_changed_and_on(t: EventTables) -> None:
    feed_off(t)
    _set(t, {"delta.enableChangeDataFeed": "true"})


def _set(t: EventTables, properties: dict[str, str]) -> None:
    DeltaTable(t.log).alter.set_table_properties(properties)


def put_back(t: EventTables) -> None:
    """The table as it was some commits ago: the same identity, versions that are behind."""
    last = t.newest()
    for version, path in t.commits().items():
        if version > 0:
            path.unlink()
    assert t.newest() < last
    _forget_crc(t)


def put_back_and_written(t: EventTables) -> None:
    """Later commits have reached the same versions again, with other rows."""
    last = t.newest()
    put_back(t)
    while t.newest() <= last:
        t.change_log()


def _forget_crc(t: EventTables) -> None:
    for path in (t.log / "_delta_log").glob("*.crc"):
        path.unlink()


def truncated(t: EventTables) -> None:
    DeltaTable(t.log).delete()


def overwritten(t: EventTables) -> None:
    """INSERT OVERWRITE: the columns stay."""
    write_deltalake(t.log, _typed(t._log_rows(), LOG), mode="overwrite")


def optimized(t: EventTables) -> None:
    DeltaTable(t.log).optimize.compact()


def clocks_off(t: EventTables) -> None:
    """Commits from the future and from the past, in their own words and by their files."""
    t.change_log()
    for back, year in enumerate((60_000, 2900)):
        path = t.commits()[t.newest() - back]
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        for action in actions:
            if "commitInfo" in action:
                action["commitInfo"]["timestamp"] = (year - 1970) * 31_557_600_000
        path.write_text("\n".join(map(json.dumps, actions)))
        written = path.stat().st_mtime + (back - 1) * 90_000
        os.utime(path, (written, written))


def repartitioned(t: EventTables) -> None:
    """The same rows under other partition columns."""
    rows = DeltaTable(t.log).to_pyarrow_table()
    write_deltalake(
        t.log, rows, mode="overwrite", schema_mode="overwrite", partition_by=["video_id"]
    )


def _written_as(t: EventTables, types: Mapping[str, pa.DataType]) -> None:
    rows = DeltaTable(t.log).to_pyarrow_table()
    as_columns = {name: rows[name].to_pylist() for name in rows.column_names}
    write_deltalake(t.log, _typed(as_columns, types), mode="overwrite", schema_mode="overwrite")


def used_column_retyped(t: EventTables) -> None:
    _written_as(t, {**LOG, "bytes": pa.int64()})


def unused_column_retyped(t: EventTables) -> None:
    _written_as(t, {**LOG, "spare": pa.string()})


def column_added(t: EventTables) -> None:
    write_deltalake(
        t.log,
        _typed(t._log_rows(), {**LOG, "more": pa.int32()}),
        mode="append",
        schema_mode="merge",
    )


def unused_column_dropped(t: EventTables) -> None:
    _written_as(t, {name: kind for name, kind in LOG.items() if name != "spare"})


def used_column_dropped(t: EventTables) -> None:
    _written_as(t, {name: kind for name, kind in LOG.items() if name != "bytes"})


def used_column_dropped_and_added(t: EventTables) -> None:
    used_column_dropped(t)
    _written_as(t, LOG)
    DeltaTable(t.log).update({"bytes": "id"})


MAP = "ALTER TABLE log SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"


def unused_column_renamed(t: EventTables) -> None:
    t.spark(MAP, "ALTER TABLE log RENAME COLUMN spare TO other")


def used_column_renamed(t: EventTables) -> None:
    t.spark(MAP, "ALTER TABLE log RENAME COLUMN bytes TO size")


def used_column_has_another_meaning(t: EventTables) -> None:
    """Two columns exchange their names: the file's values stay where they are."""
    t.spark(
        MAP,
        "UPDATE log SET spare = id",
        "ALTER TABLE log RENAME COLUMN bytes TO kept",
        "ALTER TABLE log RENAME COLUMN spare TO bytes",
        "ALTER TABLE log RENAME COLUMN kept TO spare",
    )


def deletion_vectors(t: EventTables) -> None:
    """A row of a file is marked as deleted."""
    t.spark(
        "ALTER TABLE log SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        "DELETE FROM log WHERE id % 10 = 1",
    )


def dropped(t: EventTables) -> None:
    shutil.rmtree(t.log)


_GONE = {"changes": "VERSION_GONE", "state": "VERSION_GONE"}
_REPLACED = {"changes": "TABLE_REPLACED", "state": "TABLE_REPLACED"}
_BEHIND = {"changes": "VERSION_BEHIND", "state": "VERSION_BEHIND"}

EVENTS: dict[str, Event] = {
    "OPTIMIZE": Event(optimized),
    "RESTORE": Event(restored),
    "INSERT OVERWRITE": Event(overwritten),
    "TRUNCATE": Event(truncated),
    "clocks that are off": Event(clocks_off),
    "deletion vectors": Event(deletion_vectors, by_spark=True),
    "the feed off and on": Event(feed_off_and_on, by_spark=True),
    "a column added": Event(column_added, by_spark=True),
    "an unused column retyped": Event(unused_column_retyped, by_spark=True),
    "an unused column dropped": Event(unused_column_dropped, by_spark=True),
    "an unused column renamed": Event(unused_column_renamed, by_spark=True),
    "the feed off": Event(feed_off, "NO_CHANGE_FEED", next_changes="NO_CHANGE_FEED"),
    "the feed off, changes, the feed on": Event(feed_off_changed_and_on, "NO_CHANGE_FEED"),
    "change files lost": Event(change_files_lost, "VERSION_GONE"),
    "other partition columns": Event(repartitioned, "PARTITIONS_CHANGED", by_spark=True),
    "VACUUM": Event(vacuumed, **_GONE),
    "OPTIMIZE and VACUUM": Event(compacted_and_vacuumed, **_GONE),
    "the log cleaned up to a checkpoint": Event(commit_lost, **_GONE),
    "CREATE OR REPLACE": Event(replaced, **_REPLACED),
    "CREATE OR REPLACE, names in other case": Event(replaced_in_other_case, **_REPLACED),
    "DROP and CREATE, a lower version": Event(created_again, **_REPLACED),
    "DROP and CREATE, a higher version": Event(created_again_and_written, **_REPLACED),
    "put back from a backup": Event(put_back, **_BEHIND),
    "put back, the same versions again": Event(put_back_and_written, **_BEHIND),
    "a used column retyped": Event(used_column_retyped, "SCHEMA_CHANGED", "SCHEMA_CHANGED"),
    "a used column dropped and added": Event(used_column_dropped_and_added, "SCHEMA_CHANGED"),
    "a used column with another meaning": Event(
        used_column_has_another_meaning, "SCHEMA_CHANGED", by_spark=True
    ),
    "a used column dropped": Event(used_column_dropped, error="SCHEMA_CHANGED", by_spark=True),
    "a used column renamed": Event(used_column_renamed, error="SCHEMA_CHANGED", by_spark=True),
    "DROP": Event(dropped, error="UNKNOWN_TABLE", by_spark=True),
}
