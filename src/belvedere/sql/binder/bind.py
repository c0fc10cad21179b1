"""Bind: SQL text to a plan of the algebra, checked against the catalog's schemas."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from sqlglot import exp

from belvedere.algebra.relations import Rel
from belvedere.errors import Invalid, Unsupported
from belvedere.sql.binder.clauses.from_clause import bind_from
from belvedere.sql.binder.clauses.set_operations import bind_query, with_common
from belvedere.sql.binder.context import Catalog, Context, Env, Item, Query, Relation
from belvedere.sql.binder.expressions import refuse_hidden
from belvedere.sql.binder.prune import pruned
from belvedere.sql.binder.subqueries.reduce import reduced
from belvedere.sql.parse import parse_query

__all__ = ["Bound", "Catalog", "Relation", "bind", "bind_qualified"]


@dataclass(frozen=True)
class Bound:
    """A definition as a plan: each shown name beside the plan column it names, in order."""

    plan: Rel
    columns: tuple[tuple[str, str], ...]
    notes: tuple[str, ...] = ()


def bind(text: str, catalog: Catalog) -> Bound:
    """The plan of a query's text."""
    with _shallow():
        ctx = Context(text, catalog, bind_query)
        query = bind_query(ctx, parse_query(text), Env())
        return _bound(ctx, query)


def bind_qualified(text: str, catalog: Catalog) -> Bound:
    """The plan of a query's text where columns of one name get that of their table before it: c1.id, c2.id."""
    with _shallow():
        return _bind_qualified(text, catalog)


def _bind_qualified(text: str, catalog: Catalog) -> Bound:
    ctx = Context(text, catalog, bind_query)
    tree = parse_query(text)
    query = bind_query(ctx, tree, Env())
    names = [i.name.lower() for i in query.items]
    if isinstance(tree, exp.Select) and len(set(names)) < len(names):
        # FROM is bound first, so that a second binding gives its columns the same names.
        again = Context(text, catalog, bind_query)
        source = bind_from(again, tree, with_common(again, tree, Env()))
        owner = {v.column: ".".join(v.qualifier) for v in source.scope.columns}
        query = replace(query, items=tuple(_qualified(i, names, owner) for i in query.items))
    return _bound(ctx, query)


@contextmanager
def _shallow() -> Iterator[None]:
    """A query that nests deeper than Python's stack leaves this block as Unsupported."""
    try:
        yield
    except RecursionError:
        raise Unsupported(
            "the query nests too deeply",
            hint="split its longest expression: IN (…) for a chain of OR, a view below this one",
            reason="NESTING",
        ) from None


def _bound(ctx: Context, query: Query) -> Bound:
    _check_names(query)
    query = ctx.close(query)
    columns = tuple((i.name, i.value.column or "") for i in query.items)
    return Bound(reduced(pruned(query.plan), ctx.names), columns, tuple(ctx.notes))


def _qualified(item: Item, names: list[str], owner: dict[str, str]) -> Item:
    under = owner.get(item.value.column or "", "")
    if item.aliased or not under or names.count(item.name.lower()) == 1:
        return item
    return replace(item, name=f"{under}.{item.name}", aliased=True)


def _check_names(query: Query) -> None:
    seen: set[str] = set()
    for item in query.items:
        refuse_hidden(item.name, "in the SELECT list")
        if item.name.lower() in seen:
            raise Invalid(
                f"two columns are named {item.name!r}",
                hint="give one of them another name with AS",
                reason="DUPLICATE_COLUMN",
            )
        seen.add(item.name.lower())
