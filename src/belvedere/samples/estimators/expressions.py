"""Evaluate expressions over estimated aggregates, with slopes: for SELECT, HAVING and CASE."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from belvedere.algebra.scalars import Scalar
from belvedere.errors import Unsupported
from belvedere.estimation.linearization import Dual, constant

_ARITHMETIC: dict[type[exp.Expr], Callable[[Dual, Dual], Dual]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
    exp.Div: operator.truediv,
}
_COMPARISONS: dict[type[exp.Expr], Callable[..., Any]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}


def evaluate_number(e: exp.Expr, aggregates: Mapping[str, Dual], like: Dual) -> Dual:
    """The value of an expression over aggregates, which are given by name."""
    match e:
        case exp.Column() if e.name in aggregates:
            return aggregates[e.name]
        case exp.Literal() if not e.is_string:
            return constant(float(e.this), like)
        case exp.Null():
            return constant(float("nan"), like)
        case exp.Paren() | exp.Cast():
            return evaluate_number(e.this, aggregates, like)
        case exp.Neg():
            return constant(0.0, like) - evaluate_number(e.this, aggregates, like)
        case exp.Round():
            return evaluate_number(e.this, aggregates, like)
        case exp.Case():
            default = e.args.get("default")
            result = evaluate_number(
                default if default is not None else exp.null(), aggregates, like
            )
            for branch in reversed(e.args["ifs"]):
                holds = evaluate_condition(branch.this, aggregates, like)
                result = evaluate_number(branch.args["true"], aggregates, like).where(holds, result)
            return result
        case exp.Coalesce():
            parts = [evaluate_number(p, aggregates, like) for p in (e.this, *e.expressions)]
            result = parts[-1]
            for part in reversed(parts[:-1]):
                result = part.where(~np.isnan(part.value), result)
            return result
        case exp.Nullif():
            value, other = (
                evaluate_number(e.this, aggregates, like),
                evaluate_number(e.expression, aggregates, like),
            )
            return value.where(value.value != other.value, constant(float("nan"), like))
        case exp.Binary() if type(e) in _ARITHMETIC:
            sides = (
                evaluate_number(e.this, aggregates, like),
                evaluate_number(e.expression, aggregates, like),
            )
            return _ARITHMETIC[type(e)](*sides)
        case _:
            raise _refused(e)


def evaluate_condition(
    e: exp.Expr, aggregates: Mapping[str, Dual], like: Dual
) -> NDArray[np.bool_]:
    """The groups where a condition on estimates holds."""
    match e:
        case exp.Paren():
            return evaluate_condition(e.this, aggregates, like)
        case exp.Not():
            return ~evaluate_condition(e.this, aggregates, like)
        case exp.And():
            return evaluate_condition(e.this, aggregates, like) & evaluate_condition(
                e.expression, aggregates, like
            )
        case exp.Or():
            return evaluate_condition(e.this, aggregates, like) | evaluate_condition(
                e.expression, aggregates, like
            )
        case exp.Is(expression=exp.Null()):
            return np.isnan(evaluate_number(e.this, aggregates, like).value)
        case exp.Between():
            value = evaluate_number(e.this, aggregates, like).value
            low, high = (
                evaluate_number(e.args[k], aggregates, like).value for k in ("low", "high")
            )
            return np.asarray((low <= value) & (value <= high))
        case exp.Binary() if type(e) in _COMPARISONS:
            sides = (evaluate_number(s, aggregates, like).value for s in (e.this, e.expression))
            return np.asarray(_COMPARISONS[type(e)](*sides), bool)
        case _:
            raise _refused(e)


def _refused(e: exp.Expr) -> Unsupported:
    return Unsupported(
        f"an estimate of {Scalar(e).sql().replace('`', '')}",
        hint="over aggregates: + - * /, CASE, COALESCE, NULLIF and comparisons",
        reason="ESTIMATE_EXPRESSION",
    )
