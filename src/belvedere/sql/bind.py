"""Bind: SQL text to a plan of the algebra, checked against the catalog's schemas."""

from __future__ import annotations

from dataclasses import dataclass

from belvedere.algebra.relations import Rel
from belvedere.errors import Invalid
from belvedere.sql.context import Catalog, Context, Env, Query, Relation
from belvedere.sql.expressions import refuse_hidden
from belvedere.sql.parse import parse_query
from belvedere.sql.prune import pruned
from belvedere.sql.queries import bind_query
from belvedere.sql.reduce import reduced

__all__ = ["Bound", "Catalog", "Relation", "bind"]


@dataclass(frozen=True)
class Bound:
    """A definition as a plan: each shown name beside the plan column it names, in order."""

    plan: Rel
    columns: tuple[tuple[str, str], ...]
    notes: tuple[str, ...] = ()


def bind(text: str, catalog: Catalog) -> Bound:
    """The plan of a query's text."""
    ctx = Context(text, catalog, bind_query)
    query = bind_query(ctx, parse_query(text), Env())
    _check_names(query)
    query = ctx.close(query)
    columns = tuple((i.name, i.value.column or "") for i in query.items)
    return Bound(reduced(pruned(query.plan), ctx.names), columns, tuple(ctx.notes))


def _check_names(query: Query) -> None:
    seen: set[str] = set()
    for item in query.items:
        refuse_hidden(item.name, "in the SELECT list")
        if item.name.lower() in seen:
            raise Invalid(
                f"two columns are named {item.name!r}",
                hint="give one of them another name with AS",
            )
        seen.add(item.name.lower())
