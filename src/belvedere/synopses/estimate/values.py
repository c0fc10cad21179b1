"""Scalars over rows in memory, doubles included: in Spark's order NaN is last and equal to itself.

An expression that Arrow does not compute as Spark does is refused when the synopsis is created.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from belvedere.algebra.scalars import Scalar
from belvedere.algebra.types import parse
from belvedere.errors import Unsupported
from belvedere.memory import kinds
from belvedere.memory.declined import Declined
from belvedere.memory.scalars import COMPARISONS, Over, Value, exact


class _OverDoubles(Over):
    """The scalars that `memory` computes, and doubles."""

    def value(self, e: exp.Expr) -> Value:
        match e:
            case exp.Abs():
                found = self.value(e.this)
                if parse(found.kind).is_float:
                    return Value(pc.abs(found.data), found.kind)
                return Value(exact(pc.abs_checked, found), found.kind)
            case exp.Neg():
                found = self.value(e.this)
                if parse(found.kind).is_float:
                    return Value(pc.negate(found.data), found.kind)
                return super().value(e)
            case _:
                return super().value(e)

    def compared(self, e: exp.Binary) -> Any:
        one, other = self.value(e.this), self.value(e.expression)
        if not (parse(one.kind).is_float or parse(other.kind).is_float):
            return super().compared(e)
        if isinstance(e, exp.NullSafeEQ):
            raise Declined("<=> of doubles")
        a, b = _double(one), _double(other)
        plain = COMPARISONS[type(e)](a, b)
        a_is, b_is = pc.is_nan(a), pc.is_nan(b)
        # NaN is the greatest number: compare one against zero.
        ranks = COMPARISONS[type(e)](pc.cast(a_is, pa.int8()), pc.cast(b_is, pa.int8()))
        return pc.if_else(pc.or_(a_is, b_is), ranks, plain)

    def arithmetic(self, e: exp.Binary) -> Value:
        one, other = self.value(e.this), self.value(e.expression)
        if parse(one.kind).is_float or parse(other.kind).is_float:
            plain = {exp.Add: pc.add, exp.Sub: pc.subtract, exp.Mul: pc.multiply}[type(e)]
            return Value(plain(_double(one), _double(other)), "double")
        return super().arithmetic(e)

    def division(self, one: Value, other: Value) -> Value:
        sides = {one.kind, other.kind}
        if any(parse(k).is_decimal for k in sides) and not any(parse(k).is_float for k in sides):
            return super().division(one, other)
        divisor = _double(other)
        if pc.any(pc.equal(divisor, 0.0)).as_py():
            raise Declined("a division by zero")
        return Value(pc.divide(_double(one), divisor), "double")


def _double(given: Value) -> Any:
    """Numbers as doubles."""
    if not (parse(given.kind).is_number):
        raise Declined(f"{given.kind} as a number")
    return pc.cast(given.data, pa.float64(), safe=False)


def value(scalar: Scalar, rows: pa.Table, types: Mapping[str, str]) -> Value:
    """The values of a scalar over rows whose columns have these types."""
    try:
        computed = _OverDoubles(rows, types).value(scalar.expr)
    except (Declined, pa.ArrowInvalid, pa.ArrowNotImplementedError) as why:
        raise Unsupported(
            f"{scalar} is not computed in memory",
            detail=str(why),
            hint="compute it in a view or a table, and select from that",
            reason="EXPRESSION",
        ) from None
    data = computed.data
    if isinstance(data, pa.Scalar):
        data = pa.repeat(data, rows.num_rows)
    return Value(
        data if isinstance(data, pa.ChunkedArray) else pa.chunked_array([data]), computed.kind
    )


def true(predicate: Scalar, rows: pa.Table, types: Mapping[str, str]) -> Any:
    """The rows for which a predicate is TRUE, as a numpy mask."""
    truth = value(predicate, rows, types)
    if truth.kind != "boolean":
        raise Unsupported(f"a predicate of type {truth.kind}: {predicate}", reason="EXPRESSION")
    return pc.fill_null(truth.data, False).to_numpy()


def kind_of(scalar: Scalar, types: Mapping[str, str]) -> str:
    """The type of a scalar in Spark's words."""
    schema = pa.schema([(c, kinds.arrow(types[c])) for c in sorted(scalar.columns)])
    rows = schema.empty_table() if scalar.columns else pa.table({"one": [1]})
    return value(scalar, rows, types).kind
