"""Exact counts of join results by a join key, from the weights."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from belvedere.errors import Invalid, Unsupported
from belvedere.kernels.join_graph.groups import Groups
from belvedere.kernels.join_graph.weights import product
from belvedere.memory import kinds
from belvedere.synopses.graph.weighted_graph import WeightedGraph
from belvedere.synopses.plan.value_codes import EqualityCode
from belvedere.synopses.state import SynopsisState


def key_counts(keeper: SynopsisState, column: str) -> pa.Table:
    """For each value of a column that an edge joins by, the number of join results with it.

    The results with a key number the product of the key's weights on both sides of the edge.
    """
    edge = _edge(keeper, column)
    if not isinstance(keeper.graph, WeightedGraph) or keeper.plan.sample_filters:
        raise Unsupported(
            f"exact counts by {column!r}",
            detail="filters come after the graph, or the join is beyond 64 bits",
            hint="estimate('count(*)', group_by=…) has an interval",
            reason="COUNTS",
        )
    left, right = (
        next(s for s in keeper.graph.nodes[n].sides if s.edge == edge)
        for n in keeper.edges[edge].ends
    )
    assert isinstance(left.held, Groups)
    assert isinstance(right.held, Groups)
    names = keeper.edges[edge].names
    assert names is not None
    counts = product(left.held.total[: names.size], right.held.total[: names.size])
    some = np.flatnonzero(counts)
    term = keeper.edges[edge].edge_terms.equal[0][0]
    kind = keeper.plan.block.types[term.scalar.column or ""]
    values = pa.array(names.keys[some, 0]).cast(pa.int32() if kind == "date" else pa.int64())
    values = values.view(pa.date32()) if kind == "date" else values.cast(kinds.arrow(kind))
    return pa.table({column: values, "count": pa.array(counts[some])})


def _edge(keeper: SynopsisState, column: str) -> int:
    """The edge that joins by a shown column alone."""
    shown = {n.lower(): s for n, s in keeper.plan.block.outputs}
    scalar = shown.get(column.lower())
    if scalar is None:
        raise Invalid(
            f"no column {column!r} in the synopsis", hint=", ".join(shown), reason="NO_SUCH_COLUMN"
        )
    for number, keys in enumerate(keeper.edges):
        pairs = keys.edge_terms.equal
        if keys.edge_terms.band is None and len(pairs) == 1:
            code = pairs[0][0].code
            plain = (
                isinstance(code, EqualityCode) and code.name in ("exact", "date") and not code.scale
            )
            if plain and any(t.scalar == scalar for t in pairs[0]):
                return number
    raise Unsupported(
        f"exact counts by {column!r}",
        detail="no edge of the query tree joins by this column alone, as a whole number or a date",
        hint="estimate('count(*)', group_by=…) has an interval",
        reason="COUNTS",
    )
