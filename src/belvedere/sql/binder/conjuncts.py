"""Conjuncts: a condition taken apart, and each part put where it belongs in a join tree.

σ_p(L ⋈ R) = σ_p(L) ⋈ R when p reads L alone; L ⋈_p R when it reads both. Into the padded side of
an outer join nothing moves. Relations are joined in the order written, but one that an equality
connects comes before one that nothing connects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from sqlglot import exp

from belvedere.algebra.relations import Filter, Join, JoinKind, Rel
from belvedere.algebra.scalars import Scalar, both, every
from belvedere.sql.binder.expressions import bare, has_subquery


def split(node: exp.Expr) -> list[exp.Expr]:
    """The conjuncts of a condition; what all branches of an OR share counts as one.

    >>> from sqlglot import parse_one
    >>> [c.sql() for c in split(parse_one("a AND (b AND c OR b AND d)"))]
    ['a', 'b', 'c OR d']
    """
    match bare(node):
        case exp.And(this=left, expression=right):
            return split(left) + split(right)
        case exp.Not(this=inner) if has_subquery(inner):
            return _negated(bare(inner))
        case exp.Boolean(this=True):
            return []
        case exp.Or() as either:
            return _factored(either)
        case other:
            return [other]


def _negated(node: exp.Expr) -> list[exp.Expr]:
    match node:
        case exp.Not(this=inner):
            return split(inner)
        case exp.Or(this=left, expression=right):
            return split(_not(left)) + split(_not(right))
        case exp.And(this=left, expression=right):
            return [exp.Or(this=_not(left), expression=_not(right))]
        case other:
            return [exp.Not(this=other.copy())]


def _not(node: exp.Expr) -> exp.Expr:
    inner = bare(node)
    if isinstance(inner, exp.Not):
        positive: exp.Expr = inner.this.copy()
        return positive
    loose = isinstance(inner, exp.Binary | exp.Between)
    return exp.Not(this=exp.paren(inner) if loose else inner.copy())


def _factored(either: exp.Or) -> list[exp.Expr]:
    branches = [split(b) for b in _disjuncts(either)]
    shared = [c for c in branches[0] if all(c in b for b in branches[1:])]
    if not shared:
        return [either]
    rests = [[c for c in b if c not in shared] for b in branches]
    if not all(rests):
        return shared
    parts = [exp.and_(*rest) for rest in rests]
    return [*shared, exp.or_(*parts)]


def _disjuncts(node: exp.Expr) -> list[exp.Expr]:
    inner = bare(node)
    if isinstance(inner, exp.Or):
        return _disjuncts(inner.this) + _disjuncts(inner.expression)
    return [inner]


def filtered(q: Rel, part: Scalar) -> Rel:
    """σ of one conjunct, as low as it may go."""
    match q:
        case Join(kind=JoinKind.INNER) if part.columns:
            relations, parts = _inner_region(q)
            return inner_join(relations, [*parts, part])
        case Join(kind=JoinKind.LEFT | JoinKind.SEMI | JoinKind.ANTI) if part.columns:
            if part.columns <= set(q.left.columns):
                return replace(q, left=filtered(q.left, part))
            inner = without_padding(q, part)
            return Filter(q, part) if inner is q else filtered(inner, part)
        case Filter(child, predicate) if isinstance(child, Join):
            return Filter(filtered(child, part), predicate)
        case Filter(child, predicate):
            return Filter(child, both(*predicate.conjuncts, part))
        case _:
            return Filter(q, part)


def without_padding(q: Rel, part: Scalar) -> Rel:
    """A LEFT join as an inner one, if the conjunct is never TRUE for a padded row."""
    if isinstance(q, Join) and q.kind is JoinKind.LEFT and _needs_some(part, set(q.right.columns)):
        return replace(q, kind=JoinKind.INNER)
    return q


def _needs_some(part: Scalar, columns: set[str]) -> bool:
    """Whether a conjunct is NULL or FALSE when all these columns are NULL."""
    match part.expr:
        case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            sides = (part.expr.this, part.expr.expression)
            return any(_strict_in(s, columns) for s in sides)
        case exp.Between(this=value) | exp.In(this=value) | exp.Like(this=value):
            return _strict_in(value, columns)
        case exp.Not(this=exp.Is(this=value, expression=exp.Null())):
            return _strict_in(value, columns)
        case _:
            return False


def _strict_in(node: exp.Expr, columns: set[str]) -> bool:
    """Whether a value is NULL when all these columns are."""
    match node:
        case exp.Column():
            return node.name in columns
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
            return _strict_in(node.this, columns) or _strict_in(node.expression, columns)
        case exp.Paren(this=inner) | exp.Neg(this=inner) | exp.Cast(this=inner):
            return _strict_in(inner, columns)
        case _:
            return False


def _inner_region(q: Rel) -> tuple[list[Rel], list[Scalar]]:
    """The relations that inner joins hold together, and all their conjuncts."""
    if not (isinstance(q, Join) and q.kind is JoinKind.INNER):
        return [q], []
    left, left_parts = _inner_region(q.left)
    right, right_parts = _inner_region(q.right)
    return left + right, [*left_parts, *right_parts, *q.on.conjuncts]


def inner_join(relations: Sequence[Rel], parts: Sequence[Scalar]) -> Rel:
    """The inner join of relations under conjuncts, left-deep, without needless products."""
    trees = list(relations)
    joining: list[Scalar] = []
    for part in parts:
        home = [i for i, t in enumerate(trees) if part.columns <= set(t.columns)]
        if home and part.columns:
            trees[home[0]] = filtered(trees[home[0]], part)
        else:
            joining.append(part)
    tree = trees.pop(0)
    while trees:
        tree, joining = _join_next(tree, trees.pop(_next(tree, trees, joining)), joining)
    return reduce(filtered, joining, tree)


def _join_next(tree: Rel, right: Rel, parts: list[Scalar]) -> tuple[Rel, list[Scalar]]:
    known = set(tree.columns) | set(right.columns)
    ready = [p for p in parts if p.columns and p.columns <= known]
    return Join(tree, right, JoinKind.INNER, every(ready)), [p for p in parts if p not in ready]


def _next(tree: Rel, rest: Sequence[Rel], parts: Sequence[Scalar]) -> int:
    """The first relation that an equality connects, else the first."""
    known = set(tree.columns)
    for i, r in enumerate(rest):
        mine = set(r.columns)
        if any(is_equality(p, known, mine) for p in parts):
            return i
    return 0


def is_equality(part: Scalar, left: set[str], right: set[str]) -> bool:
    """Whether a conjunct equates a value of one side with a value of the other."""
    return sides(part, left, right) is not None


def sides(part: Scalar, left: set[str], right: set[str]) -> tuple[Scalar, Scalar] | None:
    """The two values an equality compares, of the left side first."""
    if not isinstance(part.expr, exp.EQ | exp.NullSafeEQ):
        return None
    a, b = Scalar(bare(part.expr.this)), Scalar(bare(part.expr.expression))
    for x, y in ((a, b), (b, a)):
        if x.columns and y.columns and x.columns <= left and y.columns <= right:
            return x, y
    return None
