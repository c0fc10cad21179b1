"""Which strategy the changes of some tables allow for a view, from its definition alone."""

from __future__ import annotations

from collections.abc import Collection

from belvedere.algebra.relations import TopK, Window
from belvedere.algebra.walks import nodes, tables
from belvedere.analyses.floats import unstable
from belvedere.analyses.monotone import monotone
from belvedere.analyses.types import Types
from belvedere.execution.strategies import Strategy, StrategyChoice
from belvedere.views.state import Bag, Combine, State


def choose_strategy(
    state: State, types: Types, moving: Collection[str], *, inserts_only: bool
) -> StrategyChoice:
    """The strategy for changes of the moving tables."""
    if not moving:
        return StrategyChoice(Strategy.NOTHING)
    reason = rebuild_reason(state, types, moving)
    if reason:
        return StrategyChoice(Strategy.REBUILD, reason)
    if isinstance(state, Bag):
        return StrategyChoice(Strategy.MERGE)
    if state.adds(inserts_only=inserts_only and monotone(state.child)):
        return StrategyChoice(Strategy.MERGE)
    not_additive = any(p.combine is Combine.NEVER for p in state.parts)
    return StrategyChoice(Strategy.REPLACE, "NOT_ADDITIVE" if not_additive else "LOST_EXTREMUM")


def rebuild_reason(state: State, types: Types, moving: Collection[str]) -> str:
    """Why changes of these tables always lead to a rebuild; empty if they do not."""
    maintained = state.plan if isinstance(state, Bag) else state.child
    for node in nodes(maintained):
        if set(moving).isdisjoint(tables(node)):
            continue
        if unstable(node, types):
            return "FLOAT_KEY"
        if isinstance(node, Window) and not node.partition:
            return "GLOBAL_WINDOW"
        if isinstance(node, TopK):
            return "NESTED_LIMIT"
    return ""
