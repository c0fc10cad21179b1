"""Base changes applied to several tables, all or nothing, although Delta commits one table at a time.

    intent     the changes and the versions that they apply to, written first, beside the lake
    commits    one per table: deletes and inserts together, with the update's number as a Delta
               transaction identifier, so that a commit is recognized and never made twice
    vector     moves to the versions of these commits, after the last one
    settled    the intent is removed last

A pending intent is settled by the next caller. If every table without its commit is still at the
version of the intent, the update is completed and the vector moves. Otherwise the commits made so far
are undone by further commits. Readers of the view read the versions of its vector, so they never see
part of an update. Each commit is made on the version of the intent: Delta refuses it if another writer
changed the same rows in between.
"""

from __future__ import annotations

import datetime
import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from deltalake.exceptions import CommitFailedError

from belvedere.delta import log
from belvedere.delta.delta_rs import open_table
from belvedere.errors import BelvedereError, Invalid
from belvedere.lake.capabilities import writes_files
from belvedere.lake.offline import ReadableLake
from belvedere.lake.tables.table import Table
from belvedere.lake.writes.row_replacement import Exchange, exchange, undoing, unwritable
from belvedere.storage.private_files import open_file, replacing, set_aside
from belvedere.updating.translate.constraints import BaseRow

_ENDING = ".intent"
_HEADER = b"belvedere intent "
_WITHOUT_CHECKSUM = b'{"view"'
"""The first bytes of a record written by an earlier release, which has no checksum."""
MOST_TRIES = 10
"""How often the undoing of a commit is retried while other writers commit in between."""


@dataclass(frozen=True)
class TableCommit:
    """The commit of one table: the version it applies to, and rows by value."""

    table: str
    version: int
    delete: tuple[BaseRow, ...]
    insert: tuple[BaseRow, ...]


@dataclass(frozen=True)
class Intent:
    """One update of a view: its number and the commit of each table."""

    view: str
    number: int
    parts: tuple[TableCommit, ...]

    @property
    def app(self) -> str:
        """The application identifier of the update's Delta transactions."""
        return f"belvedere.updating.{self.view}"

    def to_json(self) -> str:
        """The record as JSON."""
        parts = [
            [p.table, p.version, _rows_to_json(p.delete), _rows_to_json(p.insert)]
            for p in self.parts
        ]
        return json.dumps({"view": self.view, "number": self.number, "parts": parts})

    def exchange(self, part: TableCommit) -> Exchange:
        """The rows of one table's commit."""
        return Exchange(part.delete, part.insert, self.app, self.number)

    @staticmethod
    def from_json(text: str) -> Intent:
        """The intent of a JSON record."""
        record = json.loads(text)
        parts = tuple(
            TableCommit(t, v, _rows_from_json(d), _rows_from_json(i))
            for t, v, d, i in record["parts"]
        )
        return Intent(record["view"], record["number"], parts)

    def to_file(self) -> bytes:
        """The record after a line with its checksum: a damaged record is never applied."""
        record = self.to_json().encode()
        return _HEADER + b"%d\n" % zlib.crc32(record) + record

    @staticmethod
    def from_file(content: bytes) -> Intent:
        """The intent in a file; ValueError if the file is not as written."""
        line, _, record = content.partition(b"\n")
        if content.startswith(_WITHOUT_CHECKSUM):
            return Intent.from_json(content.decode())
        if line != _HEADER + b"%d" % zlib.crc32(record):
            raise ValueError("it does not match its checksum")
        return Intent.from_json(record.decode())


class TableChanged(Invalid):
    """Another writer changed a table; the update left nothing behind."""


class UnfinishedUpdate(Invalid):
    """An update began, and its record cannot be read."""


class UpdateApplier:
    """Applies updates to the tables of a lake on local disk."""

    def __init__(self, lake: ReadableLake, home: Path) -> None:
        self._lake, self._home = lake, home

    def path(self, view: str) -> Path:
        """The file of a view's intent."""
        return self._home / "updating" / f"{quote(view, safe='')}{_ENDING}"

    def apply(self, intent: Intent) -> None:
        """Make all changes of an intent, or none; `TableChanged` in the latter case.

        The intent stays until `forget`, which is called after the view's vector moved.
        """
        self.pending(intent.view)  # An unreadable record is not overwritten.
        tables = {p.table: self._writable(p.table) for p in intent.parts}
        with self._locked(tables):
            for part in intent.parts:
                if self._lake.table(part.table).version != part.version:
                    raise _table_changed_error(part.table)
            self.write_intent(intent)
            try:
                for part in intent.parts:
                    if not self.commit(intent, part):
                        raise _table_changed_error(part.table)
            except Exception:
                self._undo(intent)
                raise

    def is_pending(self, view: str) -> bool:
        """Whether an update began and is not settled."""
        return os.path.lexists(self.path(view))

    def views(self) -> list[str]:
        """The views with an update that is not settled."""
        files = (self._home / "updating").glob(f"*{_ENDING}")
        return sorted(unquote(path.name.removesuffix(_ENDING)) for path in files)

    def pending(self, view: str) -> Intent | None:
        """The update that is not settled; `UnfinishedUpdate` if its record cannot be read."""
        path = self.path(view)
        try:
            with open_file(path) as file:
                return Intent.from_file(file.read())
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UnfinishedUpdate(
                f"an update of {view!r} was begun and not ended, and its record cannot be read",
                detail=f"{path}: {error}",
                hint="see what the last commits of the view's tables did and put that right, then "
                f"DROP UPDATABLE VIEW {view} and create it again",
                reason="HALF_MADE",
            ) from error

    def settle(self, view: str, move: Callable[[], object]) -> bool:
        """Complete or undo a pending update; whether there was one.

        If it is completed, `move` moves the view's vector before the intent is removed.
        """
        intent = self.pending(view)
        if intent is None:
            return False
        tables = {p.table: self._writable(p.table) for p in intent.parts}
        with self._locked(tables):
            missing = [p for p in intent.parts if not self._made(intent, p)]
            if len(missing) == len(intent.parts):
                self.forget(view)
                return True
            finished = self._finished(intent, missing)
            if not finished:
                self._undo(intent)
        if finished:
            move()
            self.forget(view)
        return True

    def _finished(self, intent: Intent, missing: Sequence[TableCommit]) -> bool:
        """Make the missing commits of an update; False if a table has changed since."""
        try:
            return all(self._lake.table(p.table).version == p.version for p in missing) and all(
                self.commit(intent, p) for p in missing
            )
        except BelvedereError:
            return False

    def write_intent(self, intent: Intent) -> None:
        """Write the intent, atomically."""
        path = self.path(intent.view)
        with replacing(path, path.with_suffix(".intent-draft")) as file:
            file.write(intent.to_file())

    def forget(self, view: str) -> None:
        """Remove the intent of a settled update."""
        self.path(view).unlink(missing_ok=True)

    def give_up(self, view: str) -> None:
        """Set the record of an update aside, whatever the update's state."""
        set_aside(self.path(view))

    def commit(self, intent: Intent, part: TableCommit) -> bool:
        """Make one table's commit; False if another writer committed first."""
        table = self._writable(part.table)
        try:
            exchange(self._lake, table, intent.exchange(part), part.version)
        except CommitFailedError:
            if self._lake.table(part.table).version == part.version:
                raise
            return False
        return self._lake.table(part.table).version == part.version + 1

    def _undo(self, intent: Intent) -> None:
        """Undo the commits of an update, newest first, then remove the intent."""
        for part in reversed(intent.parts):
            if self._made(intent, part):
                self._take_back(intent, part)
        self.forget(intent.view)

    def _take_back(self, intent: Intent, part: TableCommit) -> None:
        """Reverse one table's commit on the table's current version."""
        for tries_left in reversed(range(MOST_TRIES)):
            table = self._writable(part.table)
            rows = undoing(table, intent.exchange(part), part.version, intent.app + ".undo")
            try:
                exchange(self._lake, table, rows, table.version)
                return
            except CommitFailedError:
                if not tries_left:
                    raise

    def _made(self, intent: Intent, part: TableCommit) -> bool:
        """Whether a table has the update's commit, and it is not undone."""
        table = open_table(self._lake.table(part.table).store)
        done = table.transaction_version(intent.app) or 0
        undone = table.transaction_version(intent.app + ".undo") or 0
        return done >= intent.number > undone

    def _writable(self, name: str) -> Table:
        table = self._lake.table(name)
        if not writes_files(table):
            raise unwritable(
                name, "it is not on a local disk, or has columns that only Spark writes"
            )
        return table

    @contextmanager
    def _locked(self, tables: Mapping[str, Table]) -> Iterator[None]:
        with ExitStack() as stack:
            for name in sorted(tables):
                stack.enter_context(tables[name].store.lease())
            yield


def next_number(lake: ReadableLake, view: str, tables: Sequence[str]) -> int:
    """An update number that none of the tables has seen for this view."""
    app, highest = Intent(view, 0, ()).app, 0
    for name in tables:
        store = lake.table(name).store
        if log.is_table(store):
            delta_table = open_table(store)
            numbers = [delta_table.transaction_version(a) or 0 for a in (app, app + ".undo")]
            highest = max(highest, *numbers)
    return highest + 1


def _table_changed_error(table: str) -> TableChanged:
    return TableChanged(
        f"{table!r} was changed by someone else meanwhile",
        hint="repeat the update; nothing was changed",
        reason="CONCURRENT_CHANGE",
    )


def _rows_to_json(rows: Sequence[BaseRow]) -> list[dict[str, Any]]:
    return [{c: _value_to_json(v) for c, v in row.items()} for row in rows]


def _value_to_json(value: Any) -> Any:
    """A value as JSON; types that JSON lacks are tagged."""
    if isinstance(value, Decimal):
        return ["decimal", str(value)]
    if isinstance(value, datetime.datetime):
        return ["timestamp", value.isoformat()]
    if isinstance(value, datetime.date):
        return ["date", value.isoformat()]
    return ["binary", value.hex()] if isinstance(value, bytes) else value


def _rows_from_json(rows: Sequence[Mapping[str, Any]]) -> tuple[BaseRow, ...]:
    return tuple({c: _value_from_json(v) for c, v in row.items()} for row in rows)


def _value_from_json(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    kind, text = value
    read = {
        "decimal": Decimal,
        "timestamp": datetime.datetime.fromisoformat,
        "date": datetime.date.fromisoformat,
        "binary": bytes.fromhex,
    }
    return read[kind](text)  # type: ignore[operator]
