"""Reduce: a group is computed only for the keys that a semi join on the other side leaves.

    (L ⋉ S) ⋈ γ(R)  =  (L ⋉ S) ⋈ γ(R ⋉ S)        on a = b;  S is tied to a,  b is a key of γ
    (L ⋈ R) ⋉ S     =  (L ⋉ S) ⋈ R               S is tied to a column of L

An IN beside a correlated subquery, as in TPC-H's query 20, gives such plans. Spark finds the same
in the query's text, from the predicate; in our plan the predicate is a join already.
"""

from __future__ import annotations

from dataclasses import replace

from belvedere.algebra.relations import Aggregate, Filter, Join, JoinKind, Project, Rel, Scan
from belvedere.algebra.scalars import Scalar
from belvedere.algebra.walks import bottom_up, nodes
from belvedere.analyses.equalities import equalities
from belvedere.sql.binder.freshen import freshen
from belvedere.sql.binder.naming import Namer


def reduced(q: Rel, names: Namer) -> Rel:
    """The plan with its groups reduced to the requested keys."""
    # First each semi join moves next to its column's rows; then each reduces a group once.
    return bottom_up(bottom_up(q, _sink), lambda node: _ask(node, names))


def _sink(q: Rel) -> Rel:
    if isinstance(q, Join) and q.kind is JoinKind.SEMI and (column := _tie(q)) is not None:
        return _sunk(q.left, column, q)
    return q


def _ask(q: Rel, names: Namer) -> Rel:
    if not isinstance(q, Join) or q.kind is not JoinKind.INNER:
        return q
    left, right = q.left, q.right
    for a, b in equalities(q):
        right = _grouped_rows_of(right, b, _semi(q.left, a), names)
        left = _grouped_rows_of(left, a, _semi(q.right, b), names)
    return replace(q, left=left, right=right)


def _tie(q: Join) -> str | None:
    """The only column by which a semi join finds some of a table's rows; None if it is another."""
    pairs = equalities(q)
    alone = len(q.on.conjuncts) == len(pairs) == 1
    return pairs[0][0] if alone and _chosen(q.right) else None


def _sunk(q: Rel, column: str, semi: Join) -> Rel:
    """The semi join where the column's rows come from, below filters and inner joins."""
    match q:
        case Filter():
            return replace(q, child=_sunk(q.child, column, semi))
        case Join(kind=JoinKind.INNER) if column in q.left.columns:
            return replace(q, left=_sunk(q.left, column, semi))
        case Join(kind=JoinKind.INNER):
            return replace(q, right=_sunk(q.right, column, semi))
        case _:
            return replace(semi, left=q)


def _semi(q: Rel, column: str) -> Join | None:
    """A semi join of plain rows, by one equality on the column, that every row of `q` passed."""
    match q:
        case Join(kind=JoinKind.SEMI):
            return q if _tie(q) == column else _semi(q.left, column)
        case Filter():
            return _semi(q.child, column)
        case Join(kind=JoinKind.INNER):
            side = q.left if column in q.left.columns else q.right
            return _semi(side, column)
        case _:
            return None


def _chosen(q: Rel) -> bool:
    """Whether a relation consists of some rows of a table."""
    found = list(nodes(q))
    plain = all(isinstance(n, Scan | Filter | Project) for n in found)
    return plain and any(isinstance(n, Filter) for n in found)


def _grouped_rows_of(q: Rel, column: str, by: Join | None, names: Namer) -> Rel:
    """The relation with the semi join below its lowest group by the column; as it is without one."""
    if by is None or not _grouped(q, column):
        return q
    (a, s), *_ = equalities(by)
    right = freshen(by.right, names)
    to = dict(zip(by.right.columns, right.columns, strict=True))
    return _below(q, column, right, by.on.rename({a: column, s: to[s]}))


def _grouped(q: Rel, column: str) -> bool:
    match q:
        case Aggregate():
            return column in q.keys
        case Filter():
            return _grouped(q.child, column)
        case _:
            return False


def _below(q: Rel, column: str, right: Rel, on: Scalar) -> Rel:
    match q:
        case Filter() | Aggregate() if _grouped(q, column):
            return replace(q, child=_below(q.child, column, right, on))
        case _:
            return Join(q, right, JoinKind.SEMI, on)
