"""SELECT: the clauses of one query block, bound in the order SQL evaluates them.

FROM and WHERE, GROUP BY, HAVING, window functions, QUALIFY, DISTINCT, ORDER BY with LIMIT.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from sqlglot import exp

from belvedere.algebra.relations import Distinct
from belvedere.algebra.scalars import Scalar, col
from belvedere.errors import Invalid
from belvedere.sql.binder.clauses.from_clause import bind_from
from belvedere.sql.binder.clauses.group_by import Grouping
from belvedere.sql.binder.clauses.grouping_sets import Sets, listed, listed_before
from belvedere.sql.binder.clauses.order_by import (
    Sorted,
    directed,
    limit,
    over_distinct,
    sort_keys,
    top,
)
from belvedere.sql.binder.clauses.select_list import Chosen, choose, with_named_windows
from belvedere.sql.binder.clauses.windows import has_window, windowed
from belvedere.sql.binder.conjuncts import split
from belvedere.sql.binder.context import Context, Env, Item, Query
from belvedere.sql.binder.expressions import (
    Resolver,
    bare,
    has_aggregate,
    is_aggregate,
    refuse_time_windows,
    rewrite,
)
from belvedere.sql.binder.scopes import Scope
from belvedere.sql.binder.subqueries.correlation import equates, group_keys
from belvedere.sql.binder.subqueries.expressions import Place


@dataclass
class Block:
    """The expressions of a query block over its current plan, rewritten clause by clause."""

    place: Place
    items: list[Chosen]
    having: list[exp.Expr]
    qualify: list[exp.Expr]
    order: list[Sorted]

    def values(self) -> list[exp.Expr]:
        """Every expression evaluated after grouping."""
        shown = [i.value for i in self.items]
        return [*shown, *self.qualify, *(s.value for s in self.order)]

    def replace_values(self, new: list[exp.Expr]) -> None:
        """The same expressions, rewritten, in the order `values` gave them."""
        n, m = len(self.items), len(self.items) + len(self.qualify)
        self.items = [replace(i, value=v) for i, v in zip(self.items, new[:n], strict=True)]
        self.qualify = new[n:m]
        self.order = [replace(s, value=v) for s, v in zip(self.order, new[m:], strict=True)]


def bind_select(ctx: Context, select: exp.Select, env: Env) -> Query:
    """A query block as a plan with its items still to be projected."""
    _refuse(ctx, select)
    place = _from_where(ctx, select, env)
    block = _block(ctx, select, place)
    one_row = False
    if _is_grouped(select, block):
        one_row = _group(ctx, select, block)
    for part in block.having:
        block.place.filter(part)
    block.replace_values([block.place.embed(v).expr for v in block.values()])
    if any(has_window(v) for v in block.values()):
        _windows(ctx, block, select)
    query = Query(
        block.place.plan,
        tuple(Item(i.name, Scalar(i.value), i.aliased) for i in block.items),
        tuple(block.place.correlated),
        one_row and not block.having,
    )
    return _finish(ctx, select, block, query)


def _from_where(ctx: Context, select: exp.Select, env: Env) -> Place:
    source = bind_from(ctx, select, env)
    scope = Scope(source.scope.columns, env.outer)
    where = select.args.get("where")
    resolve = Resolver(ctx, scope)
    written = split(resolve(where.this)) if where is not None else []
    written = [_with_outer_aggregates(e, source.columns, env) for e in written]
    if any(has_aggregate(e) for e in written):
        raise Invalid(
            f"an aggregate in WHERE ({ctx.at(where or select)})",
            hint="put the condition into HAVING",
            reason="AGGREGATE_PLACE",
        )
    return source.place(ctx, env, written)


def _with_outer_aggregates(node: exp.Expr, known: set[str], env: Env) -> exp.Expr:
    """A condition with each aggregate of the enclosing query's columns as that query has it."""
    if env.aggregate is None or not has_aggregate(node):
        return node
    aggregate = env.aggregate

    def one(n: exp.Expr) -> exp.Expr | None:
        columns = Scalar(n).columns if is_aggregate(n) else frozenset()
        return aggregate(n) if columns and not columns & known else None

    return rewrite(node, one)


def _block(ctx: Context, select: exp.Select, place: Place) -> Block:
    items = choose(ctx, select, place.scope)
    aliases = {i.name.lower(): i.value for i in items if i.aliased}
    resolve = Resolver(ctx, place.scope, aliases)
    having, qualify = select.args.get("having"), select.args.get("qualify")
    order = [_sort_key(ctx, node, items, place.scope) for node in sort_keys(ctx, select)]
    return Block(
        place,
        items,
        split(resolve(having.this)) if having is not None else [],
        split(resolve(with_named_windows(ctx, select, qualify.this)))
        if qualify is not None
        else [],
        [k for keys in order for k in keys],
    )


def _sort_key(ctx: Context, node: exp.Ordered, items: list[Chosen], scope: Scope) -> list[Sorted]:
    written = bare(node.this)
    if isinstance(written, exp.Literal) and not written.is_string:
        return [directed(node, _ordinal(ctx, written, items, "ORDER BY").value)]
    if is_all(written) and scope.find(("all",)) is None:
        return [directed(node, i.value) for i in items]
    shown = {i.name.lower(): i.value for i in reversed(items)}
    first = not has_aggregate(written)
    return [directed(node, Resolver(ctx, scope, shown, aliases_first=first)(node.this))]


def is_all(node: exp.Expr) -> bool:
    """Whether a sort key or grouping is the word ALL."""
    return isinstance(node, exp.Column | exp.Var) and node.name.upper() == "ALL"


def _ordinal(ctx: Context, node: exp.Literal, items: list[Chosen], clause: str) -> Chosen:
    n = int(node.name) if node.name.isdigit() else 0
    if not 1 <= n <= len(items):
        raise Invalid(
            f"{clause} position {node.name} ({ctx.at(node)})",
            detail=f"the query has {len(items)} columns",
            reason="NO_SUCH_POSITION",
        )
    return items[n - 1]


def _is_grouped(select: exp.Select, block: Block) -> bool:
    if select.args.get("group") is not None or select.args.get("having") is not None:
        return True
    return any(has_aggregate(v) for v in block.values())


def _group(ctx: Context, select: exp.Select, block: Block) -> bool:
    """Aggregate the block's plan; whether there is always exactly one row."""
    hints = {bare(i.value): i.name for i in block.items if i.aliased}
    grouping = Grouping(block.place, hints=hints)
    block.place.aggregate = grouping.aggregate
    for key in _keys(ctx, select, block, grouping):
        grouping.key(key)
    aliases = _fallbacks(block)
    new = [grouping.lift(i.value) for i in block.items]
    new += [grouping.lift(q, aliases) for q in block.qualify]
    new += [grouping.lift(s.value, aliases) for s in block.order]
    block.having = [grouping.lift(h, aliases) for h in block.having]
    block.replace_values(new)
    one_row = not grouping.keys and grouping.sets is None
    if one_row and block.place.correlated and block.having:
        raise ctx.unsupported(
            "HAVING without GROUP BY in a correlated subquery",
            select,
            "compare with the aggregate outside the subquery",
            reason="CORRELATION",
        )
    plan, correlated = grouping.plan(block.place.correlated, select)
    block.place.plan, block.place.correlated = plan, list(correlated)
    return one_row


def _keys(ctx: Context, select: exp.Select, block: Block, grouping: Grouping) -> Iterable[exp.Expr]:
    group = select.args.get("group")
    if group is None:
        return []
    if group.args.get("all") or _groups_by_all(group, block):
        return [i.value for i in block.items if not has_aggregate(i.value)]
    aliases = {i.name.lower(): i.value for i in block.items if i.aliased}
    resolve = Resolver(ctx, block.place.scope, aliases)

    def key(node: exp.Expr) -> exp.Expr:
        inner = bare(node)
        if isinstance(inner, exp.Literal) and not inner.is_string:
            return _ordinal(ctx, inner, block.items, "GROUP BY").value
        return resolve(inner)

    sets = listed(group)
    if sets is None:
        return [key(e) for e in group.expressions if e != exp.Tuple()]
    for e in listed_before(group):
        grouping.key(key(e))
    named = [[grouping.key(key(e)) for e in one] for one in sets]
    names = tuple(name for _, name in grouping.keys)
    grouping.sets = Sets(names, tuple(frozenset(one) for one in named))
    return []


def _groups_by_all(group: exp.Group, block: Block) -> bool:
    """Whether GROUP BY ALL is meant: a column of that name comes first, as in Spark."""
    keys = group.expressions
    return len(keys) == 1 and is_all(bare(keys[0])) and block.place.scope.find(("all",)) is None


def _fallbacks(block: Block) -> dict[str, exp.Expr]:
    """What a column means in HAVING if it is not grouped: an item's alias of the same name."""
    found = {}
    for item in block.items:
        hits = {v.column for v in block.place.scope.star() if v.name.lower() == item.name.lower()}
        if item.aliased and len(hits) == 1 and bare(item.value) != col(*hits).expr:
            found[hits.pop()] = item.value
    return found


def _windows(ctx: Context, block: Block, select: exp.Select) -> None:
    if block.place.correlated:
        raise ctx.unsupported(
            "a window function in a correlated subquery",
            select,
            "join with a subquery that computes the window",
            reason="CORRELATION",
        )
    hints = {bare(i.value): i.name for i in block.items if i.aliased}
    plan, new = windowed(ctx, block.place.plan, block.values(), hints)
    block.place.plan = plan
    block.replace_values(new)


def _finish(ctx: Context, select: exp.Select, block: Block, query: Query) -> Query:
    for part in block.qualify:
        block.place.filter(part)
    query = replace(query, plan=block.place.plan)
    keys = [(s, Scalar(s.value)) for s in block.order]
    if select.args.get("distinct") is not None and not query.one_row:
        values = [i.value for i in query.items]
        query = _distinct(ctx, query, select)
        shown = dict(zip(values, (i.value for i in query.items), strict=True))
        keys = [(s, over_distinct(ctx, v, shown, select)) for s, v in keys]
    bounds = limit(ctx, select)
    return query if bounds is None else top(ctx, query, keys, bounds, select)


def _distinct(ctx: Context, query: Query, node: exp.Expr) -> Query:
    """The distinct rows, once per value of what correlates them with the query around."""
    if query.correlated and all(
        equates(part, set(query.plan.columns)) for part in query.correlated
    ):
        plan, keys, on = group_keys(ctx, query, node)
        closed = ctx.close(replace(query, plan=plan, correlated=tuple(on)), keys)
    else:
        read = {c for part in query.correlated for c in part.columns}
        closed = ctx.close(query, tuple(c for c in query.plan.columns if c in read))
    return replace(closed, plan=Distinct(closed.plan), one_row=False)


def _refuse(ctx: Context, select: exp.Select) -> None:
    distinct = select.args.get("distinct")
    if distinct is not None and distinct.args.get("on"):
        raise ctx.unsupported(
            "DISTINCT ON", distinct, "use row_number() and keep row 1", reason="DISTINCT_ON"
        )
    for key, what in (("into", "SELECT INTO"), ("connect", "CONNECT BY"), ("match", "MATCH")):
        if select.args.get(key):
            raise ctx.unsupported(what, select.args[key], "write it without", reason="OTHER_QUERY")
    refuse_time_windows(ctx, select)
    for node in select.expressions:
        if isinstance(node, exp.QueryTransform):
            raise ctx.unsupported(
                "TRANSFORM … USING a script", node, "write it in SQL", reason="SCRIPT"
            )
