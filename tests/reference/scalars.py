"""What a scalar means: SQL's three-valued logic over Python values, None for NULL."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp

Value = Any
Row = Mapping[str, Value]

_STRICT: dict[type[exp.Expr], Callable[[Any, Any], Any]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
}


def value(e: exp.Expr, row: Row) -> Value:
    """The value of an expression on one row."""
    match e:
        case exp.Column():
            return row[e.name]
        case exp.Literal():
            return e.this if e.is_string else int(e.this)
        case exp.Boolean():
            return bool(e.this)
        case exp.Null():
            return None
        case exp.Paren() | exp.Cast():
            return value(e.this, row)
        case exp.Neg():
            inner = value(e.this, row)
            return None if inner is None else -inner
        case exp.Not():
            inner = value(e.this, row)
            return None if inner is None else not inner
        case exp.And():
            return _all(value(e.this, row), value(e.expression, row))
        case exp.Or():
            inner = _all(_not(value(e.this, row)), _not(value(e.expression, row)))
            return _not(inner)
        case exp.NullSafeEQ():
            return value(e.this, row) == value(e.expression, row)
        case exp.Is(expression=exp.Null()):
            return value(e.this, row) is None
        case exp.Coalesce():
            parts = (value(p, row) for p in (e.this, *e.expressions))
            return next((p for p in parts if p is not None), None)
        case exp.Anonymous(this="concat"):
            texts = [value(p, row) for p in e.expressions]
            return None if None in texts else "".join(str(text) for text in texts)
        case exp.Anonymous(this="md5"):
            text = value(e.expressions[0], row)
            return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
        case exp.Case():
            for branch in e.args["ifs"]:
                if value(branch.this, row) is True:
                    return value(branch.args["true"], row)
            default = e.args.get("default")
            return None if default is None else value(default, row)
        case exp.Binary() if type(e) in _STRICT:
            a, b = value(e.this, row), value(e.expression, row)
            return None if a is None or b is None else _STRICT[type(e)](a, b)
        case _:
            raise TypeError(f"the reference does not know {type(e).__name__}: {e.sql()}")


def _not(a: Value) -> Value:
    return None if a is None else not a


def _all(a: Value, b: Value) -> Value:
    if a is False or b is False:
        return False
    return None if a is None or b is None else True
