"""TPC-H with skew: our own generator, any scale, deterministic, and streams of changes by name.

The SVC paper (§7.1) says three things of its data: values are drawn from a Zipfian distribution
instead of uniformly; a larger z means a more extreme tail; z = 1 is TPC-D as it is. One law keeps
all three, with the exponent s = z − 1, so that z = 1 is uniform (and there is no z = 0):

    frequencies   the r-th most frequent value of a column has 1/rˢ of the first one's rows, which
                  value that is being random, in the columns that TPCD-Skew, the paper's reference
                  [8], draws so: customers, parts, a part's four suppliers, dates and lags,
                  quantities, discounts, nations, balances, brands, sizes
    sizes         the r-th largest extended price of n is (n/r)ˢ times TPC-D's retail price times
                  quantity: the tail that §7.4 indexes

In TPCD-Skew itself an extended price has no tail of its own; `tail=False` gives that. Strings that
TPC-D picks from a list (priorities, modes, segments) and lines per order stay uniform in both.
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
    """Tables as columns, and the law they were drawn by."""

    tables: dict[str, Table]
    z: float
    tail: bool

    def arrow(self, name: str) -> pa.Table:
        """A table in Arrow."""
        return pa.table(self.tables[name])

    def size(self, name: str) -> int:
        """How many rows a table has."""
        return len(next(iter(self.tables[name].values())))


def zipf(rng: np.random.Generator, values: int, s: float, size: int) -> np.ndarray:
    """Numbers below `values`, the r-th most frequent in proportion to 1/rˢ, which one is random."""
    if s == 0:
        return rng.integers(0, values, size)
    share = np.cumsum(1.0 / np.arange(1, values + 1) ** s)
    ranks = np.searchsorted(share / share[-1], rng.random(size))
    return np.random.default_rng(values).permutation(values)[np.minimum(ranks, values - 1)]


def generate(scale: float, z: float, seed: int = 1, *, tail: bool = True) -> Data:
    """All tables at a scale (1 is 1.5 million orders)."""
    if z < 1:
        raise ValueError(f"z = {z}: z = 1 is uniform, more is skewed")
    rng, s = np.random.default_rng(seed), z - 1
    customers, suppliers, parts = (int(n * scale) for n in (150_000, 10_000, 200_000))
    tables: dict[str, Table] = {
        "region": {"r_regionkey": np.arange(5), "r_name": np.array(REGIONS)},
        "nation": {
            "n_nationkey": np.arange(NATIONS),
            "n_name": np.array([f"NATION {i:02}" for i in range(NATIONS)]),
            "n_regionkey": np.arange(NATIONS) % 5,
        },
        "customer": {
            "c_custkey": np.arange(customers),
            "c_nationkey": zipf(rng, NATIONS, s, customers),
            "c_mktsegment": np.array(SEGMENTS)[rng.integers(0, 5, customers)],
            "c_acctbal": zipf(rng, 1_099_999, s, customers) / 100 - 999.99,
            "c_phone": rng.integers(10, 35, customers),
        },
        "supplier": {
            "s_suppkey": np.arange(suppliers),
            "s_nationkey": zipf(rng, NATIONS, s, suppliers),
        },
        "part": {
            "p_partkey": np.arange(parts),
            "p_type": rng.integers(0, 150, parts),
            "p_brand": zipf(rng, 25, s, parts),
            "p_container": rng.integers(0, 40, parts),
            "p_size": 1 + zipf(rng, 50, s, parts),
            "p_green": (rng.random(parts) < 0.3).astype(np.int64),
        },
    }
    data = Data(tables, z, tail)
    return Data({**tables, **new_orders(rng, 0, int(1_500_000 * scale), data)}, z, tail)


def new_orders(rng: np.random.Generator, first: int, count: int, data: Data) -> dict[str, Table]:
    """Orders from a key on, with their lineitems."""
    s, key = data.z - 1, np.arange(first, first + count)
    date = zipf(rng, DAYS, s, count)
    lines = rng.integers(1, 8, count)
    of = np.repeat(np.arange(count), lines)
    size = len(of)
    part = zipf(rng, data.size("part"), s, size)
    quantity = 1 + zipf(rng, 50, s, size)
    ship = date[of] + 1 + zipf(rng, 121, s, size)
    orders: Table = {
        "o_orderkey": key,
        "o_custkey": zipf(rng, data.size("customer"), s, count),
        "o_orderdate": date,
        "o_orderpriority": np.array(PRIORITIES)[rng.integers(0, 5, count)],
        "o_shippriority": rng.integers(0, 3, count),
    }
    lineitem: Table = {
        "l_orderkey": key[of],
        "l_linenumber": np.arange(size) - np.repeat(np.cumsum(lines) - lines, lines),
        "l_partkey": part,
        "l_suppkey": _supplier(part, zipf(rng, 4, s, size), data.size("supplier")),
        "l_quantity": quantity.astype(float),
        "l_extendedprice": np.round(quantity * retail(part) * _tail(rng, size, data), 2),
        "l_discount": zipf(rng, 11, s, size) / 100,
        "l_returnflag": np.array(FLAGS)[rng.integers(0, 3, size)],
        "l_shipdate": ship,
        "l_commitdate": date[of] + 30 + zipf(rng, 61, s, size),
        "l_receiptdate": ship + 1 + zipf(rng, 30, s, size),
        "l_shipmode": np.array(MODES)[rng.integers(0, 7, size)],
        "l_instruct": rng.integers(0, 4, size),
    }
    return {"orders": orders, "lineitem": lineitem}


def retail(part: np.ndarray) -> np.ndarray:
    """TPC-D's price of a part, from 901 to 2099."""
    return (90_000 + part // 10 % 20_001 + part % 1000 * 100) / 100


def _supplier(part: np.ndarray, which: np.ndarray, suppliers: int) -> np.ndarray:
    """One of a part's four suppliers, as TPC-D spreads them."""
    return (part + which * (suppliers // 4 + part // suppliers)) % suppliers


def _tail(rng: np.random.Generator, size: int, data: Data) -> np.ndarray:
    """Factors whose r-th largest is about (size/r)ˢ."""
    return (1 - rng.random(size)) ** (1 - data.z) if data.tail else np.ones(size)


def changed(data: Data, stream: str, share: float, seed: int = 2) -> Data:
    """The tables after a stream of changes to a share of the orders."""
    rng = np.random.default_rng(seed)
    tables = {name: dict(t) for name, t in data.tables.items()}
    orders, lines = tables["orders"], tables["lineitem"]
    count = len(orders["o_orderkey"])
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
        new = new_orders(rng, first, inserts, data)
        if stream == "concentrated":
            _concentrate(new, data)
        orders = {c: np.concatenate([v, new["orders"][c]]) for c, v in orders.items()}
        lines = {c: np.concatenate([v, new["lineitem"][c]]) for c, v in lines.items()}
    return Data({**tables, "orders": orders, "lineitem": lines}, data.z, data.tail)


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
