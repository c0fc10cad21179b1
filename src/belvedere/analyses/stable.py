"""Which plans answer the same over some fragments of a table as over all (IMP §1; PBDS).

A sketch keeps every fragment that holds a row which the answer comes from. Over these fragments a
plan's node has one of three forms, found from the leaves up; whatever else it could be is unsafe.

    subset    its rows are some of its rows over everything, none changed
    partial   its groups are some of its groups, but those that do not reach the answer may have
              lost rows: they must not reach it now
    final     exactly the answer; only projections may follow

    S1  access                       subset
    S2  σ π ∪ δ ⋈ ⋉ ∩ of subsets     subset; ▷ ⟕ − of one on the left
    S3  γ_G, window on G             subset  if G determines the attribute of every access below,
                                     so that groups are whole or gone
    S4  γ_G otherwise                partial
    S5  σ of partial                 partial if each conjunct that holds for some rows of a group
                                     holds for all of them: false on a group, false on its subsets
    S6  τ of subset                  final
    S7  τ of partial                 final   if each key is no better on a subset of a group
    S8  π of any                     the same

For S5 and S7 an aggregate grows with its group (count, max, sum of what is never negative), shrinks
(min), or may do either. NULL, the aggregate of nothing, satisfies no comparison but may sort first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias, assert_never

from sqlglot import exp

from belvedere.algebra.relations import (
    Agg,
    Aggregate,
    Change,
    Distinct,
    Empty,
    Except,
    Filter,
    Intersect,
    Join,
    JoinKind,
    Negate,
    Net,
    Project,
    Rel,
    Restrict,
    Scan,
    Support,
    TopK,
    Union,
    Unsigned,
    Window,
)
from belvedere.algebra.scalars import Scalar
from belvedere.algebra.walks import children, tables
from belvedere.analyses.equalities import equalities
from belvedere.errors import Internal, Unsupported

Determinants: TypeAlias = frozenset[frozenset[str]]
"""Sets of columns, each of which fixes the attribute of one access."""


class Trend(Enum):
    """What a column of a group can do when the group loses rows."""

    FIXED = "fixed"
    GROWS = "grows with its group"
    SHRINKS = "shrinks as its group grows"
    EITHER = "may grow or shrink"


@dataclass(frozen=True)
class Column:
    """A column of groups: its trend, and whether it may become NULL when a group loses rows."""

    trend: Trend
    nullable: bool = False


@dataclass(frozen=True)
class Untouched:
    """The table is not read here."""


@dataclass(frozen=True)
class Subset:
    """Some of the rows; for each access, what determines its attribute."""

    accesses: tuple[Determinants, ...]


@dataclass(frozen=True)
class Partial:
    """Some of the groups, of which those that do not reach the answer may have lost rows."""

    columns: Mapping[str, Column]


@dataclass(frozen=True)
class Final:
    """Exactly the answer."""


Form: TypeAlias = Untouched | Subset | Partial | Final


@dataclass(frozen=True)
class Cuts:
    """The tables that are cut, each by which column, and what is known of tables."""

    by: Mapping[str, str]
    """Table -> column."""
    keys: Mapping[str, Collection[frozenset[str]]] = field(default_factory=dict)
    """Table -> its declared keys."""
    nonnegative: Callable[[Scalar, Rel], bool] = lambda _value, _over: False
    """Whether a scalar over a plan's rows is never below zero."""


def unsafe(q: Rel, cuts: Cuts) -> Unsupported | None:
    """Why a plan over a sketch of its tables may answer otherwise; None if it cannot."""
    try:
        form(q, cuts)
    except Unsupported as why:
        return why
    return None


def form(q: Rel, cuts: Cuts) -> Form:
    """Which form a plan has over its sketch; raises `Unsupported` where none is sure."""
    if not any(t in cuts.by for t in tables(q)):
        return Untouched()
    match q:
        # S1  access
        case Scan():
            return Subset((_determinants(q, cuts),))
        # S5  σ
        case Filter():
            return _filtered(q, form(q.child, cuts))
        # S8  π
        case Project():
            return _projected(q, form(q.child, cuts))
        # S2  monotone operators of subsets
        case Union():
            return _together(_by_place(q, c, cuts) for c in q.children)
        case Distinct():
            return _subset(q, form(q.child, cuts))
        case Join(kind=JoinKind.INNER | JoinKind.SEMI):
            both = _together(_subset(q, form(c, cuts)) for c in children(q))
            return Subset(tuple(_with_equal(d, equalities(q)) for d in both.accesses))
        case Join(kind=JoinKind.LEFT | JoinKind.ANTI):
            _refuse_read(q, cuts)
            return _subset(q, form(q.left, cuts))
        case Except():
            _refuse_read(q, cuts)
            return _by_place(q, q.left, cuts)
        case Intersect():
            return _together(_by_place(q, c, cuts) for c in children(q))
        case Join():
            raise _not_monotone(q, cuts)
        # S3, S4  γ and windows
        case Aggregate():
            return _grouped(q, _subset(q, form(q.child, cuts)), cuts)
        case Window():
            return _windowed(q, _subset(q, form(q.child, cuts)))
        # S6, S7  τ
        case TopK():
            return _topped(q, form(q.child, cuts))
        case Empty():
            return Untouched()
        case Change() | Negate() | Net() | Support() | Unsigned() | Restrict():
            raise Internal(f"{type(q).__name__} is no part of a query")
        case _:
            assert_never(q)


def _determinants(q: Scan, cuts: Cuts) -> Determinants:
    """The attribute itself, and every key that is read whole."""
    names = {f.source.lower(): f.name for f in q.fields}
    wanted = [frozenset({cuts.by[q.table]}), *cuts.keys.get(q.table, ())]
    found = [[names.get(c.lower()) for c in each] for each in wanted]
    return frozenset(frozenset(n for n in f if n) for f in found if all(f))


def _subset(q: Rel, below: Form) -> Subset:
    """The form that an operator takes rows of as they come; others are refused."""
    match below:
        case Untouched():
            return Subset(())
        case Subset():
            return below
        case Partial():
            raise Unsupported(
                f"groups that may have lost rows go into {_words(q)}",
                detail="the attribute is not in the GROUP BY of every aggregate above its table",
                hint="cut the table by a GROUP BY column",
                reason="SKETCH_PARTIAL_GROUPS",
            )
        case Final():
            raise Unsupported(
                f"rows of a LIMIT go into {_words(q)}",
                detail="rows that the answer leaves out would make room for others",
                hint="sketch the inner query by itself",
                reason="SKETCH_INNER_LIMIT",
            )


def _together(parts: Iterable[Subset]) -> Subset:
    return Subset(tuple(a for part in parts for a in part.accesses))


def _by_place(q: Union | Intersect | Except, child: Rel, cuts: Cuts) -> Subset:
    """A side of a set operation, whose columns get the names of the whole's."""
    names = dict(zip(child.columns, q.columns, strict=True))
    return _renamed(_subset(q, form(child, cuts)), names)


def _renamed(below: Subset, names: Mapping[str, str]) -> Subset:
    return Subset(
        tuple(
            frozenset(frozenset(names[c] for c in s) for s in d if s <= names.keys())
            for d in below.accesses
        )
    )


def _with_equal(found: Determinants, pairs: Iterable[tuple[str, str]]) -> Determinants:
    """The same with columns that are equal in place of each other."""
    for a, b in pairs:
        for old, new in ((a, b), (b, a)):
            found |= {(s - {old}) | {new} for s in found if old in s}
    return found


def _filtered(q: Filter, below: Form) -> Form:
    match below:
        case Partial():
            for part in q.predicate.conjuncts:
                if not _holds_on(part.expr, below.columns):
                    raise _unsafe_condition(part, below.columns)
            return below
        case Final():
            return _subset(q, below)
        case Untouched() | Subset():
            return below


def _projected(q: Project, below: Form) -> Form:
    names: dict[str, str] = {}
    for o in q.outputs:
        if o.value.column is not None:
            names.setdefault(o.value.column, o.name)
    match below:
        case Subset():
            return _renamed(below, names)
        case Partial():
            return Partial({o.name: _column(o.value, below.columns) for o in q.outputs})
        case Untouched() | Final():
            return below


def _column(value: Scalar, columns: Mapping[str, Column]) -> Column:
    if value.column is not None:
        return columns[value.column]
    if all(columns[c].trend is Trend.FIXED for c in value.columns):
        return Column(Trend.FIXED)
    return Column(Trend.EITHER, nullable=True)


def _grouped(q: Aggregate, below: Subset, cuts: Cuts) -> Form:
    keys = frozenset(q.keys)
    kept = tuple(frozenset(s for s in d if s <= keys) for d in below.accesses)
    if all(kept):
        return Subset(kept)
    columns = {k: Column(Trend.FIXED) for k in q.keys}
    return Partial(columns | {a.name: _trend(a, q.child, cuts) for a in q.aggregates})


def _trend(a: Agg, over: Rel, cuts: Cuts) -> Column:
    match a.function:
        case "count":
            return Column(Trend.GROWS)
        case "max":
            return Column(Trend.GROWS, nullable=True)
        case "min":
            return Column(Trend.SHRINKS, nullable=True)
        case "sum" if cuts.nonnegative(a.args[0], over):
            return Column(Trend.GROWS, nullable=True)
        case _:
            return Column(Trend.EITHER, nullable=True)


def monotone_conditions(q: Aggregate, conditions: Iterable[Scalar], cuts: Cuts) -> bool:
    """Whether conditions on groups, where they hold for some rows of a group, hold for all."""
    columns = {k: Column(Trend.FIXED) for k in q.keys}
    columns |= {a.name: _trend(a, q.child, cuts) for a in q.aggregates}
    return all(_holds_on(c.expr, columns) for c in conditions)


def _windowed(q: Window, below: Subset) -> Subset:
    partition = frozenset(q.partition)
    if not all(any(s <= partition for s in d) for d in below.accesses):
        raise Unsupported(
            "a window function reads rows that a sketch may leave out",
            hint="cut the table by a PARTITION BY column",
            reason="SKETCH_WINDOW",
        )
    return below


def _topped(q: TopK, below: Form) -> Form:
    if isinstance(below, Partial):
        for o in q.order:
            found = below.columns[o.column]
            sinks = found.trend is (Trend.GROWS if o.descending else Trend.SHRINKS)
            last = not found.nullable or not o.nulls_first
            if found.trend is not Trend.FIXED and not (sinks and last):
                raise _unsafe_order(o.column, o.descending, found, last)
        return Final()
    _subset(q, below)
    return Final()


def _holds_on(e: exp.Expr, columns: Mapping[str, Column]) -> bool:
    """Whether a condition that holds for some rows of a group holds for all of them."""
    match e:
        case exp.Paren():
            return _holds_on(e.this, columns)
        case exp.And() | exp.Or():
            return _holds_on(e.this, columns) and _holds_on(e.expression, columns)
        case exp.GT() | exp.GTE():
            return _sides(e.this, e.expression, columns)
        case exp.LT() | exp.LTE():
            return _sides(e.expression, e.this, columns)
        case exp.Not(this=exp.Is(this=exp.Column() as c, expression=exp.Null())):
            return columns[c.name].trend is not Trend.EITHER
        case _:
            return _trend_of(e, columns) is Trend.FIXED


def _sides(more: exp.Expr, less: exp.Expr, columns: Mapping[str, Column]) -> bool:
    """`more` only grows with its group, and `less` only shrinks."""
    return _trend_of(more, columns) in (Trend.GROWS, Trend.FIXED) and _trend_of(less, columns) in (
        Trend.SHRINKS,
        Trend.FIXED,
    )


def _trend_of(e: exp.Expr, columns: Mapping[str, Column]) -> Trend:
    while isinstance(e, exp.Paren):
        e = e.this
    if isinstance(e, exp.Column):
        return columns[e.name].trend
    read = {c.name for c in e.find_all(exp.Column)}
    return Trend.FIXED if all(columns[c].trend is Trend.FIXED for c in read) else Trend.EITHER


def _refuse_read(q: Join | Except, cuts: Cuts) -> None:
    if any(t in cuts.by for t in tables(q.right)):
        raise _not_monotone(q, cuts)


def _not_monotone(q: Join | Except, cuts: Cuts) -> Unsupported:
    read = ", ".join(repr(t) for t in tables(q) if t in cuts.by)
    return Unsupported(
        f"{read} is read where {_words(q)} decides which rows are left out",
        hint="sketch another table of the query",
        reason="SKETCH_NOT_MONOTONE",
    )


def _unsafe_condition(part: Scalar, columns: Mapping[str, Column]) -> Unsupported:
    read = "; ".join(f"{c} {columns[c].trend.value}" for c in sorted(part.columns))
    return Unsupported(
        f"HAVING {part} may hold for some rows of a group and not for all",
        detail=read,
        hint="cut the table by a GROUP BY column",
        reason="SKETCH_HAVING",
    )


def _unsafe_order(column: str, descending: bool, found: Column, last: bool) -> Unsupported:
    way = "DESC" if descending else "ASC"
    why = found.trend.value if last else "is NULL for a group without values, and NULL comes first"
    return Unsupported(
        f"ORDER BY {column} {way} may put some rows of a group before all of them",
        detail=f"{column} {why}",
        hint="cut the table by a GROUP BY column"
        + ("" if last else f", or write ORDER BY {column} {way} NULLS LAST"),
        reason="SKETCH_ORDER",
    )


def _words(q: Rel) -> str:
    match q:
        case Aggregate():
            return "another aggregate"
        case Join():
            return f"a {q.kind.value} join"
        case Except():
            return "EXCEPT"
        case TopK():
            return "another LIMIT"
        case Filter():
            return "a condition"
        case _:
            return f"a {type(q).__name__.lower()}"
