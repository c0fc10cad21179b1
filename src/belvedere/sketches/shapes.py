"""Shapes: queries in a form in which two that differ only in constants can be compared (IMP §10.4).

    shape = accesses, conditions on rows (WHERE, ON), the group's key, conditions on groups (HAVING),
            the order and how many; all in terms of the columns of the tables

Which columns are shown has no say in which rows an answer comes from, and is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from sqlglot import exp

from belvedere.algebra.printing import tree
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

Names = Mapping[str, Scalar]


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


def shape(q: Rel) -> Shape:
    """The shape of a query; one of another form is only like itself."""
    try:
        return _shape(q)
    except _OtherForm:
        return Shape((), (), None, (), (), None, None, (), tree(q))


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
    return Shape(tuple(core.accesses), rows, keys, groups, sorts, limit, aggregate, own, "")


class _Core:
    """Accesses and conditions of a core, gathered from left to right."""

    def __init__(self) -> None:
        self.accesses: list[str] = []
        self.conditions: list[Scalar] = []

    def names(self, q: Rel) -> dict[str, Scalar]:
        """What each column of a core is in terms of its tables' columns."""
        match q:
            case Scan():
                place = len(self.accesses)
                self.accesses.append(q.table)
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
class Range:
    """A value compared with constants: from, to, and whether the ends are in."""

    value: str
    kind: str
    low: Decimal | None = None
    low_in: bool = False
    high: Decimal | None = None
    high_in: bool = False

    def within(self, other: Range) -> bool:
        """Whether what is in this one is in the other."""
        if self.value != other.value or self.kind != other.kind:
            return False
        return _after(self.low, self.low_in, other.low, other.low_in) and _after(
            _minus(self.high), self.high_in, _minus(other.high), other.high_in
        )


def _minus(end: Decimal | None) -> Decimal | None:
    return None if end is None else -end


def _after(mine: Decimal | None, mine_in: bool, theirs: Decimal | None, theirs_in: bool) -> bool:
    if theirs is None:
        return True
    if mine is None:
        return False
    return mine > theirs or (mine == theirs and (theirs_in or not mine_in))


def range_of(condition: Scalar) -> Range | None:
    """The range that a comparison with constants says; None for any other condition.

    >>> from sqlglot import parse_one
    >>> range_of(Scalar(parse_one("5 < x"))).low
    Decimal('5')
    """
    e = condition.expr
    while isinstance(e, exp.Paren):
        e = e.this
    match e:
        case exp.GT() | exp.GTE() | exp.LT() | exp.LTE() | exp.EQ():
            return _compared(e)
        case exp.Between():
            low, high = _constant(e.args["low"]), _constant(e.args["high"])
            if low is None or high is None or low[0] != high[0] or e.args.get("symmetric"):
                return None
            return Range(Scalar(e.this).sql(), low[0], low[1], True, high[1], True)
        case _:
            return None


def _compared(e: exp.Binary) -> Range | None:
    turned = _constant(e.this)
    constant = turned or _constant(e.expression)
    if constant is None:
        return None
    kind, number = constant
    value = Scalar(e.expression if turned else e.this).sql()
    more = isinstance(e, exp.LT | exp.LTE if turned else exp.GT | exp.GTE)
    inside = isinstance(e, exp.GTE | exp.LTE | exp.EQ)
    if isinstance(e, exp.EQ):
        return Range(value, kind, number, True, number, True)
    if more:
        return Range(value, kind, low=number, low_in=inside)
    return Range(value, kind, high=number, high_in=inside)


def _constant(e: exp.Expr) -> tuple[str, Decimal] | None:
    """A number, with what kind of literal it is: two kinds may be compared in different types."""
    match e:
        case exp.Paren():
            return _constant(e.this)
        case exp.Neg():
            inner = _constant(e.this)
            return None if inner is None else (inner[0], -inner[1])
        case exp.Literal() if not e.is_string:
            try:
                return ("decimal" if "." in e.this else "integer"), Decimal(e.this)
            except InvalidOperation:
                return None
        case exp.Cast() if e.to.is_type("date") and e.this.is_string:
            digits = e.this.this.replace("-", "")
            plain = len(e.this.this) == 10 and digits.isdigit() and len(digits) == 8
            return ("date", Decimal(digits)) if plain else None
        case _:
            return None


def implies(one: Scalar, other: Scalar) -> bool:
    """Whether one condition cannot hold where the other does not."""
    if str(one) == str(other):
        return True
    mine, theirs = range_of(one), range_of(other)
    return mine is not None and theirs is not None and mine.within(theirs)
