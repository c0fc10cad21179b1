"""Queries: WITH, set operations and parentheses around query blocks.

UNION = Distinct(Union)    UNION ALL = Union    INTERSECT [ALL], EXCEPT [ALL] = their nodes
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from belvedere.algebra.relations import Distinct, Except, Intersect, Rel, Union
from belvedere.algebra.scalars import Scalar, col
from belvedere.errors import Invalid
from belvedere.sql.binder.clauses.order_by import Sorted, directed, limit, sort_keys, top
from belvedere.sql.binder.clauses.select import bind_select, is_all
from belvedere.sql.binder.context import Common, Context, Env, Item, Query
from belvedere.sql.binder.expressions import Resolver, bare
from belvedere.sql.binder.scopes import Scope, Visible


def bind_query(ctx: Context, node: exp.Expr, env: Env) -> Query:
    """Any query as a plan."""
    env = with_common(ctx, node, env)
    match node:
        case exp.Select():
            return bind_select(ctx, node, env)
        case exp.SetOperation():
            return _set_operation(ctx, node, env)
        case exp.Subquery():
            query = bind_query(ctx, node.this, env)
            return _ordered(ctx, node, query)
        case exp.Values():
            raise ctx.unsupported("VALUES", node, "insert the rows into a table", reason="VALUES")
        case _:
            raise ctx.unsupported(
                f"{node.key.upper()} as a query", node, "write SELECT … FROM", reason="OTHER_QUERY"
            )


def with_common(ctx: Context, node: exp.Expr, env: Env) -> Env:
    """The names around a query with those of its own WITH."""
    clause = node.args.get("with_")
    if clause is None:
        return env
    if clause.args.get("recursive"):
        raise ctx.unsupported(
            "WITH RECURSIVE", clause, "compute the closure outside the view", reason="RECURSIVE"
        )
    common = dict(env.common)
    for cte in clause.expressions:
        alias = cte.args["alias"]
        columns = tuple(c.name for c in alias.args.get("columns") or ())
        inside = replace(env, common=dict(common))
        common[alias.name.lower()] = Common(cte.this, columns, inside)
    return replace(env, common=common)


def _set_operation(ctx: Context, node: exp.SetOperation, env: Env) -> Query:
    for key in ("by_name", "on", "side"):
        if node.args.get(key):
            raise ctx.unsupported(
                "a set operation BY NAME", node, "list the columns in order", reason="BY_NAME"
            )
    sides = [_branch(ctx, n, env) for n in _operands(node)]
    arities = [len(s.items) for s in sides]
    if len(set(arities)) > 1:
        raise Invalid(
            f"{node.key.upper()} of queries with {' and '.join(map(str, arities))} columns "
            f"({ctx.at(node)})",
            hint="both sides need the same number of columns",
            reason="COLUMN_COUNT",
        )
    columns = tuple(ctx.names.fresh(i.name) for i in sides[0].items)
    for column, item in zip(columns, sides[0].items, strict=True):
        # Of CHAR, Spark takes the length of the first side for that of all.
        ctx.keep_declared(column, item.value.column)
    plan = _combined(node, [s.plan for s in sides], columns)
    shown = zip(sides[0].items, columns, strict=True)
    query = Query(plan, tuple(Item(i.name, col(c)) for i, c in shown))
    return _ordered(ctx, node, query)


def _operands(node: exp.SetOperation) -> list[exp.Expr]:
    """The sides; a chain of UNION ALL is one union of many."""
    left, right = node.this, node.expression
    chained = (
        isinstance(node, exp.Union)
        and isinstance(left, exp.Union)
        and not node.args.get("distinct")
        and not left.args.get("distinct")
        and not any(left.args.get(k) for k in ("limit", "order", "offset", "with_"))
    )
    return [*(_operands(left) if chained else [left]), right]


def _branch(ctx: Context, node: exp.Expr, env: Env) -> Query:
    query = bind_query(ctx, node, env)
    if query.correlated or any(not i.value.columns <= set(query.plan.columns) for i in query.items):
        raise ctx.unsupported(
            "a correlated set operation",
            node,
            "write one EXISTS or IN per side",
            reason="CORRELATION",
        )
    return ctx.close(query)


def _combined(node: exp.SetOperation, plans: list[Rel], columns: tuple[str, ...]) -> Rel:
    once = bool(node.args.get("distinct"))
    match node:
        case exp.Except():
            return Except(plans[0], plans[1], columns, all=not once)
        case exp.Intersect():
            return Intersect(plans[0], plans[1], columns, all=not once)
        case _:
            union = Union(tuple(plans), columns)
            return Distinct(union) if once else union


def _ordered(ctx: Context, node: exp.Expr, query: Query) -> Query:
    """ORDER BY … LIMIT over a whole query: names and positions of its columns."""
    bounds = limit(ctx, node)
    written = sort_keys(ctx, node)
    if bounds is None:
        return query
    closed = ctx.close(query)
    keys = [k for n in written for k in _sort_key(ctx, n, closed)]
    return top(ctx, closed, [(k, Scalar(k.value)) for k in keys], bounds, node)


def _sort_key(ctx: Context, node: exp.Ordered, query: Query) -> list[Sorted]:
    columns = [(i.name, i.value.column or "") for i in query.items]
    written = bare(node.this)
    if is_all(written) and "all" not in {n.lower() for n, _ in columns}:
        return [directed(node, col(c).expr) for _, c in columns]
    if isinstance(written, exp.Literal) and not written.is_string:
        n = int(written.name) if written.name.isdigit() else 0
        if not 1 <= n <= len(columns):
            raise Invalid(
                f"ORDER BY position {written.name} ({ctx.at(node)})", reason="NO_SUCH_POSITION"
            )
        return [directed(node, col(columns[n - 1][1]).expr)]
    scope = Scope(tuple(Visible(n, c) for n, c in columns))
    return [directed(node, Resolver(ctx, scope)(node.this))]
