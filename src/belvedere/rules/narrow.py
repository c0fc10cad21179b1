"""Narrow: large tables are read within the range of the keys that the changes have.

    N1  L ⋈ R on l = r       R = σ(r in range of l)(R), and the other way round
    N2  L ⋉ R, L ▷ R, L ⟕ R  the right side likewise; of ⋉ the left too
    N3  K(Q)                 Q = σ(k in range of K's k, or NULL)(Q)

The range of a column is that of the change it comes from: known before anything runs, for the
change is. A range costs nothing and lets files and row groups be skipped; rows outside of it
have no partner.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from sqlglot import exp

from belvedere.algebra.relations import (
    Aggregate,
    Change,
    Distinct,
    Empty,
    Except,
    Filter,
    Intersect,
    Join,
    Kind,
    Negate,
    Net,
    Project,
    Rel,
    Restrict,
    Scan,
    Support,
    TopK,
    Union,
    Window,
)
from belvedere.algebra.scalars import Scalar, col, every, lit
from belvedere.algebra.walks import bottom_up
from belvedere.analyses.floats import INTEGERS

Bound: TypeAlias = int | datetime.date
Range: TypeAlias = tuple[Bound, Bound]
Ranges: TypeAlias = Mapping[tuple[str, str], Range]
"""By table and column: the least and the greatest value among the rows that changed."""


def narrowed(q: Rel, ranges: Ranges) -> Rel:
    """The plan with its large sides filtered to the ranges of the changes they meet."""
    return bottom_up(q, _Narrow(ranges).node) if ranges else q


@dataclass(frozen=True)
class _Narrow:
    ranges: Ranges

    def node(self, q: Rel) -> Rel:
        match q:
            case Join(kind=Kind.INNER | Kind.SEMI):
                q = replace(q, right=self._within(q.right, self._met(q, q.left, q.right)))
                return replace(q, left=self._within(q.left, self._met(q, q.right, q.left)))
            case Join(kind=Kind.ANTI | Kind.LEFT):
                return replace(q, right=self._within(q.right, self._met(q, q.left, q.right)))
            case Restrict():
                return self._restricted(q)
            case _:
                return q

    def _met(self, q: Join, known: Rel, other: Rel) -> dict[str, Range]:
        """The ranges of columns of one side that equal columns of the other, where that has none."""
        found = {}
        for part in q.on.conjuncts:
            sides = _columns(part)
            if sides is None:
                continue
            a, b = sides if sides[0] in known.columns else sides[::-1]
            if a not in known.columns or b not in other.columns:
                continue
            at = self.of(known, a)
            if at is not None and self.of(other, b) is None and _comparable(other, b, at):
                found[b] = at
        return found

    def _within(self, q: Rel, found: Mapping[str, Range]) -> Rel:
        if not found or isinstance(q, Empty):
            return q
        return Filter(q, every(_between(col(c), at) for c, at in found.items()))

    def _restricted(self, q: Restrict) -> Rel:
        parts = []
        for k, key in zip(q.key, q.by.rel.columns, strict=True):
            at = self.of(q.by.rel, key)
            if at is not None and self.of(q.child, k) is None and _comparable(q.child, k, at):
                null = exp.Is(this=col(k).expr, expression=exp.null())
                parts.append(Scalar(exp.or_(_between(col(k), at).expr, null)))
        return replace(q, child=Filter(q.child, every(parts))) if parts else q

    def of(self, q: Rel, column: str) -> Range | None:
        """The range of the values of a column that are not NULL, if it comes from a change."""
        match q:
            case Change():
                source = next(f.source for f in q.fields if f.name == column)
                return self.ranges.get((q.table, source))
            case Project():
                value = next(o.value for o in q.outputs if o.name == column)
                return self.of(q.child, value.column) if value.column else None
            case Union():
                return self._hull(q, column)
            case Aggregate():
                return self.of(q.child, column) if column in q.keys else None
            case Window():
                return self.of(q.child, column) if column in q.child.columns else None
            case Filter() | Distinct() | Support() | Net() | Negate() | TopK():
                return self.of(q.child, column)
            case Restrict():
                keys = dict(zip(q.key, q.by.rel.columns, strict=True))
                by = self.of(q.by.rel, keys[column]) if column in keys else None
                return by or self.of(q.child, column)
            case Join():
                return self._joined(q, column)
            case Scan() | Empty() | Except() | Intersect():
                return None

    def _joined(self, q: Join, column: str) -> Range | None:
        if q.kind is Kind.FULL:
            return None
        own, other = (q.left, q.right) if column in q.left.columns else (q.right, q.left)
        found = self.of(own, column)
        if found is not None or q.kind not in (Kind.INNER, Kind.SEMI):
            return found
        for part in q.on.conjuncts:
            sides = _columns(part)
            if sides is not None and column in sides:
                partner = sides[0] if sides[1] == column else sides[1]
                if partner in other.columns and (at := self.of(other, partner)) is not None:
                    return at
        return None

    def _hull(self, q: Union, column: str) -> Range | None:
        at = q.columns.index(column)
        found = [self.of(c, c.columns[at]) for c in q.children if not isinstance(c, Empty)]
        known = [r for r in found if r is not None]
        if not known or len(known) < len(found):
            return None
        # One column of a union has one type.
        return min(low for low, _ in known), max(high for _, high in known)


def _columns(part: Scalar) -> tuple[str, str] | None:
    """The two columns that a condition equates."""
    if not isinstance(part.expr, exp.EQ):
        return None
    a, b = part.expr.this, part.expr.expression
    return (a.name, b.name) if isinstance(a, exp.Column) and isinstance(b, exp.Column) else None


def _comparable(q: Rel, column: str, at: Range) -> bool:
    """Whether a column is of a table and of the range's type: nothing is converted to compare."""
    match q:
        case Scan():
            kind = next(f.type for f in q.fields if f.name == column)
            return kind == "date" if isinstance(at[0], datetime.date) else kind in INTEGERS
        case Project():
            value = next(o.value for o in q.outputs if o.name == column)
            return value.column is not None and _comparable(q.child, value.column, at)
        case Join():
            side = q.left if column in q.left.columns else q.right
            return _comparable(side, column, at)
        case Aggregate():
            return column in q.keys and _comparable(q.child, column, at)
        case Filter() | Distinct() | Support() | Negate() | Restrict():
            return _comparable(q.child, column, at)
        case _:
            return False


def _between(value: Scalar, at: Range) -> Scalar:
    low, high = (_literal(b).expr for b in at)
    least = exp.GTE(this=value.expr.copy(), expression=low)
    return Scalar(exp.and_(least, exp.LTE(this=value.expr.copy(), expression=high)))


def _literal(bound: Bound) -> Scalar:
    if isinstance(bound, datetime.date):
        return Scalar(exp.cast(lit(bound.isoformat()).expr, "date"))
    return lit(bound)
