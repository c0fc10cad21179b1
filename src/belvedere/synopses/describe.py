"""What a synopsis says of itself: its tree, what is collapsed, cut and filtered, how large it is."""

from __future__ import annotations

from typing import TypeAlias

from belvedere.derivations.protocol import Loaded
from belvedere.synopses.definition import SynopsisDefinition
from belvedere.synopses.graph.weighted_graph import WeightedGraph
from belvedere.synopses.plan.synopsis_plan import SynopsisPlan
from belvedere.synopses.sample.on_spark import SparkSample
from belvedere.synopses.sample.results import SampleResults

Kept: TypeAlias = Loaded[SynopsisDefinition, SampleResults | SparkSample]


def describe(synopsis: Kept) -> str:
    """The query tree and the state, as text."""
    results = synopsis.state
    assert results is not None
    plan = results.plan if isinstance(results, SparkSample) else results.maintained.plan
    lines = [f"Synopsis {synopsis.definition.shown}: {synopsis.definition.kind}", "", "Query tree"]
    lines += [f"  {line}" for line in tree(plan)]
    lines += ["", "State"]
    lines += [f"  {name}: {value}" for name, value in facts(synopsis) if name != "query"]
    return "\n".join(lines)


def tree(plan: SynopsisPlan) -> list[str]:
    """Nodes, references, edges and filters, a line each."""
    names = [p.table for p in plan.block.positions]
    lines = []
    for number, root in enumerate(plan.roots):
        lines.append(f"node {number}: {names[root]}")
        for reference in plan.references:
            if plan.node_of[reference.parent] == number:
                key = ", ".join(str(t.scalar) for t in reference.key)
                lines.append(
                    f"  {names[reference.child]} refers to {names[reference.parent]} by {key}"
                )
    for edge, terms in zip(plan.tree.edges, plan.edge_terms, strict=True):
        parts = [f"{a.scalar} = {b.scalar}" for a, b in terms.equal]
        if terms.band and edge.band:
            a, b = terms.band
            parts.append(f"{a.scalar} against {b.scalar} in [{edge.band.low}, {edge.band.high}]")
        lines.append(f"edge {edge.left} - {edge.right}: {' and '.join(parts)}")
    lines += [f"filtered before: {f}" for p in plan.block.positions if (f := p.filter) is not None]
    lines += [f"filtered within a node: {c}" for cs in plan.node_filters for c in cs]
    lines += [f"filtered after: {f}" for f in plan.sample_filters]
    return lines + list(plan.notes)


def facts(synopsis: Kept) -> list[tuple[str, str]]:
    """The names and values that DESCRIBE lists."""
    results = synopsis.state
    assert results is not None
    rows = [
        ("query", synopsis.definition.query),
        ("sample", str(synopsis.definition.kind)),
        ("rows in the sample", str(len(results.slots()))),
        ("join results", str(results.join_size)),
    ]
    rows += [(f"version of {t}", str(p.version)) for t, p in synopsis.vector.items()]
    if isinstance(results, SparkSample):
        return [*rows, ("kept", "the sample alone: it is drawn on Spark")]
    keeper = results.maintained
    if isinstance(keeper.graph, WeightedGraph):
        vertices = ", ".join(str(held) for held, _ in keeper.graph.vertices)
        rows.append(("vertices", vertices))
    else:
        rows.append(("weights", "beyond 64 bits, in Python's integers"))
    rows += [(f"rows of {t}", str(s.count)) for t, s in keeper.stores.items()]
    return rows
