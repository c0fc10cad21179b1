"""Grouping: aggregates below, expressions over them above.

    SELECT f(k), g(agg(e)) … GROUP BY k HAVING h    =    π_{f,g} σ_h γ_{k; agg(e)} π_k

ROLLUP, CUBE and GROUPING SETS aggregate once over a union: each row once per grouping set, with
the keys outside the set NULL and the set's number as one more key. So it is in Spark too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from belvedere.algebra.relations import Agg, Aggregate, Output, Project, Rel
from belvedere.algebra.scalars import Scalar, col
from belvedere.errors import Invalid
from belvedere.sql.binder.clauses.grouping_sets import Sets, expand
from belvedere.sql.binder.context import Context, Query
from belvedere.sql.binder.expressions import bare, has_aggregate, is_aggregate, is_subquery, rewrite
from belvedere.sql.binder.naming import function_name, suggested_name
from belvedere.sql.binder.subqueries.correlation import group_keys
from belvedere.sql.binder.subqueries.expressions import Place

_SAME = {
    "mean": "avg",
    "any": "bool_or",
    "some": "bool_or",
    "every": "bool_and",
    "std": "stddev_samp",
    "stddev": "stddev_samp",
    "variance": "var_samp",
    "percentile_cont": "percentile",
}


@dataclass
class Grouping:
    """One aggregation under construction: keys and aggregates, met while expressions are lifted."""

    place: Place
    keys: list[tuple[exp.Expr, str]] = field(default_factory=list)
    aggregates: list[Agg] = field(default_factory=list)
    hints: Mapping[exp.Expr, str] = field(default_factory=dict)
    sets: Sets | None = None
    grouping_id: str | None = None
    columns: dict[exp.Expr, str] = field(default_factory=dict)

    @property
    def ctx(self) -> Context:
        return self.place.ctx

    def key(self, node: exp.Expr) -> str:
        """Group by one more expression; the column it becomes."""
        inner = bare(node)
        known = self._key_of(inner)
        if known is not None:
            return known
        if has_aggregate(inner):
            raise Invalid(
                f"an aggregate in GROUP BY ({self.ctx.at(node)})", reason="AGGREGATE_PLACE"
            )
        name = inner.name if isinstance(inner, exp.Column) else None
        if name is None:
            name = self.ctx.names.fresh(self.hints.get(inner) or suggested_name(inner))
        self.keys.append((inner, name))
        return name

    def _key_of(self, node: exp.Expr) -> str | None:
        return next((name for key, name in self.keys if key == node), None)

    def lift(self, node: exp.Expr, instead: Mapping[str, exp.Expr] | None = None) -> exp.Expr:
        """The expression over the aggregation's output.

        `instead` has what a name means if it is not grouped (an alias, in HAVING and ORDER BY).
        """
        aliases = instead or {}

        def one(n: exp.Expr) -> exp.Expr | None:
            key = self._key_of(n)
            if key is not None:
                return col(key).expr
            match n:
                case exp.In() if is_subquery(n):
                    inner = self._subquery(n.args["query"])
                    return exp.In(this=self.lift(n.this, aliases), query=inner)
                case exp.Subquery() | exp.Exists() | exp.Query():
                    return self._subquery(n)
                case exp.Window():
                    return self._lift_window(n, aliases)
                case exp.Filter(this=inner) | exp.WithinGroup(this=inner) if is_aggregate(inner):
                    return self.aggregate(n)
                case exp.Anonymous() if function_name(n) in ("grouping", "grouping_id"):
                    return self._grouping(n)
                case exp.Func() if is_aggregate(n):
                    return self.aggregate(n)
                case exp.Column() if n.name in aliases:
                    return self.lift(aliases[n.name])
                case exp.Column() if n.name in self.place.plan.columns:
                    raise self._not_grouped(n)
                case _:
                    return None

        return rewrite(node, one)

    def _lift_window(self, node: exp.Window, aliases: Mapping[str, exp.Expr]) -> exp.Expr:
        def inside(n: exp.Expr) -> exp.Expr:
            args = {k: self._lift_args(v, aliases) for k, v in n.args.items()}
            return type(n)(**args)

        def function(n: exp.Expr) -> exp.Expr:
            if isinstance(n, exp.IgnoreNulls | exp.RespectNulls):
                return type(n)(this=function(n.this))
            if isinstance(n, exp.Filter):
                where = self._lift_args(n.expression, aliases)
                return exp.Filter(this=inside(n.this), expression=where)
            return inside(n)

        args = {k: self._lift_args(v, aliases) for k, v in node.args.items() if k != "this"}
        return exp.Window(this=function(node.this), **args)

    def _lift_args(self, value: object, aliases: Mapping[str, exp.Expr]) -> object:
        if isinstance(value, exp.Expr):
            return value.copy() if isinstance(value, exp.Star) else self.lift(value, aliases)
        if isinstance(value, list):
            return [self._lift_args(v, aliases) for v in value]
        return value

    def _subquery(self, node: exp.Expr) -> exp.Expr:
        """A subquery as it is; aggregates of this query in its WHERE are computed here."""
        if any(is_aggregate(n) for where in node.find_all(exp.Where) for n in where.walk()):
            query = node.this if isinstance(node, exp.Exists | exp.Subquery) else node
            self.ctx.bind_query(self.ctx, query, self.place.around())
        return node.copy()

    def aggregate(self, node: exp.Expr) -> exp.Expr:
        """The column of an aggregate; after the grouping, of one that was met before it."""
        if node not in self.columns:
            self.columns[node] = self._computed(node)
        return col(self.columns[node]).expr

    def _computed(self, node: exp.Expr) -> str:
        function, args, distinct = _taken_apart(self.ctx, node)
        scalars = []
        for arg in args:
            if has_aggregate(arg):
                raise Invalid(
                    f"an aggregate inside an aggregate ({self.ctx.at(node)})",
                    reason="AGGREGATE_PLACE",
                )
            scalars.append(self._inner(self.place.embed(arg), node))
        made = Agg("", function, tuple(scalars), distinct)
        for known in self.aggregates:
            if (known.function, known.args, known.distinct) == (function, made.args, distinct):
                return known.name
        name = self.ctx.names.fresh(self.hints.get(node) or suggested_name(node))
        self.aggregates.append(Agg(name, function, made.args, distinct))
        return name

    def _inner(self, value: Scalar, node: exp.Expr) -> Scalar:
        if not value.columns <= set(self.place.plan.columns):
            raise self.ctx.unsupported(
                "an outer column inside an aggregate",
                node,
                "aggregate inner columns only",
                reason="CORRELATION",
            )
        return value

    def _grouping(self, node: exp.Anonymous) -> exp.Expr:
        if self.sets is None:
            raise Invalid(
                f"{node.name}() without ROLLUP, CUBE or GROUPING SETS ({self.ctx.at(node)})",
                reason="GROUPING_FUNCTION",
            )
        if self.grouping_id is None:
            self.grouping_id = self.ctx.names.fresh("grouping_id")
        names = [self._key_of(bare(e)) for e in node.expressions]
        if None in names:
            raise Invalid(
                f"{node.name}() of something not grouped ({self.ctx.at(node)})",
                reason="GROUPING_FUNCTION",
            )
        return self.sets.bits(self.grouping_id, [n for n in names if n], function_name(node))

    def _not_grouped(self, node: exp.Column) -> Invalid:
        keys = ", ".join(name for _, name in self.keys) or "none"
        return Invalid(
            f"column {node.name!r} is neither grouped nor aggregated ({self.ctx.at(node)})",
            detail=f"the query groups by: {keys}",
            hint=f"add {node.name!r} to GROUP BY, or aggregate it, e.g. max({node.name})",
            reason="NOT_GROUPED",
        )

    def plan(self, correlated: Sequence[Scalar], node: exp.Expr) -> tuple[Rel, tuple[Scalar, ...]]:
        """The aggregation, and the correlation over its output."""
        below = self._keyed()
        query = Query(below, (), tuple(correlated))
        below, extra, on = group_keys(self.ctx, query, node)
        keys = tuple(dict.fromkeys([name for _, name in self.keys] + list(extra)))
        if not keys and not self.aggregates:
            self.aggregates.append(Agg(self.ctx.names.fresh("count"), "count"))
        if self.sets is not None:
            if extra:
                raise self.ctx.unsupported(
                    "GROUPING SETS in a correlated subquery",
                    node,
                    "group by plain keys",
                    reason="CORRELATION",
                )
            aggregate = expand(self.ctx, below, keys, self.aggregates, self.sets, self.grouping_id)
            return aggregate, ()
        return Aggregate(below, keys, tuple(self.aggregates)), tuple(on)

    def _keyed(self) -> Rel:
        plan = self.place.plan
        computed = []
        for key, name in self.keys:
            if not isinstance(key, exp.Column):
                computed.append(Output(name, self._inner(self.place.embed(key), key)))
            elif name not in plan.columns:
                self._inner(Scalar(key), key)
        if not computed:
            return self.place.plan
        carried = [Output(c, col(c)) for c in self.place.plan.columns]
        return Project(self.place.plan, (*carried, *computed))


def _taken_apart(ctx: Context, node: exp.Expr) -> tuple[str, list[exp.Expr], bool]:
    """Function, arguments and DISTINCT of an aggregate call, its FILTER put into the argument."""
    if isinstance(node, exp.Filter):
        function, args, distinct = _taken_apart(ctx, node.this)
        condition = node.expression.this
        first = args[0] if args else exp.Literal.number(1)
        kept = exp.Case(ifs=[exp.If(this=condition.copy(), true=first.copy())])
        return function, [kept, *args[1:]], distinct
    if isinstance(node, exp.WithinGroup):
        function, fractions, distinct = _taken_apart(ctx, node.this)
        order = node.expression.expressions[0]
        if order.args.get("desc") or len(fractions) != 1:
            raise ctx.unsupported(
                f"{function} in descending order",
                node,
                "order ascending and use 1 - fraction",
                reason="PERCENTILE_ORDER",
            )
        return function, [order.this, *fractions], distinct
    args = [node.this] if isinstance(node.args.get("this"), exp.Expr) else []
    args += node.expressions
    distinct = bool(args) and isinstance(args[0], exp.Distinct)
    if distinct:
        args = [*args[0].expressions, *args[1:]]
    function = _SAME.get(function_name(node), function_name(node))
    if function == "count" and not distinct and all(_never_null(a) for a in args):
        args = []
    return function, args, distinct


def _never_null(node: exp.Expr) -> bool:
    return isinstance(bare(node), exp.Star | exp.Literal | exp.Boolean)
