"""Base tables read for a filter: versions whole, changes between versions, rows by value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from belvedere.delta import log
from belvedere.delta.files import count, files
from belvedere.delta.lookups import can_look_up, legible_files, look_up, read_whole, stream_whole
from belvedere.delta.small_changes import arrow_schema, is_small, net_arrow, signed_arrow
from belvedere.delta.stamps import Vector
from belvedere.delta.statistics import bounds_of_all
from belvedere.errors import Unsupported
from belvedere.joins.normal_form import JoinBlock
from belvedere.lake.capabilities import spark_lake
from belvedere.lake.offline import ReadableLake
from belvedere.lake.tables.declared_keys import key_of
from belvedere.lake.tables.table import Table
from belvedere.sql.names import quote
from belvedere.sql.render import SIGN
from belvedere.updating.side_effects.neighbours import agreeing_rows
from belvedere.updating.translate.constraints import BaseRow

if TYPE_CHECKING:
    from belvedere.lake.sessions.workspace import Workspace

MOST_ROWS = 100_000_000


def read_version(
    lake: ReadableLake, table: Table, version: int, columns: Sequence[str]
) -> pa.Table:
    """Some columns of a version, without Spark where the files can be read as they are."""
    found = read_whole(table, version, columns, MOST_ROWS)
    if found is not None:
        return found
    with workspace_of(lake, table) as w:
        listed = ", ".join(map(quote, columns))
        rows: pa.Table = w.query(f"SELECT {listed} FROM {table.at(version)}").toArrow()
    kinds = {c: table.types[c.lower()] for c in columns}
    return rows.cast(arrow_schema(kinds))


def workspace_of(lake: ReadableLake, table: Table) -> AbstractContextManager[Workspace]:
    """Spark, for a table that cannot be read without."""
    spark = spark_lake(lake)
    if spark is None:
        raise Unsupported(
            f"{table.name!r} cannot be read without Spark",
            hint="use it from a lake that has Spark",
            reason="NEEDS_SPARK",
        )
    return spark.work()


def net_changes(table: Table, old: int, new: int, columns: Sequence[str]) -> pa.Table | None:
    """The net changes of some columns between versions, with signs; None if they are not small."""
    if not table.change_feed:
        return None
    kinds = {c: table.types[c.lower()] for c in columns}
    try:
        commits = log.commits(table.store, range(old + 1, new + 1))
        if not is_small(table, commits, list(kinds.values())):
            return None
        return net_arrow(signed_arrow(table, commits, kinds), columns)
    except FileNotFoundError:
        return None


def change_signs(net: pa.Table) -> list[int]:
    """The signs of net changes."""
    found: list[int] = net[SIGN].to_pylist()
    return found


def row_count(table: Table) -> int | None:
    """How many rows a table has, as its log says; None if it does not."""
    some = files(table.store, table.version)
    return None if some is None else count(some)


class LakeRowFinder:
    """Rows of a view's tables by value, at the versions of a vector: in their files, or by Spark."""

    def __init__(self, lake: ReadableLake, shape: JoinBlock, vector: Vector) -> None:
        self._lake, self._used, self._vector = lake, shape.used, vector
        self._tables = {t: lake.table(t) for t in shape.tables}

    def find(self, table: str, values: pa.Table, most: int) -> pa.Table | None:
        """As `RowFinder.find`."""
        at, version = self._tables[table], self._vector[table].version
        columns = list(self._used[table])
        by = _lookup_column(at, values.column_names)
        rows = None
        if by is not None:
            wanted = values[by].combine_chunks()
            nulls = wanted.null_count > 0
            rows = look_up(at, version, columns, by, wanted.drop_null(), nulls=nulls, most=most)
        if rows is None:
            legible = spark_lake(self._lake) is None and legible_files(at, version, columns)
            if legible:
                return None
            return self._joined(at, version, values, most)
        return rows.filter(pa.array(agreeing_rows(rows, values)))

    def _joined(self, table: Table, version: int, values: pa.Table, most: int) -> pa.Table:
        """The same by Spark, which sends no more than are wanted."""
        types = self._used[table.name]
        with workspace_of(self._lake, table) as w:
            held = w.hold("asked", values, {c: types[c] for c in values.column_names})
            same = " AND ".join(f"t.{quote(c)} <=> a.{quote(c)}" for c in values.column_names)
            listed = ", ".join(f"t.{quote(c)}" for c in types)
            rows: pa.Table = w.query(
                f"SELECT {listed} FROM {table.at(version)} AS t LEFT SEMI JOIN {held} AS a"
                f" ON {same} LIMIT {most + 1}"
            ).toArrow()
        return rows.cast(arrow_schema(types))


def _lookup_column(table: Table, columns: Sequence[str]) -> str | None:
    """The column by which rows are looked up: the first of the table's key if possible."""
    some = {c.lower(): c for c in columns if can_look_up(table, c)}
    key = [some[c.lower()] for c in key_of(table) or () if c.lower() in some]
    return next(iter([*key, *some.values()]), None)


class LakeRowSource:
    """Rows of a lake's tables by value, each table at the version at which it was asked first."""

    def __init__(self, lake: ReadableLake) -> None:
        self._lake = lake
        self._tables: dict[str, Table] = {}
        self._known: dict[tuple[str, tuple[tuple[str, Any], ...]], list[BaseRow]] = {}

    def where(self, table: str, equal: Mapping[str, Any]) -> list[BaseRow]:
        """The rows of any table whose columns have these values, all columns of them.

        Where they have those of its key, rows of that key are looked up, once for whatever else is asked.
        """
        at = self._table(table)
        key = {c.lower() for c in key_of(at) or ()}
        told = [c for c in equal if c.lower() in key and equal[c] is not None]
        by = {c: equal[c] for c in sorted(told if key and len(told) == len(key) else equal)}
        asked = table, tuple(by.items())
        if asked not in self._known:
            self._known[asked] = self._found(at, by)
        rest = {c: value for c, value in equal.items() if c not in by}
        return [r for r in self._known[asked] if all(r[c] == v for c, v in rest.items())]

    def largest(self, table: str, column: str) -> int:
        """As `RowSource.largest`: by the log, or by a look at the column."""
        at = self._table(table)
        some = files(at.store, at.version) if at.plain else None
        bounds = bounds_of_all(at, some, column) if some is not None else None
        if bounds is not None:
            return max(0, int(bounds[1]))
        return max(
            0, pc.max(read_version(self._lake, at, at.version, [column])[column]).as_py() or 0
        )

    def first(self, table: str, column: str, most: int) -> list[Any]:
        """As `RowSource.first`, of the first files that have so many."""
        at = self._table(table)
        parts = stream_whole(at, at.version, [column])
        if parts is None:
            parts = iter([read_version(self._lake, at, at.version, [column])])
        found: dict[Any, None] = {}
        for rows in parts:
            values = pc.unique(rows[column]).drop_null().slice(0, most).to_pylist()
            found.update(dict.fromkeys(values))
            if len(found) >= most:
                break
        return list(found)[:most]

    def _table(self, name: str) -> Table:
        if name not in self._tables:
            self._tables[name] = self._lake.table(name)
        return self._tables[name]

    def _found(self, table: Table, equal: Mapping[str, Any]) -> list[BaseRow]:
        columns = [c for c, _ in table.columns]
        by = _lookup_column(table, [c for c, value in equal.items() if value is not None])
        rows: pa.Table | None = None
        if by is not None:
            wanted = pa.array([equal[by]], arrow_schema({by: table.types[by.lower()]}).types[0])
            rows = look_up(table, table.version, columns, by, wanted, nulls=False, most=MOST_ROWS)
        if rows is None:
            rows = read_version(self._lake, table, table.version, columns)
        for column, value in equal.items():
            kept = (
                rows[column].is_null()
                if value is None
                else pc.equal(rows[column], pa.scalar(value, rows[column].type))
            )
            rows = rows.filter(pc.fill_null(kept, False))
        found: list[BaseRow] = rows.to_pylist()
        return found
