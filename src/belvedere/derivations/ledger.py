"""The ledger: one row for every refresh, with what the stamp of its commit cannot hold.

Stamps stay the truth about what was committed. A row is written after the commit, once for all
views of a call, so a process that dies in between loses the row and nothing else; and a row that
cannot be written fails no refresh. What a refresh costs can be learned from the rows: the
strategies it could have taken, what was predicted of each, what there was to read, what it took.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any

from deltalake import Field, Schema
from deltalake.schema import ArrayType, MapType, PrimitiveType, StructType

from belvedere.execution.costs import Candidate
from belvedere.lake.offline import ReadableLake
from belvedere.lake.records.journal import SCHEMA_NAME, Journal, Row
from belvedere.lake.tables.catalog import named_journal
from belvedere.sql.statements.cursor import STRINGS, tokenize

if TYPE_CHECKING:
    from belvedere.lake.spark_lake import SparkLake

_TEXT, _WHOLE, _REAL, _TIME = (
    PrimitiveType(name) for name in ("string", "long", "double", "timestamp")
)
_BY_TABLE = MapType(_TEXT, _WHOLE)
_CANDIDATE = StructType(
    [
        Field("strategy", _TEXT),
        Field("work", _REAL),
        Field("predicted_seconds", _REAL),
        Field("why", _TEXT),
    ]
)

SCHEMA = Schema(
    [
        Field("view", _TEXT),
        Field("view_id", _TEXT),
        Field("refresh", _WHOLE),
        Field("started", _TIME),
        Field("seconds", _REAL),
        Field("strategy", _TEXT),
        Field("reason", _TEXT),
        Field("candidates", ArrayType(_CANDIDATE)),
        Field("rows", _WHOLE),
        Field("pending", _BY_TABLE),
        Field("jobs", _WHOLE),
        Field("bytes_read", _WHOLE),
        Field("vector_before", _BY_TABLE),
        Field("vector_after", _BY_TABLE),
        Field("version", _WHOLE),
        Field("engine", _TEXT),
        Field("kind", _TEXT),
    ]
)

VIEW = "MATERIALIZED VIEW"
"""The noun of views, as `Record.kind` has it."""
_MAPS = ("pending", "vector_before", "vector_after")


@dataclass(frozen=True)
class Record:
    """One refresh: `pending` are the rows that each table had touched since the view looked.

    Tables have the names of the view's plan. What is not known is None, or has no entry:
    `bytes_read` is the size of the files of the tables' versions and changes that were opened,
    `version` that of the stored table, `engine` who committed.
    """

    view: str
    view_id: str
    refresh: int
    started: datetime
    seconds: float
    strategy: str
    reason: str
    candidates: tuple[Candidate, ...]
    rows: int | None
    pending: Mapping[str, int]
    jobs: int | None
    bytes_read: int | None
    vector_before: Mapping[str, int]
    vector_after: Mapping[str, int]
    version: int | None
    engine: str
    kind: str = VIEW
    """What kind of derivation: rows of earlier releases are those of views."""

    def to_row(self) -> Row:
        """The row of the table."""
        maps = {name: list(getattr(self, name).items()) for name in _MAPS}
        return {**asdict(self), **maps}

    @staticmethod
    def from_row(row: Row) -> Record:
        """The record of a row; columns that another release wrote are left out."""
        found: dict[str, Any] = {f.name: row.get(f.name) for f in fields(Record)}
        maps = {name: dict(found[name] or ()) for name in _MAPS}
        candidates = tuple(Candidate(**c) for c in found["candidates"] or ())
        started = found["started"].astimezone(UTC)
        found["kind"] = found["kind"] or VIEW
        return Record(**{**found, **maps, "candidates": candidates, "started": started})


class Ledger:
    """What one call refreshed, written in one commit when it ends, by an error too."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._records: list[Record] = []
        self._busy = threading.Lock()

    def add(self, record: Record | None) -> None:
        """Take note of a refresh; None is one that had nothing to do."""
        if record is not None:
            with self._busy:
                self._records.append(record)

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.flush()

    def flush(self) -> None:
        """Write what was noted since the last time."""
        with self._busy:
            records, self._records = self._records, []
        if not records:
            return
        try:
            self._journal.append([record.to_row() for record in records], SCHEMA)
            self._journal.trouble = ""
        except Exception as problem:
            # The views are refreshed whatever happens here, and their stamps tell of it.
            self._journal.trouble = str(problem).partition("\n")[0]


def records(lake: ReadableLake, view_id: str = "") -> list[Record]:
    """What is recorded about a view, or about all; nothing where it cannot be read."""
    return _records(lambda: lake.journal.read(*_of(view_id)))


def newest(lake: ReadableLake, most: int, view_id: str = "") -> list[Record]:
    """The newest of these, about so many."""
    return _records(lambda: lake.journal.newest("started", most, *_of(view_id)))


def _of(view_id: str) -> tuple[str, str]:
    return ("view_id", view_id) if view_id else ("", "")


def _records(read: Callable[[], Sequence[Row]]) -> list[Record]:
    try:
        # Anyone can write there: a row without a time is none of ours.
        return [Record.from_row(row) for row in read() if row["started"] is not None]
    except Exception:
        # Whatever is wrong with it, refreshes do not need it, and their stamps tell of them.
        return []


@contextmanager
def readable(door: SparkLake, text: str) -> Iterator[None]:
    """While a statement is analysed that names it, `belvedere.refreshes` is this lake's ledger."""
    with named_journal(door, SCHEMA) if _names_journal(text) else nullcontext():
        yield


def _names_journal(text: str) -> bool:
    """Whether a statement names the journal's schema, or may in a string of IDENTIFIER('…').

    >>> _names_journal("SELECT * FROM Belvedere.refreshes"), _names_journal("SELECT 'belvedere'")
    (True, False)
    """
    tokens, _ = tokenize(text)
    in_strings = any(token.text.upper() == "IDENTIFIER" for token in tokens)
    return any(
        SCHEMA_NAME in token.text.lower()
        if token.token_type in STRINGS and in_strings
        else token.token_type not in STRINGS and token.text.lower() == SCHEMA_NAME
        for token in tokens
    )
