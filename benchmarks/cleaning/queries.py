"""The join view of lineitem and orders, and its 12 queries with random parameters (SVC §7.2).

Nine read other tables. The nested ones are written out as queries of lines: Q4 counts lines that
were late, not orders with one; Q18 sums large lines; Q21 counts late lines by the supplier's
nation. Q3 and Q10, whose groups are single orders and customers, are asked by ship priority and
by nation. Each value is a total over lines; Q8 and Q14 are ratios of two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.data.skewed_tpch import DAYS, MODES, REGIONS, SEGMENTS

VIEW = (
    "SELECT l_orderkey * 8 + l_linenumber AS u, l.*, o.* EXCLUDE (o_orderkey),"
    " l_orderkey >= {first} AS arrived, l_extendedprice >= {bound} AS indexed"
    " FROM lineitem_{state} l JOIN orders_{state} o ON l_orderkey = o_orderkey"
)
WIDE = (
    "SELECT v.* EXCLUDE (l_orderkey, l_linenumber, l_partkey, l_suppkey, l_instruct, o_custkey),"
    " c_nationkey, c_mktsegment, s_nationkey, n_name, r_name, p_type, p_brand, p_green"
    " FROM view_{state} v JOIN customer ON o_custkey = c_custkey JOIN part ON l_partkey = p_partkey"
    " JOIN supplier ON l_suppkey = s_suppkey JOIN nation ON s_nationkey = n_nationkey"
    " JOIN region ON n_regionkey = r_regionkey"
)
"""The view joined with all that its queries read besides, so that 1200 of them take a minute."""
_REVENUE = "l_extendedprice * (1 - l_discount)"
_CUSTOMER = "JOIN customer ON o_custkey = c_custkey"
_SUPPLIER = "JOIN supplier ON l_suppkey = s_suppkey"
_PART = "JOIN part ON l_partkey = p_partkey"


@dataclass(frozen=True)
class Query:
    """A query on the view: what it groups by, the totals it needs, how it restricts the lines."""

    name: str
    group: str
    totals: tuple[str, ...]
    joins: str
    where: Callable[[np.random.Generator], str]

    @property
    def ratio(self) -> bool:
        """Whether it is the ratio of two totals."""
        return len(self.totals) == 2

    def rows(self, source: str, where: str, also: str = "") -> str:
        """What each line of a source adds; a view is joined with the tables it lacks."""
        adds = ", ".join(f"{t} AS t{i}" for i, t in enumerate(self.totals))
        joins = self.joins if source.startswith("view") else ""
        # Groups as numbers: numpy sorts text slowly.
        group = f"(hash({self.group}) >> 1)::BIGINT"
        return f"SELECT {group} AS g, u, {adds}{also} FROM {source} {joins} WHERE {where}"

    def sums(self, source: str, where: str) -> str:
        """The totals of a source by group."""
        adds = ", ".join(f"sum(t{i}) AS t{i}" for i in range(len(self.totals)))
        return f"SELECT g, {adds} FROM ({self.rows(source, where)}) GROUP BY g"

    def parts(self, source: str, where: str) -> str:
        """The totals by group, of old and new lines and of indexed ones apart, with what the
        largest line and all of them add."""
        adds = ", ".join(f"sum(t{i}) AS t{i}" for i in range(len(self.totals)))
        value = f"abs(t{len(self.totals) - 1})"
        return (
            f"SELECT g, arrived, indexed, {adds}, max({value}) AS top, sum({value}) AS size,"
            f" count(*) FILTER ({value} > 0) AS lines"
            f" FROM ({self.rows(source, where, ', arrived, indexed')}) GROUP BY ALL"
        )


def _year(rng: np.random.Generator, column: str, days: int = 365) -> str:
    start = int(rng.integers(0, DAYS - days))
    return f"{column} >= {start} AND {column} < {start + days}"


def _choice(rng: np.random.Generator, values: tuple[str, ...]) -> str:
    return f"'{values[int(rng.integers(len(values)))]}'"


def _nations(rng: np.random.Generator) -> str:
    a, b = rng.choice(25, 2, replace=False)
    return (
        f"((c_nationkey = {a} AND s_nationkey = {b}) OR (c_nationkey = {b} AND s_nationkey = {a}))"
    )


QUERIES = (
    Query("Q3", "o_shippriority", (_REVENUE,), _CUSTOMER, lambda r: f"c_mktsegment = {_choice(r, SEGMENTS)} AND o_orderdate < {(d := int(r.integers(400, 2000)))} AND l_shipdate > {d - 300}"),
    Query("Q4", "o_orderpriority", ("1.0",), "", lambda r: f"{_year(r, 'o_orderdate', 90)} AND l_commitdate < l_receiptdate"),
    Query("Q5", "n_name", (_REVENUE,), f"{_CUSTOMER} {_SUPPLIER} JOIN nation ON s_nationkey = n_nationkey JOIN region ON n_regionkey = r_regionkey", lambda r: f"r_name = {_choice(r, REGIONS)} AND {_year(r, 'o_orderdate')}"),
    Query("Q7", "l_shipdate // 365", (_REVENUE,), f"{_CUSTOMER} {_SUPPLIER}", _nations),
    Query("Q8", "o_orderdate // 365", (f"CASE WHEN s_nationkey % 5 = 2 THEN {_REVENUE} ELSE 0 END", _REVENUE), f"{_CUSTOMER} {_SUPPLIER} {_PART}", lambda r: f"c_nationkey % 5 = {int(r.integers(5))} AND p_type % 10 = {int(r.integers(10))}"),
    Query("Q9", "n_name", (f"{_REVENUE} - l_quantity * 300",), f"{_SUPPLIER} {_PART} JOIN nation ON s_nationkey = n_nationkey", lambda r: f"p_green = 1 AND o_orderdate // 365 = {int(r.integers(7))}"),
    Query("Q10", "c_nationkey", (_REVENUE,), _CUSTOMER, lambda r: f"l_returnflag = 'R' AND {_year(r, 'o_orderdate', 90)}"),
    Query("Q12", "l_shipmode", ("CASE WHEN o_orderpriority < '3' THEN 1.0 ELSE 0.0 END",), "", lambda r: f"l_shipmode IN ({_choice(r, MODES[:3])}, {_choice(r, MODES[3:])}) AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate AND {_year(r, 'l_receiptdate')}"),
    Query("Q14", "0", (f"CASE WHEN p_type < 25 THEN {_REVENUE} ELSE 0 END", _REVENUE), _PART, lambda r: _year(r, "l_shipdate", 30)),
    Query("Q18", "o_orderpriority", ("l_quantity",), "", lambda r: f"l_quantity > {int(r.integers(20, 40))}"),
    Query("Q19", "0", (_REVENUE,), _PART, lambda r: f"p_brand = {int(r.integers(25))} AND l_quantity BETWEEN {(q := int(r.integers(1, 20)))} AND {q + 20} AND l_shipmode IN ('AIR', 'REG AIR')"),
    Query("Q21", "s_nationkey", ("1.0",), _SUPPLIER, lambda r: f"l_receiptdate > l_commitdate AND s_nationkey % 5 = {int(r.integers(5))}"),
)  # fmt: skip
HEADLINE = ("Q5", "Q7", "Q9", "Q12", "Q19", "Q4")
