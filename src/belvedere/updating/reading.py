"""Base tables read for a filter: versions whole, changes between versions, a few rows by value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.errors import Unsupported
from belvedere.lake import log
from belvedere.lake.lookup import can_look_up, look_up, read_whole
from belvedere.lake.shelf import Tables
from belvedere.lake.smallfeed import arrow_schema, is_small, net_arrow, signed_arrow
from belvedere.lake.tables import Table
from belvedere.sql.render import SIGN
from belvedere.updating.constraints import BaseRow

MOST_ROWS = 100_000_000


def whole(lake: Tables, table: Table, version: int, columns: Sequence[str]) -> pa.Table:
    """Some columns of a version, without Spark where the files can be read as they are."""
    found = read_whole(table, version, columns, MOST_ROWS)
    if found is not None:
        return found
    work = getattr(lake, "work", None)
    if work is None:
        raise Unsupported(
            f"{table.name!r} cannot be read without Spark", hint="use it from a lake that has Spark"
        )
    with work() as w:
        listed = ", ".join(f"`{c.replace('`', '``')}`" for c in columns)
        rows: pa.Table = w.query(f"SELECT {listed} FROM {table.at(version)}").toArrow()
    kinds = {c: table.types[c.lower()] for c in columns}
    return rows.cast(arrow_schema(kinds))


def changes(table: Table, old: int, new: int, columns: Sequence[str]) -> pa.Table | None:
    """The net changes of some columns between versions, with signs; None if they are not small."""
    root = table.root
    if root is None or not table.change_feed:
        return None
    kinds = {c: table.types[c.lower()] for c in columns}
    try:
        commits = log.commits(root, range(old + 1, new + 1))
        if not is_small(table, commits, list(kinds.values())):
            return None
        return net_arrow(signed_arrow(table, commits, kinds), columns)
    except FileNotFoundError:
        return None


def signs_of(net: pa.Table) -> list[int]:
    """The signs of net changes."""
    found: list[int] = net[SIGN].to_pylist()
    return found


class LakeSource:
    """Rows of a lake's tables by value, each table at the version at which it was asked first."""

    def __init__(self, lake: Tables) -> None:
        self._lake = lake
        self._tables: dict[str, Table] = {}
        self._known: dict[tuple[str, tuple[tuple[str, Any], ...]], list[BaseRow]] = {}

    def where(self, table: str, equal: Mapping[str, Any]) -> list[BaseRow]:
        """The rows of any table whose columns have these values, all columns of them."""
        key = table, tuple(sorted(equal.items(), key=lambda item: item[0]))
        if key not in self._known:
            self._known[key] = self._found(table, equal)
        return self._known[key]

    def _found(self, name: str, equal: Mapping[str, Any]) -> list[BaseRow]:
        if name not in self._tables:
            self._tables[name] = self._lake.table(name)
        table = self._tables[name]
        columns = [c for c, _ in table.columns]
        by = next((c for c in equal if can_look_up(table, c) and equal[c] is not None), None)
        rows: pa.Table | None = None
        if by is not None:
            wanted = pa.array([equal[by]], arrow_schema({by: table.types[by.lower()]}).types[0])
            rows = look_up(table, table.version, columns, by, wanted, nulls=False, most=MOST_ROWS)
        if rows is None:
            rows = whole(self._lake, table, table.version, columns)
        for column, value in equal.items():
            kept = (
                rows[column].is_null()
                if value is None
                else pc.equal(rows[column], pa.scalar(value, rows[column].type))
            )
            rows = rows.filter(pc.fill_null(kept, False))
        found: list[BaseRow] = rows.to_pylist()
        return found
