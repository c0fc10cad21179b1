"""Which columns a join equates."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from belvedere.algebra.relations import Join
from belvedere.analyses.origins import origin


def same_type(left: str, right: str) -> bool:
    """Whether two columns have one type."""
    return left == right


def equalities(
    join: Join, alike: Callable[[str, str], bool] = same_type
) -> tuple[tuple[str, str], ...]:
    """Pairs (left column, right column) of one type, or of alike ones, that `=` equates."""
    pairs = []
    for part in join.on.conjuncts:
        if not isinstance(part.expr, exp.EQ):
            continue
        sides = part.expr.this, part.expr.expression
        if not all(isinstance(s, exp.Column) for s in sides):
            continue
        a, b = (s.name for s in sides)
        if a in join.right.columns:
            a, b = b, a
        if a in join.left.columns and b in join.right.columns and _alike(join, a, b, alike):
            pairs.append((a, b))
    return tuple(pairs)


def _alike(join: Join, a: str, b: str, alike: Callable[[str, str], bool]) -> bool:
    left, right = origin(join.left, a), origin(join.right, b)
    return left is not None and right is not None and alike(left.type, right.type)
