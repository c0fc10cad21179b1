"""Which columns a join equates."""

from __future__ import annotations

from sqlglot import exp

from belvedere.algebra.relations import (
    Aggregate,
    Distinct,
    Field,
    Filter,
    Join,
    Negate,
    Net,
    Project,
    Rel,
    Restrict,
    Scan,
    TopK,
    Window,
)
from belvedere.algebra.walks import children


def equalities(join: Join) -> tuple[tuple[str, str], ...]:
    """Pairs (left column, right column) of one type that the condition equates by `=`."""
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
        if a in join.left.columns and b in join.right.columns and _alike(join, a, b):
            pairs.append((a, b))
    return tuple(pairs)


def _alike(join: Join, a: str, b: str) -> bool:
    left, right = _field(join.left, a), _field(join.right, b)
    return left is not None and right is not None and left.type == right.type


def _field(q: Rel, column: str) -> Field | None:
    """The table column that a plan's column is, untouched on its way up; None if computed."""
    match q:
        case Scan():
            return next((f for f in q.fields if f.name == column), None)
        case Project():
            value = next((o.value for o in q.outputs if o.name == column), None)
            return _field(q.child, value.column) if value is not None and value.column else None
        case Aggregate() if column not in q.keys:
            return None
        case Distinct() | Restrict() | Negate() | Net() | TopK():
            return _field(q.child, column)
        case Aggregate() | Filter() | Window() | Join():
            below = (c for c in children(q) if column in c.columns)
            return next((f for f in (_field(c, column) for c in below) if f), None)
        case _:
            return None
