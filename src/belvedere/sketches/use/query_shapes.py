"""Shapes: queries in a form in which two that differ only in constants can be compared (IMP §10.4).

    shape = accesses, conditions on rows (WHERE, ON), the group's key, conditions on groups (HAVING),
            the order and how many; all in terms of the columns of the tables

Which columns are shown has no say in which rows an answer comes from, and is left out.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from types import MappingProxyType

from sqlglot import exp

from belvedere.algebra.relations import (
    Aggregate,
    Filter,
    Join,
    Kind,
    Order,
    Project,
    Rel,
    Scan,
    TopK,
)
from belvedere.algebra.scalars import Scalar, col
from belvedere.algebra.types import ExactNumber, parse
from belvedere.memory import kinds

Names = Mapping[str, Scalar]
Types = Mapping[str, str]


@dataclass(frozen=True)
class Shape:
    """A query without what it shows."""

    accesses: tuple[str, ...]
    rows: tuple[Scalar, ...]
    keys: frozenset[str] | None
    """None where there is no aggregate."""
    groups: tuple[Scalar, ...]
    order: tuple[tuple[str, bool, bool], ...]
    limit: int | None
    aggregate: Aggregate | None
    """The aggregate itself, and the conditions on its groups in its own columns."""
    own: tuple[Scalar, ...]
    text: str
    """Of a query without such a form, all that it is."""
    types: Mapping[str, str] = field(default_factory=dict)
    """Of the columns of tables, as conditions name them."""


def shape(q: Rel) -> Shape:
    """The shape of a query; one of another form is only like itself."""
    try:
        return _shape(q)
    except _OtherForm:
        # Not as people read it: there a column named `true` and the constant are one text.
        return Shape((), (), None, (), (), None, None, (), repr(q))


class _OtherForm(Exception):
    pass


def _shape(q: Rel) -> Shape:
    top, order, limit = q, list[Order](), None
    while isinstance(top, Project):
        top = top.child
    if isinstance(top, TopK):
        order, limit, top = list(top.order), top.offset + top.limit, top.child
    else:
        top = q
    conditions, node, wanted = list[Scalar](), top, [col(o.column) for o in order]
    while isinstance(node, Filter | Project):
        if isinstance(node, Project):
            by = {o.name: o.value for o in node.outputs}
            conditions = [c.substitute(by) for c in conditions]
            wanted = [w.substitute(by) for w in wanted]
        else:
            conditions += node.predicate.conjuncts
        node = node.child
    aggregate = node if isinstance(node, Aggregate) else None
    core = _Core()
    names = core.names(node if aggregate is None else aggregate.child)
    keys = None
    if aggregate is not None:
        keys = frozenset(str(names[k]) for k in aggregate.keys)
        calls = {a.name: Scalar(a.call.substitute(names).expr) for a in aggregate.aggregates}
        names = {**{k: names[k] for k in aggregate.keys}, **calls}
    placed = [c.substitute(names) for c in conditions]
    rows = tuple(core.conditions) if aggregate else (*core.conditions, *placed)
    sorts = tuple(
        (str(w.substitute(names)), o.descending, o.nulls_first)
        for w, o in zip(wanted, order, strict=True)
    )
    groups = tuple(placed) if aggregate else ()
    own = tuple(conditions) if aggregate else ()
    return Shape(
        tuple(core.accesses), rows, keys, groups, sorts, limit, aggregate, own, "", core.types
    )


class _Core:
    """Accesses and conditions of a core, gathered from left to right."""

    def __init__(self) -> None:
        self.accesses: list[str] = []
        self.conditions: list[Scalar] = []
        self.types: dict[str, str] = {}

    def names(self, q: Rel) -> dict[str, Scalar]:
        """What each column of a core is in terms of its tables' columns."""
        match q:
            case Scan():
                place = len(self.accesses)
                self.accesses.append(q.table)
                self.types |= {f"{place}.{f.source.lower()}": f.type for f in q.fields}
                return {f.name: col(f"{place}.{f.source.lower()}") for f in q.fields}
            case Filter():
                found = self.names(q.child)
                self._add(q.predicate, found)
                return found
            case Project():
                inner = self.names(q.child)
                return {o.name: o.value.substitute(inner) for o in q.outputs}
            case Join(kind=Kind.INNER):
                found = {**self.names(q.left), **self.names(q.right)}
                self._add(q.on, found)
                return found
            case _:
                raise _OtherForm

    def _add(self, condition: Scalar, names: Names) -> None:
        self.conditions += [c.substitute(names) for c in condition.conjuncts]


@dataclass(frozen=True)
class Constant:
    """A constant of a type: `1`, `1.0` and `1e0` are one number, but compared otherwise."""

    type: str
    number: Decimal

    def among(self, plain: bool) -> str:
        """Constants of one such name are compared with a value as values of one type.

        A whole number, or a decimal, is compared with a decimal in digits enough for both, and with
        a text by a cast to its own type; neither depends on it where the value is a `plain` number.
        """
        type_ = parse(self.type)
        if not (plain and isinstance(type_, ExactNumber)):
            return self.type
        if type_.is_integer:
            return "whole number" if abs(self.number) < 10**_PLAIN_DIGITS else self.type
        few = max(type_.precision - type_.scale, type_.scale) <= _PLAIN_DIGITS
        return f"decimal of {type_.scale} places" if few else self.type

    @property
    def is_kept(self) -> bool:
        """Whether it and all that are smaller stay apart in every type they are compared in."""
        whole = parse(self.type).is_integer
        return self.type in ("date", "double") or (whole and abs(self.number) <= _KEPT_APART)


_PLAIN_DIGITS = 18
"""Of values and constants with no more before and behind the point, none is rounded by the other."""
_KEPT_APART = 2**24
"""Up to which whole numbers are floats."""


@dataclass(frozen=True)
class Range:
    """A value compared with constants: from, to, and whether the ends are in."""

    value: Scalar
    low: Constant | None = None
    low_in: bool = False
    high: Constant | None = None
    high_in: bool = False

    @property
    def ends(self) -> tuple[Constant, ...]:
        """The constants that it has."""
        return tuple(end for end in (self.low, self.high) if end is not None)

    def within(self, other: Range, types: Types) -> bool:
        """Whether what is in this one is in the other."""
        plain = _is_plain_number(self.value.expr, types)
        ends = (*self.ends, *other.ends)
        if str(self.value) != str(other.value) or len({c.among(plain) for c in ends}) > 1:
            return False
        apart = all(c.is_kept for c in ends)
        low, floor = (r.low.number if r.low else None for r in (self, other))
        high, ceiling = (-r.high.number if r.high else None for r in (self, other))
        return _after(low, self.low_in, floor, other.low_in, apart) and _after(
            high, self.high_in, ceiling, other.high_in, apart
        )


def _after(
    mine: Decimal | None, mine_in: bool, theirs: Decimal | None, theirs_in: bool, apart: bool
) -> bool:
    """Whether all from one end on lies after another; unless they stay apart, they may become one."""
    if theirs is None:
        return True
    if mine is None:
        return False
    return mine >= theirs and (theirs_in or not mine_in or (apart and mine > theirs))


def range_of(condition: Scalar) -> Range | None:
    """The range that a comparison with constants says; None for any other condition.

    >>> from sqlglot import parse_one
    >>> range_of(Scalar(parse_one("5 < x"))).low
    Constant(type='int', number=Decimal('5'))
    """
    e = condition.expr
    while isinstance(e, exp.Paren):
        e = e.this
    match e:
        case exp.GT() | exp.GTE() | exp.LT() | exp.LTE() | exp.EQ():
            return _compared(e)
        case exp.Between():
            low, high = _constant(e.args["low"]), _constant(e.args["high"])
            if low is None or high is None or e.args.get("symmetric"):
                return None
            return Range(Scalar(e.this), low, True, high, True)
        case _:
            return None


def _compared(e: exp.Binary) -> Range | None:
    turned = _constant(e.this)
    constant = turned or _constant(e.expression)
    if constant is None:
        return None
    value = Scalar(e.expression if turned else e.this)
    more = isinstance(e, exp.LT | exp.LTE if turned else exp.GT | exp.GTE)
    inside = isinstance(e, exp.GTE | exp.LTE | exp.EQ)
    if isinstance(e, exp.EQ):
        return Range(value, constant, True, constant, True)
    if more:
        return Range(value, low=constant, low_in=inside)
    return Range(value, high=constant, high_in=inside)


def _constant(e: exp.Expr, sign: str = "") -> Constant | None:
    """A number or date as it is written, with its type; None for any other expression."""
    match e:
        case exp.Paren() if not sign:
            return _constant(e.this)
        case exp.Neg() if not sign:
            return _constant(e.this, "-")
        case exp.Literal() if not e.is_string:
            return _number(sign + e.this)
        case exp.Cast() if e.to.is_type("date") and e.this.is_string and not sign:
            try:
                day = datetime.datetime.strptime(e.this.this, "%Y-%m-%d").date()
            except ValueError:
                return None
            plain = day.isoformat() == e.this.this
            return Constant("date", Decimal(day.toordinal())) if plain else None
        case _:
            return None


def _number(text: str) -> Constant | None:
    """A number in the type that Spark gives it by how it is written.

    >>> [_number(t).type for t in ("1", "3000000000", "9223372036854775808", "1.50", "1e16")]
    ['int', 'bigint', 'decimal(19,0)', 'decimal(3,2)', 'double']
    """
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    if "e" in text.lower():
        double = float(number)
        return Constant("double", Decimal(double)) if math.isfinite(double) else None
    whole, _, part = text.lstrip("-").partition(".")
    if "." not in text and -(2**63) <= number < 2**63:
        return Constant("int" if -(2**31) <= number < 2**31 else "bigint", number)
    digits = max(len(whole.lstrip("0")) + len(part), len(part), 1)
    return Constant(f"decimal({digits},{len(part)})", number)


def _is_plain_number(e: exp.Expr, types: Types) -> bool:
    """Whether a value is surely a number, and if a decimal, of few places behind the point."""
    match e:
        case exp.Column():
            kind = types.get(e.name, "")
            if parse(kind).is_decimal:
                return kinds.digits(kind)[1] <= _PLAIN_DIGITS - _PLACES_OF_AVERAGES
            return parse(kind).is_integer or parse(kind).is_float
        case exp.Count():
            return True
        case exp.Paren() | exp.Neg() | exp.Sum() | exp.Avg() | exp.Min() | exp.Max():
            return _is_plain_number(e.this, types)
        case exp.Add() | exp.Sub():
            return _is_plain_number(e.this, types) and _is_plain_number(e.expression, types)
        case exp.Literal():
            return not e.is_string and "." not in e.this
        case _:
            return False


_PLACES_OF_AVERAGES = 4
"""How many places an average of decimals has more than these."""


def implies(one: Scalar, other: Scalar, types: Types = MappingProxyType({})) -> bool:
    """Whether one condition cannot hold where the other does not."""
    if str(one) == str(other):
        return True
    mine, theirs = range_of(one), range_of(other)
    return mine is not None and theirs is not None and mine.within(theirs, types)
