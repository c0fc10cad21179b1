"""Where a plan's column comes from: the table column it is, untouched on its way up."""

from __future__ import annotations

from dataclasses import dataclass

from belvedere.algebra.relations import (
    Aggregate,
    Change,
    Distinct,
    Empty,
    Except,
    Filter,
    Intersect,
    Join,
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
from belvedere.algebra.walks import children


@dataclass(frozen=True)
class Origin:
    """A column of a table."""

    table: str
    column: str
    type: str


def origin(q: Rel, column: str) -> Origin | None:
    """The table column that a plan's column is; None if it is computed.

    Of a union it is the first one's: the others have its type, or none is.
    """
    match q:
        case Scan() | Change():
            found = next((f for f in q.fields if f.name == column), None)
            return None if found is None else Origin(q.table, found.source, found.type)
        case Project():
            value = next((o.value for o in q.outputs if o.name == column), None)
            return origin(q.child, value.column) if value is not None and value.column else None
        case Aggregate() if column not in q.keys:
            return None
        case Distinct() | Restrict() | Negate() | Net() | Support() | Unsigned() | TopK():
            return origin(q.child, column)
        case Aggregate() | Filter() | Window() | Join():
            below = (c for c in children(q) if column in c.columns)
            return next((o for o in (origin(c, column) for c in below) if o), None)
        case Union():
            return _agreed(q, column)
        case Except() | Intersect() | Empty():
            return None


def _agreed(q: Union, column: str) -> Origin | None:
    place = q.columns.index(column)
    some = [c for c in q.children if not isinstance(c, Empty)]
    found = [origin(c, c.columns[place]) for c in some]
    known = [o for o in found if o is not None]
    alike = len(known) == len(found) and len({o.type for o in known}) == 1
    return known[0] if alike else None
