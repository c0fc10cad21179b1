"""Selections pushed into the read of a table's changes (IMP §9.4.2).

    ΔQ(R, S) = ΔQ(σ_p(R), S)    if every row of R that Q can use satisfies p

A row that no sketch of a call can use is gone before changes are netted. Only comparisons of columns
with each other and with constants are pushed: they raise no error for rows that another condition
would have left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sqlglot import exp

from belvedere.algebra.relations import Filter, Join, Kind, Rel, Scan
from belvedere.algebra.scalars import Scalar, col, every
from belvedere.algebra.walks import nodes
from belvedere.analyses.origins import origin
from belvedere.lake.offline import ReadableLake
from belvedere.sketches.capture.blocks import block
from belvedere.sketches.definition import Definition
from belvedere.sketches.live import plan_of

_COMPARISONS = (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.EQ, exp.NEQ, exp.Between, exp.In, exp.Is)
_OPERANDS = (exp.Column, exp.Identifier, exp.Literal, exp.Null, exp.Boolean, exp.Neg, exp.Paren)


class Selections:
    """The selections of sketches by table, found once for each."""

    def __init__(self, lake: ReadableLake) -> None:
        self._lake = lake
        self._feeds: dict[str, list[Rel]] = {}

    def of(self, definitions: Iterable[Definition], table: str) -> Scalar | None:
        """What every row satisfies that one of the sketches can use; None if any may be used."""
        found = [
            selection(feed, table)
            for d in definitions
            if table in d.reads and not d.kept and not d.retired
            for feed in self._of(d)
        ]
        return any_of(found)

    def _of(self, definition: Definition) -> list[Rel]:
        if definition.id not in self._feeds:
            q = plan_of(self._lake, definition.query)
            self._feeds[definition.id] = [f.plan for f in block(q, definition.partitions).feeds]
        return self._feeds[definition.id]


def selection(feed: Rel, table: str) -> tuple[Scalar, ...]:
    """The conditions, in a table's own columns, on those of its rows that a feed can use."""
    if [n.table for n in nodes(feed) if isinstance(n, Scan)].count(table) > 1:
        return ()
    found: dict[str, Scalar] = {}
    for node in nodes(feed):
        match node:
            case Filter():
                conditions = node.predicate.conjuncts
            case Join(kind=Kind.INNER):
                conditions = node.on.conjuncts
            case _:
                continue
        for condition in conditions:
            own = _own(node, condition, table)
            if own is not None:
                found[str(own)] = own
    return tuple(found.values())


def any_of(selections: Collection[tuple[Scalar, ...]]) -> Scalar | None:
    """One of several selections; None if one of them admits every row."""
    if not selections or not all(selections):
        return None
    parts = {str(s): s for s in map(every, selections)}
    return Scalar(exp.or_(*(s.expr.copy() for s in parts.values())))


def _own(node: Rel, condition: Scalar, table: str) -> Scalar | None:
    """A condition in a table's own columns, if it is on them alone and cannot fail."""
    if not condition.columns or not _cannot_fail(condition.expr):
        return None
    below = [node.child] if isinstance(node, Filter) else [node.left, node.right]  # type: ignore[union-attr]
    names: dict[str, Scalar] = {}
    for column in condition.columns:
        side = next(q for q in below if column in q.columns)
        at = origin(side, column)
        if at is None or at.table != table:
            return None
        names[column] = col(at.column)
    return condition.substitute(names)


def _cannot_fail(e: exp.Expr) -> bool:
    if isinstance(e, exp.Not | exp.Paren):
        return _cannot_fail(e.this)
    if not isinstance(e, _COMPARISONS):
        return False
    return all(map(_is_plain, e.iter_expressions()))


def _is_plain(e: exp.Expr) -> bool:
    """A column or a constant."""
    if isinstance(e, exp.Cast):
        return e.to.is_type("date") and e.this.is_string
    return isinstance(e, _OPERANDS) and all(map(_is_plain, e.iter_expressions()))
