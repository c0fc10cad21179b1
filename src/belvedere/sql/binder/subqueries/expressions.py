"""Subqueries in expressions become joins.

    WHERE EXISTS (Q)      L ⋉ Q             on the correlation; uncorrelated: on TRUE, Q made Distinct
    WHERE x IN (Q.y)      L ⋉ Q             on x = y and the correlation
    WHERE x NOT IN (Q.y)  (L ▷ Q) ▷ N       N = the distinct (correlation, y IS NULL): NULLs decide
    elsewhere             L ⟕ γ_k(Q)        a mark, as Spark has it: never NULL, where SQL says unknown
                                            both x IN (Q) and x NOT IN (Q) are false
    (SELECT agg …)        L ⟕ γ_k(Q)        the expression over the aggregates stands above the join
    (SELECT x …)          L ⟕ γ_k(Q)        count and max; more than one row raises

k are the inner sides of the equalities that correlate Q with L; without any, γ is global, always
one row, and the join is a product.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sqlglot import exp

from belvedere.algebra.relations import (
    Agg,
    Aggregate,
    Distinct,
    Filter,
    Join,
    JoinKind,
    Output,
    Project,
    Rel,
)
from belvedere.algebra.scalars import TRUE, Scalar, both, call, col, equal, every, lit, operand
from belvedere.errors import BelvedereError, Invalid
from belvedere.sql.binder.conjuncts import filtered, without_padding
from belvedere.sql.binder.context import Context, Env, Query
from belvedere.sql.binder.expressions import bare, has_subquery, is_subquery, rewrite
from belvedere.sql.binder.functions import COUNTS
from belvedere.sql.binder.scopes import Scope
from belvedere.sql.binder.subqueries.correlation import group_keys
from belvedere.sql.binder.subqueries.values import any_of, case, is_null, over_zero


@dataclass
class Place:
    """A plan under construction, to which the subqueries of expressions are joined."""

    ctx: Context
    plan: Rel
    env: Env
    scope: Scope
    correlated: list[Scalar] = field(default_factory=list)
    aggregate: Callable[[exp.Expr], exp.Expr] | None = None

    def filter(self, part: exp.Expr) -> None:
        """Keep the rows that satisfy one conjunct."""
        match part:
            case exp.Exists() if is_subquery(part):
                self._exists(part, JoinKind.SEMI)
            case exp.Not(this=exp.Exists() as inner) if is_subquery(inner):
                self._exists(inner, JoinKind.ANTI)
            case exp.In() if is_subquery(part):
                self._in(part)
            case exp.Not(this=exp.In() as inner) if is_subquery(inner):
                self._not_in(inner)
            case _ if has_subquery(part):
                self._keep_above(self.embed(part))
            case _:
                self._keep(Scalar(part))

    def _keep(self, part: Scalar) -> None:
        if part.columns <= set(self.plan.columns):
            self.plan = filtered(self.plan, part)
        else:
            self.correlated.append(part)

    def _keep_above(self, part: Scalar) -> None:
        """Filter above the join that brought a subquery's value, so that both stay apart."""
        if part.columns <= set(self.plan.columns):
            self.plan = Filter(without_padding(self.plan, part), part)
        else:
            self.correlated.append(part)

    def embed(self, node: exp.Expr) -> Scalar:
        """The expression with each subquery joined in and replaced by its value."""

        def value(n: exp.Expr) -> exp.Expr | None:
            match n:
                case exp.Exists() if is_subquery(n):
                    return exp.paren(self._mark_exists(n).expr)
                case exp.In() if is_subquery(n):
                    return exp.paren(self._mark_in(n).expr)
                case exp.Not() if has_subquery(n):
                    return self._mark_not(bare(n.this))
                case exp.Subquery() | exp.Query():
                    return self._scalar(n).expr
                case _:
                    return None

        return Scalar(rewrite(node, value)) if has_subquery(node) else Scalar(node)

    def _exists(self, node: exp.Expr, kind: JoinKind) -> None:
        query = self._bind(_any_row(node.this))
        if query.one_row and query.correlated:
            self.plan = self.plan if kind is JoinKind.SEMI else Filter(self.plan, lit(False))
            return
        right = query.plan if _inner_columns(query) else self._emptiness(query.plan)
        self.plan = Join(self.plan, right, kind, every(query.correlated))

    def _emptiness(self, plan: Rel) -> Rel:
        return Distinct(Project(plan, (Output(self.ctx.names.fresh("one"), lit(1)),)))

    def _in(self, node: exp.In) -> None:
        query, pairs = self._compared(node)
        if query.one_row and query.correlated:
            self.filter(self._as_equality(node, pairs))
            return
        matches = [equal(x, y) for x, y in pairs]
        self.plan = Join(self.plan, query.plan, JoinKind.SEMI, every([*query.correlated, *matches]))

    def _not_in(self, node: exp.In) -> None:
        query, pairs = self._compared(node)
        if query.one_row and query.correlated:
            self.filter(exp.Not(this=exp.paren(self._as_equality(node, pairs))))
            return
        if len(pairs) > 1:
            maybe = [any_of(equal(x, y), is_null(x), is_null(y)) for x, y in pairs]
            on = every([*query.correlated, *maybe])
            self.plan = Join(self.plan, query.plan, JoinKind.ANTI, on)
            return
        ((x, y),) = pairs
        on = every([*query.correlated, equal(x, y)])
        self.plan = Join(self.plan, query.plan, JoinKind.ANTI, on)
        self._unless_unknown(node, x)

    def _unless_unknown(self, node: exp.In, x: Scalar) -> None:
        """Drop the rows for which NOT IN is NULL: x is NULL, or Q has a NULL, and Q is not empty."""
        query, ((_, y),) = self._compared(node)
        self._own(query, y, node)
        name = self.ctx.names.fresh("is_null")
        inner = _inner_columns(query)
        outputs = [Output(c, col(c)) for c in inner] + [Output(name, is_null(y))]
        states = Distinct(Project(query.plan, tuple(outputs)))
        on = both(*query.correlated, any_of(is_null(x), col(name)))
        self.plan = Join(self.plan, states, JoinKind.ANTI, on)

    def _as_equality(self, node: exp.In, pairs: list[tuple[Scalar, Scalar]]) -> exp.Expr:
        if len(pairs) > 1:
            raise self.ctx.unsupported(
                "IN with several columns of a correlated aggregate",
                node,
                "compare one column",
                reason="SEVERAL_COLUMNS_IN",
            )
        inner = node.args["query"]
        return exp.EQ(this=pairs[0][0].expr.copy(), expression=inner.copy())

    def _compared(self, node: exp.In) -> tuple[Query, list[tuple[Scalar, Scalar]]]:
        """The subquery of an IN, and each value beside the one it is compared with."""
        left = bare(node.this)
        values = list(left.expressions) if isinstance(left, exp.Tuple) else [left]
        scalars = [self.embed(v) for v in values]
        if any(not s.columns <= set(self.plan.columns) for s in scalars):
            raise self._several_levels(node)
        query = self._bind(node.args["query"])
        if len(query.items) != len(scalars):
            raise Invalid(
                f"IN compares {len(scalars)} values with {len(query.items)} columns "
                f"({self.ctx.at(node)})",
                reason="COLUMN_COUNT",
            )
        pairs = zip(scalars, query.items, strict=True)
        return query, [(operand(x), operand(i.value)) for x, i in pairs]

    def _mark_exists(self, node: exp.Expr) -> Scalar:
        query = self._bind(_any_row(node.this))
        if query.one_row and query.correlated:
            return TRUE
        count = Agg(self.ctx.names.fresh("matches"), "count")
        self._join_groups(query, (count,), node)
        return over_zero(call("coalesce", col(count.name), lit(0)))

    def _mark_in(self, node: exp.In) -> Scalar:
        query, pairs = self._compared(node)
        if query.one_row and query.correlated:
            return self.embed(exp.paren(self._as_equality(node, pairs)))
        if len(pairs) > 1:
            raise self.ctx.unsupported(
                "IN with several columns outside a WHERE conjunct",
                node,
                "write EXISTS",
                reason="SEVERAL_COLUMNS_IN",
            )
        return over_zero(call("coalesce", col(self._matches(query, pairs, node)), lit(0)))

    def _mark_not(self, inner: exp.Expr) -> exp.Expr | None:
        """NOT moved inward, as Spark does before it looks at subqueries; None if it stays."""
        match inner:
            case exp.In() if is_subquery(inner):
                return self._mark_not_in(inner).expr
            case exp.Not():
                return self.embed(exp.paren(bare(inner.this))).expr
            case exp.And(this=a, expression=b):
                return self.embed(exp.paren(exp.or_(exp.not_(a), exp.not_(b)))).expr
            case exp.Or(this=a, expression=b):
                return self.embed(exp.paren(exp.and_(exp.not_(a), exp.not_(b)))).expr
            case _:
                return None

    def _mark_not_in(self, node: exp.In) -> Scalar:
        query, pairs = self._compared(node)
        if len(pairs) > 1 or (query.one_row and query.correlated):
            raise self.ctx.unsupported(
                "NOT IN of this form outside a WHERE conjunct",
                node,
                "write NOT EXISTS (… WHERE x = y OR x IS NULL OR y IS NULL), which is the same",
                reason="SEVERAL_COLUMNS_IN",
            )
        ((x, _),) = pairs
        found = over_zero(col(self._matches(query, pairs, node)))
        total, nulls = self._totals(node)
        empty = equal(call("coalesce", col(total), lit(0)), lit(0))
        doubt = any_of(is_null(x), over_zero(col(nulls)))
        branches = [(found, exp.false()), (empty, exp.true()), (doubt, exp.false())]
        return case(branches, exp.true())

    def _matches(self, query: Query, pairs: list[tuple[Scalar, Scalar]], node: exp.In) -> str:
        """Join the number of rows of the subquery of an IN that are equal to its value."""
        ((x, y),) = pairs
        matches = Agg(self.ctx.names.fresh("matches"), "count")
        matching = replace(query, correlated=(*query.correlated, equal(y, x)))
        self._join_groups(matching, (matches,), node)
        return matches.name

    def _totals(self, node: exp.In) -> tuple[str, str]:
        """Join the number of rows and of NULLs the subquery of an IN has."""
        query, ((_, y),) = self._compared(node)
        self._own(query, y, node)
        total = Agg(self.ctx.names.fresh("total"), "count")
        one_if_null = case([(is_null(y), exp.Literal.number(1))], None)
        nulls = Agg(self.ctx.names.fresh("nulls"), "count", (one_if_null,))
        self._join_groups(query, (total, nulls), node)
        return total.name, nulls.name

    def _scalar(self, node: exp.Expr) -> Scalar:
        query = self._bind(node)
        if len(query.items) != 1:
            raise Invalid(
                f"a subquery used as a value has {len(query.items)} columns ({self.ctx.at(node)})",
                hint="select exactly one",
                reason="COLUMN_COUNT",
            )
        value = query.items[0].value
        if query.one_row and not query.correlated:
            closed = self.ctx.close(query)
            self.plan = Join(self.plan, closed.plan, JoinKind.INNER)
            return closed.items[0].value
        if query.one_row and isinstance(query.plan, Aggregate):
            return self._padded(query, query.plan, node)
        if query.one_row:
            raise self.ctx.unsupported(
                "a correlated aggregate combined with another subquery",
                node,
                "move the other subquery out",
                reason="CORRELATION",
            )
        self._own(query, value, node)
        return self._at_most_one(query, value, node)

    def _padded(self, query: Query, plan: Aggregate, node: exp.Expr) -> Scalar:
        """A correlated aggregate: evaluated above the join, as over no rows where none match."""
        self._reachable(query, node)
        if not query.items[0].value.columns <= {*plan.columns, *self.plan.columns}:
            raise self._several_levels(node)
        zero_if_none = {
            a.name: call("coalesce", col(a.name), lit(0))
            for a in plan.aggregates
            if a.function in COUNTS
        }
        self.plan = Join(self.plan, plan, JoinKind.LEFT, every(query.correlated))
        return operand(query.items[0].value.substitute(zero_if_none))

    def _at_most_one(self, query: Query, value: Scalar, node: exp.Expr) -> Scalar:
        rows = Agg(self.ctx.names.fresh("rows"), "count")
        only = Agg(self.ctx.names.fresh("value"), "max", (value,))
        self._join_groups(query, (rows, only), node)
        many = Scalar(exp.GT(this=col(rows.name).expr, expression=exp.Literal.number(1)))
        message = lit(f"a subquery used as a value gave more than one row ({self.ctx.at(node)})")
        error = exp.Anonymous(this="raise_error", expressions=[message.expr])
        return case([(many, error)], col(only.name).expr)

    def _join_groups(self, query: Query, aggregates: tuple[Agg, ...], node: exp.Expr) -> None:
        """L ⟕ γ_k(Q), k the inner sides of the correlating equalities."""
        self._reachable(query, node)
        if not query.correlated:
            self.plan = Join(self.plan, Aggregate(query.plan, (), aggregates), JoinKind.INNER)
            return
        plan, keys, on = group_keys(self.ctx, query, node)
        self.plan = Join(self.plan, Aggregate(plan, keys, aggregates), JoinKind.LEFT, every(on))

    def _bind(self, node: exp.Expr) -> Query:
        inner = node.this if isinstance(node, exp.Subquery) and not node.args.get("joins") else node
        while isinstance(inner, exp.Subquery):
            inner = inner.this
        query = self.ctx.bind_query(self.ctx, inner, self.around())
        self._reachable(query, node)
        return query

    def around(self) -> Env:
        """The names around a subquery that stands here."""
        scope = replace(self.scope, outer=self.env.outer)
        return replace(self.env, outer=scope, aggregate=self.aggregate)

    def _reachable(self, query: Query, node: exp.Expr) -> None:
        known = {*query.plan.columns, *self.plan.columns}
        read = {c for part in query.correlated for c in part.columns}
        for item in query.items:
            read |= item.value.columns
        if read <= known:
            return
        mine = {v.column for v in self.scope.columns}
        if read - known <= mine:
            raise Invalid(
                f"the subquery reads a column that is not grouped ({self.ctx.at(node)})",
                detail=f"not in GROUP BY: {', '.join(sorted(read - known))}",
                reason="NOT_GROUPED",
            )
        raise self._several_levels(node)

    def _several_levels(self, node: exp.Expr) -> BelvedereError:
        return self.ctx.unsupported(
            "a subquery that refers to a query more than one level out",
            node,
            "join the outer table again inside",
            reason="CORRELATION",
        )

    def _own(self, query: Query, value: Scalar, node: exp.Expr) -> None:
        if not value.columns <= set(query.plan.columns):
            raise self.ctx.unsupported(
                "an outer column in the SELECT list of a subquery",
                node,
                "compare with it outside the subquery",
                reason="CORRELATION",
            )


def _any_row(node: exp.Expr) -> exp.Expr:
    """A query that has a row if this one has: LIMIT n, ORDER BY and DISTINCT do not matter."""
    bound = node.args.get("limit")
    count = bound.expression if isinstance(bound, exp.Limit) else None
    if not isinstance(node, exp.Select) or node.args.get("offset"):
        return node
    if bound is not None and (count is None or count.name in ("", "0")):
        return node
    plain = node.copy()
    for key in ("limit", "order", "distinct"):
        plain.set(key, None)
    return plain


def _inner_columns(query: Query) -> list[str]:
    read = {c for part in query.correlated for c in part.columns}
    return [c for c in query.plan.columns if c in read]
