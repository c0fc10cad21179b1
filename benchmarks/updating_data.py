"""Data for updates through views: TPC-H with rows sampled, a bibliography, SYNTHETICDB.

Plain TPC-H has almost no row that joins with nothing, so its tables are sampled by rows, and
insertions are taken from the view of the whole data.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from belvedere.sql.bind import Relation, bind
from belvedere.updating.filter import Filter, make_filter
from belvedere.updating.normal import Shape, normal_form

KEYS: dict[str, tuple[str, ...]] = {
    "region": ("r_regionkey",),
    "nation": ("n_nationkey",),
    "supplier": ("s_suppkey",),
    "customer": ("c_custkey",),
    "part": ("p_partkey",),
    "partsupp": ("ps_partkey", "ps_suppkey"),
    "orders": ("o_orderkey",),
    "lineitem": ("l_orderkey", "l_linenumber"),
}
COLUMNS: dict[str, tuple[str, ...]] = {
    "region": ("r_regionkey",),
    "nation": ("n_nationkey", "n_regionkey"),
    "supplier": ("s_suppkey", "s_nationkey"),
    "customer": ("c_custkey", "c_nationkey"),
    "part": ("p_partkey",),
    "partsupp": ("ps_partkey", "ps_suppkey"),
    "orders": ("o_orderkey", "o_custkey"),
    "lineitem": ("l_orderkey", "l_linenumber", "l_partkey", "l_suppkey"),
}

_C, _O, _L = "customer c", "orders o", "lineitem l"
_CO, _LO = "c.c_custkey = o.o_custkey", "l.l_orderkey = o.o_orderkey"
_SN, _NR = "s.s_nationkey = n.n_nationkey", "n.n_regionkey = r.r_regionkey"
_SL, _PL = "s.s_suppkey = l.l_suppkey", "p.p_partkey = l.l_partkey"
# Of q05, the only cyclic one, the paper removes a join; with it, the estimate errs and AUTO does not.
JOINS: dict[str, tuple[str, str]] = {
    "q02": (
        "part p, supplier s, partsupp ps, nation n, region r",
        f"p.p_partkey = ps.ps_partkey AND s.s_suppkey = ps.ps_suppkey AND {_SN} AND {_NR}",
    ),
    "q03": (f"{_C}, {_O}, {_L}", f"{_CO} AND {_LO}"),
    "q04": (f"{_O}, {_L}", _LO),
    "q05": (
        f"{_C}, {_O}, {_L}, supplier s, nation n, region r",
        f"{_CO} AND {_LO} AND {_SL} AND {_SN} AND {_NR}",
    ),
    "q05 cyclic": (
        f"{_C}, {_O}, {_L}, supplier s, nation n, region r",
        f"{_CO} AND {_LO} AND {_SL} AND c.c_nationkey = s.s_nationkey AND {_SN} AND {_NR}",
    ),
    "q07": (
        f"{_C}, {_O}, {_L}, supplier s, nation n, nation n2",
        f"{_SL} AND {_LO} AND {_CO} AND {_SN} AND c.c_nationkey = n2.n_nationkey",
    ),
    "q08": (
        f"part p, supplier s, {_L}, {_O}, {_C}, nation n, nation n2, region r",
        f"{_PL} AND {_SL} AND {_LO} AND {_CO} AND c.c_nationkey = n.n_nationkey AND {_NR}"
        " AND s.s_nationkey = n2.n_nationkey",
    ),
    "q09": (
        f"part p, supplier s, {_L}, partsupp ps, {_O}, nation n",
        f"{_SL} AND ps.ps_suppkey = l.l_suppkey AND ps.ps_partkey = l.l_partkey AND {_PL} AND {_LO} AND {_SN}",
    ),
    "q10": (f"{_C}, {_O}, {_L}, nation n", f"{_CO} AND {_LO} AND c.c_nationkey = n.n_nationkey"),
    "q11": ("partsupp ps, supplier s, nation n", f"ps.ps_suppkey = s.s_suppkey AND {_SN}"),
    "q13": (f"{_C}, {_O}", _CO),
    "q14": (f"{_L}, part p", _PL),
    "q15": (f"supplier s, {_L}", _SL),
    "q16": ("partsupp ps, part p", "p.p_partkey = ps.ps_partkey"),
    "q20": ("supplier s, nation n", _SN),
    "q21": (f"supplier s, {_L}, {_O}, nation n", f"{_SL} AND {_LO} AND {_SN}"),
}
SAME = {"q12": "q04", "q17": "q14", "q18": "q03", "q19": "q14", "q22": "q13"}
"""Join queries that are others' again; q01 and q06 have one table."""


@dataclass
class Tpch:
    """TPC-H with its rows sampled, beside the whole."""

    connection: duckdb.DuckDBPyConnection

    @staticmethod
    def at(directory: Path, percent: int, seed: int = 7) -> Tpch:
        """The generated files, and a sample of each table's rows."""
        connection = duckdb.connect()
        connection.execute("SET threads = 2")
        for table, columns in COLUMNS.items():
            listed = ", ".join(columns)
            source = f"read_parquet('{directory / table}.parquet')"
            connection.execute(f"CREATE TABLE whole_{table} AS SELECT {listed} FROM {source}")
            kept = f"hash({', '.join(KEYS[table])}, {seed}) % 100 < {percent}"
            connection.execute(f"CREATE TABLE {table} AS SELECT * FROM whole_{table} WHERE {kept}")
        return Tpch(connection)

    def bytes(self, directory: Path, tables: list[str], percent: int) -> int:
        """What all columns of some tables take in Arrow, at the sample's size, from a few rows."""
        total = 0.0
        for table in tables:
            source = f"read_parquet('{directory / table}.parquet')"
            some = self.connection.execute(f"SELECT * FROM {source} LIMIT 20000").to_arrow_table()
            (rows,) = self.connection.execute(f"SELECT count(*) FROM {table}").fetchone() or (0,)
            total += some.nbytes / max(some.num_rows, 1) * rows
        del percent
        return round(total)

    def tables(self, shape: Shape) -> dict[str, pa.Table]:
        """The sampled tables of a view."""
        return {
            t: self.connection.execute(f"SELECT * FROM {t}").to_arrow_table() for t in shape.tables
        }

    def insertions(self, name: str, rows: int, seed: int) -> Iterator[dict[str, Any]]:
        """Rows of the view of the whole data, the same and in the same order at every run."""
        froms, where = JOINS[name]
        driving = max(froms.split(", "), key=lambda f: list(COLUMNS).index(f.split()[0]))
        some = []
        for part in froms.split(", "):
            table, alias = part.split()
            by = f"hash({', '.join(KEYS[table])}, {seed})"
            sampled = f"(SELECT * FROM whole_{table} ORDER BY {by} LIMIT {rows})"
            some.append(f"{sampled} {alias}" if part == driving else f"whole_{table} {alias}")
        text = f"SELECT {outputs(froms)} FROM {', '.join(some)} WHERE {where} ORDER BY ALL"
        found = self.connection.execute(text).to_arrow_table().to_pylist()
        random.Random(seed).shuffle(found)
        yield from found

    def count(self, name: str, more: Mapping[str, list[tuple[Any, ...]]] | None = None) -> int:
        """The rows of the view of the sample, with rows put into its tables: brute force."""
        froms, where = JOINS[name]
        parts = []
        for part in froms.split(", "):
            table, alias = part.split()
            new = "".join(
                f" UNION SELECT {', '.join(map(str, r))}" for r in (more or {}).get(table, [])
            )
            parts.append(f"(SELECT * FROM {table}{new}) {alias}" if new else part)
        text = f"SELECT count(*) FROM {', '.join(parts)} WHERE {where}"
        (found,) = self.connection.execute(text).fetchone() or (0,)
        return int(found)


class Tables:
    """A catalog of tables of 64-bit integers."""

    def __init__(self, columns: Mapping[str, tuple[str, ...]]) -> None:
        self.columns = columns

    def resolve(self, name: str) -> Relation:
        return Relation(columns=tuple((c, "bigint") for c in self.columns[name]), table=name)


def outputs(froms: str) -> str:
    """All columns of all tables, under names of their own."""
    pairs = [part.split() for part in froms.split(", ")]
    return ", ".join(f"{a}.{c} AS {a}_{c}" for t, a in pairs for c in COLUMNS[t])


def shape_of(name: str) -> Shape:
    """A join query in normal form."""
    froms, where = JOINS[name]
    return normal_form(bind(f"SELECT {outputs(froms)} FROM {froms} WHERE {where}", Tables(COLUMNS)))


@dataclass(frozen=True)
class Synthetic:
    """SYNTHETICDB: relations in a row, each joined with the next by a foreign key.

    Four parameters: how many relations, their size, the direction of each join (True: the left one
    has the foreign key), and the greatest fan-out of a row.
    """

    relations: int = 6
    size: int = 3000
    forward: tuple[bool, ...] = (True, False, True, False, True)
    fan_out: int = 4
    seed: int = 1

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        return {f"r{i}": ("pk", "f1", "f2", "v") for i in range(self.relations)}

    def rows(self, seed: int) -> dict[str, list[tuple[int, ...]]]:
        """Rows of every relation; keys of another draw mostly do not meet."""
        dice = random.Random((self.seed, seed).__hash__())
        span = 2 * self.size
        return {
            f"r{i}": [
                (k, self._refers(dice, span), self._refers(dice, span), dice.randrange(50))
                for k in dice.sample(range(span), self.size)
            ]
            for i in range(self.relations)
        }

    def _refers(self, dice: random.Random, span: int) -> int:
        """A foreign key: the smaller its range, the greater the fan-out."""
        return dice.randrange(0, span, max(1, self.fan_out))

    def where(self) -> str:
        """Each relation joined with the next."""
        parts = []
        for i in range(self.relations - 1):
            one, other = ("f1", "pk") if self.forward[i % len(self.forward)] else ("pk", "f2")
            parts.append(f"r{i}.{one} = r{i + 1}.{other}")
        return " AND ".join(parts)

    def query(self, shown: list[str] | None = None) -> str:
        listed = shown or [
            f"r{i}.{c}" for i in range(self.relations) for c in ("pk", "f1", "f2", "v")
        ]
        named = ", ".join(f"{c} AS {c.replace('.', '_')}" for c in listed)
        return f"SELECT {named} FROM {', '.join(self.columns)} WHERE {self.where()}"


def bibliography(
    papers: int, share: float, seed: int
) -> tuple[dict[str, list[tuple[int, ...]]], dict[str, list[tuple[int, ...]]]]:
    """Persons, papers, who wrote what, proceedings: all rows, and a sample of them.

    Authors and venues are Zipf-like: few have much.
    """
    dice = random.Random(seed)
    persons, venues = max(papers // 2, 4), max(papers // 40, 2)
    skewed = lambda n: min(n - 1, int(n * dice.random() ** 3))  # noqa: E731
    written = {(skewed(persons), p) for p in range(papers) for _ in range(dice.randint(1, 4))}
    whole: dict[str, list[tuple[int, ...]]] = {
        "person": [(i,) for i in range(persons)],
        "wrote": sorted(written),
        "paper": [(p, skewed(venues)) for p in range(papers)],
        "proceedings": [(v, 1980 + v % 40) for v in range(venues)],
    }
    some = {t: [r for r in rows if dice.random() < share] for t, rows in whole.items()}
    return whole, some


BIBLIOGRAPHY = {
    "person": ("person",),
    "wrote": ("who", "what"),
    "paper": ("paper", "venue"),
    "proceedings": ("proceedings", "year"),
}
BIBLIOGRAPHY_KEYS = {
    "person": ("person",),
    "wrote": ("who", "what"),
    "paper": ("paper",),
    "proceedings": ("proceedings",),
}
BIBLIOGRAPHY_QUERY = (
    "SELECT person, who, what, paper, venue, proceedings, year FROM person, wrote, paper, proceedings"
    " WHERE person = who AND what = paper AND venue = proceedings"
)


def as_arrow(
    columns: Mapping[str, tuple[str, ...]], rows: Mapping[str, list[tuple[int, ...]]]
) -> dict[str, pa.Table]:
    """Rows in Arrow."""
    return {
        t: pa.table({c: pa.array([r[i] for r in rows[t]], pa.int64()) for i, c in enumerate(names)})
        for t, names in columns.items()
    }


def filter_over(
    query: str,
    columns: Mapping[str, tuple[str, ...]],
    tables: Mapping[str, pa.Table],
    keys: Mapping[str, tuple[str, ...]],
    root: int,
    share: float,
) -> Filter:
    """The filter of a query over tables of integers."""
    shape = normal_form(bind(query, Tables(columns)))
    return make_filter(shape, tables, keys, root=root, share=share)
