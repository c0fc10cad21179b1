"""TPC-H with skew: our own generator, any scale, deterministic, and streams of changes by name.

z is the exponent of a Zipf distribution: z = 0 is uniform, as TPC-H is; z = 1 gives the r-th most
frequent value 1/r of the first one's rows. (The SVC paper says that its z = 1 is plain TPC-D.)
Skewed are foreign keys (customers, parts, suppliers) and quantities with half the exponent, years
with at most 1, and prices: for z > 0 an extended price is that of TPC-H times a Pareto factor, the
continuous Zipf, of tail index 5/z. At z = 2 the largest of a million is about a hundred times the
mean, at z = 4 a few records are most of the sum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
NATIONS = 25
MODES = ("AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK")
PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY")
FLAGS = ("A", "N", "R")
DAYS = 2405
"""From 1992-01-01 to the last order date."""
STREAMS = ("insert-only", "mixed", "delete-heavy", "concentrated")

Table = dict[str, np.ndarray]


@dataclass(frozen=True)
class Data:
    """Tables as columns."""

    tables: dict[str, Table]

    def arrow(self, name: str) -> pa.Table:
        """A table in Arrow."""
        return pa.table(self.tables[name])


def zipf(rng: np.random.Generator, values: int, z: float, size: int) -> np.ndarray:
    """Numbers below `values`, the r-th most frequent in proportion to 1/rᶻ, which one is random."""
    if z == 0:
        return rng.integers(0, values, size)
    share = np.cumsum(1.0 / np.arange(1, values + 1) ** z)
    ranks = np.searchsorted(share / share[-1], rng.random(size))
    return np.random.default_rng(values).permutation(values)[np.minimum(ranks, values - 1)]


def generate(scale: float, z: float, seed: int = 1) -> Data:
    """All tables at a scale (1 is 1.5 million orders)."""
    rng = np.random.default_rng(seed)
    orders = int(1_500_000 * scale)
    sizes = {
        "customer": int(150_000 * scale),
        "supplier": int(10_000 * scale),
        "part": int(200_000 * scale),
    }
    tables: dict[str, Table] = {
        "region": {"r_regionkey": np.arange(5), "r_name": np.array(REGIONS)},
        "nation": {
            "n_nationkey": np.arange(NATIONS),
            "n_name": np.array([f"NATION {i:02}" for i in range(NATIONS)]),
            "n_regionkey": np.arange(NATIONS) % 5,
        },
        "customer": {
            "c_custkey": np.arange(sizes["customer"]),
            "c_nationkey": rng.integers(0, NATIONS, sizes["customer"]),
            "c_mktsegment": np.array(SEGMENTS)[rng.integers(0, 5, sizes["customer"])],
            "c_acctbal": np.round(rng.uniform(-999, 9999, sizes["customer"]), 2),
            "c_phone": rng.integers(10, 35, sizes["customer"]),
        },
        "supplier": {
            "s_suppkey": np.arange(sizes["supplier"]),
            "s_nationkey": rng.integers(0, NATIONS, sizes["supplier"]),
        },
        "part": {
            "p_partkey": np.arange(sizes["part"]),
            "p_type": rng.integers(0, 150, sizes["part"]),
            "p_brand": rng.integers(0, 25, sizes["part"]),
            "p_container": rng.integers(0, 40, sizes["part"]),
            "p_size": rng.integers(1, 51, sizes["part"]),
            "p_green": (rng.random(sizes["part"]) < 0.3).astype(np.int64),
        },
    }
    tables |= new_orders(rng, 0, orders, z, sizes)
    return Data(tables)


def new_orders(
    rng: np.random.Generator, first: int, count: int, z: float, sizes: dict[str, int]
) -> dict[str, Table]:
    """Orders from a key on, with their lineitems."""
    key = np.arange(first, first + count)
    # Years are skewed, days within them are not.
    date = np.minimum(
        zipf(rng, 7, min(z, 1.0), count) * 365 + rng.integers(0, 365, count), DAYS - 1
    )
    lines = rng.integers(1, 8, count)
    of = np.repeat(np.arange(count), lines)
    number = np.arange(len(of)) - np.repeat(np.cumsum(lines) - lines, lines)
    size = len(of)
    quantity = 1 + zipf(rng, 50, z / 2, size)
    ship = date[of] + rng.integers(1, 122, size)
    commit = date[of] + rng.integers(30, 91, size)
    price = quantity * rng.uniform(900, 2100, size)
    price = price * (1 - rng.random(size)) ** (-z / 5)
    orders: Table = {
        "o_orderkey": key,
        "o_custkey": zipf(rng, sizes["customer"], z / 2, count),
        "o_orderdate": date,
        "o_orderpriority": np.array(PRIORITIES)[rng.integers(0, 5, count)],
        "o_shippriority": rng.integers(0, 3, count),
    }
    lineitem: Table = {
        "l_orderkey": key[of],
        "l_linenumber": number,
        "l_partkey": zipf(rng, sizes["part"], z / 2, size),
        "l_suppkey": zipf(rng, sizes["supplier"], z / 2, size),
        "l_quantity": quantity.astype(float),
        "l_extendedprice": np.round(price, 2),
        "l_discount": rng.integers(0, 11, size) / 100,
        "l_returnflag": np.array(FLAGS)[rng.integers(0, 3, size)],
        "l_shipdate": ship,
        "l_commitdate": commit,
        "l_receiptdate": ship + rng.integers(1, 31, size),
        "l_shipmode": np.array(MODES)[rng.integers(0, 7, size)],
        "l_instruct": rng.integers(0, 4, size),
    }
    return {"orders": orders, "lineitem": lineitem}


def changed(data: Data, stream: str, share: float, z: float, seed: int = 2) -> Data:
    """The tables after a stream of changes to a share of the orders."""
    rng = np.random.default_rng(seed)
    tables = {name: dict(t) for name, t in data.tables.items()}
    orders, lines = tables["orders"], tables["lineitem"]
    count = len(orders["o_orderkey"])
    sizes = {t: len(next(iter(data.tables[t].values()))) for t in ("customer", "supplier", "part")}
    parts: dict[str, tuple[float, float, float]] = {
        "insert-only": (1, 0, 0),
        "mixed": (0.5, 0.4, 0.1),
        "delete-heavy": (0.2, 0, 0.8),
        "concentrated": (1, 0, 0),
    }
    inserts, updates, deletes = (int(p * share * count) for p in parts[stream])
    picked = rng.permutation(count)
    if deletes:
        gone = np.zeros(count, bool)
        gone[picked[:deletes]] = True
        keep = ~gone[np.searchsorted(orders["o_orderkey"], lines["l_orderkey"])]
        lines = {c: v[keep] for c, v in lines.items()}
        orders = {c: v[~gone] for c, v in orders.items()}
    if updates:
        keys = data.tables["orders"]["o_orderkey"][picked[deletes : deletes + updates]]
        hit = np.isin(lines["l_orderkey"], keys)
        lines["l_extendedprice"] = np.where(
            hit,
            np.round(lines["l_extendedprice"] * rng.uniform(0.5, 1.5, len(hit)), 2),
            lines["l_extendedprice"],
        )
    if inserts:
        first = int(data.tables["orders"]["o_orderkey"][-1]) + 1
        new = new_orders(rng, first, inserts, z, sizes)
        if stream == "concentrated":
            _concentrate(new, data)
        orders = {c: np.concatenate([v, new["orders"][c]]) for c, v in orders.items()}
        lines = {c: np.concatenate([v, new["lineitem"][c]]) for c, v in lines.items()}
    return Data({**tables, "orders": orders, "lineitem": lines})


def _concentrate(new: dict[str, Table], data: Data) -> None:
    """All new orders come from two nations, of large amounts."""
    customer = data.tables["customer"]
    own = customer["c_custkey"][np.isin(customer["c_nationkey"], (3, 8))]
    orders = new["orders"]
    orders["o_custkey"] = own[orders["o_custkey"] % len(own)]
    new["lineitem"]["l_extendedprice"] = new["lineitem"]["l_extendedprice"] * 4


def register(connection: object, data: Data, suffix: str) -> None:
    """The tables in DuckDB, those that change under a name of their state."""
    execute: Callable[[str], object] = connection.execute  # type: ignore[attr-defined]
    for name in data.tables:
        own = f"{name}_{suffix}" if name in ("orders", "lineitem") else name
        found = data.arrow(name)  # noqa: F841 - DuckDB reads it by its name
        execute(f"CREATE OR REPLACE TABLE {own} AS SELECT * FROM found")
