"""What a synopsis knows of its query: the join block, its foreign keys, its query tree, its filters.

A *node* of the tree is a position and the positions that it refers to by their keys, directly or not:
one row of the position stands for one row of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from belvedere.algebra.relations import Join, Rel
from belvedere.algebra.scalars import Scalar
from belvedere.errors import Unsupported
from belvedere.joins.normal_form import Acceptance, JoinBlock, join_block
from belvedere.sql.binder.bind import Catalog, bind_qualified
from belvedere.synopses.plan.query_tree import QueryTree
from belvedere.synopses.plan.value_codes import BandCode, EqualityCode


@dataclass(frozen=True)
class JoinTerm:
    """A scalar of one position that a join compares, and how its values become codes."""

    position: int
    scalar: Scalar
    code: EqualityCode | BandCode

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Every batch looks terms up, and a scalar's hash is a walk over its tree.
        return hash((self.position, self.scalar, self.code))


@dataclass(frozen=True)
class CollapsedReference:
    """The rows of a position refer to rows of another position by its key."""

    child: int
    parent: int
    own: tuple[JoinTerm, ...]
    key: tuple[JoinTerm, ...]


@dataclass(frozen=True)
class EdgeTerms:
    """What an edge compares; of each pair the left node's term comes first."""

    equal: tuple[tuple[JoinTerm, JoinTerm], ...]
    band: tuple[JoinTerm, JoinTerm] | None


@dataclass(frozen=True)
class SynopsisPlan:
    """A join block and how a synopsis of it is kept."""

    block: JoinBlock
    references: tuple[CollapsedReference, ...]
    roots: tuple[int, ...]
    """For each node the position whose rows are its rows."""
    node_of: tuple[int, ...]
    """For each position its node."""
    tree: QueryTree
    edge_terms: tuple[EdgeTerms, ...]
    node_filters: tuple[tuple[Scalar, ...], ...]
    """For each node the conditions between its own positions: they filter its rows before the graph."""
    sample_filters: tuple[Scalar, ...]
    """The conditions that the tree does not hold: they filter the sample."""
    notes: tuple[str, ...] = ()


def query_block(text: str, catalog: Catalog) -> JoinBlock:
    """The normal form of a query's text; `Unsupported` if a synopsis cannot be kept of it."""
    bound = bind_qualified(text, catalog)
    return join_block(bound.plan, bound.columns, Acceptance(_no_join_rows))


_OPERATORS = {
    "Aggregate": "grouping or aggregates",
    "Distinct": "DISTINCT",
    "Union": "UNION",
    "TopK": "LIMIT",
    "Window": "window functions",
}


def _no_join_rows(operator: Rel) -> Unsupported:
    name = type(operator).__name__
    what = _OPERATORS.get(name, name.upper())
    if isinstance(operator, Join):
        what = f"a {operator.kind.value} join"
    return Unsupported(
        f"a synopsis over a query with {what}",
        detail="its rows are not combinations of rows of tables",
        hint="put that part into a materialized view and select from it",
        reason="SHAPE",
    )
