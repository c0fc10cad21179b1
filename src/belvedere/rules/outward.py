"""Outward: the same plan with its joins begun at what is small, the changes.

    O1  inner joins commute    a tree of them starts at a change, or at what keys restrict, and
                               takes next what an equality ties to the rows it has, the step
                               with the fewest rows first
    O2  M = (A⋈B) ⋉θ K         = (A ⋉θ K) ⋈ B      where θ reads of A and K alone
        (M ∘ R) ⋉ K            = (M ⋉ K) ∘ R       ∘ is σ, ⋉ or ▷; K a change, R not
    O3  S ∘ R on s = r         = S ∘ K(R)          K the values of s in S; ∘ is ⋉, ▷ or ⟕, or ⋈
                               with an R that is more than rows of tables; S small, R large
    O4  (A ∪ B) ⋈ S            = A⋈S ∪ B⋈S         A and B terms of a change, S small and still

Spark joins in the order of the text. A term of a change written as it is derived, L₁ ⋈ ΔR with
L a join of large tables, would join these first. By O3 a group, a window or the inner side of
another join is computed for the rows that ask for it, not for all: K goes down as far as
`rules/restrict.py` takes it. By O4 each term meets what is small at its own change, before it
asks for rows of large tables.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from sqlglot import exp

from belvedere.algebra.relations import (
    Change,
    Filter,
    Join,
    JoinKind,
    Keys,
    Output,
    Project,
    Rel,
    Restrict,
    Scan,
    Union,
)
from belvedere.algebra.scalars import TRUE, Scalar, col, every
from belvedere.algebra.walks import children, nodes, with_children
from belvedere.analyses.equalities import equalities
from belvedere.analyses.sizes import NOTHING_KNOWN, Sizes
from belvedere.rules.delta import touched
from belvedere.rules.restrict import push

SMALL = 500_000
"""Rows that every worker can hold, and a driver can hand out."""
MUCH_LARGER = 4
FEW = 200_000
"""Rows of a table that is read whole, so that every term of a change may meet them on its own."""


def outward(q: Rel, sizes: Sizes | None = None) -> Rel:
    """The plan with its joins in the order of O1, O2 and O3; shared subplans stay shared."""
    return _Outward(sizes or Sizes(NOTHING_KNOWN)).go(q)


class _Outward:
    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes
        self._done: dict[int, tuple[Rel, Rel]] = {}
        self._keys: dict[tuple[int, tuple[str, ...]], tuple[Rel, Rel]] = {}

    def go(self, q: Rel) -> Rel:
        if id(q) not in self._done:
            self._done[id(q)] = q, self._turned(q)
        return self._done[id(q)][1]

    def _turned(self, q: Rel) -> Rel:
        match q:
            case Join(kind=JoinKind.INNER):
                leaves, conjuncts = _flat(q)
                if any(map(_starts, leaves)):
                    leaves, conjuncts = self._met(leaves, conjuncts)
                    return self._joined([self.go(leaf) for leaf in leaves], conjuncts, q.columns)
            # O2  (A⋈B) ⋉θ K = (A ⋉θ K) ⋈ B
            case Join(kind=JoinKind.SEMI, left=Join(kind=JoinKind.INNER)) if _starts(q.right):
                leaves, conjuncts = _flat(q.left)
                needed = q.on.columns - set(q.right.columns)
                owner = next((i for i, a in enumerate(leaves) if needed <= set(a.columns)), None)
                if owner is not None:
                    leaves[owner] = replace(q, left=leaves[owner])
                    return self._joined([self.go(leaf) for leaf in leaves], conjuncts, q.columns)
            # O2  (M ∘ R) ⋉ K = (M ⋉ K) ∘ R
            case Join(kind=JoinKind.SEMI, left=Filter() as chosen) if _starts(q.right):
                return replace(chosen, child=self.go(replace(q, left=chosen.child)))
            case Join(kind=JoinKind.SEMI, left=Join(kind=JoinKind.SEMI | JoinKind.ANTI) as met) if (
                _starts(q.right) and not _starts(met.right)
            ):
                return self.go(replace(met, left=replace(q, left=met.left)))
            case _:
                pass
        old = children(q)
        new = [self.go(child) for child in old]
        same = all(a is b for a, b in zip(old, new, strict=True))
        again = q if same else with_children(q, new)
        return self._asked(again) if isinstance(again, Join) else again

    # O4  (A ∪ B) ⋈ S = A⋈S ∪ B⋈S
    def _met(self, leaves: list[Rel], conjuncts: list[Scalar]) -> tuple[list[Rel], list[Scalar]]:
        terms = next((leaf for leaf in leaves if _are_terms(leaf)), None)
        if terms is None:
            return leaves, conjuncts
        far = [leaf for leaf in leaves if leaf is not terms]
        near: list[Rel] = []
        have = set(terms.columns)
        while tied := next((leaf for leaf in far if self._few(leaf, have, conjuncts)), None):
            far.remove(tied)
            near.append(tied)
            have.update(tied.columns)
        if not near:
            return leaves, conjuncts
        own = every(c for c in conjuncts if c.columns <= have)
        sums = [_inner([term, *near], own) for term in children(terms)]
        met = Union(tuple(sums), sums[0].columns)
        return [met, *far], [c for c in conjuncts if not c.columns <= have]

    def _few(self, leaf: Rel, have: set[str], conjuncts: list[Scalar]) -> bool:
        """Whether a relation is small, still, and tied by an equality to what a term has."""
        if _starts(leaf) or self._sizes.rows(leaf) > FEW:
            return False
        own = set(leaf.columns)
        return any(
            isinstance(c.expr, exp.EQ) and c.columns & have and c.columns & own
            for c in conjuncts
            if c.columns <= have | own
        )

    # O1
    def _joined(self, leaves: list[Rel], conjuncts: list[Scalar], columns: tuple[str, ...]) -> Rel:
        left, waiting = list(leaves), [c for c in conjuncts if c != TRUE]
        first = min(left, key=lambda leaf: (not _starts(leaf), self._sizes.rows(leaf)))
        left.remove(first)
        joined, waiting = _filtered(first, waiting)
        while left:
            have = set(joined.columns)
            following = min(left, key=lambda leaf: self._distance(joined, leaf, waiting))
            left.remove(following)
            right, waiting = _filtered(following, waiting)
            both = have | set(right.columns)
            on = [c for c in waiting if c.columns <= both]
            waiting = [c for c in waiting if not c.columns <= both]
            joined = self._asked(Join(joined, right, JoinKind.INNER, every(on)))
        if joined.columns == columns:
            return joined
        return Project(joined, tuple(Output(c, col(c)) for c in columns))

    def _distance(
        self, joined: Rel, leaf: Rel, waiting: list[Scalar]
    ) -> tuple[bool, bool, bool, float]:
        """How far a relation is from the rows so far: tied by an equality, by anything, not small."""
        have, own = set(joined.columns), set(leaf.columns)
        ties = [c for c in waiting if c.columns <= have | own and c.columns & have]
        ties = [c for c in ties if c.columns & own]
        equal = any(isinstance(c.expr, exp.EQ | exp.NullSafeEQ) for c in ties)
        rows = self._sizes.rows(Join(joined, leaf, JoinKind.INNER, every(ties)))
        return not equal, not ties, not _starts(leaf), rows

    # O3  S ∘ R = S ∘ K(R)
    def _asked(self, q: Join) -> Join:
        own = {b: a for a, b in equalities(q)}
        pairs = {a: b for b, a in own.items()}
        if not pairs or q.kind is JoinKind.FULL or (q.kind is JoinKind.INNER and _plain(q.right)):
            return q
        few, many = self._sizes.rows(q.left), self._sizes.rows(q.right)
        if few > SMALL or MUCH_LARGER * few > many:
            return q
        asked = Keys(self._touched(q.left, tuple(pairs)))
        return replace(q, right=push(Restrict(q.right, tuple(pairs.values()), asked)))

    def _touched(self, q: Rel, key: tuple[str, ...]) -> Rel:
        """The values of a key, one plan for all who ask."""
        if (id(q), key) not in self._keys:
            self._keys[id(q), key] = q, touched(q, key)
        return self._keys[id(q), key][1]


def _flat(q: Rel) -> tuple[list[Rel], list[Scalar]]:
    """The relations of a tree of inner joins and the conditions between them."""
    match q:
        case Join(kind=JoinKind.INNER):
            (left, ours), (right, theirs) = _flat(q.left), _flat(q.right)
            return left + right, [*ours, *theirs, *q.on.conjuncts]
        case Filter(child=Join(kind=JoinKind.INNER) as below):
            leaves, conjuncts = _flat(below)
            return leaves, [*conjuncts, *q.predicate.conjuncts]
        case _:
            return [q], []


def _inner(leaves: list[Rel], on: Scalar) -> Join:
    """The join of some relations by one condition."""
    *some, last = leaves
    left = reduce(lambda a, b: Join(a, b, JoinKind.INNER, TRUE), some)
    return Join(left, last, JoinKind.INNER, on)


def _are_terms(q: Rel) -> bool:
    """Whether a relation is the sum of several terms of a change, under the same names."""
    return isinstance(q, Union) and _starts(q) and all(c.columns == q.columns for c in q.children)


def _starts(q: Rel) -> bool:
    """Whether a relation is as small as a change: made of one, or restricted to its keys."""
    return any(isinstance(n, Change | Restrict) for n in nodes(q))


def _plain(q: Rel) -> bool:
    """Whether a relation is rows of tables: a join finds those it needs by itself."""
    return all(isinstance(n, Scan | Change | Filter | Project | Restrict) for n in nodes(q))


def _filtered(leaf: Rel, waiting: list[Scalar]) -> tuple[Rel, list[Scalar]]:
    """A relation under the conditions that read of it alone, and the other conditions."""
    own = [c for c in waiting if c.columns <= set(leaf.columns)]
    rest = [c for c in waiting if not c.columns <= set(leaf.columns)]
    return (Filter(leaf, every(own)) if own else leaf), rest
