"""Correlation: the equalities that tie a subquery to its enclosing query, as grouping keys."""

from __future__ import annotations

from sqlglot import exp

from belvedere.algebra.relations import Output, Project, Rel
from belvedere.algebra.scalars import Scalar, col, operand
from belvedere.sql.binder.conjuncts import sides
from belvedere.sql.binder.context import Context, Query
from belvedere.sql.binder.expressions import bare


def group_keys(
    ctx: Context, query: Query, node: exp.Expr
) -> tuple[Rel, tuple[str, ...], list[Scalar]]:
    """The subquery with its correlation keys as columns, and the join conditions on these."""
    mine = set(query.plan.columns)
    outputs = [Output(c, col(c)) for c in query.plan.columns]
    keys: list[str] = []
    on: list[Scalar] = []
    for part in query.correlated:
        inner, outer = correlating_sides(ctx, part, mine, node)
        name = inner.column
        if name is None:
            name = ctx.names.fresh("key")
            outputs.append(Output(name, inner))
        keys.append(name)
        other = operand(outer).expr.copy()
        on.append(Scalar(type(part.expr)(this=col(name).expr, expression=other)))
    plan = query.plan if len(outputs) == len(mine) else Project(query.plan, tuple(outputs))
    return plan, tuple(dict.fromkeys(keys)), on


def equates(part: Scalar, mine: set[str]) -> bool:
    """Whether a correlating condition is an equality of an inner with an outer value."""
    return _equated(part, mine) is not None


def _equated(part: Scalar, mine: set[str]) -> tuple[Scalar, Scalar] | None:
    """The inner and the outer side of an equality."""
    found = sides(part, mine, set(part.columns - mine))
    if found is None and isinstance(part.expr, exp.EQ | exp.NullSafeEQ):
        a, b = Scalar(bare(part.expr.this)), Scalar(bare(part.expr.expression))
        found = next(
            ((x, y) for x, y in ((a, b), (b, a)) if x.columns <= mine and not y.columns & mine),
            None,
        )
    return found


def correlating_sides(
    ctx: Context, part: Scalar, mine: set[str], node: exp.Expr
) -> tuple[Scalar, Scalar]:
    """The inner and the outer side of a correlating equality; anything else is refused."""
    found = _equated(part, mine)
    if found is None:
        raise ctx.unsupported(
            "a subquery correlated by something other than an equality",
            node,
            "join the inner rows to the distinct outer values, group by these, and join the result",
            reason="CORRELATION",
            detail=f"the condition {part}",
        )
    return found
