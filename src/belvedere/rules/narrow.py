"""Narrow: large tables are read within the spans of the keys that the changes have.

    N1  L ⋈ R on l = r       R = σ(r in spans of l)(R), and the other way round
    N2  L ⋉ R, L ▷ R, L ⟕ R  the right side likewise; of ⋉ the left too
    N3  K(Q)                 Q = σ(k in spans of K's k, or NULL)(Q)

The spans of a column are those of the change it comes from: known before anything runs, for the
change is. They let files and row groups be skipped; rows outside of them have no partner. Where
they cover most of the table they would skip nothing, and are left out: Spark compiles a query
anew for every number in it.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from belvedere.algebra.relations import (
    Change,
    Empty,
    Filter,
    Join,
    JoinKind,
    Rel,
    Restrict,
)
from belvedere.algebra.scalars import Scalar, col, every, lit
from belvedere.algebra.types import parse
from belvedere.algebra.walks import bottom_up
from belvedere.analyses.equalities import equalities
from belvedere.analyses.origins import origin
from belvedere.analyses.sizes import Statistics
from belvedere.analyses.spans import Bound, Range, Spans, together, width
from belvedere.analyses.values import sources

WORTH = 0.75
"""The part of a table's values above which spans are not worth their numbers."""


def narrowed(q: Rel, known: Statistics) -> Rel:
    """The plan with its large sides filtered to the spans of the changes they meet."""
    return bottom_up(q, _Narrow(known).node) if known.changed_within else q


@dataclass(frozen=True)
class _Narrow:
    known: Statistics

    def node(self, q: Rel) -> Rel:
        match q:
            case Join(kind=JoinKind.INNER | JoinKind.SEMI):
                q = replace(q, right=self._within(q.right, self._met(q, q.left, q.right)))
                return replace(q, left=self._within(q.left, self._met(q, q.right, q.left)))
            case Join(kind=JoinKind.ANTI | JoinKind.LEFT):
                return replace(q, right=self._within(q.right, self._met(q, q.left, q.right)))
            case Restrict():
                return self._restricted(q)
            case _:
                return q

    def _met(self, q: Join, known: Rel, other: Rel) -> dict[str, Spans]:
        """The spans of columns of one side that equal columns of the other, where that has none."""
        pairs = equalities(q)
        if known is q.right:
            pairs = tuple((b, a) for a, b in pairs)
        found = {b: self.of(known, a) for a, b in pairs}
        return {b: at for b, at in found.items() if at is not None and self._pays(other, b, at)}

    def _pays(self, q: Rel, column: str, at: Spans) -> bool:
        """Whether spans leave out rows of a plan that has none of its own."""
        place = origin(q, column)
        if place is None or self.of(q, column) is not None:
            return False
        if place.type != "date" and not parse(place.type).is_integer:
            return False
        bounds = self.known.bounds.get((place.table, place.column))
        return bounds is None or width(at) <= WORTH * width([bounds])

    def _within(self, q: Rel, found: Mapping[str, Spans]) -> Rel:
        if not found or isinstance(q, Empty):
            return q
        return Filter(q, every(_between(col(c), at) for c, at in found.items()))

    def _restricted(self, q: Restrict) -> Rel:
        parts = []
        for k, key in zip(q.key, q.among.columns, strict=True):
            at = self.of(q.among, key)
            if at is not None and self._pays(q.child, k, at):
                null = exp.Is(this=col(k).expr, expression=exp.null())
                parts.append(Scalar(exp.or_(_between(col(k), at).expr, null)))
        return replace(q, child=Filter(q.child, every(parts))) if parts else q

    def of(self, q: Rel, column: str) -> Spans | None:
        """The spans of the values of a column that are not NULL, if it comes from changes."""
        places = sources(q, column, lambda leaf: isinstance(leaf, Change))
        found = [self.known.changed_within.get(place) for place in places or ()]
        known = [spans for spans in found if spans is not None]
        if not known or len(known) < len(found):
            return None
        # One column has one type.
        return together(at for spans in known for at in spans)


def _between(value: Scalar, spans: Spans) -> Scalar:
    return Scalar(exp.or_(*(_in(value, at) for at in spans)))


def _in(value: Scalar, at: Range) -> exp.Expr:
    low, high = (_literal(b).expr for b in at)
    least = exp.GTE(this=value.expr.copy(), expression=low)
    return exp.and_(least, exp.LTE(this=value.expr.copy(), expression=high))


def _literal(bound: Bound) -> Scalar:
    if isinstance(bound, datetime.date):
        return Scalar(exp.cast(lit(bound.isoformat()).expr, "date"))
    return lit(bound)
