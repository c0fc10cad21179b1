"""Ordering: ORDER BY … LIMIT becomes TopK; ORDER BY alone says nothing about a view's rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from belvedere.algebra.relations import Order, Output, Project, TopK
from belvedere.algebra.scalars import Scalar, col
from belvedere.errors import Invalid
from belvedere.sql.binder.clauses.windows import refuse_unordered
from belvedere.sql.binder.context import Context, Item, Query
from belvedere.sql.binder.expressions import bare, rewrite

IGNORED = "ORDER BY without LIMIT has no effect on a view and is ignored"


@dataclass(frozen=True)
class Sorted:
    """A sort key: its value, still an expression, and its direction."""

    value: exp.Expr
    descending: bool
    nulls_first: bool


def sort_keys(ctx: Context, query: exp.Expr) -> list[exp.Ordered]:
    """The written sort keys of a query that has a LIMIT; otherwise they are noted and left out."""
    order = query.args.get("order")
    if any(query.args.get(k) for k in ("sort", "cluster", "distribute")):
        ctx.note("SORT BY, CLUSTER BY and DISTRIBUTE BY have no effect on a view and are ignored")
    if limit(ctx, query) is None:
        if order is not None:
            ctx.note(IGNORED)
        return []
    return [] if order is None else list(order.expressions)


def limit(ctx: Context, query: exp.Expr) -> tuple[int, int] | None:
    """LIMIT and OFFSET as numbers."""
    node, skip = query.args.get("limit"), query.args.get("offset")
    if node is None or (isinstance(node.expression, exp.Var) and node.expression.name == "ALL"):
        if skip is not None:
            raise ctx.unsupported(
                "OFFSET without LIMIT",
                skip,
                "add a LIMIT greater than the number of rows",
                reason="OFFSET",
            )
        return None
    count = node.args.get("count") if isinstance(node, exp.Fetch) else node.expression
    return _whole(ctx, count, node), _whole(ctx, skip.expression, skip) if skip else 0


def _whole(ctx: Context, value: exp.Expr | None, node: exp.Expr) -> int:
    if isinstance(value, exp.Literal) and not value.is_string and value.name.isdigit():
        return int(value.name)
    raise ctx.unsupported(
        "LIMIT or OFFSET that is not a whole number",
        node,
        "write a number",
        reason="LIMIT_NOT_A_NUMBER",
    )


def directed(node: exp.Ordered, value: exp.Expr) -> Sorted:
    """A sort key with Spark's defaults: NULLs first ascending, last descending."""
    descending = bool(node.args.get("desc"))
    nulls_first = node.args.get("nulls_first")
    return Sorted(value, descending, not descending if nulls_first is None else bool(nulls_first))


def top(
    ctx: Context,
    query: Query,
    keys: Sequence[tuple[Sorted, Scalar]],
    bounds: tuple[int, int],
    node: exp.Expr,
) -> Query:
    """The query's first rows; what it sorts by without showing it is dropped again."""
    if query.one_row and bounds[0] > 0 and bounds[1] == 0:
        return query
    if not keys:
        raise ctx.unsupported(
            "LIMIT without ORDER BY",
            node.args.get("limit") or node,
            "add ORDER BY, so that it is clear which rows remain",
            reason="NOT_REPEATABLE",
            detail="any rows could be the first ones",
        )
    if query.correlated:
        raise ctx.unsupported(
            "LIMIT in a correlated subquery",
            node,
            "join with the rows for which row_number() by the key is 1",
            reason="CORRELATION",
        )
    values = [i.value for i in query.items]
    hidden = [v for _, v in keys if v not in values]
    extra = tuple(Item("sort_key", v) for v in dict.fromkeys(hidden))
    closed = ctx.close(replace(query, items=query.items + extra))
    named = dict(zip(values + [e.value for e in extra], closed.plan.columns, strict=True))
    refuse_unordered(ctx, closed.plan.columns, node)
    order: dict[str, Order] = {}
    for key, value in keys:
        order.setdefault(named[value], Order(named[value], key.descending, key.nulls_first))
    plan = TopK(closed.plan, tuple(order.values()), *bounds)
    items = closed.items[: len(query.items)]
    shown = tuple(Output(c, col(c)) for c in plan.columns[: len(items)])
    return Query(Project(plan, shown) if extra else plan, items)


def over_distinct(
    ctx: Context, value: Scalar, shown: Mapping[Scalar, Scalar], node: exp.Expr
) -> Scalar:
    """A sort key over what SELECT DISTINCT shows: there is nothing else to sort by."""

    def one(n: exp.Expr) -> exp.Expr | None:
        found = shown.get(Scalar(bare(n)))
        return found.expr.copy() if found is not None else None

    key = Scalar(rewrite(value.expr, one))
    if not key.columns <= {v.column for v in shown.values()}:
        raise Invalid(
            f"ORDER BY of a column that SELECT DISTINCT does not show ({ctx.at(node)})",
            hint="select the column too",
            reason="NOT_SHOWN",
        )
    return key
