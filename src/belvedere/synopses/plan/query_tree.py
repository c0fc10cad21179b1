"""The query tree: foreign keys collapsed, joins classified, cycles cut.

A *node* is a position and the positions it refers to by their keys, directly or not: one row of the
position stands for one row of each. Nodes meet over edges: any number of equalities and one range. What
a tree cannot hold (a second range, an edge of a cycle, a condition of three tables) filters the
sample afterwards. Of a cycle the weakest edge is cut: ranges before bands before equalities.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from sqlglot import exp

from belvedere.algebra.scalars import Scalar, col, every
from belvedere.errors import Invalid, Unsupported
from belvedere.joins.linear import Interval, interval
from belvedere.joins.region import Region
from belvedere.joins.selectivity import Known
from belvedere.sql.binder.expressions import bare
from belvedere.synopses.estimate.values import kind_of
from belvedere.synopses.plan.tree_shape import Band, Edge, Shape
from belvedere.synopses.plan.value_codes import Family, Measure, family, measured

Keys = Mapping[str, Iterable[Iterable[str]]]
"""For each table sets of columns that no two of its rows agree on."""


@dataclass(frozen=True)
class Term:
    """A scalar of one position, and how its values become codes."""

    position: int
    scalar: Scalar
    how: Family | Measure

    def __hash__(self) -> int:
        return self._hashed

    @cached_property
    def _hashed(self) -> int:
        # Terms are looked up with every batch, and a scalar's hash is a walk over its tree.
        return hash((self.position, self.scalar, self.how))


@dataclass(frozen=True)
class Reference:
    """A position's rows refer to rows of another by its key."""

    child: int
    parent: int
    own: tuple[Term, ...]
    key: tuple[Term, ...]


@dataclass(frozen=True)
class Meeting:
    """An edge's terms, those of its left node first."""

    equal: tuple[tuple[Term, Term], ...]
    within: tuple[Term, Term] | None


@dataclass(frozen=True)
class Plan:
    """All that a synopsis must know of its query."""

    region: Region
    filters: tuple[Scalar | None, ...]
    """For each position the filter before the graph."""
    references: tuple[Reference, ...]
    roots: tuple[int, ...]
    """For each node the position whose rows are its rows."""
    node_of: tuple[int, ...]
    shape: Shape
    meetings: tuple[Meeting, ...]
    inner: tuple[tuple[Scalar, ...], ...]
    """For each node the conditions between its own positions: its rows are filtered before the graph."""
    after: tuple[Scalar, ...]
    """Conditions that the graph does not hold."""
    notes: tuple[str, ...] = ()


@dataclass
class _Pairs:
    """The conditions between two positions, or two nodes."""

    equal: list[tuple[Term, Term, Scalar]] = field(default_factory=list)
    ranges: list[tuple[Interval, list[Scalar]]] = field(default_factory=list)

    def form(self) -> tuple[int, int]:
        """How many conditions there are: what decides where nothing is known."""
        two = max((sum(b is not None for b in (i.low, i.high)) for i, _ in self.ranges), default=0)
        return len(self.equal), two

    def conditions(self) -> list[Scalar]:
        """All of them."""
        return [s for _, _, s in self.equal] + [s for _, ss in self.ranges for s in ss]


def plan(region: Region, keys: Keys, *, collapse: bool = True, known: Known | None = None) -> Plan:
    """The tree of a query; what is known of its tables decides where a cycle is cut."""
    return _Planner(region, keys, known or Known()).plan(collapse)


class _Planner:
    def __init__(self, region: Region, keys: Keys, known: Known) -> None:
        self.region = region
        self.known = known
        self.types = region.types
        self.keys = {t: [frozenset(k) for k in ks] for t, ks in keys.items()}
        self.owner = {n: i for i, p in enumerate(region.positions) for n in p.names}
        self.filters: list[list[Scalar]] = [[] for _ in region.positions]
        self.pairs: dict[tuple[int, int], _Pairs] = {}
        self.after: list[Scalar] = []
        self.notes: list[str] = []
        for conjunct in region.conjuncts:
            self._classify(conjunct)

    def plan(self, collapse: bool) -> Plan:
        references = self._collapse() if collapse else []
        node_of, roots = self._nodes(references)
        edges, meetings = self._edges(node_of)
        homes = [{node_of[p] for p in self._positions(c)} for c in self.after]
        inner = tuple(
            tuple(c for c, home in zip(self.after, homes, strict=True) if home == {node})
            for node in range(len(roots))
        )
        self.after = [c for c, home in zip(self.after, homes, strict=True) if len(home) > 1]
        filters = tuple(every(f) if f else None for f in self.filters)
        conditions = [c for cs in inner for c in cs]
        for scalar in (*filters, *conditions, *self.after, *(s for _, s in self.region.outputs)):
            if scalar is not None:
                kind_of(scalar, self.types)
        shape = Shape(len(roots), tuple(edges))
        return Plan(
            self.region, filters, tuple(references), tuple(roots), tuple(node_of), shape,
            tuple(meetings), inner, tuple(self.after), tuple(self.notes),
        )  # fmt: skip

    def _positions(self, scalar: Scalar) -> list[int]:
        return sorted({self.owner[c] for c in scalar.columns})

    def _classify(self, conjunct: Scalar) -> None:
        """One condition: of a position, between two, or for later."""
        at = self._positions(conjunct)
        if len(at) == 1:
            self.filters[at[0]].append(conjunct)
        elif len(at) == 2 and self._joins((at[0], at[1]), conjunct):
            pass
        elif not at:
            raise Unsupported(f"the condition {conjunct} on no column", reason="SHAPE")
        else:
            self.after.append(conjunct)

    def _joins(self, at: tuple[int, int], conjunct: Scalar) -> bool:
        """Whether a condition joins two positions; then it is kept with theirs."""
        pairs = self.pairs.get(at, _Pairs())
        if isinstance(conjunct.expr, exp.EQ):
            sides = [Scalar(bare(s)) for s in (conjunct.expr.this, conjunct.expr.expression)]
            owners = [self._positions(s) for s in sides]
            if owners == [[at[1]], [at[0]]]:
                sides.reverse()
            elif owners != [[at[0]], [at[1]]]:
                return False
            kinds = [kind_of(s, self.types) for s in sides]
            how = family(*kinds)
            left, right = (Term(p, s, how) for p, s in zip(at, sides, strict=True))
            pairs.equal.append((left, right, conjunct))
        else:
            found = interval(conjunct.expr)
            if found is None or {self.owner[found.x], self.owner[found.y]} != set(at):
                return False
            self._check_order(found)
            self._add_range(pairs, found, conjunct)
        self.pairs[at] = pairs
        return True

    def _check_order(self, found: Interval) -> None:
        """Types that have an order in common, or an error."""
        family(self.types[found.x], self.types[found.y])

    @staticmethod
    def _add_range(pairs: _Pairs, found: Interval, conjunct: Scalar) -> None:
        for n, (known, conjuncts) in enumerate(pairs.ranges):
            if known.fits(found):
                pairs.ranges[n] = known.meet(found), [*conjuncts, conjunct]
                return
        pairs.ranges.append((found, [conjunct]))

    def _collapse(self) -> list[Reference]:
        """Positions that others refer to by key, merged into these until none is left."""
        found: list[Reference] = []
        parents: set[int] = set()
        group = list(range(len(self.region.positions)))
        merged = True
        while merged:
            merged = False
            for at in sorted(self.pairs):
                for child, parent in (at[::-1], at):
                    reference = self._reference(at, child, parent)
                    # The parent must still be the root of its own node, and not be below the child.
                    if reference is None or parent in parents or group[child] == group[parent]:
                        continue
                    found.append(reference)
                    parents.add(parent)
                    old, new = group[parent], group[child]
                    group = [new if g == old else g for g in group]
                    self._use(at, reference)
                    merged = True
                    break
        return found

    def _reference(self, at: tuple[int, int], child: int, parent: int) -> Reference | None:
        pairs = self.pairs.get(at)
        if pairs is None:
            return None
        position = self.region.positions[parent]
        source = {f.name: f.source for f in position.fields}
        by_column: dict[str, tuple[Term, Term]] = {}
        for left, right, _ in pairs.equal:
            own, key = (left, right) if left.position == child else (right, left)
            if key.scalar.column is not None:
                by_column.setdefault(source[key.scalar.column], (own, key))
        for columns in self.keys.get(position.table, ()):
            if columns <= by_column.keys():
                chosen = [by_column[c] for c in sorted(columns)]
                return Reference(
                    child, parent, tuple(o for o, _ in chosen), tuple(k for _, k in chosen)
                )
        return None

    def _use(self, at: tuple[int, int], reference: Reference) -> None:
        """The conditions of a reference are taken; others between the two filter afterwards."""
        used = {t.scalar.column for t in reference.key}
        for left, right, conjunct in self.pairs[at].equal:
            key = right if right.position == reference.parent else left
            own = left if key is right else right
            if key.scalar.column not in used or own not in reference.own:
                self.after.append(conjunct)
        self.after += [c for _, cs in self.pairs[at].ranges for c in cs]
        del self.pairs[at]

    def _nodes(self, references: list[Reference]) -> tuple[list[int], list[int]]:
        child_of = {r.parent: r.child for r in references}
        roots = [p for p in range(len(self.region.positions)) if p not in child_of]
        node_of = []
        for position in range(len(self.region.positions)):
            while position in child_of:
                position = child_of[position]
            node_of.append(roots.index(position))
        return node_of, roots

    def _edges(self, node_of: list[int]) -> tuple[list[Edge], list[Meeting]]:
        between: dict[tuple[int, int], _Pairs] = {}
        for at, pairs in self.pairs.items():
            one, other = node_of[at[0]], node_of[at[1]]
            if one == other:
                self.after += pairs.conditions()
                continue
            both = between.setdefault((min(one, other), max(one, other)), _Pairs())
            both.equal += pairs.equal if one < other else [(b, a, s) for a, b, s in pairs.equal]
            both.ranges += pairs.ranges
        chosen = self._spanning(between, node_of)
        for at in between.keys() - chosen:
            conditions = between[at].conditions()
            self.after += conditions
            share = self._selectivity(between[at])
            self.notes.append(
                f"a cycle is cut: {every(conditions)} filters the sample, of which it is expected"
                f" to keep one in {1 / share:.3g}"
            )
        found = [self._edge(at, between[at], node_of) for at in sorted(chosen)]
        return [e for e, _ in found], [m for _, m in found]

    def _spanning(
        self, between: dict[tuple[int, int], _Pairs], node_of: list[int]
    ) -> set[tuple[int, int]]:
        """The most selective edges that hold all nodes together: what is left of a cycle keeps the most."""
        group, chosen = list(range(max(node_of) + 1)), set()
        form = {at: tuple(-n for n in pairs.form()) for at, pairs in between.items()}
        for at in sorted(between, key=lambda a: (self._selectivity(between[a]), form[a], a)):
            one, other = group[at[0]], group[at[1]]
            if one != other:
                chosen.add(at)
                group = [one if g == other else g for g in group]
        if len(set(group)) > 1:
            apart = {
                p.table
                for p, n in zip(self.region.positions, node_of, strict=True)
                if group[n] != group[0]
            }
            raise Invalid(
                "the query is not connected: no condition joins all its tables",
                detail=f"nothing joins {', '.join(sorted(apart))} to the rest",
                hint="join every table by =, <, <=, >, >= or a band; a cross product is no synopsis",
                reason="DISCONNECTED",
            )
        return chosen

    def _selectivity(self, pairs: _Pairs) -> float:
        """The share of pairs of rows that meet, expected: conditions count as independent."""
        share = 1.0
        for left, right, _ in pairs.equal:
            share *= self.known.equality(
                [self._source(t.position, t.scalar.column) for t in (left, right)]
            )
        for found, _ in pairs.ranges:
            (one, x), (other, y) = (self._source(self.owner[c], c) for c in (found.x, found.y))
            share *= self.known.within(found, (one, x or ""), (other, y or ""))
        return share

    def _source(self, position: int, column: str | None) -> tuple[str, str | None]:
        """A plan's column as a table's; None for an expression."""
        at = self.region.positions[position]
        return at.table, next((f.source for f in at.fields if f.name == column), None)

    def _edge(self, at: tuple[int, int], pairs: _Pairs, node_of: list[int]) -> tuple[Edge, Meeting]:
        equal = tuple((left, right) for left, right, _ in pairs.equal)
        within, band = None, None
        for found, conditions in sorted(
            pairs.ranges, key=lambda r: (r[0].low is None) + (r[0].high is None)
        ):
            made = self._within(at, found, node_of) if within is None else None
            if made is None:
                self.after += conditions
            else:
                within, band = made
        if not equal and within is None:
            raise Unsupported(
                "tables joined only by a range without an order of numbers",
                hint="join them by an equality too",
                reason="RANGE",
            )
        return Edge(at[0], at[1], band), Meeting(equal, within)

    def _within(
        self, at: tuple[int, int], found: Interval, node_of: list[int]
    ) -> tuple[tuple[Term, Term], Band] | None:
        """A range as terms of the two nodes, the left one's first."""
        x, y = self.owner[found.x], self.owner[found.y]
        made = measured(self.types[found.x], self.types[found.y], found)
        if made is None:
            return None
        p, q = Term(x, col(found.x), made[0]), Term(y, col(found.y), made[1])
        if node_of[x] == at[0]:
            return (p, q), made[2]
        # low <= p - q <= high is -high <= q - p <= -low.
        return (q, p), Band(-made[2].high, -made[2].low)
