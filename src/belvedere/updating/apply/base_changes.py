"""Base changes applied to several tables all or nothing, though Delta commits one at a time.

    intent     what is to be done, at which versions: written first, beside the lake
    commits    one for each table: deletes and inserts together, with the update's number as a
               Delta transaction, so that one that was made is known and never made again
    vector     moved to the versions that these commits made, once there are all
    settled    the intent goes last: while it is there, the vector may still have to be moved

Whoever finds an intent settles it: if every table it still lacks is at the version it was meant
for, it is finished and the vector moves; otherwise what was made is undone by commits of its own.
Readers of the view read the versions of its vector, which moves only after all commits. A commit is made on the version it was
meant for, so that Delta refuses it where someone else changed the same rows in between.
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
"""How a record begins that an earlier release left."""
MOST_TRIES = 10
"""How often what was made is taken back while others commit in between."""


@dataclass(frozen=True)
class TableCommit:
    """What is done to one table: the version it was meant for, rows by value."""

    table: str
    version: int
    delete: tuple[BaseRow, ...]
    insert: tuple[BaseRow, ...]


@dataclass(frozen=True)
class Intent:
    """One update of a view: its number among that view's, and its parts."""

    view: str
    number: int
    parts: tuple[TableCommit, ...]

    @property
    def app(self) -> str:
        """The name under which tables know the update."""
        return f"belvedere.updating.{self.view}"

    def to_json(self) -> str:
        """The record."""
        parts = [
            [p.table, p.version, _rows_to_json(p.delete), _rows_to_json(p.insert)]
            for p in self.parts
        ]
        return json.dumps({"view": self.view, "number": self.number, "parts": parts})

    def exchange(self, part: TableCommit) -> Exchange:
        """The commit of one of its tables."""
        return Exchange(part.delete, part.insert, self.app, self.number)

    @staticmethod
    def from_json(text: str) -> Intent:
        """The intent in a record."""
        found = json.loads(text)
        parts = tuple(
            TableCommit(t, v, _rows_from_json(d), _rows_from_json(i))
            for t, v, d, i in found["parts"]
        )
        return Intent(found["view"], found["number"], parts)

    def to_file(self) -> bytes:
        """The record behind a line with its checksum: rows are not written from a damaged one."""
        record = self.to_json().encode()
        return _HEADER + b"%d\n" % zlib.crc32(record) + record

    @staticmethod
    def from_file(whole: bytes) -> Intent:
        """The intent in a file; ValueError if that is not what was written."""
        line, _, record = whole.partition(b"\n")
        if whole.startswith(_WITHOUT_CHECKSUM):
            return Intent.from_json(whole.decode())
        if line != _HEADER + b"%d" % zlib.crc32(record):
            raise ValueError("it does not match its checksum")
        return Intent.from_json(record.decode())


class TableChanged(Invalid):
    """A table was changed by someone else meanwhile; nothing of the update is left."""


class UnfinishedUpdate(Invalid):
    """An update was begun, and the record of what it was to do cannot be read."""


class UpdateApplier:
    """Applies updates to the tables of a lake on local disk."""

    def __init__(self, lake: ReadableLake, home: Path) -> None:
        self._lake, self._home = lake, home

    def path(self, view: str) -> Path:
        """Where a view's intent stands."""
        return self._home / "updating" / f"{quote(view, safe='')}{_ENDING}"

    def apply(self, intent: Intent) -> None:
        """Make all changes of an intent, or none: then `TableChanged`.

        The intent stays until `forget`, which is for when the view's vector has moved.
        """
        self.pending(intent.view)  # one that cannot be read is not written over
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
        """Whether an update began and was not settled."""
        return os.path.lexists(self.path(view))

    def views(self) -> list[str]:
        """The views of which an update began and was not settled."""
        found = (self._home / "updating").glob(f"*{_ENDING}")
        return sorted(unquote(path.name.removesuffix(_ENDING)) for path in found)

    def pending(self, view: str) -> Intent | None:
        """The update that began and was not settled; `UnfinishedUpdate` if its record cannot be read."""
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
        """Finish or undo what a killed update left; whether there was something.

        Where it is finished, `move_rows` brings the view's vector to the tables before the intent goes.
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
        """Make what is missing of an update, if that can be done as it was meant."""
        try:
            return all(self._lake.table(p.table).version == p.version for p in missing) and all(
                self.commit(intent, p) for p in missing
            )
        except BelvedereError:
            return False

    def write_intent(self, intent: Intent) -> None:
        """Record what is about to be done, all at once."""
        path = self.path(intent.view)
        with replacing(path, path.with_suffix(".intent-draft")) as file:
            file.write(intent.to_file())

    def forget(self, view: str) -> None:
        """The update is settled."""
        self.path(view).unlink(missing_ok=True)

    def give_up(self, view: str) -> None:
        """Whatever became of the update: its record is set aside."""
        set_aside(self.path(view))

    def commit(self, intent: Intent, part: TableCommit) -> bool:
        """Make one table's changes, in one commit; False if someone else came between."""
        table = self._writable(part.table)
        try:
            exchange(self._lake, table, intent.exchange(part), part.version)
        except CommitFailedError:
            if self._lake.table(part.table).version == part.version:
                raise
            return False
        return self._lake.table(part.table).version == part.version + 1

    def _undo(self, intent: Intent) -> None:
        """Take back what was made, newest first, under the number after; then nothing is left."""
        for part in reversed(intent.parts):
            if self._made(intent, part):
                self._take_back(intent, part)
        self.forget(intent.view)

    def _take_back(self, intent: Intent, part: TableCommit) -> None:
        """Reverse one table's changes, on whatever version it has by then."""
        for left in reversed(range(MOST_TRIES)):
            table = self._writable(part.table)
            rows = undoing(table, intent.exchange(part), part.version, intent.app + ".undo")
            try:
                exchange(self._lake, table, rows, table.version)
                return
            except CommitFailedError:
                if not left:
                    raise

    def _made(self, intent: Intent, part: TableCommit) -> bool:
        """Whether a table has an update's changes, and they were not taken back."""
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
    """A number that no update of a view had in any of its tables."""
    app, highest = Intent(view, 0, ()).app, 0
    for name in tables:
        store = lake.table(name).store
        if log.is_table(store):
            known = open_table(store)
            used = [known.transaction_version(a) or 0 for a in (app, app + ".undo")]
            highest = max(highest, *used)
    return highest + 1


def _table_changed_error(table: str) -> TableChanged:
    return TableChanged(
        f"{table!r} was changed by someone else meanwhile",
        hint="nothing was changed; ask again",
        reason="CONCURRENT_CHANGE",
    )


def _rows_to_json(rows: Sequence[BaseRow]) -> list[dict[str, Any]]:
    return [{c: _value_to_json(v) for c, v in row.items()} for row in rows]


def _value_to_json(value: Any) -> Any:
    """A value in JSON's types, with its own where JSON has none."""
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
