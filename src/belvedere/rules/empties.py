"""Empties: the same plan without what an empty relation makes empty.

E1  f(∅) = ∅                 every operator of one child, but γ without a key
E2  ∅ ⋈ R = L ⋈ ∅ = ∅        likewise ⋉, K(∅), ∅ by keys, ∩
E3  ∅ ▷ R = ∅ ⟕ R = ∅ − R = ∅
E4  L ▷ ∅ = L
E5  Q ∪ ∅ = Q
"""

from __future__ import annotations

from typing import assert_never

from belvedere.algebra.relations import (
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
from belvedere.algebra.walks import bottom_up
from belvedere.rules.delta import union


def without_empties(q: Rel) -> Rel:
    """The plan with E1 to E5 applied; shared subplans stay shared."""
    return bottom_up(q, _node)


def _node(q: Rel) -> Rel:
    match q:
        # E1
        case Filter() | Project() | Distinct() | Window() | TopK():
            return Empty(q.columns) if _none(q.child) else q
        case Negate() | Net() | Support() | Unsigned():
            return Empty(q.columns) if _none(q.child) else q
        case Aggregate():
            return Empty(q.columns) if _none(q.child) and q.keys else q
        # E2
        case Restrict():
            return Empty(q.columns) if _none(q.child) or _none(q.among) else q
        case Intersect():
            return Empty(q.columns) if _none(q.left) or _none(q.right) else q
        case Join(kind=JoinKind.INNER | JoinKind.SEMI):
            return Empty(q.columns) if _none(q.left) or _none(q.right) else q
        # E3
        case Except() | Join(kind=JoinKind.ANTI | JoinKind.LEFT) if _none(q.left):
            return Empty(q.columns)
        # E4
        case Join(kind=JoinKind.ANTI):
            return q.left if _none(q.right) else q
        # E5
        case Union():
            return union(list(q.children), q.columns)
        case Join() | Except() | Scan() | Change() | Empty():
            return q
        case _:
            assert_never(q)


def _none(q: Rel) -> bool:
    return isinstance(q, Empty)
