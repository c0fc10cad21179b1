"""Where all values of a column come from: columns of given leaves, such as the changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from belvedere.algebra.relations import (
    Aggregate,
    Change,
    Distinct,
    Empty,
    Except,
    Filter,
    Intersect,
    Join,
    JoinKind,
    Negate,
    Net,
    Project,
    Rel,
    Restrict,
    Scan,
    Support,
    TopK,
    Union,
    Unsigned,
    Window,
)
from belvedere.analyses.equalities import equalities
from belvedere.analyses.sizes import Column

Sources: TypeAlias = frozenset[Column]
Known: TypeAlias = Callable[[Scan | Change], bool]


def sources(q: Rel, column: str, known: Known) -> Sources | None:
    """Columns of known leaves that have every value of a column but NULL; None if there are none."""
    match q:
        case Scan() | Change():
            source = next(f.source for f in q.fields if f.name == column)
            return frozenset({(q.table, source)}) if known(q) else None
        case Project():
            value = next(o.value for o in q.outputs if o.name == column)
            return sources(q.child, value.column, known) if value.column else None
        case Union():
            place = q.columns.index(column)
            some = (c for c in q.children if not isinstance(c, Empty))
            return _all(sources(c, c.columns[place], known) for c in some)
        case Aggregate():
            return sources(q.child, column, known) if column in q.keys else None
        case Window():
            return sources(q.child, column, known) if column in q.child.columns else None
        case Filter() | Distinct() | Support() | Unsigned() | Net() | Negate() | TopK():
            return sources(q.child, column, known)
        case Restrict():
            keys = dict(zip(q.key, q.among.columns, strict=True))
            by = sources(q.among, keys[column], known) if column in keys else None
            return by or sources(q.child, column, known)
        case Join():
            return _joined(q, column, known)
        case Empty() | Except() | Intersect():
            return None


def _joined(q: Join, column: str, known: Known) -> Sources | None:
    if q.kind is JoinKind.FULL:
        return None
    own, other = (q.left, q.right) if column in q.left.columns else (q.right, q.left)
    found = sources(own, column, known)
    if found is not None or q.kind not in (JoinKind.INNER, JoinKind.SEMI):
        return found
    partners = (b if column == a else a for a, b in equalities(q) if column in (a, b))
    of_partners = (sources(other, partner, known) for partner in partners)
    return next((found for found in of_partners if found is not None), None)


def _all(parts: Iterable[Sources | None]) -> Sources | None:
    found = list(parts)
    known = [part for part in found if part is not None]
    return frozenset().union(*known) if known and len(known) == len(found) else None
