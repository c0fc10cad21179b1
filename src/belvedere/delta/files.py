"""The data files of a version of a table, from its log: no Spark, no scan.

A version's files are the nearest checkpoint's, or an earlier version's that is remembered, and
what the commits since then added and removed.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

from belvedere.delta import log
from belvedere.delta.log import Action
from belvedere.storage.store import ObjectStore

_REMEMBERED = 256


@dataclass(frozen=True)
class File:
    """A data file of a version, as the log describes it; `path` is in the table's store."""

    path: str
    size: int
    stats_text: str
    vector: Action | None

    @cached_property
    def stats(self) -> Mapping[str, Any]:
        """What its writer recorded: row count, bounds of columns, counts of NULL.

        `statistics.column_facts` says what of it can be relied on.
        """
        return parsed_stats(self.stats_text)

    @property
    def deleted(self) -> int:
        """How many of its rows are deleted."""
        return 0 if self.vector is None else int(self.vector["cardinality"])

    @property
    def rows(self) -> int | None:
        """How many rows it has, the deleted ones left out; None if that was not recorded."""
        counted = row_count(self.stats)
        return None if counted is None else counted - self.deleted


Files = Mapping[tuple[str, str], File]
"""By path and deletion vector: a commit that deletes rows removes the one and adds the other."""

_Key = tuple[ObjectStore, int, str]
_memory: OrderedDict[_Key, Files] = OrderedDict()
_remembering = threading.Lock()


def files(store: ObjectStore, version: int) -> list[File] | None:
    """The files of a version; None if the log is not in a form that is read here."""
    wanted = _key(store, version)
    if wanted is None:
        return None
    with _remembering:
        known = _memory.get(wanted)
        if known is None:
            known = _replayed(store, version)
            if known is None:
                return None
            _memory[wanted] = known
        _memory.move_to_end(wanted)
        while len(_memory) > _REMEMBERED:
            _memory.popitem(last=False)
    return list(known.values())


def parsed_stats(text: str) -> Mapping[str, Any]:
    """The statistics of an action, their numbers digit by digit; empty where they cannot be read.

    >>> parsed_stats('{"numRecords": 1, "maxValues": {"v": 12345678901234567.13}}')["maxValues"]
    {'v': Decimal('12345678901234567.13')}
    >>> parsed_stats("{"), parsed_stats("[1]")
    ({}, {})
    """
    try:
        found = json.loads(text or "{}", parse_float=Decimal, parse_constant=str)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def row_count(stats: Mapping[str, Any]) -> int | None:
    """The rows that a file was written with; None if that was not recorded."""
    counted = stats.get("numRecords")
    return counted if type(counted) is int and counted >= 0 else None


def count(some: Iterable[File]) -> int | None:
    """How many rows files have; None if one of them does not say."""
    counts = [f.rows for f in some]
    return None if None in counts else sum(n for n in counts if n is not None)


def _key(store: ObjectStore, version: int) -> _Key | None:
    try:
        return store, version, log.etag(store, version)
    except FileNotFoundError:
        return None


def _replayed(store: ObjectStore, version: int) -> Files | None:
    """The files of a version from the nearest state before it that can be had."""
    pending: list[int] = []
    for earlier in range(version, -1, -1):
        key = _key(store, earlier)
        known = _memory.get(key) if key is not None else None
        if known is None:
            known = _checkpoint(store, earlier)
        if known is not None:
            return _applied(store, known, reversed(pending))
        if key is None:
            return None
        pending.append(earlier)
    return _applied(store, {}, reversed(pending))


def _applied(store: ObjectStore, start: Files, versions: Iterable[int]) -> Files:
    found = dict(start)
    for version in versions:
        commit = log.commit(store, version)
        for action in commit.removes:
            found.pop(log.identity(action), None)
        for action in commit.adds:
            found[log.identity(action)] = _file(action)
    return found


def _checkpoint(store: ObjectStore, version: int) -> Files | None:
    """The files in a checkpoint of one file; None if there is none, or some stand in others."""
    import pyarrow.parquet as pq

    path = log.checkpoint_path(version)
    if not store.exists(path):
        return None
    with store.open(path) as source:
        checkpoint = pq.ParquetFile(source)
        beside = {"add", "sidecar"} & set(checkpoint.schema_arrow.names)
        rows = checkpoint.read(columns=sorted(beside))
    if "sidecar" in beside and rows.column("sidecar").null_count < rows.num_rows:
        return None
    actions = [a for a in rows.column("add").to_pylist() if a is not None]
    return {log.identity(a): _file(a) for a in actions}


def _file(action: Action) -> File:
    return File(
        path=log.data_path(action["path"]),
        size=int(action["size"]),
        stats_text=action.get("stats") or "",
        vector=log.vector_of(action),
    )
