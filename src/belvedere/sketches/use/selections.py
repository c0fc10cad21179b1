"""Selections pushed into the read of a table's changes (IMP §9.4.2).

    ΔQ(R, S) = ΔQ(σ_p(R), S)    if every row of R that Q can use satisfies p

Rows that no sketch of a call can use are dropped before changes are netted. Only comparisons of columns
with each other and with constants are pushed: they raise no error for a row that another condition
would have excluded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sqlglot import exp

from belvedere.algebra.relations import Rel
from belvedere.algebra.scalars import Scalar, every
from belvedere.lake.offline import ReadableLake
from belvedere.sketches.capture.blocks import feed_block, sketch_block
from belvedere.sketches.definition import SketchDefinition
from belvedere.sketches.live import plan_of

_COMPARISONS = (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.EQ, exp.NEQ, exp.Between, exp.In, exp.Is)
_OPERANDS = (exp.Column, exp.Identifier, exp.Literal, exp.Null, exp.Boolean, exp.Neg, exp.Paren)


class Selections:
    """The selections of sketches by table; the feeds of each sketch are computed once."""

    def __init__(self, lake: ReadableLake) -> None:
        self._lake = lake
        self._feeds: dict[str, list[Rel]] = {}

    def of(self, definitions: Iterable[SketchDefinition], table: str) -> Scalar | None:
        """A condition that every row satisfies that a sketch can use; None if a sketch may use any row."""
        selections = [
            selection(feed, table)
            for d in definitions
            if table in d.reads and not d.kept and not d.retired
            for feed in self._of(d)
        ]
        return any_of(selections)

    def forget(self, definition: SketchDefinition) -> None:
        """Compute the feeds of a sketch again: the columns of its tables are others."""
        self._feeds.pop(definition.id, None)

    def _of(self, definition: SketchDefinition) -> list[Rel]:
        if definition.id not in self._feeds:
            q = plan_of(self._lake, definition.query)
            self._feeds[definition.id] = [
                f.plan for f in sketch_block(q, definition.partitions).feeds
            ]
        return self._feeds[definition.id]


def selection(feed: Rel, table: str) -> tuple[Scalar, ...]:
    """The conditions, in a table's own columns, on the rows of it that a feed can use."""
    block = feed_block(feed)
    positions = [block.positions[p] for p in block.at(table)]
    if len(positions) != 1:
        return ()
    sources = {f.name: f.source for f in positions[0].fields}
    own = (c.rename(sources) for c in positions[0].conjuncts if _cannot_fail(c.expr))
    return tuple({str(c): c for c in own}.values())


def any_of(selections: Collection[tuple[Scalar, ...]]) -> Scalar | None:
    """One of several selections; None if one of them admits every row."""
    if not selections or not all(selections):
        return None
    parts = {str(s): s for s in map(every, selections)}
    return Scalar(exp.or_(*(s.expr.copy() for s in parts.values())))


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
