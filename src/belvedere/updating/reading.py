"""Read base tables for an update filter: whole versions, changes between versions, rows by value."""

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
    """Some columns of a version; without Spark if the data files can be read directly."""
    read_rows = read_whole(table, version, columns, MOST_ROWS)
    if read_rows is not None:
        return read_rows
    with workspace_of(lake, table) as w:
        listed = ", ".join(map(quote, columns))
        rows: pa.Table = w.query(f"SELECT {listed} FROM {table.at(version)}").toArrow()
    kinds = {c: table.types[c.lower()] for c in columns}
    return rows.cast(arrow_schema(kinds))


def workspace_of(lake: ReadableLake, table: Table) -> AbstractContextManager[Workspace]:
    """A Spark workspace, for a table that cannot be read directly."""
    spark = spark_lake(lake)
    if spark is None:
        raise Unsupported(
            f"{table.name!r} cannot be read without Spark",
            hint="use it from a lake that has Spark",
            reason="NEEDS_SPARK",
        )
    return spark.work()


def net_changes(table: Table, old: int, new: int, columns: Sequence[str]) -> pa.Table | None:
    """The signed net changes of some columns between two versions; None if they are not small."""
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
    signs: list[int] = net[SIGN].to_pylist()
    return signs


def row_count(table: Table) -> int | None:
    """The number of rows according to the log; None if the log does not say."""
    data_files = files(table.store, table.version)
    return None if data_files is None else count(data_files)


class LakeRowFinder:
    """Finds rows of a view's tables by value, at the versions of a vector: in data files, or by Spark."""

    def __init__(self, lake: ReadableLake, shape: JoinBlock, vector: Vector) -> None:
        self._lake, self._used, self._vector = lake, shape.used, vector
        self._tables = {t: lake.table(t) for t in shape.tables}

    def find(self, table: str, values: pa.Table, most: int) -> pa.Table | None:
        """See `RowFinder.find`."""
        source, version = self._tables[table], self._vector[table].version
        columns = list(self._used[table])
        column = _lookup_column(source, values.column_names)
        rows = None
        if column is not None:
            keys = values[column].combine_chunks()
            nulls = keys.null_count > 0
            rows = look_up(
                source, version, columns, column, keys.drop_null(), nulls=nulls, most=most
            )
        if rows is None:
            legible = spark_lake(self._lake) is None and legible_files(source, version, columns)
            if legible:
                return None
            return self._joined(source, version, values, most)
        return rows.filter(pa.array(agreeing_rows(rows, values)))

    def _joined(self, table: Table, version: int, values: pa.Table, most: int) -> pa.Table:
        """The same by a semi-join on Spark, which returns at most one row more than wanted."""
        types = self._used[table.name]
        with workspace_of(self._lake, table) as w:
            values_table = w.hold("asked", values, {c: types[c] for c in values.column_names})
            same = " AND ".join(f"t.{quote(c)} <=> a.{quote(c)}" for c in values.column_names)
            listed = ", ".join(f"t.{quote(c)}" for c in types)
            rows: pa.Table = w.query(
                f"SELECT {listed} FROM {table.at(version)} AS t LEFT SEMI JOIN {values_table} AS a"
                f" ON {same} LIMIT {most + 1}"
            ).toArrow()
        return rows.cast(arrow_schema(types))


def _lookup_column(table: Table, columns: Sequence[str]) -> str | None:
    """The column for the look-up: the first key column that can be looked up, else any that can."""
    by_lower_name = {c.lower(): c for c in columns if can_look_up(table, c)}
    key = [by_lower_name[c.lower()] for c in key_of(table) or () if c.lower() in by_lower_name]
    return next(iter([*key, *by_lower_name.values()]), None)


class LakeRowSource:
    """Reads rows of a lake's tables by value; each table stays at the version first read."""

    def __init__(self, lake: ReadableLake) -> None:
        self._lake = lake
        self._tables: dict[str, Table] = {}
        self._known: dict[tuple[str, tuple[tuple[str, Any], ...]], list[BaseRow]] = {}

    def where(self, table: str, equal: Mapping[str, Any]) -> list[BaseRow]:
        """The rows of any table whose columns have these values, with all columns.

        Given a whole key, rows are looked up by the key alone and kept for later calls.
        """
        source = self._table(table)
        key = {c.lower() for c in key_of(source) or ()}
        key_columns = [c for c in equal if c.lower() in key and equal[c] is not None]
        looked_up = {
            c: equal[c]
            for c in sorted(key_columns if key and len(key_columns) == len(key) else equal)
        }
        lookup = table, tuple(looked_up.items())
        if lookup not in self._known:
            self._known[lookup] = self._found(source, looked_up)
        rest = {c: value for c, value in equal.items() if c not in looked_up}
        return [r for r in self._known[lookup] if all(r[c] == v for c, v in rest.items())]

    def largest(self, table: str, column: str) -> int:
        """See `RowSource.largest`: from the statistics in the log, or by reading the column."""
        source = self._table(table)
        data_files = files(source.store, source.version) if source.plain else None
        bounds = bounds_of_all(source, data_files, column) if data_files is not None else None
        if bounds is not None:
            return max(0, int(bounds[1]))
        return max(
            0,
            pc.max(read_version(self._lake, source, source.version, [column])[column]).as_py() or 0,
        )

    def first(self, table: str, column: str, most: int) -> list[Any]:
        """See `RowSource.first`: reads data files until there are enough values."""
        source = self._table(table)
        batches = stream_whole(source, source.version, [column])
        if batches is None:
            batches = iter([read_version(self._lake, source, source.version, [column])])
        distinct: dict[Any, None] = {}
        for rows in batches:
            values = pc.unique(rows[column]).drop_null().slice(0, most).to_pylist()
            distinct.update(dict.fromkeys(values))
            if len(distinct) >= most:
                break
        return list(distinct)[:most]

    def _table(self, name: str) -> Table:
        if name not in self._tables:
            self._tables[name] = self._lake.table(name)
        return self._tables[name]

    def _found(self, table: Table, equal: Mapping[str, Any]) -> list[BaseRow]:
        columns = [c for c, _ in table.columns]
        lookup_column = _lookup_column(
            table, [c for c, value in equal.items() if value is not None]
        )
        rows: pa.Table | None = None
        if lookup_column is not None:
            keys = pa.array(
                [equal[lookup_column]],
                arrow_schema({lookup_column: table.types[lookup_column.lower()]}).types[0],
            )
            rows = look_up(
                table, table.version, columns, lookup_column, keys, nulls=False, most=MOST_ROWS
            )
        if rows is None:
            rows = read_version(self._lake, table, table.version, columns)
        for column, value in equal.items():
            matching = (
                rows[column].is_null()
                if value is None
                else pc.equal(rows[column], pa.scalar(value, rows[column].type))
            )
            rows = rows.filter(pc.fill_null(matching, False))
        base_rows: list[BaseRow] = rows.to_pylist()
        return base_rows
