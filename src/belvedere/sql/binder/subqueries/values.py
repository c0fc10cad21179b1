"""Values: the expressions that replace subqueries."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from belvedere.algebra.scalars import Scalar, operand


def over_zero(x: Scalar) -> Scalar:
    """`x > 0`."""
    return Scalar(exp.GT(this=x.expr.copy(), expression=exp.Literal.number(0)))


def is_null(x: Scalar) -> Scalar:
    """`x IS NULL`."""
    return Scalar(exp.Is(this=operand(x).expr.copy(), expression=exp.null()))


def any_of(*parts: Scalar) -> Scalar:
    """The disjunction, in parentheses."""
    return Scalar(exp.paren(exp.or_(*(p.expr for p in parts)), copy=False))


def case(branches: Sequence[tuple[Scalar, exp.Expr]], default: exp.Expr | None) -> Scalar:
    """CASE WHEN … THEN … ELSE default END."""
    ifs = [exp.If(this=when.expr.copy(), true=then.copy()) for when, then in branches]
    return Scalar(exp.Case(ifs=ifs, default=default.copy() if default is not None else None))
