"""Tables with a column of every type, values at their edges, and views of them, drawn by a seed.

Rows are written by Spark, by delta-rs, and as Parquet files of pyarrow and DuckDB that a commit adds.
"""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake
from deltalake.transaction import AddAction

import belvedere as bv
from belvedere.errors import BelvedereError

_TEXTS = ["''", "'ab'", "'ab '", "'aé'", "' b'"]
_DAYS = ["0001-01-01", "1500-02-28", "1582-10-04", "1582-10-05", "1582-10-14", "1582-10-15"]
_DAYS += ["1969-12-31", "9999-12-31"]
_TIMES = ["0001-01-02 00:00:00", "1500-03-01 01:02:03.000004", "1582-10-05 12:00:00"]
_TIMES += ["1582-10-14 23:59:59.999999", "1900-01-01 00:00:00.000001", "2024-03-10 02:30:00.123456"]
_TIMES += ["9999-12-30 23:59:59.999999"]
_FLOATS = ["'NaN'", "'-0.0'", "'0.0'", "'Infinity'", "'-1.5'", "'1.4e-45'"]

TYPES: dict[str, tuple[str, list[str]]] = {
    "ti": ("TINYINT", ["-128Y", "127Y", "0Y"]),
    "si": ("SMALLINT", ["-32768S", "32767S", "1S"]),
    "i": ("INT", ["-2147483648", "2147483647", "7"]),
    "bi": ("BIGINT", ["-9223372036854775808L", "9223372036854775807L", "9007199254740993L"]),
    "d5": ("DECIMAL(5,2)", ["-999.99BD", "0.10BD", "0.00BD"]),
    "d18": ("DECIMAL(18,6)", ["999999999999.999999BD", "-0.000001BD"]),
    "d38": ("DECIMAL(38,10)", ["9007199254740993.0000000001BD", "-1.0BD"]),
    "fl": ("FLOAT", [f"float({v})" for v in _FLOATS]),
    "do": ("DOUBLE", [f"double({v})" for v in _FLOATS]),
    "bo": ("BOOLEAN", ["true", "false"]),
    "s": ("STRING", [*_TEXTS, "'ab   '", "repeat('x', 300)", "concat(repeat('x', 300), 'y')"]),
    "ch": ("CHAR(5)", [*_TEXTS, "'abcde'"]),
    "c8": ("CHAR(8)", [*_TEXTS, "'abcde'", "'abcdefgh'"]),
    "vc": ("VARCHAR(5)", [*_TEXTS, "'abcde'"]),
    "bn": ("BINARY", ["X''", "X'00'", "X'00FF80'"]),
    "da": ("DATE", [f"DATE'{day}'" for day in _DAYS]),
    "ts": ("TIMESTAMP", [f"TIMESTAMP'{at}Z'" for at in _TIMES]),
    "tn": ("TIMESTAMP_NTZ", [f"TIMESTAMP_NTZ'{at}'" for at in _TIMES]),
    "st": (
        "STRUCT<a: DATE, b: STRING>",
        ["named_struct('a', DATE'1582-10-05', 'b', 'x ')", "named_struct('a', NULL, 'b', '')"],
    ),
    "sc": (
        "STRUCT<a: CHAR(4), b: DOUBLE>",
        ["named_struct('a', 'x', 'b', double('-0.0'))", "named_struct('a', 'x ', 'b', 1.5D)"],
    ),
    "ar": ("ARRAY<TIMESTAMP>", ["array(TIMESTAMP'1582-10-05 12:00:00Z', NULL)", "array()"]),
    "ac": ("ARRAY<CHAR(3)>", ["array('a', NULL)", "array('abc')", "array()"]),
    "mp": ("MAP<STRING, DECIMAL(5,2)>", ["map('a', 0.10BD, 'a ', NULL)", "map()"]),
    "mc": ("MAP<CHAR(3), CHAR(4)>", ["map('a', 'b')", "map('abc', NULL)"]),
}
"""Of each column its type and values."""
_SHOWN = {"mp": "map_entries({})", "mc": "map_entries({})"}
"""Maps cannot be compared, and CHAR within other values cannot be stored."""
_SHOWN |= {"ac": "element_at({}, 1)", "sc": "{}.a"}
_CONSTANTS = [c for c, (kind, _) in TYPES.items() if "<" not in kind]
"""Columns that are compared with constants in their filters."""
WRITERS = ("insert", "update", "delete", "merge", "delta-rs", "pyarrow", "duckdb")
_PARTITIONS = ("", "", "ch", "da", "bo")


@dataclass
class TypedTable:
    """A table, another that it is joined with, and views of them."""

    lake: bv.Lake
    directory: Path
    seed: int
    views: dict[str, str] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)
        self.table, self.other = f"t{self.seed}", f"o{self.seed}"
        self.partition = self.draw.choice(_PARTITIONS)
        vectors = str(self.draw.random() < 0.6).lower()
        self._next = 0
        columns = ", ".join(f"{c} {kind}" for c, (kind, _) in TYPES.items())
        for table in (self.table, self.other):
            by = f"PARTITIONED BY ({self.partition})" if self.partition else ""
            self.lake.sql(
                f"CREATE TABLE {table} (id INT, {columns}) USING delta {by} TBLPROPERTIES"
                f" ('delta.enableChangeDataFeed' = 'true',"
                f" 'delta.enableDeletionVectors' = '{vectors}')"
            )
            self.lake.sql(f"INSERT INTO {table} {self._rows(6)}")

    def create(self, count: int) -> None:
        """Views of so many shapes; those that are refused are noted."""
        queries = self._queries()
        for number in range(count):
            name, query = f"v{self.seed}_{number}", queries[number % len(queries)](self)
            try:
                self.lake.sql(
                    f"CREATE MATERIALIZED VIEW {name} REFRESH POLICY INCREMENTAL AS {query}"
                )
            except BelvedereError as why:
                self.refused.append(f"{query}: {why}")
            else:
                self.views[name] = query

    def change(self, writer: str) -> None:
        """Change the table, or the other one, in some way."""
        table = self.table if self.draw.random() < 0.7 else self.other
        if writer in ("pyarrow", "duckdb") and self.partition:
            writer = "delta-rs"
        match writer:
            case "insert":
                self.lake.sql(f"INSERT INTO {table} {self._rows(3)}")
            case "update":
                sets = ", ".join(f"{c} = {self._value(c)}" for c in self.draw.sample([*TYPES], 6))
                self.lake.sql(f"UPDATE {table} SET {sets} WHERE {self._some()}")
            case "delete":
                self.lake.sql(f"DELETE FROM {table} WHERE {self._some()}")
            case "merge":
                self.lake.sql(
                    f"MERGE INTO {table} t USING ({self._rows(2)} UNION ALL"
                    f" SELECT * FROM {table} WHERE {self._some()}) s ON t.id = s.id"
                    f" WHEN MATCHED THEN UPDATE SET bi = t.id, da = {self._value('da')},"
                    f" ch = {self._value('ch')} WHEN NOT MATCHED THEN INSERT *"
                )
            case _:
                self._append(table, writer)

    def drop(self) -> None:
        """Drop the views and the tables."""
        for name in self.views:
            self.lake.sql(f"DROP MATERIALIZED VIEW {name}")
        for table in (self.table, self.other):
            self.lake.sql(f"DROP TABLE {table}")

    def problems(self) -> list[str]:
        """Views that are not what their queries are now, types included."""
        names = [*self.views]
        wrong = [
            f"{name}: {shown} for {asked}"
            for name in names
            if (shown := self.lake.sql(f"SELECT * FROM {name}").dtypes)
            != (asked := self.lake.sql(self.views[name]).dtypes)
        ]
        # Of a group with 0.0 and -0.0 either one is shown.
        text = "replace(CAST(struct(*) AS STRING), '-0.0', '0.0')"
        both = " UNION ALL ".join(
            f"SELECT '{name}' AS name, {sign} AS sign, {text} AS row FROM ({query})"
            for name in names
            for sign, query in ((1, f"SELECT * FROM {name}"), (-1, self.views[name]))
        )
        other = self.lake.sql(
            f"SELECT name, row, sum(sign) AS n FROM ({both}) GROUP BY name, row HAVING n <> 0"
        )
        return wrong + [
            f"{r['name']}: {r['n']} of {r['row']} for {self.views[r['name']]}"
            for r in other.orderBy("name", "row").collect()
        ]

    def _append(self, table: str, writer: str) -> None:
        """Rows as whoever does not know CHAR and VARCHAR writes them."""
        root = str(self.directory / table)
        plain = ", ".join(f"CAST({c} AS {_as_text(kind)}) AS {c}" for c, (kind, _) in TYPES.items())
        rows = self.lake.sql(f"SELECT id, {plain} FROM ({self._rows(3)})").toArrow()
        rows = rows.cast(pa.schema(DeltaTable(root).schema().to_arrow()))
        if writer == "delta-rs":
            write_deltalake(root, rows, mode="append")
            return
        path = f"{uuid.UUID(int=self.draw.getrandbits(128))}.parquet"
        if writer == "pyarrow":
            pq.write_table(rows, f"{root}/{path}", row_group_size=2)
        else:
            with duckdb.connect() as connection:
                connection.sql("SET TimeZone = 'UTC'")
                connection.register("rows", rows)
                connection.sql(f"COPY (SELECT * FROM rows) TO '{root}/{path}' (FORMAT parquet)")
        size = (Path(root) / path).stat().st_size
        opened = DeltaTable(root)
        opened.create_write_transaction(
            [AddAction(path, size, {}, 0, True, "{}")],
            mode="append",
            schema=opened.schema(),
        )

    def _rows(self, count: int) -> str:
        return " UNION ALL ".join(self._row() for _ in range(count))

    def _row(self) -> str:
        self._next += 1
        cells = (f"CAST({self._value(c)} AS {_as_text(TYPES[c][0])}) AS {c}" for c in TYPES)
        return f"SELECT {self._next} AS id, {', '.join(cells)}"

    def _value(self, column: str) -> str:
        values = TYPES[column][1]
        return "NULL" if self.draw.random() < 0.15 else self.draw.choice(values)

    def _some(self) -> str:
        """A condition that some rows meet."""
        return f"id % {self.draw.choice((2, 3, 4))} = {self.draw.choice((0, 1))}"

    def _column(self) -> str:
        return self.draw.choice([*TYPES])

    def _constant(self, column: str) -> str:
        """A condition on a column and constants of its type."""
        values = [v for v in TYPES[column][1] if not v.startswith(("repeat", "concat"))]
        a, b = self.draw.choice(values), self.draw.choice(values)
        comparison = self.draw.choice(
            ("= {a}", "<=> {a}", "<> {a}", ">= {a}", "< {a}", "IN ({a}, {b})")
        )
        return f"{column} {comparison.format(a=a, b=b)}"

    def _queries(self):  # type: ignore[no-untyped-def]
        return (
            _grouped,
            _joined,
            _kept,
            _extremes,
            _distinct,
            _windowed,
            _rows_of,
            _without,
            _union,
        )


def _grouped(t: TypedTable) -> str:
    c = t._column()
    return (
        f"SELECT {_shown(c)} AS c, count(*) AS n, min(id) AS m FROM {t.table} GROUP BY {_shown(c)}"
    )


def _joined(t: TypedTable) -> str:
    c = t.draw.choice([x for x in TYPES if x not in _SHOWN])
    d = {"ch": "c8", "c8": "s"}.get(c, c) if t.draw.random() < 0.4 else c
    return f"SELECT a.id, b.id AS o, a.{c} FROM {t.table} a JOIN {t.other} b ON a.{c} = b.{d}"


def _kept(t: TypedTable) -> str:
    c = t.draw.choice(_CONSTANTS)
    return f"SELECT id, {c}, bo FROM {t.table} WHERE {t._constant(c)}"


def _extremes(t: TypedTable) -> str:
    c, g = (t.draw.choice([x for x in TYPES if x not in _SHOWN]) for _ in range(2))
    return f"SELECT {g} AS g, min({c}) AS least, max({c}) AS most FROM {t.table} GROUP BY {g}"


def _distinct(t: TypedTable) -> str:
    c, d, e = (_shown(t._column()) for _ in range(3))
    return f"SELECT DISTINCT {c} AS c, {d} AS d, {e} AS e FROM {t.table}"


def _windowed(t: TypedTable) -> str:
    c, d = (t.draw.choice([x for x in TYPES if x not in _SHOWN]) for _ in range(2))
    return (
        f"SELECT id, count(*) OVER (PARTITION BY {c}) AS n,"
        f" max({d}) OVER (PARTITION BY {c}) AS m FROM {t.table}"
    )


def _rows_of(t: TypedTable) -> str:
    shown = ", ".join(f"{_shown(c)} AS {c}" for c in t.draw.sample([*TYPES], 8))
    return f"SELECT {shown} FROM {t.table}"


def _without(t: TypedTable) -> str:
    c = t.draw.choice([x for x in TYPES if x not in _SHOWN])
    return (
        f"SELECT id, {c} FROM {t.table} a"
        f" WHERE NOT EXISTS (SELECT 1 FROM {t.other} b WHERE b.{c} = a.{c})"
    )


def _union(t: TypedTable) -> str:
    c = t.draw.choice([x for x in TYPES if x not in _SHOWN])
    d = t.draw.choice(("s", "ch", "c8", "vc")) if c in ("s", "ch", "c8", "vc") else c
    return f"SELECT {c} FROM {t.table} UNION SELECT {d} FROM {t.other}"


def _shown(column: str) -> str:
    return _SHOWN.get(column, "{}").format(column)


def _as_text(kind: str) -> str:
    """A type with STRING for CHAR and VARCHAR, as a cast to them gives it."""
    for declared in ("VARCHAR(5)", "CHAR(3)", "CHAR(4)", "CHAR(5)", "CHAR(8)"):
        kind = kind.replace(declared, "STRING")
    return kind
