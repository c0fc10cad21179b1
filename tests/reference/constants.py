"""Comparisons with constants of every type, as Spark evaluates them, and the law of implication."""

from __future__ import annotations

import itertools
import operator
import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
from hypothesis import strategies as st
from sqlglot import parse_one

from belvedere.algebra.scalars import Scalar
from belvedere.sketches.use.implied_conditions import implies
from belvedere.sql.dialect import SparkAsWritten

_SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
}
_BASES = (0, 5, 2**24, 2**31, 2**53, 10**16)
KINDS = ("int", "bigint", "decimal(20,2)", "float", "double", "string")


@dataclass(frozen=True)
class Comparison:
    """`x sign constant`."""

    sign: str
    constant: str

    @property
    def text(self) -> str:
        """It in SQL."""
        return f"x {self.sign} {self.constant}"

    @property
    def scalar(self) -> Scalar:
        """It as conditions of a plan have it."""
        return _scalar(self.text)

    def holds(self, value: Any, kind: str, ansi: bool) -> bool:
        """What Spark says of a value of a type."""
        pair = _compared(value, kind, self.constant, ansi)
        return pair is not None and _SIGNS[self.sign](*pair)


@cache
def _scalar(text: str) -> Scalar:
    return Scalar(parse_one(text, dialect=SparkAsWritten))


def literal_type(text: str) -> str:
    """The type of a number by how it is written."""
    if text.endswith("D") or "e" in text:
        return "double"
    if text.endswith("L"):
        return "bigint"
    if "." in text or not -(2**63) <= int(text) < 2**63:
        return "decimal"
    return "int" if -(2**31) <= int(text) < 2**31 else "bigint"


def _compared(value: Any, kind: str, text: str, ansi: bool) -> tuple[Any, Any] | None:
    """Both sides in the type in which Spark compares them; None for NULL or an error."""
    other, number = literal_type(text), Decimal(text.rstrip("LD"))
    if other == "double":
        number = Decimal(float(number))
    if kind == "string":
        if other in ("int", "bigint"):
            whole = int(value)
            narrow = other == "int" and not ansi
            return (whole, int(number)) if not narrow or -(2**31) <= whole < 2**31 else None
        return float(value), float(number)
    if kind == "float" and other in ("int", "bigint") and not ansi:
        return np.float32(value), np.float32(int(number))
    if "double" in (kind, other) or kind == "float":
        return float(value), float(number)
    return Decimal(value), number


def constants(base: int) -> list[str]:
    """Numbers near another one, each written in all the ways there are."""
    return [
        text
        for n in range(base - 2, base + 3)
        for text in (f"{n}", f"{n}", f"{n}L", f"{n}.0", f"{n}.5", f"{n}.25", f"{n}e0", f"{n}D")
    ]


def values(base: int, kind: str) -> list[Any]:
    """Values of a type near a number."""
    whole = range(base - 3, base + 4)
    between = [Decimal(n) + Decimal(part) for n in whole for part in ("0", "0.25", "0.5", "0.99")]
    match kind:
        case "int":
            return [n for n in whole if n < 2**31]
        case "float":
            return [float(np.float32(float(n))) for n in between]
        case "double":
            return [float(n) for n in between]
        case "string":
            return [str(n) for n in (*whole, 3 * 10**9)]
        case _:
            return between if kind.startswith("decimal") else list(whole)


def what_is_implied_holds(seed: int, count: int = 400) -> None:
    """Where one condition implies another, each value for which it holds is one of the other's."""
    draw = random.Random(seed)
    for _ in range(count):
        kind = draw.choice(KINDS)
        # Texts are compared otherwise with constants of INT and of BIGINT.
        base = 2**31 if kind == "string" else draw.choice(_BASES)
        signs, texts = draw.choice([(">", ">=", "="), ("<", "<=", "=")]), constants(base)
        one, other = (Comparison(draw.choice(signs), draw.choice(texts)) for _ in range(2))
        if not implies(one.scalar, other.scalar, {"x": kind}):
            continue
        for ansi, value in itertools.product((True, False), values(base, kind)):
            if one.holds(value, kind, ansi):
                assert other.holds(value, kind, ansi), (one, other, kind, ansi, value)


seeds = st.integers(0, 2**32)
