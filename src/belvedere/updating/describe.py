"""How the summary of an updatable view looks, as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from belvedere.joins.equijoin_tree import EquijoinTree
from belvedere.updating.state import UpdatableState
from belvedere.updating.summary.filter import UpdateFilter
from belvedere.updating.summary.in_tables.build import BuiltSummary

CYCLIC_NOTE = "  cyclic: the estimate leaves out a join, the exact check does not"


def describe_in_memory(held: UpdatableState, rows: UpdateFilter) -> str:
    """A view whose rows are in memory."""
    tree, summary, graph = held.tree, rows.summary, rows.graph
    lines = [_headline(held), "Join tree:"]
    for p in tree.down:
        lines.append(
            f"  {held.shape.positions[p].table}: {int(rows.base.present(p).sum())} rows,"
            f" {int(graph.whole[p].sum())} in view rows,"
            f" {int(graph.extended[p].sum())} extended dangling in"
            f" {int((summary.sizes[p] > 0).sum())} classes"
        )
    if tree.dropped:
        lines.append(CYCLIC_NOTE)
    lines += describe_root_choice(held.definition.get("chosen"))
    lines.append(f"Summary: {summary.bytes} bytes; lookups: {rows.base.bytes} bytes")
    return "\n".join(lines)


def describe_in_tables(held: UpdatableState, found: BuiltSummary) -> str:
    """A view whose rows stay in the tables."""
    rest = ", as is the summary" if held.tabled is not None else ""
    told = describe_summary(held.tree, found)
    return f"{_headline(held)}\n{told}\nRows stay in the tables and are looked up there{rest}"


def _headline(held: UpdatableState) -> str:
    return f"Updatable view {held.definition['name']}: {held.definition['query'].strip()}"


def describe_summary(tree: EquijoinTree, found: BuiltSummary) -> str:
    """What a summary would be, as text."""
    lines = ["Join tree:"]
    for p in tree.down:
        counts = [f"{rows} rows, {whole} in view rows" for rows, whole in found.rows[p : p + 1]]
        names, own = found.names[p], int((found.names[p] < 0).sum())
        candidates = f", {own} of them candidates" if own else ""
        rows = f"{int(found.sizes[p].sum())} extended dangling in {len(names)} classes{candidates}"
        lines.append(f"  {tree.block.positions[p].table}: {', '.join([*counts, rows])}")
    if tree.dropped:
        lines.append(CYCLIC_NOTE)
    without = "" if any((some < 0).any() for some in found.names) else " without candidates"
    lines.append(f"Summary{without}: {found.bytes} bytes")
    return "\n".join(lines)


def describe_root_choice(chosen: Mapping[str, Any] | None) -> list[str]:
    """How a root was chosen, as text; nothing if it was given or the only one."""
    if chosen is None:
        return []
    errors = ", ".join(f"{table} {error:.1%}" for table, error in chosen["errors"])
    return [
        f"Root by {chosen['sample']} sampled insertions, wrong estimates: {errors}"
        f" (each known to {chosen['bound']:.1%})"
    ]
