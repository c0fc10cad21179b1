"""The paper's queries as streams of batches: QX, QY, QZ on TPC-DS, QB on cars that report their positions."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from duckdb_extensions import import_extension

BATCH = 3000
CACHE = Path(__file__).parents[2] / ".cache" / "benchmarks"
TABLES = {
    "store_sales": "ss_item_sk ss_ticket_number ss_customer_sk ss_sold_date_sk ss_quantity ss_net_profit",
    "store_returns": "sr_item_sk sr_ticket_number sr_customer_sk sr_return_quantity sr_net_loss",
    "catalog_sales": "cs_bill_customer_sk cs_sold_date_sk cs_quantity cs_net_profit",
    "date_dim": "d_date_sk d_year d_moy",
    "customer": "c_customer_sk c_current_hdemo_sk c_birth_year",
    "household_demographics": "hd_demo_sk hd_income_band_sk hd_dep_count",
    "item": "i_item_sk i_category_id i_current_price",
}
KEYS = {
    "store_sales": ["ss_item_sk", "ss_ticket_number"],
    "date_dim": ["d_date_sk"],
    "customer": ["c_customer_sk"],
    "household_demographics": ["hd_demo_sk"],
    "item": ["i_item_sk"],
}

Event = tuple[str, pa.Table, bool]
"""A table's batch, and whether its rows go."""


@dataclass(frozen=True)
class Workload:
    """A query, what is there before it starts, and what comes."""

    name: str
    query: str
    preloaded: dict[str, str]
    """Tables of the query by where their rows are from; a second mention of a table has a copy."""
    streamed: dict[str, str]
    nulls: bool = True
    """Whether NULL is unlike any value; else all NULLs of a key are one value, as in the paper."""

    def shown(self, rows: pa.Table) -> pa.Table:
        """Rows as this workload has them."""
        if self.nulls:
            return rows
        keys = [
            c if c.type not in (pa.int32(), pa.int64()) else pc.fill_null(c, -1)
            for c in rows.columns
        ]
        return pa.table(keys, names=rows.column_names)


QX = Workload(
    "qx",
    """SELECT * FROM store_sales, store_returns, catalog_sales, date_dim d1, date_dim d2
       WHERE ss_item_sk = sr_item_sk AND ss_ticket_number = sr_ticket_number
         AND sr_customer_sk = cs_bill_customer_sk
         AND d1.d_date_sk = ss_sold_date_sk AND d2.d_date_sk = cs_sold_date_sk""",
    {"date_dim": "date_dim"},
    {t: t for t in ("store_sales", "store_returns", "catalog_sales")},
)
QX_NULLS = replace(QX, name="qx_nulls", nulls=False)
QY = Workload(
    "qy",
    """SELECT * FROM store_sales, customer c1, household_demographics d1, customer_2 c2,
                     household_demographics d2
       WHERE ss_customer_sk = c1.c_customer_sk AND c1.c_current_hdemo_sk = d1.hd_demo_sk
         AND d1.hd_income_band_sk = d2.hd_income_band_sk
         AND d2.hd_demo_sk = c2.c_current_hdemo_sk""",
    {"customer": "customer", "household_demographics": "household_demographics"},
    {"store_sales": "store_sales", "customer_2": "customer"},
)
QZ = Workload(
    "qz",
    """SELECT * FROM store_sales, customer c1, household_demographics d1, item i1, customer_2 c2,
                     household_demographics d2, item_2 i2
       WHERE ss_customer_sk = c1.c_customer_sk AND c1.c_current_hdemo_sk = d1.hd_demo_sk
         AND d1.hd_income_band_sk = d2.hd_income_band_sk
         AND d2.hd_demo_sk = c2.c_current_hdemo_sk
         AND ss_item_sk = i1.i_item_sk AND i1.i_category_id = i2.i_category_id""",
    {
        "customer": "customer",
        "household_demographics": "household_demographics",
        "item": "item",
    },
    {"store_sales": "store_sales", "customer_2": "customer", "item_2": "item"},
)


def files(scale: int) -> Path:
    """A directory with the tables of a scale, generated once."""
    directory = CACHE / f"tpcds_sf{scale}"
    if not all((directory / f"{t}.parquet").exists() for t in TABLES):
        directory.mkdir(parents=True, exist_ok=True)
        import_extension("tpcds")
        # In a file, for a large scale would not fit beside other work.
        with (
            tempfile.TemporaryDirectory(dir=directory) as home,
            duckdb.connect(f"{home}/tpcds.duckdb", config={"memory_limit": "3GB"}) as db,
        ):
            db.execute(f"LOAD tpcds; CALL dsdgen(sf={scale})")
            for table in TABLES:
                listed = ", ".join(columns(table))
                path = directory / f"{table}.parquet"
                db.execute(f"COPY (SELECT {listed} FROM {table}) TO '{path}'")
    return directory


def columns(table: str) -> list[str]:
    """The columns of a table that the benchmark keeps: keys and a few to look at."""
    return TABLES[table].split()


def schemas(workload: Workload, scale: int) -> dict[str, pa.Schema]:
    """The schemas of a workload's tables."""
    found = {}
    for table, source in (workload.preloaded | workload.streamed).items():
        schema = pq.read_schema(files(scale) / f"{source}.parquet")
        found[table] = pa.schema([schema.field(c) for c in columns(source)]).remove_metadata()
    return found


def rows_of(source: str, scale: int) -> int:
    """How many rows a table has."""
    return int(pq.read_metadata(files(scale) / f"{source}.parquet").num_rows)


def whole(source: str, scale: int) -> pa.Table:
    """A table at once."""
    path = files(scale) / f"{source}.parquet"
    return pq.read_table(path, columns=columns(source)).replace_schema_metadata()


def streamed(source: str, scale: int, batch: int) -> Iterator[pa.Table]:
    """A table in batches, read as they are asked for."""
    file = pq.ParquetFile(files(scale) / f"{source}.parquet")
    for piece in file.iter_batches(
        batch_size=120 * batch if batch > 1 else 3000, columns=columns(source)
    ):
        rows = pa.Table.from_batches([piece]).replace_schema_metadata()
        for start in range(0, rows.num_rows, batch):
            yield rows.slice(start, batch)


def interleaved(
    workload: Workload,
    scale: int,
    batch: int = BATCH,
    *,
    each: dict[str, int] | None = None,
    most: int | None = None,
) -> Iterator[Event]:
    """The streamed tables in proportion to their sizes: next is the one that is the farthest behind."""
    sizes = {t: rows_of(s, scale) for t, s in workload.streamed.items()}
    each = each or dict.fromkeys(sizes, batch)
    sources = {t: streamed(s, scale, each[t]) for t, s in workload.streamed.items()}
    done = dict.fromkeys(sizes, 0)
    while sources and (most is None or sum(done.values()) < most):
        table = min(sources, key=lambda t: (done[t] + each[t]) / sizes[t])
        rows = next(sources[table], None)
        if rows is None:
            del sources[table]
        else:
            done[table] += rows.num_rows
            yield table, workload.shown(rows), False


def with_deletions(workload: Workload, scale: int, share: float = 0.2) -> Iterator[Event]:
    """The same, and behind every batch of a table a fifth as many of its oldest rows go."""
    alive: dict[str, list[pa.Table]] = {}
    for table, rows, _ in interleaved(
        workload, scale, each={"store_sales": 3000, "customer_2": 500}
    ):
        yield table, rows, False
        kept = alive.setdefault(table, [])
        kept.append(rows)
        gone, wanted = [], int(share * rows.num_rows)
        while wanted and kept:
            oldest = kept[0]
            gone.append(oldest.slice(0, wanted))
            rest = oldest.slice(min(wanted, oldest.num_rows))
            wanted -= gone[-1].num_rows
            kept[:1] = [rest] if rest.num_rows else []
        if gone:
            yield table, pa.concat_tables(gone), True


@dataclass(frozen=True)
class Road:
    """Cars on three lanes of a road of 100 miles: each reports its position, in feet, every 30 seconds."""

    cars: int = 30_000
    seconds: int = 400
    length: int = 528_000
    window: int = 60
    seed: int = 1

    def query(self, d: int) -> str:
        """QB: cars that are near each other on lanes side by side."""
        return (
            "SELECT * FROM lane1, lane2, lane3"
            f" WHERE abs(lane1.pos - lane2.pos) <= {d} AND abs(lane2.pos - lane3.pos) <= {d}"
        )

    def schemas(self) -> dict[str, pa.Schema]:
        """Three lanes of the same columns."""
        lane = pa.schema(
            [("time", pa.int32()), ("car", pa.int32()), ("speed", pa.int32()), ("pos", pa.int32())]
        )
        return {f"lane{n}": lane for n in (1, 2, 3)}

    def seconds_of(self) -> Iterator[list[tuple[str, pa.Table, pa.Table]]]:
        """For each second what each lane gets and what is older than the window."""
        random = np.random.default_rng(self.seed)
        # Traffic is dense around a few places, as after an accident or an entry.
        jams = random.uniform(0, self.length, 40)
        start = np.where(
            random.random(self.cars) < 0.5,
            random.normal(jams[random.integers(0, 40, self.cars)], 3000),
            random.uniform(0, self.length, self.cars),
        )
        speed = random.integers(40, 100, self.cars)
        phase = random.integers(0, 30, self.cars)
        lanes = random.integers(1, 4, self.cars)
        past: list[dict[int, pa.Table]] = []
        schema = self.schemas()["lane1"]
        for now in range(self.seconds):
            reports: dict[int, pa.Table] = {}
            due = np.flatnonzero(phase == now % 30)
            pos = ((start[due] + speed[due] * 1.4667 * now) % self.length).astype(np.int32)
            moving = random.random(len(due)) < 0.1
            lanes[due[moving]] = random.integers(1, 4, int(moving.sum()))
            for lane in (1, 2, 3):
                mine = lanes[due] == lane
                parts = [np.full(int(mine.sum()), now), due[mine], speed[due[mine]], pos[mine]]
                reports[lane] = pa.table([p.astype(np.int32) for p in parts], schema=schema)
            past.append(reports)
            old = past[now - self.window] if now >= self.window else None
            empty = schema.empty_table()
            yield [(f"lane{n}", reports[n], old[n] if old else empty) for n in (1, 2, 3)]
            if old is not None:
                past[now - self.window] = {}
