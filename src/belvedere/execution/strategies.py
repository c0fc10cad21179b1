"""Which strategy a refresh takes, and why.

nothing        no table has other rows: at most the vector moves
merge          the change is added to what is stored
replace keys   touched groups are computed again
rebuild        everything is computed again; always with a reason code
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from belvedere.algebra.relations import Rel, TopK, Window
from belvedere.algebra.walks import nodes, tables
from belvedere.analyses.floats import unstable
from belvedere.analyses.monotone import monotone
from belvedere.analyses.types import Types
from belvedere.reasons import REFRESHES
from belvedere.views.state import Bag, Combine, State


class Strategy(Enum):
    """How a refresh brings a view to new versions."""

    NOTHING = "nothing"
    MERGE = "merge"
    REPLACE = "replace keys"
    REBUILD = "rebuild"


REASONS = {code: reason.sentence for code, reason in REFRESHES.items()}


@dataclass(frozen=True)
class Choice:
    """A strategy and its reason code, empty where it needs none."""

    strategy: Strategy
    reason: str = ""


def choose(state: State, types: Types, moving: Collection[str], *, inserts_only: bool) -> Choice:
    """The strategy for changes of the moving tables."""
    if not moving:
        return Choice(Strategy.NOTHING)
    reason = blocked(state, types, moving)
    if reason:
        return Choice(Strategy.REBUILD, reason)
    if isinstance(state, Bag):
        return Choice(Strategy.MERGE)
    if state.adds(inserts_only=inserts_only and monotone(state.child)):
        return Choice(Strategy.MERGE)
    never = any(p.combine is Combine.NEVER for p in state.parts)
    return Choice(Strategy.REPLACE, "NOT_ADDITIVE" if never else "LOST_EXTREMUM")


def blocked(state: State, types: Types, moving: Collection[str]) -> str:
    """Why a plan's change cannot be used for these tables; empty if it can."""
    maintained = state.plan if isinstance(state, Bag) else state.child
    for node in nodes(maintained):
        if _moves(node, moving) and unstable(node, types):
            return "FLOAT_KEY"
        if isinstance(node, Window) and not node.partition and _moves(node, moving):
            return "GLOBAL_WINDOW"
        if isinstance(node, TopK) and _moves(node, moving):
            return "NESTED_LIMIT"
    return ""


def _moves(q: Rel, moving: Collection[str]) -> bool:
    return not set(moving).isdisjoint(tables(q))
