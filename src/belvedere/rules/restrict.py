"""Push a key restriction down: `Restrict(Q, key, by)` keeps the rows of Q whose key is among `by`.

`by` is a relation of key values, or a hash: a share of all key values (SVC's η).

Law: the pushed plan equals the restricted one, row for row (SVC Def. 3). K is the restriction;
π K its projection on some of its columns, which keeps a superset.

    R1  σ         K(σ(Q))    = σ(K(Q))
    R2  Π         K(Π(Q))    = Π(K(Q))               key columns that are passed through
    R3  γ, window K(γ(Q))    = γ(K(Q))               key within the group, the partition
    R4  ∪, δ      K(Q ∪ S)   = K(Q) ∪ K(S)           by position
    R5  ∩, −      K(Q − S)   = K(Q) − K(S)           by position
    R6  ⋈, ⟕      K(L ⋈ R)   = K(L) ⋈ R              key within the left side, any kind but ⟗;
                             = L ⋈ K(R)              key within the right side, inner only
    R7  equality  K(L ⋈ R)   = K(L) ⋈ K(R)           key columns equated with the other side's
    R8  part      K(Q)       = K((π K)(Q))           some key columns pass where not all do
    stop          a scan, top-k, ⟗, an empty key; for a hash also where R8 would apply, since a
                  part of a key says nothing about the hash of all of it

R6 and R7 for semi, anti and left joins: a right row that matches no kept left row is not needed.
R7 asks for columns of the same type, so that one K serves both sides; a hash, which is the same
for equal values of different types, for columns that can be hashed alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from belvedere.algebra.hashing import family
from belvedere.algebra.relations import (
    Aggregate,
    By,
    Change,
    Distinct,
    Empty,
    Except,
    Filter,
    Hash,
    Intersect,
    Join,
    JoinKind,
    Keys,
    Negate,
    Net,
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
from belvedere.algebra.scalars import col
from belvedere.analyses.equalities import equalities, same_type


def push(q: Restrict) -> Rel:
    """The same rows, restricted as low as the rules allow."""
    if not q.key:
        return q
    child, key, by = q.child, q.key, q.by
    match child:
        # R1  K(σ(Q)) = σ(K(Q)); a sign, another restriction and a sort-free top likewise
        case Filter() | Negate() | Net() | Unsigned() | Distinct():
            return replace(child, child=push(Restrict(child.child, key, by)))
        case Restrict():
            return replace(child, child=push(Restrict(child.child, key, by)))
        # R2  K(Π(Q)) = Π(K(Q))
        case Project():
            passed = {o.name: o.value.column for o in child.outputs if o.value.column}
            return _through(q, {k: v for k, v in passed.items() if v in child.child.columns})
        # R3  K(γ(Q)) = γ(K(Q))
        case Aggregate(keys=group) | Window(partition=group):
            return _through(q, {g: g for g in group})
        # R4  K(Q ∪ S) = K(Q) ∪ K(S)
        case Union():
            return replace(child, children=tuple(_side(q, c) for c in child.children))
        # R5  K(Q − S) = K(Q) − K(S)
        case Except() | Intersect():
            return replace(child, left=_side(q, child.left), right=_side(q, child.right))
        case Join():
            return _join(q, child)
        case Scan() | Change() | Empty() | TopK() | Support():
            return q
        case _:
            assert_never(child)


def _through(q: Restrict, names: Mapping[str, str]) -> Rel:
    """Into the only child, under its own column names; what does not pass is checked above (R8)."""
    child = q.child
    assert isinstance(child, Project | Aggregate | Window)
    passing = [k for k in q.key if k in names]
    if not passing or (isinstance(q.by, Hash) and len(passing) < len(q.key)):
        return q
    inner = Restrict(child.child, tuple(names[k] for k in passing), _part(q, passing))
    pushed = replace(child, child=push(inner))
    return pushed if len(passing) == len(q.key) else replace(q, child=pushed)


def _side(q: Restrict, side: Rel) -> Rel:
    """Into a child of a set operation, by position."""
    position = {name: i for i, name in enumerate(q.child.columns)}
    return push(Restrict(side, tuple(side.columns[position[k]] for k in q.key), q.by))


def _join(q: Restrict, join: Join) -> Rel:
    """R6, R7, R8 for joins: each side takes the part of K that speaks of it."""
    if join.kind is JoinKind.FULL:
        return q
    left = {c: c for c in join.left.columns}
    right = {c: c for c in join.right.columns} if join.kind is JoinKind.INNER else {}
    for a, b in equalities(join, alike=_hash_alike if isinstance(q.by, Hash) else same_type):
        if a in q.key:
            right.setdefault(a, b)
        if b in q.key and join.kind is JoinKind.INNER:
            left.setdefault(b, a)
    on_left = [k for k in q.key if k in left]
    on_right = [k for k in q.key if k in right]
    if isinstance(q.by, Hash):
        on_left, on_right = (on if len(on) == len(q.key) else [] for on in (on_left, on_right))
    if not on_left and not on_right:
        return q
    pushed = replace(
        join,
        left=_reduced(q, join.left, on_left, left),
        right=_reduced(q, join.right, on_right, right),
    )
    whole = len(on_left) == len(q.key) or (
        join.kind is JoinKind.INNER and len(on_right) == len(q.key)
    )
    return pushed if whole else replace(q, child=pushed)


def _reduced(q: Restrict, side: Rel, keys: list[str], names: Mapping[str, str]) -> Rel:
    if not keys:
        return side
    return push(Restrict(side, tuple(names[k] for k in keys), _part(q, keys)))


def _part(q: Restrict, keys: list[str]) -> By:
    """π K: the restriction by some of the key's columns."""
    if tuple(keys) == q.key:
        return q.by
    names = dict(zip(q.key, q.among.columns, strict=True))
    return Keys(Distinct(Project(q.among, tuple(Output(names[k], col(names[k])) for k in keys))))


def _hash_alike(left: str, right: str) -> bool:
    return family(left) is not None and family(left) == family(right)
