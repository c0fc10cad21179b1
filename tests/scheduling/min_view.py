"""The workload of ABIVM, §5, small: four tables, a MIN over their join, a stream of updates."""

from __future__ import annotations

from pathlib import Path

import belvedere as bv

QUERY = """SELECT min(ps_supplycost) AS cost FROM partsupp, supplier, nation, region
WHERE s_suppkey = ps_suppkey AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey
AND r_name = 'MIDDLE EAST'"""

SUPPLIERS, PARTS = 40, 400


def make(directory: Path) -> bv.Lake:
    """A lake with the tables and the view."""
    lake = bv.connect(directory)
    lake.sql(
        "CREATE TABLE region AS SELECT id AS r_regionkey, "
        "IF(id = 4, 'MIDDLE EAST', concat('R', id)) AS r_name FROM range(5)"
    )
    lake.sql(
        "CREATE TABLE nation AS SELECT id AS n_nationkey, id % 5 AS n_regionkey FROM range(25)"
    )
    lake.sql(
        f"CREATE TABLE supplier AS SELECT id AS s_suppkey, id % 25 AS s_nationkey FROM range({SUPPLIERS})"
    )
    lake.sql(
        f"CREATE TABLE partsupp AS SELECT id AS ps_partkey, id % {SUPPLIERS} AS ps_suppkey, "
        f"CAST(100 + (id * 7919) % 900 AS DECIMAL(12,2)) AS ps_supplycost FROM range({PARTS})"
    )
    lake.sql(f"CREATE MATERIALIZED VIEW min_cost AS {QUERY}")
    return lake


def change_partsupp(lake: bv.Lake, turn: int) -> None:
    """Another price for some parts."""
    lake.sql(
        f"UPDATE partsupp SET ps_supplycost = CAST(50 + (ps_partkey * {turn + 3}) % 900 AS DECIMAL(12,2)) "
        f"WHERE ps_partkey % 97 = {turn % 97}"
    )


def change_supplier(lake: bv.Lake, turn: int) -> None:
    """Another nation for some suppliers."""
    lake.sql(
        f"UPDATE supplier SET s_nationkey = (s_nationkey + 1 + {turn}) % 25 WHERE s_suppkey % 13 = {turn % 13}"
    )


def shown(lake: bv.Lake) -> object:
    return lake.sql("SELECT cost FROM min_cost").collect()[0][0]


def recomputed(lake: bv.Lake) -> object:
    return lake.sql(QUERY).collect()[0][0]
