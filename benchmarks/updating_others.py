"""Other data than TPC-H: the bibliography, SYNTHETICDB, and its projections (Exp. F)."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from belvedere.updating.asked import Coder, ViewRow
from belvedere.updating.checks import Checker, Mode
from belvedere.updating.constraints import BaseRow, TableRules
from belvedere.updating.estimate import THETA
from belvedere.updating.evaluation import auc, deletable, errors, roc
from belvedere.updating.fillings import Order
from belvedere.updating.roots import choose_root
from benchmarks.updating_curves import both
from benchmarks.updating_data import (
    BIBLIOGRAPHY,
    BIBLIOGRAPHY_KEYS,
    BIBLIOGRAPHY_QUERY,
    Synthetic,
    as_arrow,
    bibliography,
    filter_over,
)
from benchmarks.updating_insertions import Row, labelled, timed

EACH = 500


def on_bibliography(papers: int) -> dict[str, Any]:
    """FP, FN and AUC on the bibliography, and how long deletions take with lineage."""
    whole, some = bibliography(papers, 0.5, 11)
    made = filter_over(
        BIBLIOGRAPHY_QUERY, BIBLIOGRAPHY, as_arrow(BIBLIOGRAPHY, some), BIBLIOGRAPHY_KEYS, 0, 0.1
    )
    by_paper = dict(whole["paper"])
    years = dict(whole["proceedings"])
    rows = [
        {"person": a, "who": a, "what": p, "paper": p, "venue": by_paper[p], "proceedings": by_paper[p],
         "year": years[by_paper[p]]}
        for a, p in whole["wrote"]
    ]  # fmt: skip
    random.Random(2).shuffle(rows)
    training = labelled(made, rows[:3000], 100)
    chosen = choose_root(range(4), lambda r: made if r == 0 else made.rooted(r), training)
    made = made.rooted(chosen.root)
    sample = labelled(made, rows[3000:], EACH)
    scored = [(made.estimate(made.segments(row)).rows, real) for row, real in sample]
    found = errors(scored, THETA)
    coder = Coder(made.base)
    there = [r for r in rows if all(s.number is not None for s in made.segments(r))][:200]
    lineage_ms = timed(lambda r: deletable(made, coder.signature(ViewRow(r))), there)
    return {
        "insertions": len(sample),
        "fp": found.fp,
        "fn": found.fn,
        "auc": auc(roc(scored)),
        "deletion_ms": lineage_ms,
    }


class Listed:
    """Rows of tables of integers by value."""

    def __init__(
        self, columns: Mapping[str, tuple[str, ...]], rows: Mapping[str, list[tuple[int, ...]]]
    ) -> None:
        self.rows = {
            t: [dict(zip(columns[t], r, strict=True)) for r in some] for t, some in rows.items()
        }

    def where(self, table: str, equal: Mapping[str, Any]) -> list[BaseRow]:
        return [r for r in self.rows[table] if all(r[c] == v for c, v in equal.items())]

    def largest(self, table: str, column: str) -> int:
        return max([0, *(r[column] for r in self.rows[table])])

    def first(self, table: str, column: str, most: int) -> list[Any]:
        return list(dict.fromkeys(r[column] for r in self.rows[table]))[:most]


def on_synthetic(size: int) -> dict[str, list[float]]:
    """FP and FN on SYNTHETICDB, from each root, with 10 % candidates."""
    db = Synthetic(size=size)
    rows = db.rows(0)
    keys = dict.fromkeys(db.columns, ("pk",))
    made = filter_over(db.query(), db.columns, as_arrow(db.columns, rows), keys, 0, 0.1)
    asked = _chains(db, rows, random.Random(6), 4 * EACH)
    sample = labelled(made, asked, EACH)
    counts = [float(sum(r for _, r in sample)), float(len(sample))]
    return {
        "positives, insertions": counts,
        **{f"root r{p}": both(made.rooted(p), sample) for p in range(db.relations)},
    }


def _chains(
    db: Synthetic, rows: Mapping[str, list[tuple[int, ...]]], dice: random.Random, how_many: int
) -> list[Row]:
    """View rows along the joins, of rows that are there and of new ones, as they come."""
    names, fresh = ("pk", "f1", "f2", "v"), 10 * db.size
    by_key = {t: {r[0]: r for r in some} for t, some in rows.items()}
    found = []
    for _ in range(how_many):
        chain = [dice.choice(rows["r0"])]
        for i in range(1, db.relations):
            before, table = chain[-1], f"r{i}"
            spare = dice.choice(rows[table])[1:]
            fresh += 1
            if db.forward[(i - 1) % len(db.forward)]:
                chain.append(by_key[table].get(before[1], (before[1], *spare)))
            else:
                there = [r for r in rows[table] if r[2] == before[0]]
                new = (fresh, spare[0], before[0], spare[2])
                chain.append(dice.choice(there) if there and dice.random() < 0.7 else new)
        if dice.random() < 0.5:
            chain[0] = (fresh + 1, *chain[0][1:])
        found.append(
            {f"r{i}_{c}": v for i, r in enumerate(chain) for c, v in zip(names, r, strict=True)}
        )
    return found


def on_projections(size: int, relations: int = 4) -> dict[str, float]:
    """SYNTHETICDB with keys projected out: FP of fillings in greedy, random and full order (Exp. F)."""
    db = Synthetic(relations=relations, size=size)
    rows = db.rows(0)
    shown = [f"r{i}.v" for i in range(relations)] + ["r0.pk", f"r{relations - 1}.pk"]
    keys = dict.fromkeys(db.columns, ("pk",))
    made = filter_over(db.query(shown), db.columns, as_arrow(db.columns, rows), keys, 0, 0.1)
    rules = {t: TableRules(dict.fromkeys(c, "bigint"), ("pk",)) for t, c in db.columns.items()}
    dice, asked = random.Random(4), []
    for _ in range(20):
        asked.append(
            ViewRow({**{f"r{i}_v": dice.randrange(50) for i in range(relations)},
                     "r0_pk": 10 * size + dice.randrange(size), f"r{relations - 1}_pk": 20 * size + dice.randrange(size)})
        )  # fmt: skip
    figures: dict[str, float] = {}
    source = Listed(db.columns, rows)
    exact = Checker(made, rules, source)
    real = [exact.check([], [row], Mode.EXACT).possible for row in asked]
    figures["possible"] = sum(r == "yes" for r in real)
    for order in (Order.GREEDY, Order.RANDOM):
        for most in (1, 5):
            checker = Checker(made, rules, source, fillings=most, order=order)
            answers = [checker.check([], [row], Mode.FAST).possible for row in asked]
            false = sum(a == "no" and r == "yes" for a, r in zip(answers, real, strict=True))
            figures[f"fp_{order.value}_{most}"] = false / max(sum(r == "yes" for r in real), 1)
    return figures
