"""Whether inserts into its tables can only insert into a plan."""

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
from belvedere.algebra.walks import children


def monotone(q: Rel) -> bool:
    """True where D ⊆ D′ implies Q(D) ⊆ Q(D′), as bags."""
    match q:
        case Join(kind=JoinKind.INNER | JoinKind.SEMI):
            return all(monotone(c) for c in children(q))
        case Scan() | Filter() | Project() | Union() | Distinct() | Intersect() | Empty():
            return all(monotone(c) for c in children(q))
        case Join() | Aggregate() | Except() | Window() | TopK():
            return False
        case Change() | Negate() | Net() | Support() | Unsigned() | Restrict():
            return False
        case _:
            assert_never(q)
