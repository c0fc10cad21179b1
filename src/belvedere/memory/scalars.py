"""Scalars over rows in memory, where Arrow's answer is Spark's, type included.

columns, constants      text, numbers, dates, TRUE and FALSE
= <=> <> < <= > >=      values of one type, or two kinds of exact numbers
AND OR NOT IS IN        with three truth values
+ - * /                 exact numbers; decimals get the digits that Spark gives them
CASE coalesce           branches of one type, or exact numbers
LIKE substring year     patterns of % and _
rpad                    as values of CHAR are padded
md5 concat              of text: a sample's hash; casts to text of whole numbers, dates and the like

Anything else is declined, and so is what overflows: that is for Spark, which knows whether it is an
error or a NULL.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from typing import Any, TypeGuard

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from belvedere.algebra.scalars import Scalar, padded_length
from belvedere.algebra.types import parse
from belvedere.memory import kinds
from belvedere.memory.declined import Declined


@dataclass(frozen=True)
class Value:
    """A column of values, or one that stands for all rows, and its type in Spark's words."""

    data: pa.ChunkedArray | pa.Scalar
    kind: str
    literal: bool = False


def value(scalar: Scalar, rows: pa.Table, types: Mapping[str, str]) -> Value:
    """A scalar for each of some rows, whose columns have these types."""
    found = Over(rows, types).value(scalar.expr)
    if isinstance(found.data, pa.Scalar):
        column = pa.repeat(found.data, rows.num_rows)
        return Value(pa.chunked_array([column]), found.kind)
    return found


def true(predicate: Scalar, rows: pa.Table, types: Mapping[str, str]) -> pa.ChunkedArray:
    """For which of some rows a predicate is TRUE."""
    found = value(predicate, rows, types)
    if found.kind != "boolean":
        raise Declined(f"a predicate of type {found.kind}")
    return pc.fill_null(found.data, False)


def as_kind(given: Value, kind: str) -> Value:
    """The same values as another type that holds them."""
    if given.kind == kind:
        return given
    if parse(kind).is_decimal and parse(given.kind).is_integer:
        # Arrow asks for all the digits that the integer's type could have.
        precision, scale = kinds.digits(kind)
        wide = pc.cast(given.data, pa.decimal128(kinds.digits(given.kind)[0], 0))
        return Value(pc.cast(wide, pa.decimal128(precision, scale)), kind)
    return Value(pc.cast(given.data, kinds.arrow(kind)), kind)


def divided(one: Value, other: Value, kind: str) -> Value:
    """One decimal by another, rounded half up to the scale of a type.

    Spark rounds twice, first to 39 digits behind the point. That is the same as long as no quotient
    comes so near to the middle between two results without being it: a divisor of q digits keeps
    it 1 / (2 · 10^(q + scale)) away.
    """
    (p, s), (q, t), (_, scale) = map(kinds.digits, (one.kind, other.kind, kind))
    if q + scale > kinds.MOST_DIGITS or scale + t < s:
        raise Declined(f"{one.kind} divided by {other.kind}")
    # With so many digits more, Arrow cuts the quotient off behind the one that rounds it. For zero,
    # which is an error or a NULL, it raises.
    more = max(s, scale + t + 1)
    a = pc.cast(one.data, pa.decimal256(p - s + more, more))
    cut = pc.divide_checked(a, pc.cast(other.data, pa.decimal256(q, t)))
    return _rounded(cut, kind)


def _rounded(data: Any, kind: str) -> Value:
    """Decimals of more digits rounded half up, away from zero."""
    near = pc.round(data, kinds.digits(kind)[1], round_mode="half_towards_infinity")
    return Value(pc.cast(near, kinds.arrow(kind)), kind)


@dataclass(frozen=True)
class Over:
    """Expressions over some rows, whose columns have these types."""

    rows: pa.Table
    types: Mapping[str, str]

    def value(self, e: exp.Expr) -> Value:
        """What an expression is for each row."""
        said = {name for name, what in e.args.items() if what not in (None, False, [])}
        if not said <= _UNDERSTOOD.get(type(e), set()):
            raise Declined(f"{type(e).__name__} with {', '.join(sorted(said))}")
        match e:
            case exp.Column():
                return Value(self.rows[e.name], self.types[e.name])
            case exp.Paren():
                return self.value(e.this)
            case exp.Boolean():
                return _constant(bool(e.this), "boolean")
            case exp.Literal():
                return _literal(e)
            case exp.Cast():
                return self.cast(e)
            case exp.And() | exp.Or():
                join = pc.and_kleene if isinstance(e, exp.And) else pc.or_kleene
                return _truth(join(self.truth(e.this), self.truth(e.expression)))
            case exp.Not():
                return _truth(pc.invert(self.truth(e.this)))
            case exp.Is(expression=exp.Null()):
                return _truth(pc.is_null(self.value(e.this).data))
            case exp.Between():
                low = exp.GTE(this=e.this, expression=e.args["low"])
                high = exp.LTE(this=e.this, expression=e.args["high"])
                return _truth(pc.and_kleene(self.compared(low), self.compared(high)))
            case exp.In():
                return _truth(self.among(e))
            case exp.EQ() | exp.NullSafeEQ() | exp.NEQ() | exp.LT() | exp.LTE():
                return _truth(self.compared(e))
            case exp.GT() | exp.GTE():
                return _truth(self.compared(e))
            case exp.Add() | exp.Sub() | exp.Mul():
                return self.arithmetic(e)
            case exp.Div():
                return self.division(self.value(e.this), self.value(e.expression))
            case exp.Neg(this=exp.Literal(is_string=False)):
                return _literal(e.this, "-")
            case exp.Neg():
                found = self.value(e.this)
                return Value(exact(pc.negate_checked, found), found.kind)
            case exp.Case():
                return self.case(e)
            case exp.Coalesce():
                return self.coalesce([e.this, *e.expressions])
            case exp.Like():
                return self.like(e)
            case exp.Substring():
                return self.substring(e)
            case exp.Pad():
                return self.padded(e)
            case exp.Year():
                return self.year(e.this)
            case exp.Extract() if e.name.lower() == "year":
                return self.year(e.expression)
            case exp.Anonymous():
                return self.called(e.name.lower(), e.expressions)
            case _:
                raise Declined(f"{type(e).__name__}: {e.sql(dialect='spark')}")

    def truth(self, e: exp.Expr) -> Any:
        found = self.value(e)
        if found.kind != "boolean":
            raise Declined(f"{found.kind} as a truth value")
        return found.data

    def compared(self, e: exp.Binary) -> Any:
        one, other = self.value(e.this), self.value(e.expression)
        kind = kinds.common(one.kind, other.kind)
        if parse(kind).is_float:
            raise Declined(f"a comparison of {kind}")
        a, b = as_kind(one, kind).data, as_kind(other, kind).data
        if isinstance(e, exp.NullSafeEQ):
            equal = pc.fill_null(pc.equal(a, b), False)
            return pc.or_(equal, pc.and_(pc.is_null(a), pc.is_null(b)))
        return COMPARISONS[type(e)](a, b)

    def among(self, e: exp.In) -> Any:
        """Whether values are in a list: one of constants is gone through once for all rows."""
        listed = _listed(e.expressions)
        one = self.value(e.this) if listed else None
        constants = _constants(listed, one.kind) if one is not None else None
        if one is None or constants is None or isinstance(one.data, pa.Scalar):
            pairs = (exp.EQ(this=e.this, expression=other) for other in e.expressions)
            return reduce(pc.or_kleene, map(self.compared, pairs))
        kind, values = constants
        data = as_kind(one, kind).data
        unknown = pa.scalar(None, pa.bool_())
        return pc.if_else(pc.is_null(data), unknown, pc.is_in(data, value_set=values))

    def arithmetic(self, e: exp.Binary) -> Value:
        one, other = self.value(e.this), self.value(e.expression)
        work = _ARITHMETIC[type(e)]
        if parse(one.kind).is_integer and parse(other.kind).is_integer:
            kind = kinds.wider(one.kind, other.kind)
            return Value(work(as_kind(one, kind).data, as_kind(other, kind).data), kind)
        one, other = _as_decimal(one), _as_decimal(other)
        (p, s), (q, t) = kinds.digits(one.kind), kinds.digits(other.kind)
        if isinstance(e, exp.Mul):
            kind = kinds.shortened(p + q + 1, s + t)
        else:
            kind = kinds.shortened(max(p - s, q - t) + max(s, t) + 1, max(s, t))
        # Wide enough for any result of the two: whether it fits shows afterwards.
        a, b = (pc.cast(v.data, pa.decimal256(*kinds.digits(v.kind))) for v in (one, other))
        return Value(pc.cast(work(a, b), kinds.arrow(kind)), kind)

    def division(self, one: Value, other: Value) -> Value:
        if not (parse(one.kind).is_decimal or parse(other.kind).is_decimal):
            raise Declined(f"{one.kind} divided by {other.kind}")
        one, other = _as_decimal(one), _as_decimal(other)
        return divided(one, other, kinds.quotient(one.kind, other.kind))

    def cast(self, e: exp.Cast) -> Value:
        """Casts to a type that holds every value, between decimals, rounded half up, and of whole
        numbers to decimals that hold these."""
        kind = e.to.sql(dialect="spark").lower().replace(" ", "")
        if isinstance(e.this, exp.Null):
            return Value(pa.scalar(None, kinds.arrow(kind)), kind)
        if kind == "date" and e.this.is_string:
            return _constant(_date(e.this.this), kind)
        given = self.value(e.this)
        if kind == "string" != given.kind:
            return _text(given)
        if parse(given.kind).is_decimal and parse(kind).is_decimal:
            precision, scale = kinds.digits(given.kind)
            return _rounded(pc.cast(given.data, pa.decimal256(precision + 1, scale)), kind)
        to_digits = parse(given.kind).is_integer and parse(kind).is_decimal
        if not to_digits and kinds.common(given.kind, kind) != kind:
            raise Declined(f"a cast of {given.kind} to {kind}")
        return replace(as_kind(given, kind), literal=False)

    def case(self, e: exp.Case) -> Value:
        branches = e.args["ifs"]
        values = self.alike([*(b.args["true"] for b in branches), e.args.get("default")])
        found = values[-1].data
        for branch, then in reversed(list(zip(branches, values[:-1], strict=True))):
            found = pc.if_else(pc.fill_null(self.truth(branch.this), False), then.data, found)
        return Value(found, values[-1].kind)

    def coalesce(self, parts: list[exp.Expr]) -> Value:
        values = self.alike(parts)
        return Value(pc.coalesce(*(v.data for v in values)), values[0].kind)

    def alike(self, parts: Iterable[exp.Expr | None]) -> list[Value]:
        """Values in the type that holds all of them; NULL, or nothing, is of any type."""
        values = [None if p is None or isinstance(p, exp.Null) else self.value(p) for p in parts]
        kind = reduce(kinds.common, (v.kind for v in values if v is not None))
        null = Value(pa.scalar(None, kinds.arrow(kind)), kind)
        return [null if v is None else as_kind(v, kind) for v in values]

    def like(self, e: exp.Like) -> Value:
        text, pattern = self.value(e.this), e.expression
        if text.kind != "string" or not pattern.is_string or "\\" in pattern.this:
            raise Declined("a LIKE of other form")
        found = pc.match_like(text.data, pattern.this)
        return _truth(pc.invert(found) if e.args.get("negate") else found)

    def substring(self, e: exp.Substring) -> Value:
        text, start, length = self.value(e.this), e.args.get("start"), e.args.get("length")
        if text.kind != "string" or not _is_count(start) or not _is_count(length):
            raise Declined("a substring of other form")
        begin, end = int(start.this) - 1, int(start.this) - 1 + int(length.this)
        return Value(pc.utf8_slice_codeunits(text.data, begin, end), "string")

    def padded(self, e: exp.Pad) -> Value:
        length = padded_length(e)
        if length is None:
            raise Declined("a text padded in another way")
        return Value(pc.utf8_rpad(self.text(e.this), length), "string")

    def called(self, name: str, arguments: list[exp.Expr]) -> Value:
        """Years, md5 and concat of text, and zeros cut off its end, as the hash of a sample's key has it."""
        if name == "regexp_replace" and [a.name for a in arguments[1:]] in _CUT:
            pattern = arguments[1].name
            found = pc.replace_substring_regex(self.text(arguments[0]), pattern, "")
            return Value(found, "string")
        if name == "concat":
            parts = [self.text(a) for a in arguments]
            return Value(pc.binary_join_element_wise(*parts, ""), "string")
        if name == "year" and len(arguments) == 1:
            return self.year(arguments[0])
        if name == "md5" and len(arguments) == 1:
            return Value(_digested(self.text(arguments[0])), "string")
        raise Declined(name)

    def text(self, e: exp.Expr) -> Any:
        found = self.value(e)
        if found.kind != "string":
            raise Declined(f"{found.kind} as text")
        return found.data

    def year(self, e: exp.Expr) -> Value:
        found = self.value(e.this if isinstance(e, exp.TsOrDsToDate) else e)
        if found.kind != "date":
            raise Declined(f"the year of a {found.kind}")
        return Value(pc.cast(pc.year(found.data), pa.int32()), "int")


_BOTH = {"this", "expression"}
_UNDERSTOOD: dict[type[exp.Expr], set[str]] = {
    **{key: {"this"} for key in (exp.Paren, exp.Boolean, exp.Not, exp.Neg, exp.Column, exp.Year)},
    **dict.fromkeys((exp.And, exp.Or, exp.Is, exp.Extract), _BOTH),
    **dict.fromkeys((exp.EQ, exp.NullSafeEQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), _BOTH),
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul), _BOTH),
    exp.Div: {*_BOTH, "typed", "safe"},
    exp.Literal: {"this", "is_string"},
    exp.Anonymous: {"this", "expressions"},
    exp.Cast: {"this", "to"},
    exp.TryCast: {"this", "to"},
    exp.Between: {"this", "low", "high"},
    exp.In: {"this", "expressions"},
    exp.Like: {*_BOTH, "negate"},
    exp.Case: {"ifs", "default"},
    exp.Coalesce: {"this", "expressions"},
    exp.Substring: {"this", "start", "length"},
    exp.Pad: {*_BOTH, "fill_pattern"},
}
"""What an expression may say; a word more, like the SYMMETRIC of BETWEEN, changes its meaning."""
COMPARISONS: dict[type[exp.Expr], Callable[[Any, Any], Any]] = {
    exp.EQ: pc.equal,
    exp.NEQ: pc.not_equal,
    exp.LT: pc.less,
    exp.LTE: pc.less_equal,
    exp.GT: pc.greater,
    exp.GTE: pc.greater_equal,
}
_ARITHMETIC: dict[type[exp.Expr], Callable[[Any, Any], Any]] = {
    exp.Add: pc.add_checked,
    exp.Sub: pc.subtract_checked,
    exp.Mul: pc.multiply_checked,
}


_CUT = (["0+$", ""], ["[.]$", ""])
"""What regexp_replace is known to do."""
_PLAIN_SCALE = 6
"""Digits behind the point up to which every engine writes a decimal without an exponent."""


def _text(given: Value) -> Value:
    """Values as text, where every engine writes them alike."""
    if given.kind == "date":
        if not pc.all(pc.less(pc.abs(pc.cast(given.data, pa.int32())), _FAR_DAY)).as_py():
            raise Declined("a date of another millennium as text")
    elif parse(given.kind).is_decimal:
        if kinds.digits(given.kind)[1] > _PLAIN_SCALE:
            raise Declined(f"{given.kind} as text")
    elif not parse(given.kind).is_integer and given.kind != "boolean":
        raise Declined(f"{given.kind} as text")
    return Value(pc.cast(given.data, pa.string()), "string")


_FAR_DAY = 700_000
"""Days from 1970 within which years have four digits."""


def _digested(texts: pa.ChunkedArray | pa.Scalar) -> pa.ChunkedArray:
    """md5 of each text."""
    from belvedere.kernels.hashes.md5 import digests

    column = (
        pa.chunked_array([pa.array([texts.as_py()], pa.string())])
        if isinstance(texts, pa.Scalar)
        else texts
    )
    whole = pc.cast(column, pa.large_string()).combine_chunks()
    whole = whole if isinstance(whole, pa.Array) else pa.array([], pa.large_string())
    if whole.null_count:
        raise Declined("md5 of NULL")
    _, offsets, data = whole.buffers()
    ends = np.frombuffer(offsets, np.int64)[whole.offset : whole.offset + len(whole) + 1]
    found = digests(np.frombuffer(data or b"", np.uint8), ends)
    starts = pa.py_buffer(np.arange(0, 32 * len(whole) + 1, 32, dtype=np.int32))
    return pa.chunked_array([pa.StringArray.from_buffers(len(whole), starts, pa.py_buffer(found))])


def _truth(data: Any) -> Value:
    return Value(data, "boolean")


def _constant(what: Any, kind: str) -> Value:
    return Value(pa.scalar(what, kinds.arrow(kind)), kind)


def _literal(e: exp.Literal, sign: str = "") -> Value:
    """A constant; a sign before a number belongs to it, as in Spark's grammar."""
    if e.is_string:
        return _constant(e.this, "string")
    whole, _, part = e.this.partition(".")
    if not (whole + part).isdigit():
        raise Declined(f"the number {e.this}")
    if "." not in e.this:
        number = int(sign + whole)
        if not -(2**63) <= number < 2**63:
            raise Declined(f"the number {number}")
        kind = "int" if -(2**31) <= number < 2**31 else "bigint"
        return Value(pa.scalar(number, kinds.arrow(kind)), kind, literal=True)
    digits = len(whole.lstrip("0")) + len(part)
    kind = kinds.decimal(max(digits, len(part), 1), len(part))
    text = pa.scalar(f"{sign}{whole or '0'}.{part or '0'}")
    return Value(
        pc.cast(text, pa.decimal128(kinds.MOST_DIGITS, len(part))).cast(kinds.arrow(kind)), kind
    )


def _listed(parts: Sequence[exp.Expr]) -> tuple[tuple[str, bool], ...]:
    """A list's constants, each with whether it is text; nothing if it has something else."""
    plain = all(type(part) is exp.Literal for part in parts)
    return tuple((part.this, part.is_string) for part in parts) if plain else ()


@lru_cache(maxsize=256)
def _constants(listed: tuple[tuple[str, bool], ...], kind: str) -> tuple[str, pa.Array] | None:
    """Constants as one array, of the type in which all of them are compared with values of a type."""
    some = [_literal(exp.Literal(this=text, is_string=is_text)) for text, is_text in listed]
    common = {kinds.common(kind, one.kind) for one in some}
    if len(common) > 1 or common & {"float", "double"}:
        return None
    (found,) = common
    values = [as_kind(one, found).data.as_py() for one in some]
    return found, pa.array(values, kinds.arrow(found))


def _as_decimal(given: Value) -> Value:
    """A number as a decimal; a constant has only the digits that it shows."""
    if given.literal:
        return as_kind(given, kinds.decimal(len(str(abs(given.data.as_py()))), 0))
    return as_kind(given, kinds.decimal(*kinds.digits(given.kind)))


def exact(work: Callable[[Any], Any], given: Value) -> Any:
    """Work on exact numbers; other values are declined."""
    if not parse(given.kind).is_exact:
        raise Declined(f"arithmetic of {given.kind}")
    return work(given.data)


def _date(text: str) -> datetime.date:
    try:
        return datetime.datetime.strptime(text, "%Y-%m-%d").date()
    except ValueError:
        raise Declined(f"the date {text!r}") from None


def _is_count(e: exp.Expr | None) -> TypeGuard[exp.Literal]:
    return isinstance(e, exp.Literal) and e.is_int and int(e.this) >= 1
