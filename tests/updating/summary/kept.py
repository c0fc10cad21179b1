"""Filters of small cases, told in terms of rows so that two of them can be compared."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa

from belvedere.updating.summary.filter import UpdateFilter
from tests.updating.cases import Case, Row, Tables

Batch = tuple[dict[str, pa.Table], dict[str, list[int]]]


def filter_of(case: Case, share: float = 0.2, tables: Tables | None = None) -> UpdateFilter:
    made = UpdateFilter(
        case.base(tables), case.keys, [np.zeros(0, np.int64) for _ in case.shape.positions]
    )
    made.choose_candidates(share)
    return made


def described(made: UpdateFilter, own: set[tuple[Any, ...]]) -> dict[str, Any]:
    """A summary in terms of rows, for comparison: classes as sets, links by classes."""
    base, summary, names = made.base, made.summary, {}
    for p, of_row in enumerate(summary.of_row):
        for c in set(of_row.tolist()) - {-1}:
            rows = np.flatnonzero(of_row == c)
            table = base.shape.positions[p].table
            names[p, c] = (
                p,
                frozenset(
                    tuple(base.values(table, base.tables[table].row(int(n))).values()) for n in rows
                ),
            )
    tree = base.tree
    links = {
        (names[tree.parent(e), a], names[tree.child(e), b]): w
        for e, found in summary.links.items()
        for b, a, w in zip(*(some.tolist() for some in found.entries()), strict=True)
    }
    est = {names[p, c]: round(float(summary.est[p][c]), 9) for p, c in names}
    reach = {names[p, c]: round(float(summary.reach[p][c]), 9) for p, c in names}
    facts = {
        name: {
            (p, *base.values(at.table, base.tables[at.table].row(int(n))).values()): int(some[p][n])
            for p, at in enumerate(base.shape.positions)
            for n in np.flatnonzero(some[p])
        }
        for name, some in (
            ("whole", made.graph.whole),
            ("extended", made.graph.extended),
            ("jcard", made.graph.jcard),
            ("joined", made.graph.joined),
        )
    }
    alone = {n for n in names.values() if len(n[1]) == 1 and (n[0], *next(iter(n[1]))) in own}
    return {
        "classes": set(names.values()),
        "links": links,
        "est": est,
        "reach": reach,
        "own": alone,
        **facts,
    }


def owners(made: UpdateFilter) -> set[tuple[Any, ...]]:
    base = made.base
    found = set()
    for p, own in enumerate(made.candidates):
        table = base.shape.positions[p].table
        found |= {(p, *base.values(table, base.tables[table].row(int(n))).values()) for n in own}
    return found


def _numbers(made: UpdateFilter, p: int, own: set[tuple[Any, ...]]) -> list[int]:
    base, table = made.base, made.shape.positions[p].table
    rows = base.tables[table]
    return [n for n in range(rows.size) if (p, *base.values(table, rows.row(n)).values()) in own]


def anew(case: Case, now: Tables, own: set[tuple[Any, ...]]) -> UpdateFilter:
    """The filter of tables with candidates that are given."""
    made = UpdateFilter(
        case.base(now), case.keys, [np.zeros(0, np.int64) for _ in case.shape.positions]
    )
    made.candidates = [
        np.array(sorted(_numbers(made, p, own)), dtype=np.int64)
        for p in range(len(case.shape.positions))
    ]
    made.summarize()
    return made


def random_batch(case: Case, now: dict[str, list[Row]], dice: random.Random, values: int) -> Batch:
    """Rows that go and rows that come, NULLs and rows that were there before among them."""
    nets, signs = {}, {}
    for table, columns in case.columns.items():
        gone = [r for r in now[table] if dice.random() < 0.3]
        new = [
            tuple(None if dice.random() < 0.1 else dice.randrange(values) for _ in columns)
            for _ in range(dice.randint(0, 4))
        ]
        new += [r for r in case.tables[table] if dice.random() < 0.1]
        net = Counter(new)
        net.subtract(gone)
        now[table] = [*(Counter(now[table]) + Counter(new) - Counter(gone)).elements()]
        rows = [r for r, n in net.items() if n]
        dice.shuffle(rows)
        used = case.shape.used[table]
        nets[table] = case.arrow({table: rows})[table].select(list(used))
        signs[table] = [net[r] for r in rows]
    return nets, signs
