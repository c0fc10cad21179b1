"""Pins: one state of every table for a whole call, however many views it refreshes.

Each table is read once, each version opened once and each change read once, in one session for all
views with the same settings. To open a version costs as much as a small query over it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from types import TracebackType
from typing import Protocol

import pyarrow as pa

from belvedere.algebra.scalars import Scalar
from belvedere.analyses.sizes import Statistics
from belvedere.delta.lookups import read_whole
from belvedere.delta.statistics import TableSize, table_size
from belvedere.lake.lookup_cache import LookupCache
from belvedere.lake.sessions.workspace import Workspace
from belvedere.lake.spark_lake import SparkLake
from belvedere.lake.tables.change_feed import Changes, Feed
from belvedere.lake.tables.frames import open_version
from belvedere.lake.tables.table import Table
from belvedere.sql.names import quote
from belvedere.sql.render import SIGN


class TableReader(Protocol):
    """What reads tables, such as a view."""

    def needs(self, table: str) -> Mapping[str, str]:
        """The columns that it reads of a table, with their types."""


class Pins:
    """The tables, versions and changes that a call has read so far; safe for threads.

    A change is read once, with the columns that any of the readers needs.
    """

    def __init__(self, door: SparkLake, readers: Collection[TableReader] = ()) -> None:
        self._door = door
        self._readers = readers
        self._tables: dict[str, Table] = {}
        self._works: dict[tuple[tuple[str, str], ...], Workspace] = {}
        self._opened: dict[tuple[Workspace, str, int], str] = {}
        self._measured: dict[str, TableSize | None] = {}
        self._feeds: dict[tuple[str, int, int, str | None, int], Feed] = {}
        self._changes: dict[tuple[Workspace, Feed, tuple[str, ...]], Changes] = {}
        self._wholes: dict[tuple[str, int, tuple[str, ...]], pa.Table | None] = {}
        self.lookup_cache = LookupCache()
        self._busy = threading.RLock()
        self._end = ExitStack()

    def __enter__(self) -> Pins:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._end.close()

    def table(self, name: str) -> Table:
        """A table at the newest version when the call first read it."""
        with self._busy:
            if name not in self._tables:
                self._tables[name] = self._door.table(name)
            return self._tables[name]

    def measured(self, name: str) -> TableSize | None:
        """The size of a table and the bounds of its columns, as its log has them."""
        table = self.table(name)
        with self._busy:
            if name not in self._measured:
                self._measured[name] = table_size(table)
            return self._measured[name]

    def statistics(
        self, names: Collection[str], changed: Mapping[str, float], changes: Mapping[str, Changes]
    ) -> Statistics:
        """The statistics of tables, the numbers of their changed rows, and the spans of their changes."""
        sizes = {name: m for name in names if (m := self.measured(name)) is not None}
        return Statistics(
            rows={t: m.rows for t, m in sizes.items()},
            changed=changed,
            bounds={(t, c): at for t, m in sizes.items() for c, at in m.bounds.items()},
            changed_within={
                (t, c): at for t, change in changes.items() for c, at in change.within.items()
            },
        )

    def forget(self, name: str) -> None:
        """Read a table again: it was written since."""
        with self._busy:
            self._tables.pop(name, None)
            self._measured.pop(name, None)

    def work(self, settings: Mapping[str, str]) -> Workspace:
        """The workspace for views with these settings."""
        key = tuple(sorted(settings.items()))
        with self._busy:
            if key not in self._works:
                self._works[key] = self._end.enter_context(self._door.work(settings))
            return self._works[key]

    def opened(self, work: Workspace, name: str, version: int) -> str:
        """The name of a temporary view of a version of a table."""
        with self._busy:
            key = work, name, version
            if key not in self._opened:
                plain = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
                frame = open_version(work, self.table(name), version)
                self._opened[key] = work.register(f"{plain}_at_{version}", frame)
            return self._opened[key]

    def whole(
        self, name: str, version: int, columns: tuple[str, ...], most: int
    ) -> pa.Table | None:
        """All rows of a small table at a version; None if reading them needs Spark."""
        key = name, version, columns
        with self._busy:
            if key not in self._wholes:
                self._wholes[key] = read_whole(self.table(name), version, columns, most)
            return self._wholes[key]

    def changes(
        self,
        work: Workspace,
        name: str,
        old: int,
        new: int,
        columns: Sequence[str],
        where: Scalar | None = None,
        times: int = 1,
    ) -> Changes:
        """The net changes of a table, each row with a sign of 1 or -1; `where` may filter them.

        `times` says how many times more rows than usual may be read into memory.
        """
        with self._busy:
            feed = self._feed(name, old, new, columns, where, times)
            key = work, feed, tuple(columns)
            if key not in self._changes:
                self._changes[key] = _as_signs(work, feed.net(work, columns), columns)
            return self._changes[key]

    def _feed(
        self,
        name: str,
        old: int,
        new: int,
        columns: Sequence[str],
        where: Scalar | None,
        times: int,
    ) -> Feed:
        key = name, old, new, None if where is None else where.sql(), times
        if key not in self._feeds:
            table = self.table(name)
            types = table.types
            needed = (item for r in self._readers for item in r.needs(name).items())
            unchanged = [c for c, kind in needed if types.get(c.lower()) == kind]
            every = tuple(dict.fromkeys([*columns, *unchanged]))
            self._feeds[key] = Feed(table, old, new, every, where, times)
        return self._feeds[key]


def _as_signs(work: Workspace, net: Changes, columns: Sequence[str]) -> Changes:
    if net.all_ones:
        return net
    listed = ", ".join(quote(c) for c in columns)
    units = f"explode(array_repeat(IF({SIGN} > 0, 1, -1), CAST(abs({SIGN}) AS INT)))"

    @cache
    def view() -> str:
        frame = work.query(f"SELECT {listed}, {units} AS {SIGN} FROM {quote(net.view())}")
        return work.register("signs", frame)

    return replace(net, view=view, all_ones=True)
