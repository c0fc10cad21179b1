"""How a change passes each operator: the family of its rule, and on what key.

A fact for readers; `rules/delta.py` is what runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
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


class Family(Enum):
    """The families of RULES: what a change of the input does to the output."""

    SOURCE = "source"
    LINEAR = "linear"
    BILINEAR = "bilinear"
    FLIPS = "linear on the left, flips on the right"
    KEYED = "keyed"
    EVERYTHING = "everything"
    DERIVED = "derived"


@dataclass(frozen=True)
class Passage:
    """The family of an operator's rule, and its key where it has one."""

    family: Family
    key: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.family.value} on {', '.join(self.key)}" if self.key else self.family.value


def passage(q: Rel) -> Passage:
    """How a change of its input passes an operator inside a plan."""
    match q:
        case Scan():
            return Passage(Family.SOURCE)
        case Filter() | Project() | Union() | Empty():
            return Passage(Family.LINEAR)
        case Join(kind=JoinKind.INNER):
            return Passage(Family.BILINEAR)
        case Join():
            return Passage(Family.FLIPS)
        case Aggregate(keys=key) | Window(partition=key):
            return Passage(Family.KEYED, key) if key else Passage(Family.EVERYTHING)
        case Distinct() | Except() | Intersect():
            return Passage(Family.KEYED, q.columns)
        case TopK():
            return Passage(Family.EVERYTHING)
        case Change() | Negate() | Net() | Support() | Unsigned() | Restrict():
            return Passage(Family.DERIVED)
        case _:
            assert_never(q)
