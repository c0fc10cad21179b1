"""How good a detector is: errors, ROC, AUC (Sec. 10), the divergence of Sec. 4; lineage beside it.

FN is |A₋| over |S₊|, the insertions with side effects; the paper's text has A₊ there by a slip.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from belvedere.updating.side_effects.in_memory import BaseChanges, Signature, TableState
from belvedere.updating.summary.filter import UpdateFilter

Scored = Sequence[tuple[float, bool]]
"""The estimated new view rows of insertions, and whether they have side effects."""


@dataclass(frozen=True)
class Errors:
    """Shares of wrong answers: side effects declared where there are none, and the reverse."""

    fp: float
    fn: float


def errors(scored: Scored, theta: float) -> Errors:
    """The errors of a detector at a threshold.

    >>> errors([(1.0, False), (1.5, False), (2.0, True), (1.1, True)], 0.4)
    Errors(fp=0.5, fn=0.5)
    """
    negatives = [e for e, real in scored if not real]
    positives = [e for e, real in scored if real]
    false = sum(e >= 1 + theta for e in negatives)
    missed = sum(e < 1 + theta for e in positives)
    return Errors(false / max(len(negatives), 1), missed / max(len(positives), 1))


def roc(scored: Scored) -> list[tuple[float, float]]:
    """Points (FP, 1 - FN) over all thresholds, from the strictest to the laxest."""
    levels = sorted({e for e, _ in scored}, reverse=True)
    points = [(0.0, 0.0)]
    for level in levels:
        found = errors(scored, level - 1)
        points.append((found.fp, 1 - found.fn))
    return points


def auc(points: Sequence[tuple[float, float]]) -> float:
    """The area under an ROC curve.

    >>> auc([(0.0, 0.0), (0.0, 1.0), (1.0, 1.0)])
    1.0
    """
    ordered = sorted([*points, (1.0, 1.0)])
    return sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in itertools.pairwise(ordered))


def divergence(real: Mapping[Any, float], estimated: Mapping[Any, float]) -> float:
    """KL(real ‖ estimated) of two distributions given by weights.

    >>> divergence({"a": 1, "b": 1}, {"a": 2, "b": 2})
    0.0
    """
    p, q = sum(real.values()), sum(estimated.values())
    total = 0.0
    for x, weight in real.items():
        if weight > 0:
            other = estimated.get(x, 0.0)
            total += math.inf if other <= 0 else weight / p * math.log(weight / p * q / other)
    return total


def error_bound(product: float, kl: float, theta: float) -> Errors:
    """What Propositions 4.1 and 4.2 bound the expected errors by: |CP|·√(KL/2)·2 over θ, 1 - θ.

    The paper's last step takes the divergence for the total variation; Pinsker's inequality, which
    it names, has the root.
    """
    distance = product * 2 * math.sqrt(kl / 2)
    return Errors(distance / theta, distance / (1 - theta))


def lineage(made: UpdateFilter, signature: Signature) -> list[set[tuple[str, int]]]:
    """Why-provenance of a view row: the base rows of each of its embeddings."""
    state = TableState(made.base, BaseChanges())
    tables = [p.table for p in made.shape.positions]
    return [set(zip(tables, e, strict=True)) for e in state.embeddings_of(signature)]


def deletable(made: UpdateFilter, signature: Signature) -> list[tuple[str, int]]:
    """The base rows of a view row that show in no other: exact on views that keep keys (Sec. 7.1)."""
    state = TableState(made.base, BaseChanges())
    found = []
    for row in lineage(made, signature):
        for table, number in sorted(row):
            others = (
                state.signature(e) != signature
                for p in made.shape.at(table)
                for e in state.embeddings_through(p, number)
            )
            if not any(others):
                found.append((table, number))
    return found


def effective(domains: Iterable[Iterable[Any]]) -> int:
    """How many insertions Def. 4.3 leaves: one for every choice of known values.

    >>> effective([[1, 2], ["a", "b", "c"]])
    6
    """
    return math.prod(len(set(values)) for values in domains)
