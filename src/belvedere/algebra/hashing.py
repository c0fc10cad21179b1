"""η's hash: md5 of a text that says which key values these are, the same on every engine.

A key's values are written as text, NULL as itself, numbers of any type in one way (1, 1.00 and
1e0 compare equal and hash equal), and md5 is compared as 32 hexadecimal digits with the text of
ratio · 2¹²⁸: no arithmetic, nothing that overflows, and the same answer from Spark, from DuckDB
and from Python. `digest` is that definition in plain Python.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from sqlglot import exp

from belvedere.algebra.scalars import Scalar, call, col, lit
from belvedere.algebra.types import (
    BINARY,
    BOOLEAN,
    DATE,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DecimalType,
    parse,
)

_PLAIN = frozenset((STRING, BOOLEAN, DATE, TIMESTAMP, TIMESTAMP_NTZ, BINARY))


def bound(ratio: float) -> str:
    """The text below which the digests of that share of all keys are.

    >>> bound(0.5), bound(1.0) > "f" * 32
    ('80000000000000000000000000000000', True)
    """
    below = int(Fraction(ratio) * 2**128)
    return "g" if below >= 2**128 else f"{below:032x}"


def family(kind: str) -> str | None:
    """Types whose equal values hash equal; None of types that cannot be hashed.

    >>> family("int") == family("decimal(10,2)"), family("array<int>")
    (True, None)
    """
    type_ = parse(kind)
    if type_.is_number:
        return "number"
    # Different texts may be equal under a collation.
    return kind if type_ in _PLAIN else None


def hashed(columns: Sequence[str], seed: int, types: Mapping[str, str]) -> Scalar:
    """The digest of a row's key as a scalar."""
    parts: list[Scalar] = [lit(str(seed))]
    for column in columns:
        # Engines differ in what CONCAT makes of a NULL: there is none.
        absent = exp.Is(this=col(column).expr, expression=exp.null())
        some = call("concat", lit("|="), _text(col(column), types[column]))
        branch = exp.If(this=absent, true=lit("|~").expr)
        parts.append(Scalar(exp.Case(ifs=[branch], default=some.expr)))
    return call("md5", call("concat", *parts))


def digest(values: Iterable[Any], seed: int) -> str:
    """The digest of a key's values.

    >>> digest([1, None], 7) == digest([Decimal("1.00"), None], 7), digest([1], 7) == digest([2], 7)
    (True, False)
    """
    text = str(seed) + "".join("|~" if v is None else f"|={_written(v)}" for v in values)
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def _written(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case Decimal():
            text = format(value, "f")
            return re.sub(r"\.?0+$", "", text) if "." in text else text
        case float() if value.is_integer() and abs(value) < 1e15:
            return str(int(value))
        case _:
            return str(value)


def _text(value: Scalar, kind: str) -> Scalar:
    """A value as text, equal numbers of different types alike."""
    type_ = parse(kind)
    if type_.is_float:
        wide = _cast(value, "double")
        whole = exp.and_(
            exp.EQ(this=call("floor", wide).expr, expression=wide.expr.copy()),
            exp.LT(this=call("abs", wide).expr, expression=lit(1e15).expr),
        )
        branch = exp.If(this=whole, true=_cast(_cast(wide, "bigint"), "string").expr)
        return Scalar(exp.Case(ifs=[branch], default=_cast(wide, "string").expr))
    text = _cast(value, "string")
    if isinstance(type_, DecimalType) and type_.scale != 0:
        # 1.00 and 1.50 as 1 and 1.5
        trimmed = call("regexp_replace", text, lit("0+$"), lit(""))
        return call("regexp_replace", trimmed, lit("[.]$"), lit(""))
    return text


def _cast(value: Scalar, kind: str) -> Scalar:
    return Scalar(exp.cast(value.expr.copy(), kind, dialect="spark"))
