"""A bound query as positions under conjuncts: inner joins, filters and projections taken apart.

A position is one mention of a table in FROM. Subqueries and views of these operators dissolve into
theirs; what groups, sorts or pads rows is refused, for rows of it are not rows of a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from belvedere.algebra.relations import Field, Filter, Join, Kind, Project, Rel, Scan
from belvedere.algebra.scalars import Scalar, col
from belvedere.errors import Unsupported
from belvedere.sql.binder.bind import Catalog, bind_qualified


@dataclass(frozen=True)
class Position:
    """A mention of a table: the columns of it that the query reads, under names of their own."""

    table: str
    fields: tuple[Field, ...]

    @property
    def names(self) -> frozenset[str]:
        """The plan's names of its columns."""
        return frozenset(f.name for f in self.fields)


@dataclass(frozen=True)
class Region:
    """Positions, conjuncts over their columns, and what is shown."""

    positions: tuple[Position, ...]
    conjuncts: tuple[Scalar, ...]
    outputs: tuple[tuple[str, Scalar], ...]

    @property
    def types(self) -> dict[str, str]:
        """The types of all columns, in Spark's words."""
        return {f.name: f.type for p in self.positions for f in p.fields}


def region(text: str, catalog: Catalog) -> Region:
    """A query's text, taken apart."""
    bound = bind_qualified(text, catalog)
    positions, conjuncts, meaning = _apart(bound.plan)
    outputs = tuple((name, meaning[column]) for name, column in bound.columns)
    return Region(tuple(positions), tuple(conjuncts), outputs)


_Apart = tuple[list[Position], list[Scalar], Mapping[str, Scalar]]


def _apart(q: Rel) -> _Apart:
    match q:
        case Scan():
            return [Position(q.table, q.fields)], [], {c: col(c) for c in q.columns}
        case Filter():
            positions, conjuncts, meaning = _apart(q.child)
            mine = [p.substitute(meaning) for p in q.predicate.conjuncts]
            return positions, [*conjuncts, *mine], meaning
        case Project():
            positions, conjuncts, meaning = _apart(q.child)
            return positions, conjuncts, {o.name: o.value.substitute(meaning) for o in q.outputs}
        case Join(kind=Kind.INNER):
            left, right = _apart(q.left), _apart(q.right)
            meaning = {**left[2], **right[2]}
            mine = [p.substitute(meaning) for p in q.on.conjuncts]
            return left[0] + right[0], [*left[1], *right[1], *mine], meaning
        case _:
            what = f"{q.kind.value} join" if isinstance(q, Join) else type(q).__name__
            raise Unsupported(
                f"a synopsis over a query with {_spoken(what)}",
                detail="its rows are not combinations of rows of tables",
                hint="put that part into a materialized view and select from it",
                reason="SHAPE",
            )


def _spoken(what: str) -> str:
    words = {
        "Aggregate": "grouping or aggregates",
        "Distinct": "DISTINCT",
        "Union": "UNION",
        "TopK": "LIMIT",
        "Window": "window functions",
    }
    return words.get(what, f"a {what}" if "join" in what else what.upper())
