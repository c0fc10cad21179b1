"""Look-ups: of a large table, the rows whose key is among values that are known.

    U1  L ⋈ R on l = r       R's table T = σ(r ∈ V)(T)            V ⊇ the values of l
    U2  L ⋉ R, L ▷ R, L ⟕ R  the right side likewise; of ⋈ and ⋉ the left too; T may be
                             joined with others there, as long as it is not padded
    U3  K(Q)                 Q's table T = σ(k ∈ V, or NULL)(T)   V ⊇ the values of K's k
    U4  σ(a = 'text')(T)     of these, the rows that have the text
    U5  min(x)(Q), ≥ m       Q's table T = the first rows of σ(x ≥ m)(T) by x, if Q has any then;
                             of max(x) the last (`leaf_of` and `onto`)

V is all that a change, or rows that were looked up before, have in the column that l comes from:
at hand before anything runs, and perhaps more than l has, so that the join stays. What is found
stands for T at that place of the plan, and tells the values for the next look-up. Where a table
is tied by several columns, the one with the fewest values is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import TypeAlias, TypeVar, cast

from sqlglot import exp

from belvedere.algebra.relations import (
    Filter,
    Join,
    JoinKind,
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


Values: TypeAlias = Callable[[LookUp], float]
"""How many values a look-up is by; endless if it is not worth it."""


def look_ups(q: Rel, known: Known, values: Values) -> tuple[Rel, dict[Scan, LookUp]]:
    """What can be looked up now and is worth it, and the plan with leaves to be filled in."""
    places = _Places(known, values)
    return bottom_up(q, places.node), places.wanted


def filled(q: Rel, found: Mapping[Scan, Rel]) -> Rel:
    """The plan with what was found in its places."""
    return bottom_up(q, lambda leaf: found.get(leaf, leaf) if isinstance(leaf, Scan) else leaf)


@dataclass
class _Places:
    known: Known
    values: Values
    wanted: dict[Scan, LookUp] = field(default_factory=dict)

    def node(self, q: Rel) -> Rel:
        match q:
            # U1, U2
            case Join(kind=JoinKind.INNER | JoinKind.SEMI | JoinKind.ANTI | JoinKind.LEFT):
                pairs = equalities(q)
                right = ((r, self._leaf(q.right, r, self._of(q.left, a))) for a, r in pairs)
                q = _over(q, q.left, self._within(q.right, right))
                if q.kind in (JoinKind.INNER, JoinKind.SEMI):
                    left = ((a, self._leaf(q.left, a, self._of(q.right, r))) for a, r in pairs)
                    q = _over(q, self._within(q.left, left), q.right)
                return q
            # U3
            case Restrict():
                keys = zip(q.key, q.among.columns, strict=True)
                asked = (
                    (k, self._leaf(q.child, k, self._of(q.among, by), nulls=True)) for k, by in keys
                )
                return _over(q, self._within(q.child, asked), q.among)
            case _:
                return q

    def _of(self, q: Rel, column: str) -> Sources | None:
        return sources(q, column, self.known)

    def _leaf(
        self,
        q: Rel,
        column: str,
        values: Sources | None,
        *,
        nulls: bool = False,
        only: Texts = frozenset(),
    ) -> LookUp | None:
        """What to look up for rows that have one of the values in a column, if there is a table."""
        if values is None:
            return None
        match q:
            case Scan() if not self.known(q) and q not in self.wanted:
                own = {f.name: f.source for f in q.fields}
                texts = {f.name for f in q.fields if f.type == "string"}
                only = frozenset((own[c], text) for c, text in only if c in texts)
                return LookUp(q, own[column], values, nulls, only)
            # U4
            case Filter():
                only |= _texts(q.predicate)
                return self._leaf(q.child, column, values, nulls=nulls, only=only)
            case Restrict():
                return self._leaf(q.child, column, values, nulls=nulls, only=only)
            case Project():
                below = {o.name: o.value.column for o in q.outputs if o.value.column}
                if column not in below:
                    return None
                only = frozenset((below[c], text) for c, text in only if c in below)
                return self._leaf(q.child, below[column], values, nulls=nulls, only=only)
            case Join() if (side := _owner(q, column)) is not None:
                only = frozenset((c, text) for c, text in only if c in side.columns)
                return self._leaf(side, column, values, nulls=nulls, only=only)
            case _:
                return None

    def _within(self, q: Rel, asked: Iterable[tuple[str, LookUp | None]]) -> Rel:
        """The plan over what the best of some look-ups, each by a column of it, will find."""
        found = [(column, a) for column, a in asked if a is not None]
        column, best = min(found, key=lambda one: self.values(one[1]), default=("", None))
        if best is None or self.values(best) == inf:
            return q
        place = replace(best.leaf, table=f"{len(self.wanted)} {best.leaf.table}", at=_NOT_YET)
        self.wanted[place] = best
        return onto(q, column, place)


def _owner(q: Join, column: str) -> Rel | None:
    """The side of a join that a column comes from, unless it is padded."""
    if column in q.left.columns:
        return None if q.kind is JoinKind.FULL else q.left
    return q.right if q.kind is JoinKind.INNER else None


def leaf_of(q: Rel, column: str) -> tuple[Scan, str] | None:
    """The leaf whose rows a column picks, and its column there: σ(column)(Q) is Q over σ(T)."""
    match q:
        case Scan():
            return q, next(f.source for f in q.fields if f.name == column)
        case Filter() | Restrict():
            return leaf_of(q.child, column)
        case Project():
            (value,) = (o.value for o in q.outputs if o.name == column)
            return leaf_of(q.child, value.column) if value.column else None
        case Join() if (side := _owner(q, column)) is not None:
            return leaf_of(side, column)
        case _:
            return None


def onto(q: Rel, column: str, place: Scan) -> Rel:
    """The plan over another leaf, where a column comes from."""
    match q:
        case Filter():
            return _over(q, onto(q.child, column, place))
        case Project():
            (below,) = (o.value.column for o in q.outputs if o.name == column)
            return _over(q, onto(q.child, below or "", place))
        case Restrict():
            return _over(q, onto(q.child, column, place), q.among)
        case Join() if _owner(q, column) is q.left:
            return _over(q, onto(q.left, column, place), q.right)
        case Join():
            return _over(q, q.left, onto(q.right, column, place))
        case _:
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
