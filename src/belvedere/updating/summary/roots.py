"""Choose the root of the join tree: the one whose estimates err least on sampled insertions (Sec. 9.2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from belvedere.joins.equijoin_tree import equijoin_tree
from belvedere.joins.normal_form import JoinBlock
from belvedere.updating.summary.estimate import THETA
from belvedere.updating.summary.filter import UpdateFilter

Insertion = Any
"""A view row, or its segments."""


@dataclass(frozen=True)
class RootChoice:
    """A root, its share of wrong estimates in the sample, and the error bound of that share."""

    root: int
    error: float
    bound: float
    errors: dict[int, float]
    sample: int = 0

    @property
    def is_settled(self) -> bool:
        """Whether a larger sample cannot help: the root is without error, all are equal, or all others worse."""
        others = [e for r, e in self.errors.items() if r != self.root]
        worse = all(e - self.error >= self.bound for e in others)
        return worse or self.error == 0 or set(others) == {self.error}


def error_bound(sample: int) -> float:
    """The error bound of a share in a sample, at the greatest variance.

    >>> round(error_bound(400), 3), round(error_bound(1600), 3)
    (0.1, 0.05)
    """
    return 4 * math.sqrt(0.25 / sample)


def choose_root(
    roots: Sequence[int],
    filter_of: Callable[[int], UpdateFilter],
    sample: Sequence[tuple[Insertion, bool]],
    theta: float = THETA,
) -> RootChoice:
    """The root with the fewest wrong estimates on insertions whose side effects are known.

    Among equal roots, the first given one.
    """
    errors = {}
    for root in roots:
        update_filter = filter_of(root)
        estimates = (
            update_filter.estimate(row if isinstance(row, list) else update_filter.segments(row))
            for row, _ in sample
        )
        wrong = sum(
            e.declares(theta) != real for e, (_, real) in zip(estimates, sample, strict=True)
        )
        errors[root] = wrong / len(sample)
    best = min(roots, key=errors.__getitem__)
    return RootChoice(best, errors[best], error_bound(len(sample)), errors, len(sample))


def root_by_keys(shape: JoinBlock, keys: Mapping[str, tuple[str, ...]]) -> int:
    """The position from which most joins lead to a key.

    The rows that a new row refers to are then unique, and rows that refer to it are below, joined exactly.
    """

    def away(root: int) -> int:
        tree = equijoin_tree(shape, root, keys)
        ends = [(tree.child(e), tree.columns(tree.child(e), e)) for e in range(len(tree.edges))]
        tables = [(keys.get(shape.positions[p].table), columns) for p, columns in ends]
        return sum(key is not None and set(key) <= set(columns) for key, columns in tables)

    return max(range(len(shape.positions)), key=lambda p: (away(p), -p))
