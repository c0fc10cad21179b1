"""Look-ups: of a large table, the rows whose key is among values that are known.

    U1  L ⋈ R on l = r       R's table T = σ(r ∈ V)(T)            V ⊇ the values of l
    U2  L ⋉ R, L ▷ R, L ⟕ R  the right side likewise; of ⋈ and ⋉ the left too
    U3  K(Q)                 Q's table T = σ(k ∈ V, or NULL)(T)   V ⊇ the values of K's k

V is all that a change, or rows that were looked up before, have in the column that l comes from:
at hand before anything runs, and perhaps more than l has, so that the join stays. What is found
stands for T at that place of the plan, and tells the values for the next look-up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias, TypeVar, cast

from belvedere.algebra.relations import (
    Field,
    Filter,
    Join,
    Kind,
    Project,
    Rel,
    Restrict,
    Scan,
)
from belvedere.algebra.walks import bottom_up, children, with_children
from belvedere.analyses.equalities import equalities
from belvedere.analyses.values import Known, Sources, sources


@dataclass(frozen=True)
class LookUp:
    """The rows of a table whose column has a value that one of the sources has."""

    leaf: Scan
    column: str
    """As the table names it."""
    sources: Sources
    nulls: bool
    """Whether rows with NULL there are wanted too."""


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

    def _within(self, q: Rel, column: str, values: Sources | None, *, nulls: bool) -> Rel:
        """The plan over rows that have one of the values in a column, if its table is one to ask."""
        if values is None:
            return q
        match q:
            case Scan() if not self.known(q):
                return self._asked(q, _source(q.fields, column), values, nulls=nulls)
            case Filter():
                return _over(q, self._within(q.child, column, values, nulls=nulls))
            case Restrict():
                return _over(q, self._within(q.child, column, values, nulls=nulls), q.by.rel)
            case Project():
                below = next(o.value for o in q.outputs if o.name == column).column
                if below is None:
                    return q
                return _over(q, self._within(q.child, below, values, nulls=nulls))
            case _:
                return q

    def _asked(self, leaf: Scan, column: str, values: Sources, *, nulls: bool) -> Scan:
        wanted = LookUp(leaf, column, values, nulls)
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


def _source(fields: tuple[Field, ...], column: str) -> str:
    return next(f.source for f in fields if f.name == column)
