"""Small databases that change, and their joins by brute force."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa

from belvedere.memory import kinds
from belvedere.synopses.plan.planner import plan
from belvedere.synopses.plan.synopsis_plan import SynopsisPlan, query_block
from belvedere.synopses.sample.reservoir import SampleKind
from belvedere.synopses.sample.results import SampleResults
from belvedere.synopses.state import SynopsisState
from belvedere.synopses.stream import _Schemas

Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A query over tables of ids and small numbers, and what it means."""

    name: str
    query: str
    schemas: Mapping[str, Mapping[str, str]]
    positions: tuple[str, ...]
    holds: Callable[..., bool]
    """Whether rows, one per position, are a join result."""
    keys: Mapping[str, list[list[str]]] = field(default_factory=dict)
    domain: int = 4

    def plan(self, *, collapse: bool = True) -> SynopsisPlan:
        return plan(query_block(self.query, _Schemas(self.schemas)), self.keys, collapse=collapse)

    def arrow(self, table: str, rows: list[Row]) -> pa.Table:
        schema = pa.schema([(c, kinds.arrow(k)) for c, k in self.schemas[table].items()])
        return pa.Table.from_pylist(rows, schema=schema)

    def join(self, database: Mapping[str, list[Row]]) -> set[tuple[int, ...]]:
        """The ids of all results."""
        combinations = product(*(database[t] for t in self.positions))
        return {tuple(r["id"] for r in rows) for rows in combinations if self.holds(*rows)}


def eq(a: Any, b: Any) -> bool:
    return a is not None and b is not None and bool(a == b)


_ID = {"id": "int"}
EQUALITY = Case(
    "equality",
    "SELECT a.id AS x, b.id AS y, c.id AS z FROM a, b, c WHERE a.k = b.k AND b.l = c.l",
    {
        "a": {**_ID, "k": "int"},
        "b": {**_ID, "k": "bigint", "l": "string"},
        "c": {**_ID, "l": "string"},
    },
    ("a", "b", "c"),
    lambda a, b, c: eq(a["k"], b["k"]) and eq(b["l"], c["l"]),
)
RANGE = Case(
    "range",
    "SELECT a.id AS x, b.id AS y FROM a, b WHERE a.g = b.g AND a.v < 2 * b.v - 1",
    {"a": {**_ID, "g": "int", "v": "int"}, "b": {**_ID, "g": "int", "v": "double"}},
    ("a", "b"),
    lambda a, b: eq(a["g"], b["g"]) and None not in (a["v"], b["v"]) and a["v"] < 2 * b["v"] - 1,
)
BAND = Case(
    "band",
    "SELECT a.id AS x, b.id AS y, c.id AS z FROM a, b, c"
    " WHERE abs(a.v - b.v) <= 1 AND c.v BETWEEN b.v - 1 AND b.v + 1",
    {t: {**_ID, "v": "int"} for t in "abc"},
    ("a", "b", "c"),
    lambda a, b, c: (
        None not in (a["v"], b["v"], c["v"])
        and abs(a["v"] - b["v"]) <= 1
        and abs(c["v"] - b["v"]) <= 1
    ),
    domain=8,
)
SELF = Case(
    "self join",
    "SELECT a1.id AS x, a2.id AS y, b.id AS z FROM a a1, a a2, b WHERE a1.k = a2.k AND a2.l = b.l",
    {"a": {**_ID, "k": "int", "l": "int"}, "b": {**_ID, "l": "int"}},
    ("a", "a", "b"),
    lambda a1, a2, b: eq(a1["k"], a2["k"]) and eq(a2["l"], b["l"]),
)
FOREIGN = Case(
    "foreign keys",
    "SELECT a.id AS x, p.id AS y, q.id AS z, b.id AS w FROM a, p, q, b"
    " WHERE a.p = p.k AND p.q = q.k AND q.l = b.l AND a.m <= b.m",
    {
        "a": {**_ID, "p": "int", "m": "int"},
        "p": {**_ID, "k": "int", "q": "int"},
        "q": {**_ID, "k": "int", "l": "int"},
        "b": {**_ID, "l": "int", "m": "int"},
    },
    ("a", "p", "q", "b"),
    lambda a, p, q, b: (
        eq(a["p"], p["k"])
        and eq(p["q"], q["k"])
        and eq(q["l"], b["l"])
        and None not in (a["m"], b["m"])
        and a["m"] <= b["m"]
    ),
    keys={"p": [["k"]], "q": [["k"]]},
    domain=3,
)
FILTERED = Case(
    "filters",
    "SELECT a.id AS x, b.id AS y, c.id AS z FROM a, b, c"
    " WHERE a.k = b.k AND b.l = c.l AND a.id + b.id + c.id <> 7 AND a.m = c.m AND a.id > 0",
    {
        "a": {**_ID, "k": "int", "m": "int"},
        "b": {**_ID, "k": "int", "l": "int"},
        "c": {**_ID, "l": "int", "m": "int"},
    },
    ("a", "b", "c"),
    lambda a, b, c: (
        eq(a["k"], b["k"])
        and eq(b["l"], c["l"])
        and a["id"] + b["id"] + c["id"] != 7
        and eq(a["m"], c["m"])
        and a["id"] > 0
    ),
    domain=2,
)
INNER = Case(
    "conditions within a node",
    "SELECT a.id AS x, p.id AS y, b.id AS z FROM a, p, b"
    " WHERE a.p = p.k AND a.m < p.m + 1 AND p.l = b.l",
    {
        "a": {**_ID, "p": "int", "m": "int"},
        "p": {**_ID, "k": "int", "m": "int", "l": "int"},
        "b": {**_ID, "l": "int"},
    },
    ("a", "p", "b"),
    lambda a, p, b: (
        eq(a["p"], p["k"])
        and None not in (a["m"], p["m"])
        and a["m"] < p["m"] + 1
        and eq(p["l"], b["l"])
    ),
    keys={"p": [["k"]]},
    domain=3,
)
BOSSES = Case(
    "a table that refers to itself",
    "SELECT e.id AS x, m.id AS y, b.id AS z FROM e, e AS m, b WHERE e.p = m.k AND m.l = b.l",
    {"e": {**_ID, "k": "int", "p": "int", "l": "int"}, "b": {**_ID, "l": "int"}},
    ("e", "e", "b"),
    lambda e, m, b: eq(e["p"], m["k"]) and eq(m["l"], b["l"]),
    keys={"e": [["k"]]},
    domain=6,
)
CASES = (EQUALITY, RANGE, BAND, SELF, FOREIGN, FILTERED, INNER, BOSSES)

Batch = tuple[str, list[Row], list[Row]]


class Changes:
    """A random sequence of batches, valid one after the other."""

    def __init__(self, case: Case, seed: int, most: int = 4) -> None:
        self.case = case
        self.random = random.Random(seed)
        self.most = most
        self.database: dict[str, list[Row]] = {t: [] for t in case.schemas}
        self.number = 0

    def row(self, table: str) -> Row:
        self.number += 1
        row: Row = {"id": self.number}
        for column, kind in self.case.schemas[table].items():
            if column != "id":
                drawn = self.random.randrange(self.case.domain)
                value = str(drawn) if kind == "string" else drawn
                row[column] = None if self.random.random() < 0.05 else value
        return row

    def fits(self, table: str, row: Row, rows: list[Row]) -> bool:
        keys = self.case.keys.get(table, [])
        return not any(eq(row[c], r[c]) for (c,) in keys for r in rows)

    def batch(self, deleting: float = 0.4) -> Batch:
        """Deletes, inserts and rows that do both."""
        table = self.random.choice(sorted(self.database))
        rows = self.database[table]
        deletes = []
        if self.random.random() < deleting and rows:
            deletes = self.random.sample(rows, min(len(rows), self.random.randint(1, self.most)))
        left = [r for r in rows if r not in deletes]
        inserts: list[Row] = []
        for old in deletes:
            if self.random.random() < 0.4:
                new = {**self.row(table), "id": old["id"]}
                if self.fits(table, new, left + inserts):
                    inserts.append(new)
        for _ in range(self.random.randint(0, self.most)):
            new = self.row(table)
            if self.fits(table, new, left + inserts):
                inserts.append(new)
        self.database[table] = left + inserts
        return table, deletes, inserts


def keeper(planned: SynopsisPlan, kind: SampleKind, seed: int) -> SampleResults:
    return SampleResults(SynopsisState(planned, kind, seed=seed), seed)


def ids(results: SampleResults) -> list[tuple[int, ...]]:
    """The sample as ids, one per position."""
    columns = [c.to_pylist() for c in results.arrow().columns]
    return list(zip(*columns, strict=True))


def applied(results: SampleResults, case: Case, batch: Batch) -> None:
    table, deletes, inserts = batch
    gone = case.arrow(table, deletes) if deletes else None
    results.change(table, gone, case.arrow(table, inserts))


Numbers = np.ndarray[Any, Any]
