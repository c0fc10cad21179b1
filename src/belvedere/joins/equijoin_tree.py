"""Equijoin trees: the join tree of a block whose positions meet on columns of equal values.

Of all spanning trees the one that shares the most join classes is taken: if any tree implies every
equality of the block, this one does (the block is acyclic). Otherwise the join is cyclic, and the
classes whose positions the tree does not connect are `dropped`. Among trees that share as many
classes, joins on a key come first: the dropped join is then the least selective one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from belvedere.errors import Invalid
from belvedere.joins.join_tree import JoinTree, TreeEdge, reached, spanning_edges
from belvedere.joins.normal_form import JoinBlock

Keys = Mapping[str, tuple[str, ...]]
"""The declared key of each table that has one."""


@dataclass(frozen=True)
class EquijoinEdge(TreeEdge):
    """Two positions and the join classes on which they meet."""

    classes: tuple[int, ...]


@dataclass(frozen=True)
class EquijoinTree(JoinTree[EquijoinEdge]):
    """The join tree of a block, from one of its positions."""

    block: JoinBlock
    dropped: tuple[int, ...]
    """The join classes whose positions the tree does not connect."""

    @cached_property
    def shared(self) -> tuple[tuple[int, ...], ...]:
        """For each position its widest edge, and the edges whose classes that one contains."""
        return tuple(
            max(((e, *self._contained(p, e)) for e in edges), key=len, default=())
            for p, edges in enumerate(self.around)
        )

    def _contained(self, position: int, edge: int) -> list[int]:
        wide = set(self.edges[edge].classes)
        return [
            f for f in self.around[position] if f != edge and wide.issuperset(self.edges[f].classes)
        ]

    def columns(self, position: int, edge: int) -> tuple[str, ...]:
        """The columns of a position on which it meets the other end of an edge."""
        return self._columns[position, edge]

    @cached_property
    def _columns(self) -> dict[tuple[int, int], tuple[str, ...]]:
        return {
            (p, e): tuple(next(c for q, c in self.block.classes[k] if q == p) for k in edge.classes)
            for e, edge in enumerate(self.edges)
            for p in edge.ends
        }


def equijoin_tree(
    block: JoinBlock, root: int | str = 0, keys: Keys = MappingProxyType({})
) -> EquijoinTree:
    """The join tree of a block from a root: a position, or the table of one."""
    edges = equijoin_edges(block)
    edges.sort(key=lambda e: (-len(e.classes), not _on_key(block, e, keys)))
    kept, _ = spanning_edges(len(block.positions), edges)
    dropped = tuple(
        k
        for k, members in enumerate(block.classes)
        if not reached(members[0][0], (e for e in kept if k in e.classes)).issuperset(
            p for p, _ in members
        )
    )
    return EquijoinTree(
        len(block.positions), tuple(kept), _root(block, root), block=block, dropped=dropped
    )


def equijoin_edges(block: JoinBlock) -> list[EquijoinEdge]:
    """Every two positions that share join classes, with these."""
    shared: dict[tuple[int, int], list[int]] = {}
    for k, members in enumerate(block.classes):
        at = sorted({p for p, _ in members})
        for i, p in enumerate(at):
            for q in at[i + 1 :]:
                shared.setdefault((p, q), []).append(k)
    return [EquijoinEdge(p, q, tuple(classes)) for (p, q), classes in sorted(shared.items())]


def _root(block: JoinBlock, root: int | str) -> int:
    if isinstance(root, int):
        return root
    at = block.at(root)
    if not at:
        raise Invalid(
            f"the view does not read {root!r}",
            hint=f"its tables: {', '.join(block.tables)}",
            reason="NOT_IN_QUERY",
        )
    return at[0]


def _on_key(block: JoinBlock, edge: EquijoinEdge, keys: Keys) -> bool:
    """Whether one end of an edge is the key of its table."""
    for p in edge.ends:
        columns = {c for k in edge.classes for q, c in block.classes[k] if q == p}
        key = keys.get(block.positions[p].table)
        if key is not None and set(key) <= columns:
            return True
    return False
