"""How many rows a plan has, about: from the sizes of tables and changes, before anything runs.

    σ, Π, ▷          at most those of the child, of the left side
    L ⋈ R on l = r   |L|·|R| / the lesser number of values that l and r have in their tables:
                     a foreign key has no more values than the key it refers to
    L ⟕ R            that, and at least |L|
    L ⋉ R, K(L)      that, and at most |L|

The number of values of a column is bounded by its range, of integers and dates, and by the rows
of its table. What is not known is taken to be endless: then nothing relies on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
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
from belvedere.analyses.origins import origin
from belvedere.analyses.spans import Range, Spans, width

Column: TypeAlias = tuple[str, str]
"""A table and one of its columns."""


@dataclass(frozen=True)
class Statistics:
    """What is known of tables and their changes without reading them."""

    rows: Mapping[str, float] = field(default_factory=dict)
    """Of each table."""
    changed: Mapping[str, float] = field(default_factory=dict)
    """Rows of each table's change."""
    passed: Mapping[str, float] = field(default_factory=dict)
    """Rows of files that Spark goes through to read a change, of tables whose change it reads."""
    values: Mapping[Column, float] = field(default_factory=dict)
    """How many values a column has in the table that it comes from, of what is not a table."""
    bounds: Mapping[Column, Range] = field(default_factory=dict)
    """Within which the values of each table lie, of integers and dates."""
    changed_within: Mapping[Column, Spans] = field(default_factory=dict)
    """Within which those of the rows that changed lie."""


NOTHING_KNOWN = Statistics()


class Sizes:
    """The sizes of plans over tables of some statistics; each is estimated once."""

    def __init__(self, statistics: Statistics) -> None:
        self.known = statistics
        self._memo: dict[int, tuple[Rel, float]] = {}

    def rows(self, q: Rel) -> float:
        """About how many rows a plan has; infinite if that is unknown."""
        if id(q) not in self._memo:
            self._memo[id(q)] = q, self._rows(q)  # an id is only good while its object lives
        return self._memo[id(q)][1]

    def _rows(self, q: Rel) -> float:
        match q:
            case Scan():
                return self.known.rows.get(q.table, inf)
            case Change():
                return self.known.changed.get(q.table, inf)
            case Filter() | Project() | Negate() | Net() | Support() | Unsigned():
                return self.rows(q.child)
            case Distinct() | Window():
                return self.rows(q.child)
            case Aggregate():
                return self.rows(q.child) if q.keys else 1
            case TopK():
                return min(self.rows(q.child), q.limit)
            case Union():
                return sum(self.rows(c) for c in q.children)
            case Except() | Intersect():
                return self.rows(q.left)
            case Restrict():
                pairs = zip(q.key, q.among.columns, strict=True)
                return min(self.rows(q.child), self._matched(q.child, q.among, pairs))
            case Join():
                return self._joined(q)
            case Empty():
                return 0

    def _joined(self, q: Join) -> float:
        left, right = self.rows(q.left), self.rows(q.right)
        matched = self._matched(q.left, q.right, equalities(q))
        match q.kind:
            case JoinKind.SEMI:
                return min(left, matched)
            case JoinKind.ANTI:
                return left
            case JoinKind.INNER:
                return matched
            case JoinKind.LEFT:
                return max(matched, left)
            case JoinKind.FULL:
                return max(matched, left) + right

    def _matched(self, left: Rel, right: Rel, pairs: Iterable[tuple[str, str]]) -> float:
        """The rows of an inner join on the equality of pairs of columns."""
        ways = [min(self.values(left, a), self.values(right, b)) for a, b in pairs]
        product = _times(self.rows(left), self.rows(right))
        return product / max(ways, default=1) if product < inf else inf

    def groups(self, q: Aggregate) -> float:
        """About how many groups there are: at most the combinations of the values of the keys."""
        ways = 1.0
        for key in q.keys:
            ways *= self.values(q.child, key) if origin(q.child, key) else inf
        return min(ways, self.rows(q.child))

    def values(self, q: Rel, column: str) -> float:
        """About how many values a column has in the table it comes from; 1 if that is unknown."""
        found = origin(q, column)
        if found is None:
            return 1
        if (found.table, found.column) in self.known.values:
            return self.known.values[found.table, found.column]
        rows = self.known.rows.get(found.table, 1)
        bounds = self.known.bounds.get((found.table, found.column))
        # Text and the like: keys more often than not, but names of few things too.
        return max(1, rows**0.75 if bounds is None else min(rows, width([bounds])))


def _times(a: float, b: float) -> float:
    return 0 if 0 in (a, b) else a * b
