"""Look-ups: of a large table, the rows whose key is among values that are known.

    U1  L ⋈ R on l = r       R's table T = σ(r ∈ V)(T)            V ⊇ the values of l
    U2  L ⋉ R, L ▷ R, L ⟕ R  the right side likewise; of ⋈ and ⋉ the left too
    U3  K(Q)                 Q's table T = σ(k ∈ V, or NULL)(T)   V ⊇ the values of K's k
    U4  σ(a = 'text')(T)     of these, the rows that have the text

V is all that a change, or rows that were looked up before, have in the column that l comes from:
at hand before anything runs, and perhaps more than l has, so that the join stays. What is found
stands for T at that place of the plan, and tells the values for the next look-up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias, TypeVar, cast

from sqlglot import exp

from belvedere.algebra.relations import (
    Filter,
    Join,
    Kind,
    Project,
    Rel,
    Restrict,
    Scan,
)
from belvedere.algebra.scalars import Scalar
from belvedere.algebra.walks import bottom_up, children, with_children
from belvedere.analyses.equalities import equalities
from belvedere.analyses.values import Known, Sources, sources

Texts: TypeAlias = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class LookUp:
    """The rows of a table whose column has a value that one of the sources has."""

    leaf: Scan
    column: str
    """As the table names it."""
    sources: Sources
    nulls: bool
    """Whether rows with NULL there are wanted too."""
    only: Texts = frozenset()
    """Columns of text, as the table names them, and what the rows have there."""


Worth: TypeAlias = Callable[[LookUp], bool]


def look_ups(q: Rel, known: Known, worth: Worth) -> tuple[Rel, dict[Scan, LookUp]]:
    """What can be looked up now and is worth it, and the plan with leaves to be filled in."""
    places = _Places(known, worth)
    return bottom_up(q, places.node), places.wanted


def filled(q: Rel, found: Mapping[Scan, Rel]) -> Rel:
    """The plan with what was found in its places."""
    return bottom_up(q, lambda leaf: found.get(leaf, leaf) if isinstance(leaf, Scan) else leaf)


@dataclass
class _Places:
    known: Known
    worth: Worth
    wanted: dict[Scan, LookUp] = field(default_factory=dict)

    def node(self, q: Rel) -> Rel:
        match q:
            # U1, U2
            case Join(kind=Kind.INNER | Kind.SEMI | Kind.ANTI | Kind.LEFT):
                for left, right in equalities(q):
                    values = sources(q.left, left, self.known)
                    q = _over(q, q.left, self._within(q.right, right, values, nulls=False))
                    if q.kind in (Kind.INNER, Kind.SEMI):
                        values = sources(q.right, right, self.known)
                        q = _over(q, self._within(q.left, left, values, nulls=False), q.right)
                return q
            # U3
            case Restrict():
                for key, by in zip(q.key, q.by.rel.columns, strict=True):
                    values = sources(q.by.rel, by, self.known)
                    q = _over(q, self._within(q.child, key, values, nulls=True), q.by.rel)
                return q
            case _:
                return q

    def _within(
        self,
        q: Rel,
        column: str,
        values: Sources | None,
        *,
        nulls: bool,
        only: Texts = frozenset(),
    ) -> Rel:
        """The plan over rows that have one of the values in a column, if its table is one to ask."""
        if values is None:
            return q
        match q:
            case Scan() if not self.known(q):
                own = {f.name: f.source for f in q.fields}
                texts = {f.name for f in q.fields if f.type == "string"}
                only = frozenset((own[c], text) for c, text in only if c in texts)
                return self._asked(LookUp(q, own[column], values, nulls, only))
            # U4
            case Filter():
                only |= _texts(q.predicate)
                return _over(q, self._within(q.child, column, values, nulls=nulls, only=only))
            case Restrict():
                child = self._within(q.child, column, values, nulls=nulls, only=only)
                return _over(q, child, q.by.rel)
            case Project():
                below = {o.name: o.value.column for o in q.outputs if o.value.column}
                if column not in below:
                    return q
                only = frozenset((below[c], text) for c, text in only if c in below)
                child = self._within(q.child, below[column], values, nulls=nulls, only=only)
                return _over(q, child)
            case _:
                return q

    def _asked(self, wanted: LookUp) -> Scan:
        leaf = wanted.leaf
        if leaf in self.wanted or not self.worth(wanted):
            return leaf
        place = replace(leaf, table=f"{len(self.wanted)} {leaf.table}", at=_NOT_YET)
        self.wanted[place] = wanted
        return place


_NOT_YET = -1
"""A version that no table has: the leaf stands for rows that are being looked up."""


R = TypeVar("R", bound=Rel)


def _over(q: R, *new: Rel) -> R:
    """The node over other children; itself over its own, so that shared plans stay shared."""
    same = all(a is b for a, b in zip(children(q), new, strict=True))
    return q if same else cast(R, with_children(q, new))


def _texts(predicate: Scalar) -> Texts:
    """The columns that must have a text, and the texts.

    >>> from belvedere.algebra.scalars import col, equal, every, lit
    >>> sorted(_texts(every([equal(col("a"), lit("x")), equal(lit("y"), col("b"))])))
    [('a', 'x'), ('b', 'y')]
    >>> sorted(_texts(equal(col("a"), lit(1))))
    []
    """
    sides = (
        (c.expr.this, c.expr.expression) for c in predicate.conjuncts if isinstance(c.expr, exp.EQ)
    )
    return frozenset(
        (a.name, b.this)
        for pair in sides
        for a, b in (pair, pair[::-1])
        if isinstance(a, exp.Column) and isinstance(b, exp.Literal) and b.is_string
    )
