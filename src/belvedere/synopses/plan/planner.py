"""The plan of a synopsis: foreign keys collapsed (SJoin §6), the query tree, cycles cut (§4.1).

Nodes meet over edges: any number of equalities and one range. What a tree cannot hold (a second range,
an edge of a cycle, a condition on three tables) filters the sample afterwards. Of a cycle the least
selective edge is cut; where nothing is known of the tables, ranges before bands before equalities.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from belvedere.algebra.scalars import Scalar, col, every
from belvedere.errors import Invalid, Unsupported
from belvedere.joins.join_tree import TreeEdge, reached, spanning_edges
from belvedere.joins.linear import LinearRange
from belvedere.joins.normal_form import Equality, JoinBlock, JoinCondition, RangeCondition
from belvedere.joins.selectivity import TableSizes
from belvedere.synopses.estimate.values import kind_of
from belvedere.synopses.plan.query_tree import Band, QueryEdge, query_tree
from belvedere.synopses.plan.synopsis_plan import (
    CollapsedReference,
    EdgeTerms,
    JoinTerm,
    SynopsisPlan,
)
from belvedere.synopses.plan.value_codes import band_codes, equality_code

Keys = Mapping[str, Iterable[Iterable[str]]]
"""For each table sets of columns that no two of its rows agree on."""


@dataclass
class _Conditions:
    """The conditions between two positions, or two nodes."""

    equal: list[tuple[JoinTerm, JoinTerm, Scalar]] = field(default_factory=list)
    ranges: list[tuple[LinearRange, list[Scalar]]] = field(default_factory=list)

    def form(self) -> tuple[int, int]:
        """The number of equalities and of bounds: it decides where selectivities are equal."""
        bounds = (sum(b is not None for b in (r.low, r.high)) for r, _ in self.ranges)
        return len(self.equal), max(bounds, default=0)

    def scalars(self) -> list[Scalar]:
        """All of them, as they are written."""
        return [s for _, _, s in self.equal] + [s for _, several in self.ranges for s in several]

    def add_range(self, bounds: LinearRange, scalar: Scalar) -> None:
        """Add a range; one with bounds on the same pair is narrowed."""
        for n, (other, scalars) in enumerate(self.ranges):
            if other.is_comparable(bounds):
                self.ranges[n] = other.intersect(bounds), [*scalars, scalar]
                return
        self.ranges.append((bounds, [scalar]))


@dataclass(frozen=True)
class _GraphEdge(TreeEdge):
    """An edge of the join graph, which may have cycles."""

    conditions: _Conditions


def plan(
    block: JoinBlock, keys: Keys, *, collapse: bool = True, sizes: TableSizes | None = None
) -> SynopsisPlan:
    """The plan of a synopsis; the sizes of its tables decide where a cycle is cut."""
    return _Planner(block, keys, sizes or TableSizes()).plan(collapse)


class _Planner:
    def __init__(self, block: JoinBlock, keys: Keys, sizes: TableSizes) -> None:
        self.block = block
        self.sizes = sizes
        self.types = block.types
        self.keys = {t: [frozenset(k) for k in ks] for t, ks in keys.items()}
        self.between: dict[tuple[int, int], _Conditions] = {}
        self.rest: list[Scalar] = []
        """Conditions that no edge holds."""
        self.notes: list[str] = []
        for constant in block.constants:
            raise Unsupported(f"the condition {constant} on no column", reason="SHAPE")
        for condition in block.conditions:
            self._add(condition)

    def plan(self, collapse: bool) -> SynopsisPlan:
        references = self._collapse() if collapse else []
        node_of, roots = self._nodes(references)
        edges, edge_terms = self._edges(node_of)
        homes = [{node_of[p] for p in self.block.positions_of(c)} for c in self.rest]
        node_filters = tuple(
            tuple(c for c, home in zip(self.rest, homes, strict=True) if home == {node})
            for node in range(len(roots))
        )
        sample_filters = tuple(c for c, home in zip(self.rest, homes, strict=True) if len(home) > 1)
        filters = [f for p in self.block.positions if (f := p.filter) is not None]
        outputs = [s for _, s in self.block.outputs]
        for scalar in (*filters, *self.rest, *outputs):
            kind_of(scalar, self.types)
        return SynopsisPlan(
            self.block, tuple(references), tuple(roots), tuple(node_of),
            query_tree(len(roots), edges), tuple(edge_terms), node_filters, sample_filters,
            tuple(self.notes),
        )  # fmt: skip

    def _add(self, condition: JoinCondition) -> None:
        """One join condition to the others of its two positions, or to the rest."""
        if not isinstance(condition, Equality | RangeCondition):
            self.rest.append(condition.scalar)
            return
        conditions = self.between.setdefault(condition.positions, _Conditions())
        if isinstance(condition, Equality):
            code = equality_code(*(kind_of(s, self.types) for s in condition.sides))
            left, right = (
                JoinTerm(p, s, code)
                for p, s in zip(condition.positions, condition.sides, strict=True)
            )
            conditions.equal.append((left, right, condition.scalar))
        else:
            bounds = condition.range
            # Types that are not compared have no code: an error.
            equality_code(self.types[bounds.x], self.types[bounds.y])
            conditions.add_range(bounds, condition.scalar)

    def _collapse(self) -> list[CollapsedReference]:
        """Merge the positions that others refer to by key into these, until none is left."""
        references: list[CollapsedReference] = []
        parents: set[int] = set()
        group = list(range(len(self.block.positions)))
        merged = True
        while merged:
            merged = False
            for at in sorted(self.between):
                for child, parent in (at[::-1], at):
                    reference = self._reference(at, child, parent)
                    # The parent must still be the root of its own node, and not be below the child.
                    if reference is None or parent in parents or group[child] == group[parent]:
                        continue
                    references.append(reference)
                    parents.add(parent)
                    old, new = group[parent], group[child]
                    group = [new if g == old else g for g in group]
                    self._remove(at, reference)
                    merged = True
                    break
        return references

    def _reference(self, at: tuple[int, int], child: int, parent: int) -> CollapsedReference | None:
        conditions = self.between.get(at)
        if conditions is None:
            return None
        by_column: dict[str, tuple[JoinTerm, JoinTerm]] = {}
        for left, right, _ in conditions.equal:
            own, key = (left, right) if left.position == child else (right, left)
            if key.scalar.column is not None:
                by_column.setdefault(self.block.refs[key.scalar.column][1], (own, key))
        for columns in self.keys.get(self.block.positions[parent].table, ()):
            if columns <= by_column.keys():
                chosen = [by_column[c] for c in sorted(columns)]
                return CollapsedReference(
                    child, parent, tuple(o for o, _ in chosen), tuple(k for _, k in chosen)
                )
        return None

    def _remove(self, at: tuple[int, int], reference: CollapsedReference) -> None:
        """Remove the conditions of a reference; others between the two positions filter afterwards."""
        used = {t.scalar.column for t in reference.key}
        for left, right, scalar in self.between[at].equal:
            key = right if right.position == reference.parent else left
            own = left if key is right else right
            if key.scalar.column not in used or own not in reference.own:
                self.rest.append(scalar)
        self.rest += [s for _, several in self.between[at].ranges for s in several]
        del self.between[at]

    def _nodes(self, references: list[CollapsedReference]) -> tuple[list[int], list[int]]:
        """The node of each position, and the root position of each node."""
        child_of = {r.parent: r.child for r in references}
        roots = [p for p in range(len(self.block.positions)) if p not in child_of]
        node_of = []
        for position in range(len(self.block.positions)):
            while position in child_of:
                position = child_of[position]
            node_of.append(roots.index(position))
        return node_of, roots

    def _edges(self, node_of: list[int]) -> tuple[list[QueryEdge], list[EdgeTerms]]:
        graph = self._graph(node_of)
        graph.sort(key=lambda e: (self._selectivity(e), [-n for n in e.conditions.form()], e.ends))
        kept, cut = spanning_edges(max(node_of) + 1, graph)
        self._require_connected(kept, node_of)
        for edge in cut:
            scalars = edge.conditions.scalars()
            self.rest += scalars
            self.notes.append(
                f"a cycle is cut: {every(scalars)} filters the sample, of which it is expected"
                f" to keep one in {1 / self._selectivity(edge):.3g}"
            )
        edges = [self._edge(e, node_of) for e in sorted(kept, key=lambda e: e.ends)]
        return [e for e, _ in edges], [terms for _, terms in edges]

    def _graph(self, node_of: list[int]) -> list[_GraphEdge]:
        """The join graph of the nodes."""
        edges: dict[tuple[int, int], _Conditions] = {}
        for at, conditions in self.between.items():
            one, other = node_of[at[0]], node_of[at[1]]
            if one == other:
                self.rest += conditions.scalars()
                continue
            together = edges.setdefault((min(one, other), max(one, other)), _Conditions())
            equal = conditions.equal
            together.equal += equal if one < other else [(b, a, s) for a, b, s in equal]
            together.ranges += conditions.ranges
        return [_GraphEdge(*ends, conditions) for ends, conditions in edges.items()]

    def _require_connected(self, edges: list[_GraphEdge], node_of: list[int]) -> None:
        nodes = reached(node_of[0], edges)
        apart = {
            p.table
            for p, node in zip(self.block.positions, node_of, strict=True)
            if node not in nodes
        }
        if apart:
            raise Invalid(
                "the query is not connected: no condition joins all its tables",
                detail=f"nothing joins {', '.join(sorted(apart))} to the rest",
                hint="join every table by =, <, <=, >, >= or a band; a cross product is no synopsis",
                reason="DISCONNECTED",
            )

    def _selectivity(self, edge: _GraphEdge) -> float:
        """The expected share of pairs of rows that meet: conditions count as independent."""
        share = 1.0
        for left, right, _ in edge.conditions.equal:
            share *= self.sizes.equality(
                [self._source(t.scalar, t.position) for t in (left, right)]
            )
        for bounds, _ in edge.conditions.ranges:
            x, y = (self.block.refs[c] for c in (bounds.x, bounds.y))
            tables = [self.block.positions[p].table for p in (x[0], y[0])]
            share *= self.sizes.range(bounds, (tables[0], x[1]), (tables[1], y[1]))
        return share

    def _source(self, scalar: Scalar, position: int) -> tuple[str, str | None]:
        """The table's column that a scalar is; None for an expression."""
        column = None if scalar.column is None else self.block.refs[scalar.column][1]
        return self.block.positions[position].table, column

    def _edge(self, edge: _GraphEdge, node_of: list[int]) -> tuple[QueryEdge, EdgeTerms]:
        equal = tuple((left, right) for left, right, _ in edge.conditions.equal)
        terms, band = None, None
        for bounds, scalars in sorted(
            edge.conditions.ranges, key=lambda r: (r[0].low is None) + (r[0].high is None)
        ):
            coded = self._band(edge.left, bounds, node_of) if terms is None else None
            if coded is None:
                self.rest += scalars
            else:
                terms, band = coded
        if not equal and terms is None:
            raise Unsupported(
                "tables joined only by a range without an order of numbers",
                hint="join them by an equality too",
                reason="RANGE",
            )
        return QueryEdge(edge.left, edge.right, band), EdgeTerms(equal, terms)

    def _band(
        self, left: int, bounds: LinearRange, node_of: list[int]
    ) -> tuple[tuple[JoinTerm, JoinTerm], Band] | None:
        """A range as terms of two nodes, the left one's first; None if its values have no codes."""
        codes = band_codes(self.types[bounds.x], self.types[bounds.y], bounds)
        if codes is None:
            return None
        of_x, of_y, band = codes
        x, y = self.block.refs[bounds.x][0], self.block.refs[bounds.y][0]
        p, q = JoinTerm(x, col(bounds.x), of_x), JoinTerm(y, col(bounds.y), of_y)
        if node_of[x] == left:
            return (p, q), band
        # low <= p - q <= high is -high <= q - p <= -low.
        return (q, p), Band(-band.high, -band.low)
