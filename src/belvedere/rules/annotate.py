"""A: a plan's rows beside the fragments of one table that they come from (IMP §4.5, §5).

A(Q) has the columns of Q and one more, the fragment: a pair (t, f) for each fragment f that holds a
row which t comes from. Rows are told apart by value, so all copies of a row have the fragments of
each; a row that comes from no row of the table has no pair. f(a) is the fragment of a value of the
column that the table is cut by.

    A1  access      A(R)        = { (t, f(t.a)) }                 A of another table: nothing
    A2  projection  A(π(Q))     = π(A(Q))
    A3  selection   A(σ(Q))     = σ(A(Q))
    A4  join        A(L⋈R)      = A(L)⋈R ∪ L⋈A(R)                 likewise ×
                    A(L⋉R)      = A(L)⋉R ∪ π_L(L⋈A(R))
                    A(L▷R)      = A(L)▷R,  A(L⟕R) = A(L)⟕R        where R does not read the table
    A5  aggregate   A(γ_G(Q))   = γ_G(Q) ⋈_G δ(π_G,f(A(Q)))       likewise a window on its partition
    A6  top-k       A(τ_k(Q))   = A(Q) ⋉ { rows not behind the k-th }    all that are tied with it
    A7  union       A(L∪R)      = A(L) ∪ A(R)
    A8  distinct    A(δ(Q))     = δ(A(Q))
    A9  set         A(L∩R)      = A(L) ⋉ (L∩R) ∪ A(R) ⋉ (L∩R),    A(L−R) = A(L) ⋉ (L−R)
    μ   merge       the sketch of Q is δ(π_f(A(Q)))

The right side of A4's ▷ and ⟕ and of A9's − decides which rows are *not* there. What a row that is
not there comes from is no set of fragments, so a table read there has no rule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import assert_never

from sqlglot import exp

from belvedere.algebra.relations import (
    Aggregate,
    Change,
    Distinct,
    Empty,
    Except,
    Field,
    Filter,
    Intersect,
    Join,
    JoinKind,
    Keys,
    Negate,
    Net,
    Order,
    Output,
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
from belvedere.algebra.scalars import Scalar, col, every, same
from belvedere.algebra.walks import tables
from belvedere.errors import Internal, Unsupported

FRAGMENT = "__fragment"
_CUT = "__cut_by"
_RANK = "__rank"


@dataclass(frozen=True)
class Cut:
    """A table cut by one of its columns, and the fragment of a value of it."""

    table: str
    column: str
    kind: str
    fragment: Callable[[Scalar], Scalar]


def sketch(q: Rel, cut: Cut) -> Rel:
    """μ: the fragments that hold what the rows of a plan come from, each once."""
    return Distinct(Project(annotate(q, cut), (Output(FRAGMENT, col(FRAGMENT)),)))


def annotate(q: Rel, cut: Cut) -> Rel:
    """The rows of a plan, each beside every fragment of the table that it comes from."""
    if not _reads(q, cut):
        return Empty((*q.columns, FRAGMENT))
    match q:
        # A1  A(R) = { (t, f(t.a)) }
        case Scan():
            wide = replace(q, fields=(*q.fields, Field(_CUT, cut.column, cut.kind)))
            return _shown(wide, q.columns, cut.fragment(col(_CUT)))
        # A2  A(π(Q)) = π(A(Q))
        case Project():
            outputs = (*q.outputs, Output(FRAGMENT, col(FRAGMENT)))
            return Project(annotate(q.child, cut), outputs)
        # A3  A(σ(Q)) = σ(A(Q))
        case Filter():
            return Filter(annotate(q.child, cut), q.predicate)
        # A4  A(L⋈R) = A(L)⋈R ∪ L⋈A(R)
        case Join(kind=JoinKind.INNER | JoinKind.SEMI):
            return _either(q.columns, _of_left(q, cut), _of_right(q, cut))
        # A4  A(L▷R) = A(L)▷R, A(L⟕R) = A(L)⟕R
        case Join():
            if q.kind is JoinKind.FULL or _reads(q.right, cut):
                raise _no_rule(q, cut)
            return _of_left(q, cut)
        # A5  A(γ_G(Q)) = γ_G(Q) ⋈_G δ(π_G,f(A(Q)))
        case Aggregate():
            return _beside_fragments(q, q.keys, annotate(q.child, cut))
        case Window():
            return _beside_fragments(q, q.partition, annotate(q.child, cut))
        # A6  A(τ_k(Q)) = A(Q) ⋉ { rows not behind the k-th }
        case TopK():
            pairs = annotate(q.child, cut)
            return _among(pairs, q.columns, not_behind(q)) if q.order else pairs
        # A7  A(L∪R) = A(L) ∪ A(R)
        case Union():
            return _either(q.columns, *(annotate(c, cut) for c in q.children))
        # A8  A(δ(Q)) = δ(A(Q))
        case Distinct():
            return Distinct(annotate(q.child, cut))
        # A9  A(L∩R) = A(L) ⋉ (L∩R) ∪ A(R) ⋉ (L∩R)
        case Intersect():
            sides = (_among(annotate(c, cut), c.columns, q) for c in (q.left, q.right))
            return _either(q.columns, *sides)
        # A9  A(L−R) = A(L) ⋉ (L−R)
        case Except():
            if _reads(q.right, cut):
                raise _no_rule(q, cut)
            return _either(q.columns, _among(annotate(q.left, cut), q.left.columns, q))
        case Empty():
            return Empty((*q.columns, FRAGMENT))
        case Change() | Negate() | Net() | Support() | Unsigned() | Restrict():
            raise Internal(f"{type(q).__name__} is no part of a query")
        case _:
            assert_never(q)


def not_behind(q: TopK) -> Rel:
    """The rows of a top-k's child that are in it, skipped by it, or tied with its last."""
    order = exp.Order(expressions=[_ordered(o) for o in q.order])
    rank = exp.Window(this=exp.Rank(), order=order)
    ranked = Window(q.child, (), (Output(_RANK, Scalar(rank)),))
    last = exp.Literal.number(q.offset + q.limit)
    first = Filter(ranked, Scalar(exp.LTE(this=col(_RANK).expr, expression=last)))
    return Project(first, tuple(Output(c, col(c)) for c in q.columns))


def _ordered(o: Order) -> exp.Ordered:
    return exp.Ordered(this=col(o.column).expr, desc=o.descending, nulls_first=o.nulls_first)


def _reads(q: Rel, cut: Cut) -> bool:
    return cut.table in tables(q)


def _of_left(q: Join, cut: Cut) -> Rel:
    """The pairs of a join's rows with the fragments of its left side."""
    if not _reads(q.left, cut):
        return Empty((*q.columns, FRAGMENT))
    return _shown(replace(q, left=annotate(q.left, cut)), q.columns, col(FRAGMENT))


def _of_right(q: Join, cut: Cut) -> Rel:
    if not _reads(q.right, cut):
        return Empty((*q.columns, FRAGMENT))
    pairs = Join(q.left, annotate(q.right, cut), JoinKind.INNER, q.on)
    return _shown(pairs, q.columns, col(FRAGMENT))


def _shown(q: Rel, columns: tuple[str, ...], fragment: Scalar) -> Rel:
    outputs = (*(Output(c, col(c)) for c in columns), Output(FRAGMENT, fragment))
    return Project(q, outputs)


def _either(columns: tuple[str, ...], *parts: Rel) -> Rel:
    some = tuple(p for p in parts if not isinstance(p, Empty))
    return Union(some, (*columns, FRAGMENT))


def _beside_fragments(q: Rel, key: tuple[str, ...], pairs: Rel) -> Rel:
    """Each row of `q` beside the fragments that the pairs of its key have."""
    names = tuple(f"__key_{i}" for i in range(len(key)))
    outputs = (*(Output(n, col(k)) for n, k in zip(names, key, strict=True)),)
    found = Distinct(Project(pairs, (*outputs, Output(FRAGMENT, col(FRAGMENT)))))
    on = every(same(col(k), col(n)) for k, n in zip(key, names, strict=True))
    return _shown(Join(q, found, JoinKind.INNER, on), q.columns, col(FRAGMENT))


def _among(pairs: Rel, columns: tuple[str, ...], rows: Rel) -> Rel:
    """The pairs whose row is one of some rows."""
    return Restrict(pairs, columns, Keys(Distinct(rows)))


def _no_rule(q: Join | Except, cut: Cut) -> Unsupported:
    words = "EXCEPT" if isinstance(q, Except) else f"a {q.kind.value} join"
    return Unsupported(
        f"{cut.table!r} is read where {words} decides which rows are left out",
        hint="sketch another table of the query",
        reason="SKETCH_NOT_MONOTONE",
    )
