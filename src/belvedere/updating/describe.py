"""The summary of an updatable view, as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from belvedere.joins.equijoin_tree import EquijoinTree
from belvedere.updating.state import UpdatableState
from belvedere.updating.summary.filter import UpdateFilter
from belvedere.updating.summary.in_tables.build import BuiltSummary

CYCLIC_NOTE = "  cyclic: the estimate leaves out a join, the exact check does not"


def describe_in_memory(state: UpdatableState, update_filter: UpdateFilter) -> str:
    """The summary of a view whose rows are held in memory."""
    tree, summary, graph = state.tree, update_filter.summary, update_filter.graph
    lines = [_headline(state), "Join tree:"]
    for p in tree.down:
        lines.append(
            f"  {state.shape.positions[p].table}: {int(update_filter.base.present(p).sum())} rows,"
            f" {int(graph.whole[p].sum())} in view rows,"
            f" {int(graph.extended[p].sum())} extended dangling in"
            f" {int((summary.sizes[p] > 0).sum())} classes"
        )
    if tree.dropped:
        lines.append(CYCLIC_NOTE)
    lines += describe_root_choice(state.definition.get("chosen"))
    lines.append(f"Summary: {summary.bytes} bytes; lookups: {update_filter.base.bytes} bytes")
    return "\n".join(lines)


def describe_in_tables(state: UpdatableState, summary: BuiltSummary) -> str:
    """The summary of a view whose rows stay in the tables."""
    suffix = ", as is the summary" if state.tabled is not None else ""
    text = describe_summary(state.tree, summary)
    return f"{_headline(state)}\n{text}\nRows stay in the tables and are looked up there{suffix}"


def _headline(state: UpdatableState) -> str:
    return f"Updatable view {state.definition['name']}: {state.definition['query'].strip()}"


def describe_summary(tree: EquijoinTree, summary: BuiltSummary) -> str:
    """A summary as text: rows, classes and candidates of each table."""
    lines = ["Join tree:"]
    for p in tree.down:
        counts = [
            f"{rows} rows, {whole_rows} in view rows"
            for rows, whole_rows in summary.rows[p : p + 1]
        ]
        codes, candidate_count = summary.names[p], int((summary.names[p] < 0).sum())
        candidates = f", {candidate_count} of them candidates" if candidate_count else ""
        rows = (
            f"{int(summary.sizes[p].sum())} extended dangling in {len(codes)} classes{candidates}"
        )
        lines.append(f"  {tree.block.positions[p].table}: {', '.join([*counts, rows])}")
    if tree.dropped:
        lines.append(CYCLIC_NOTE)
    suffix = (
        ""
        if any((class_codes < 0).any() for class_codes in summary.names)
        else " without candidates"
    )
    lines.append(f"Summary{suffix}: {summary.bytes} bytes")
    return "\n".join(lines)


def describe_root_choice(chosen: Mapping[str, Any] | None) -> list[str]:
    """How the root was chosen, as text; nothing if it was given or is the only one."""
    if chosen is None:
        return []
    errors = ", ".join(f"{table} {error:.1%}" for table, error in chosen["errors"])
    return [
        f"Root by {chosen['sample']} sampled insertions, wrong estimates: {errors}"
        f" (each known to {chosen['bound']:.1%})"
    ]
