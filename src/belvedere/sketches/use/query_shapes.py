"""Query shapes: queries in a form in which two that differ only in constants can be compared (IMP §10.4).

    shape = tables, conditions on rows (WHERE, ON), the group's key, conditions on groups (HAVING),
            the order and the limit; all in terms of the columns of the tables

The shown columns do not decide which rows an answer comes from, so a shape leaves them out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from belvedere.algebra.relations import Aggregate, Filter, Order, Project, Rel, TopK
from belvedere.algebra.scalars import Scalar, col
from belvedere.joins.normal_form import Acceptance, JoinBlock, join_block


@dataclass(frozen=True)
class QueryShape:
    """A query without its shown columns; a column of a position is named `position.column`."""

    tables: tuple[str, ...]
    """The table of each position."""
    rows: tuple[Scalar, ...]
    keys: frozenset[str] | None
    """None where there is no aggregate."""
    groups: tuple[Scalar, ...]
    order: tuple[tuple[str, bool, bool], ...]
    limit: int | None
    aggregate: Aggregate | None
    own: tuple[Scalar, ...]
    """The conditions on groups in the aggregate's own columns."""
    text: str
    """The whole plan of a query that has no such form; empty for any other."""
    types: Mapping[str, str] = field(default_factory=dict)
    """The types of the columns that conditions name."""


def query_shape(q: Rel) -> QueryShape:
    """The shape of a query; a query of another form has its own plan as its shape."""
    try:
        return _shape(q)
    except _OtherForm:
        # Printed SQL would not do: a column named `true` and the constant have one text.
        return QueryShape((), (), None, (), (), None, None, (), repr(q))


class _OtherForm(Exception):
    """A query that is no aggregate, filter or sort over a join block."""


def _shape(q: Rel) -> QueryShape:
    top, order, limit = q, list[Order](), None
    while isinstance(top, Project):
        top = top.child
    if isinstance(top, TopK):
        order, limit, top = list(top.order), top.offset + top.limit, top.child
    else:
        top = q
    conditions, node, sort_keys = list[Scalar](), top, [col(o.column) for o in order]
    while isinstance(node, Filter | Project):
        if isinstance(node, Project):
            values = {o.name: o.value for o in node.outputs}
            conditions = [c.substitute(values) for c in conditions]
            sort_keys = [k.substitute(values) for k in sort_keys]
        else:
            conditions += node.predicate.conjuncts
        node = node.child
    aggregate = node if isinstance(node, Aggregate) else None
    core = node if aggregate is None else aggregate.child
    block = join_block(core, [(c, c) for c in core.columns], Acceptance(lambda _: _OtherForm()))
    by_position = {c: col(_name(*ref)) for c, ref in block.refs.items()}
    names = {c: value.substitute(by_position) for c, value in block.outputs}
    keys = None
    if aggregate is not None:
        keys = frozenset(str(names[k]) for k in aggregate.keys)
        calls = {a.name: Scalar(a.call.substitute(names).expr) for a in aggregate.aggregates}
        names = {**{k: names[k] for k in aggregate.keys}, **calls}
    above = tuple(c.substitute(names) for c in conditions)
    rows = tuple(c.substitute(by_position) for c in _conjuncts(block))
    sorts = tuple(
        (str(k.substitute(names)), o.descending, o.nulls_first)
        for k, o in zip(sort_keys, order, strict=True)
    )
    return QueryShape(
        tuple(p.table for p in block.positions),
        rows if aggregate else (*rows, *above),
        keys,
        above if aggregate else (),
        sorts,
        limit,
        aggregate,
        tuple(conditions) if aggregate else (),
        "",
        {_name(*block.refs[c]): kind for c, kind in block.types.items()},
    )


def _name(position: int, column: str) -> str:
    return f"{position}.{column.lower()}"


def _conjuncts(block: JoinBlock) -> list[Scalar]:
    """All conditions of a block."""
    own = [c for position in block.positions for c in position.conjuncts]
    return [*own, *(c.scalar for c in block.conditions), *block.constants]
