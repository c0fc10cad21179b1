"""Expressions over aggregates, as functions of estimated totals: for SELECT, HAVING and CASE."""

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
_COMPARED: dict[type[exp.Expr], Callable[..., Any]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}


def number(e: exp.Expr, known: Mapping[str, Dual], like: Dual) -> Dual:
    """The value of an expression over aggregates that are known by name."""
    match e:
        case exp.Column() if e.name in known:
            return known[e.name]
        case exp.Literal() if not e.is_string:
            return constant(float(e.this), like)
        case exp.Null():
            return constant(float("nan"), like)
        case exp.Paren() | exp.Cast():
            return number(e.this, known, like)
        case exp.Neg():
            return constant(0.0, like) - number(e.this, known, like)
        case exp.Round():
            return number(e.this, known, like)
        case exp.Case():
            default = e.args.get("default")
            result = number(default if default is not None else exp.null(), known, like)
            for branch in reversed(e.args["ifs"]):
                holds = condition(branch.this, known, like)
                result = number(branch.args["true"], known, like).where(holds, result)
            return result
        case exp.Coalesce():
            parts = [number(p, known, like) for p in (e.this, *e.expressions)]
            result = parts[-1]
            for part in reversed(parts[:-1]):
                result = part.where(~np.isnan(part.value), result)
            return result
        case exp.Nullif():
            value, other = number(e.this, known, like), number(e.expression, known, like)
            return value.where(value.value != other.value, constant(float("nan"), like))
        case exp.Binary() if type(e) in _ARITHMETIC:
            sides = number(e.this, known, like), number(e.expression, known, like)
            return _ARITHMETIC[type(e)](*sides)
        case _:
            raise _unknown(e)


def condition(e: exp.Expr, known: Mapping[str, Dual], like: Dual) -> NDArray[np.bool_]:
    """Where a condition on estimates holds."""
    match e:
        case exp.Paren():
            return condition(e.this, known, like)
        case exp.Not():
            return ~condition(e.this, known, like)
        case exp.And():
            return condition(e.this, known, like) & condition(e.expression, known, like)
        case exp.Or():
            return condition(e.this, known, like) | condition(e.expression, known, like)
        case exp.Is(expression=exp.Null()):
            return np.isnan(number(e.this, known, like).value)
        case exp.Between():
            value = number(e.this, known, like).value
            low, high = (number(e.args[k], known, like).value for k in ("low", "high"))
            return np.asarray((low <= value) & (value <= high))
        case exp.Binary() if type(e) in _COMPARED:
            sides = (number(s, known, like).value for s in (e.this, e.expression))
            return np.asarray(_COMPARED[type(e)](*sides), bool)
        case _:
            raise _unknown(e)


def _unknown(e: exp.Expr) -> Unsupported:
    return Unsupported(
        f"an estimate of {Scalar(e).sql().replace('`', '')}",
        hint="over aggregates: + - * /, CASE, COALESCE, NULLIF and comparisons",
        reason="ESTIMATE_EXPRESSION",
    )
