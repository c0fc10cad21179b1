"""What makes a detector good (Sec. 4): the two of Example 4.1, effective insertions, divergence.

A detector that is better at cardinalities may be worse at telling 1 from more than 1. The KL
divergence of what it estimates from what is real bounds its errors (Propositions 4.1 and 4.2).
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from belvedere.updating.summary.estimate import THETA
from belvedere.updating.summary.filter import UpdateFilter
from benchmarks.updating.evaluation import divergence, effective, error_bound, errors
from benchmarks.updating.insertions import Row, view_rows
from benchmarks.updating.sampled_tpch import SHARE

MOST_ROWS = 2_000
"""Insertions that make more view rows are left out, or counted no further."""
DETECTED = 200
COUNTED = 50
"""Insertions whose view rows are counted, for the detectors of the example and for divergence."""


def two_detectors(made: UpdateFilter, sample: Sequence[tuple[Row, bool]]) -> dict[str, Any]:
    """Example 4.1: from lineitem and from orders, on insertions that all have side effects, θ = 1."""
    rows = [row for row, real in sample if real][:DETECTED]
    real = [view_rows(made, row, MOST_ROWS) for row in rows]
    counted = [(row, n) for row, n in zip(rows, real, strict=True) if n <= MOST_ROWS]
    found: dict[str, Any] = {"insertions": len(counted)}
    for table in ("lineitem", "orders"):
        other = made.with_root(made.shape.at(table)[0], 0.0)
        scored = [(other.estimate(other.segments(row)).rows, n) for row, n in counted]
        found[table] = {
            "cardinality_error": round(float(np.mean([abs(e - n) for e, n in scored])), 3),
            "wrong": sum(e < 2 for e, _ in scored),
        }
    return found


def effective_insertions(made: UpdateFilter, sample: int, seed: int = 9) -> dict[str, float]:
    """How many insertions Def. 4.3 leaves, and the errors on some of them, all equally likely."""
    insertions, positions = [], made.shape.positions
    dice, codes = random.Random(seed), _active(made)
    for _ in range(sample):
        chosen = {attribute: dice.choice(values) for attribute, values in codes.items()}
        insertions.append(
            {
                name: made.base.domains[positions[p].table, c].value(
                    int(chosen[_attribute(made, p, c)])
                )
                if c in made.base.held[positions[p].table]
                else 0
                for name, (p, c) in made.shape.column_outputs
            }
        )
    scored = [
        (made.estimate(made.segments(row)).rows, view_rows(made, row, 1) > 1) for row in insertions
    ]
    found = errors(scored, THETA)
    return {
        "log10": round(math.log10(effective(codes.values())), 1),
        "sampled": sample,
        "with side effects": sum(real for _, real in scored),
        "fp": round(found.fp, 4),
        "fn": round(found.fn, 4),
    }


def _attribute(made: UpdateFilter, p: int, c: str) -> object:
    """What has one value in a view row: a join class, or a column of its own."""
    return made.shape.class_of.get((p, c), (p, c))


def _active(made: UpdateFilter) -> dict[object, list[int]]:
    """The active domain of every attribute that tells rows apart; where a key does, the key alone."""
    found: dict[object, set[int]] = {}
    for _, (p, c) in made.shape.column_outputs:
        if c not in made.base.held[made.shape.positions[p].table]:
            continue
        codes = np.unique(made.base.rows_at(p).column(c)[made.base.present(p)])
        found.setdefault(_attribute(made, p, c), set()).update(codes[codes >= 0].tolist())
    return {attribute: sorted(some) for attribute, some in found.items()}


def divergences(
    made: UpdateFilter, sample: Sequence[tuple[Row, bool]], shares: Sequence[float]
) -> dict[str, dict[str, float]]:
    """Divergence of estimates from what is real, and the errors, by candidates.

    The propositions bound errors by the divergence times |CP|, the rows of all tables multiplied:
    the logarithms of these bounds stand beside them.
    """
    product = math.prod(int(made.base.present(p).sum()) for p in range(len(made.shape.positions)))
    rows = [row for row, _ in sample[:COUNTED]]
    real = {i: float(view_rows(made, row, MOST_ROWS)) for i, row in enumerate(rows)}
    found = {}
    for share in shares:
        made.choose_candidates(share)
        estimated = {i: made.estimate(made.segments(row)).rows for i, row in enumerate(rows)}
        kl = divergence(real, estimated)
        wrong = errors([(estimated[i], real[i] > 1) for i in real], THETA)
        bound = error_bound(product, max(kl, 0.0), THETA)
        found[f"{share:.0%}"] = {
            "kl": round(kl, 6),
            "fp": round(wrong.fp, 4),
            "fn": round(wrong.fn, 4),
            "log10 of the bound of fp": round(math.log10(max(bound.fp, 1e-9)), 1),
            "log10 of the bound of fn": round(math.log10(max(bound.fn, 1e-9)), 1),
        }
    made.choose_candidates(SHARE)
    return found
