"""Outward: the same plan with its inner joins begun at what is small, the changes.

    O1  inner joins commute    a tree of them starts at a change, or at what keys restrict, and
                               takes next what an equality ties to the rows it has
    O2  M = (A⋈B) ⋉θ K         = (A ⋉θ K) ⋈ B   where θ reads of A and K alone

Spark joins in the order of the text. A term of a change written as it is derived, L₁ ⋈ ΔR with
L a join of large tables, would join these first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from belvedere.algebra.relations import (
    Change,
    Filter,
    Join,
    Kind,
    Output,
    Project,
    Rel,
    Restrict,
)
from belvedere.algebra.scalars import TRUE, Scalar, col, every
from belvedere.algebra.walks import children, nodes, with_children


def outward(q: Rel) -> Rel:
    """The plan with its joins in the order of O1 and O2; shared subplans stay shared."""
    done: dict[int, Rel] = {}

    def go(node: Rel) -> Rel:
        if id(node) not in done:
            done[id(node)] = _turned(node, go)
        return done[id(node)]

    return go(q)


def _turned(q: Rel, go: Callable[[Rel], Rel]) -> Rel:
    match q:
        case Join(kind=Kind.INNER):
            leaves, conjuncts = _flat(q)
            small = [leaf for leaf in leaves if _starts(leaf)]
            if small and len(leaves) > 2:
                return _joined([go(leaf) for leaf in leaves], conjuncts, q.columns)
        # O2  (A⋈B) ⋉θ K = (A ⋉θ K) ⋈ B
        case Join(kind=Kind.SEMI, left=Join(kind=Kind.INNER)) if _starts(q.right):
            leaves, conjuncts = _flat(q.left)
            needed = q.on.columns - set(q.right.columns)
            owner = next((i for i, leaf in enumerate(leaves) if needed <= set(leaf.columns)), None)
            if owner is not None:
                leaves[owner] = replace(q, left=leaves[owner])
                return _joined([go(leaf) for leaf in leaves], conjuncts, q.columns)
        case _:
            pass
    old = children(q)
    new = [go(child) for child in old]
    return q if all(a is b for a, b in zip(old, new, strict=True)) else with_children(q, new)


def _flat(q: Rel) -> tuple[list[Rel], list[Scalar]]:
    """The relations of a tree of inner joins and the conditions between them."""
    match q:
        case Join(kind=Kind.INNER):
            (left, ours), (right, theirs) = _flat(q.left), _flat(q.right)
            return left + right, [*ours, *theirs, *q.on.conjuncts]
        case Filter(child=Join(kind=Kind.INNER) as below):
            leaves, conjuncts = _flat(below)
            return leaves, [*conjuncts, *q.predicate.conjuncts]
        case _:
            return [q], []


def _starts(q: Rel) -> bool:
    """Whether a relation is as small as a change: made of one, or restricted to its keys."""
    return any(isinstance(n, Change | Restrict) for n in nodes(q))


# O1
def _joined(leaves: list[Rel], conjuncts: list[Scalar], columns: tuple[str, ...]) -> Rel:
    left, waiting = list(leaves), [c for c in conjuncts if c != TRUE]
    first = min(left, key=lambda leaf: not _starts(leaf))
    left.remove(first)
    joined, waiting = _filtered(first, waiting)
    while left:
        have = set(joined.columns)
        following = min(left, key=lambda leaf: _distance(leaf, have, waiting))
        left.remove(following)
        right, waiting = _filtered(following, waiting)
        both = have | set(right.columns)
        on = [c for c in waiting if c.columns <= both]
        waiting = [c for c in waiting if not c.columns <= both]
        joined = Join(joined, right, Kind.INNER, every(on))
    if joined.columns == columns:
        return joined
    return Project(joined, tuple(Output(c, col(c)) for c in columns))


def _filtered(leaf: Rel, waiting: list[Scalar]) -> tuple[Rel, list[Scalar]]:
    """A relation under the conditions that read of it alone, and the other conditions."""
    own = [c for c in waiting if c.columns <= set(leaf.columns)]
    rest = [c for c in waiting if not c.columns <= set(leaf.columns)]
    return (Filter(leaf, every(own)) if own else leaf), rest


def _distance(leaf: Rel, have: set[str], waiting: list[Scalar]) -> tuple[bool, bool, bool]:
    """How far a relation is from the rows so far: tied by an equality, by anything, not small."""
    both = have | set(leaf.columns)
    ties = [c for c in waiting if c.columns <= both and c.columns & have]
    ties = [c for c in ties if c.columns & set(leaf.columns)]
    equal = any(isinstance(c.expr, exp.EQ | exp.NullSafeEQ) for c in ties)
    return not equal, not ties, not _starts(leaf)
