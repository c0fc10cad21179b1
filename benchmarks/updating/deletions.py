"""Deletions and replacements of view rows of TPC-H (Exp. E): answered exactly, in memory."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from belvedere.updating.request.view_rows import Coder, ViewRow
from belvedere.updating.side_effects.checks import UpdateChecker
from belvedere.updating.summary.filter import UpdateFilter
from benchmarks.updating.evaluation import deletable
from benchmarks.updating.insertions import Row, timed
from benchmarks.updating.join_queries import checker_of
from benchmarks.updating.sampled_tpch import Tpch

Pair = tuple[list[ViewRow], list[ViewRow]]
INDEXED = {"lineitem": "l_orderkey", "orders": "o_orderkey", "customer": "c_custkey"}
"""Keys of new rows are looked up in the tables."""


def deleted_and_replaced(
    tpch: Tpch, made: UpdateFilter, name: str, new: Sequence[Row], most: int
) -> dict[str, Any]:
    """View rows that go; that give way to insertions; whose order line gets another supplier."""
    for table, column in INDEXED.items():
        tpch.connection.execute(f"CREATE INDEX IF NOT EXISTS by_{column} ON {table} ({column})")
    checker = checker_of(tpch, made)
    rows = tpch.view_rows(name, most)
    there, coder = [ViewRow(row) for row in rows], Coder(made.base)
    replaced: list[Pair] = [
        ([row], [ViewRow(other)]) for row, other in zip(there, new, strict=False)
    ]
    moved: list[Pair] = [
        ([ViewRow(row)], [ViewRow(_moved(row, other))])
        for row, other in pairwise(rows)
        if row["s_s_suppkey"] != other["s_s_suppkey"]
    ]
    return {
        "traced_ms": round(timed(lambda row: deletable(made, coder.signature(row)), there), 3),
        "deletions": _asked(checker, [([row], []) for row in there]),
        "replacements": _asked(checker, replaced),
        "replacements of a line's supplier": _asked(checker, moved),
    }


def _moved(row: Row, other: Row) -> dict[str, Any]:
    """A view row with the supplier of another."""
    supplier = {c: v for c, v in other.items() if c.startswith(("s_", "n_"))}
    return {**row, **supplier, "l_l_suppkey": other["l_l_suppkey"]}


def _asked(checker: UpdateChecker, updates: Sequence[Pair]) -> dict[str, Any]:
    """CPU milliseconds of exact checks, and what they say."""
    if not updates:
        return {"median_ms": None}  # a small sample's view may be empty
    times, answers = [], Counter[str]()
    for delete, insert in updates:
        began = time.process_time()
        answers[checker.check(delete, insert).possible] += 1
        times.append((time.process_time() - began) * 1000)
    return {
        "median_ms": round(statistics.median(times), 2),
        "worst_ms": round(max(times), 1),
        **answers,
    }
