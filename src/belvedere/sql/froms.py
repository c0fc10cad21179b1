"""FROM: relations named, joined and scoped.

RIGHT JOIN is LEFT with its sides swapped: the scope keeps the written order, the plan needs none.
The column USING merges is the left one (the right one of a RIGHT JOIN; coalesce for FULL).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from belvedere.algebra.relations import Field, Filter, Join, Kind, Output, Project, Rel, Scan
from belvedere.algebra.scalars import Scalar, call, col, equal, every, padded
from belvedere.errors import Internal, Invalid
from belvedere.sql.char_columns import as_compared, char_length, has_char
from belvedere.sql.conjuncts import inner_join, split
from belvedere.sql.context import Context, Env, Relation
from belvedere.sql.expressions import Resolver, has_subquery, located
from belvedere.sql.freshen import freshen
from belvedere.sql.scopes import Scope, Visible


@dataclass(frozen=True)
class Source:
    """Relations still to be joined, the conjuncts that will join them, and their names.

    `later` are conjuncts of inner joins with a subquery in them: they act as WHERE does.
    """

    relations: tuple[Rel, ...]
    scope: Scope
    parts: tuple[Scalar, ...] = ()
    later: tuple[exp.Expr, ...] = ()

    def joined(self) -> Rel:
        """One relation."""
        return inner_join(self.relations, self.parts)


def bind_from(ctx: Context, select: exp.Select, env: Env) -> Source:
    """The FROM clause of a SELECT; in Spark a comma binds as tightly as JOIN."""
    start = select.args.get("from_")
    if start is None:
        raise ctx.unsupported("SELECT without FROM", select, "select from a table")
    if select.args.get("laterals"):
        lateral = select.args["laterals"][0]
        raise ctx.unsupported("LATERAL VIEW", lateral, "store the exploded rows in a table")
    source = _with_joins(ctx, start.this, env)
    for join in select.args.get("joins") or ():
        source = _join(ctx, source, join, env)
    return source


def _with_joins(ctx: Context, node: exp.Expr, env: Env) -> Source:
    source = _relation(ctx, node, env)
    for join in node.args.get("joins") or ():
        source = _join(ctx, source, join, env)
    return source


def _relation(ctx: Context, node: exp.Expr, env: Env) -> Source:
    _refuse(ctx, node)
    match node:
        case exp.Table(this=exp.Identifier()):
            return _table(ctx, node, env)
        case exp.Subquery(this=exp.Table() | exp.Subquery() as inner):
            nested = _with_joins(ctx, inner, env)
            return _aliased(ctx, node, nested) if node.alias else nested
        case exp.Subquery():
            return _derived(ctx, node, env)
        case exp.Values():
            raise ctx.unsupported("VALUES in FROM", node, "insert the rows into a table")
        case exp.Lateral():
            raise ctx.unsupported("LATERAL", node, "join with a subquery grouped by the key")
        case _:
            name = node.this.name if isinstance(node, exp.Table) else node.key
            raise ctx.unsupported(f"table function {name}", node, "select from a table")


def _refuse(ctx: Context, node: exp.Expr) -> None:
    for key, what, hint in (
        ("version", "time travel in FROM", "a view follows its tables; read old versions directly"),
        ("when", "time travel in FROM", "a view follows its tables; read old versions directly"),
        ("sample", "TABLESAMPLE", "filter on a hash of a key, e.g. pmod(hash(id), 100) < 10"),
        ("pivots", "PIVOT or UNPIVOT", "write sum(CASE WHEN … THEN … END) per column"),
        ("laterals", "LATERAL VIEW", "store the exploded rows in a table"),
    ):
        if node.args.get(key):
            raise ctx.unsupported(what, node, hint)


def _table(ctx: Context, node: exp.Table, env: Env) -> Source:
    parts = tuple(p.name for p in node.parts)
    common = env.common.get(parts[0].lower()) if len(parts) == 1 else None
    if common is not None:
        query = ctx.close(ctx.bind_query(ctx, common.query, common.env))
        names = [i.name for i in query.items]
        names = _column_aliases(ctx, node, names, common.columns)
        columns = [c for c in (i.value.column for i in query.items) if c]
        return _named(ctx, node, query.plan, names, columns, parts)
    try:
        relation = ctx.catalog.resolve(_dotted(node))
    except Invalid as unknown:
        raise located(unknown, ctx.at(node)) from None
    if relation.plan is not None:
        plan = freshen(relation.plan, ctx.names)
    elif relation.table is not None:
        plan = _scan(ctx, relation.table, relation)
    else:
        raise Internal(f"the catalog gave neither a table nor a plan for {_dotted(node)}")
    ctx.types.update(zip(plan.columns, (t for _, t in relation.columns), strict=True))
    return _named(ctx, node, plan, [n for n, _ in relation.columns], list(plan.columns), parts)


def _scan(ctx: Context, table: str, relation: Relation) -> Rel:
    """The rows of a table as Spark reads them: values of CHAR are padded with spaces."""
    declared = {name.lower(): kind for name, kind in relation.declared.items()}
    fields, read = [], []
    for source, kind in relation.columns:
        name = stored = ctx.names.fresh(source)
        value, was = col(stored), declared.get(source.lower(), "")
        if has_char(was):
            ctx.declared[name] = was
        if (length := char_length(was)) is not None:
            stored = ctx.names.fresh(source)
            value = padded(col(stored), length)
        fields.append(Field(stored, source, kind))
        read.append(Output(name, value))
    scan = Scan(table, tuple(fields))
    same = scan.columns == tuple(o.name for o in read)
    return scan if same else Project(scan, tuple(read))


def _dotted(node: exp.Table) -> str:
    """The name as written; backticks around a part that has a dot or a backtick in it."""
    names = (p.name for p in node.parts)
    return ".".join(f"`{n.replace('`', '``')}`" if set(n) & set(".`") else n for n in names)


def _derived(ctx: Context, node: exp.Subquery, env: Env) -> Source:
    query = ctx.close(ctx.bind_query(ctx, node.this, replace(env, outer=None)))
    columns = [c for c in (i.value.column for i in query.items) if c]
    return _named(ctx, node, query.plan, [i.name for i in query.items], columns, ())


def _aliased(ctx: Context, node: exp.Subquery, nested: Source) -> Source:
    shown = nested.scope.star()
    names = _column_aliases(ctx, node, [v.name for v in shown])
    columns = tuple(
        Visible(n, v.column, (node.alias.lower(),)) for n, v in zip(names, shown, strict=True)
    )
    return replace(nested, scope=Scope(columns))


def _named(
    ctx: Context,
    node: exp.Expr,
    plan: Rel,
    names: list[str],
    columns: list[str],
    qualifier: tuple[str, ...],
) -> Source:
    under = (node.alias.lower(),) if node.alias else tuple(q.lower() for q in qualifier)
    shown = zip(_column_aliases(ctx, node, names), columns, strict=True)
    return Source((plan,), Scope(tuple(Visible(n, c, under) for n, c in shown)))


def _column_aliases(
    ctx: Context, node: exp.Expr, names: list[str], given: tuple[str, ...] = ()
) -> list[str]:
    alias = node.args.get("alias")
    written = [c.name for c in alias.args.get("columns") or ()] if alias else []
    for renamed in (list(given), written):
        if renamed and len(renamed) != len(names):
            raise Invalid(
                f"{len(renamed)} column aliases for {len(names)} columns ({ctx.at(node)})",
                detail=f"the columns are {', '.join(names)}",
            )
        names = renamed or names
    return names


def _join(ctx: Context, left: Source, join: exp.Join, env: Env) -> Source:
    if join.args.get("pivots"):
        _refuse(ctx, join)
    right = _with_joins(ctx, join.this, env)
    kind = _kind(ctx, join)
    scope = Scope(left.scope.columns + right.scope.columns, env.outer)
    merged = _merged_names(ctx, join, left.scope, right.scope)
    parts, later = _condition(ctx, join, scope, left.scope, right.scope, merged)
    if kind is Kind.INNER:
        scope = Scope(_using(left.scope, right.scope, merged, {}), env.outer)
        return Source(
            left.relations + right.relations,
            scope,
            left.parts + right.parts + tuple(parts),
            left.later + right.later + tuple(later),
        )
    if later or left.later or right.later:
        raise ctx.unsupported("a subquery in the ON of an outer join", join, "move it into WHERE")
    return _outer(ctx, left, right, join, kind, parts, merged)


def _outer(
    ctx: Context,
    left: Source,
    right: Source,
    join: exp.Join,
    kind: Kind,
    parts: list[Scalar],
    merged: tuple[str, ...],
) -> Source:
    known = {c for r in left.relations + right.relations for c in r.columns}
    if any(not p.columns <= known for p in (*left.parts, *right.parts, *parts)):
        raise ctx.unsupported(
            "a reference to the enclosing query in ON", join, "move it into the subquery's WHERE"
        )
    first, second = left.joined(), right.joined()
    if join.side == "RIGHT":
        first, second = second, first
    if kind is not Kind.FULL:
        mine = [p for p in parts if p.columns and p.columns <= set(second.columns)]
        second = Filter(second, every(mine)) if mine else second
        parts = [p for p in parts if p not in mine]
    plan: Rel = Join(first, second, kind, every(parts))
    if kind in (Kind.SEMI, Kind.ANTI):
        return Source((plan,), left.scope)
    plan, instead = _coalesced(ctx, plan, left, right, kind, join.side, merged)
    return Source((plan,), Scope(_using(left.scope, right.scope, merged, instead)))


def _coalesced(
    ctx: Context,
    plan: Rel,
    left: Source,
    right: Source,
    kind: Kind,
    side: str,
    merged: tuple[str, ...],
) -> tuple[Rel, dict[str, str]]:
    instead: dict[str, str] = {}
    outputs = [Output(c, col(c)) for c in plan.columns]
    for name in merged:
        a, b = _only(left.scope, name).column, _only(right.scope, name).column
        if kind is Kind.FULL:
            instead[name] = ctx.names.fresh(name)
            outputs.append(Output(instead[name], call("coalesce", col(a), col(b))))
        elif side == "RIGHT":
            instead[name] = b
    return (Project(plan, tuple(outputs)) if kind is Kind.FULL and merged else plan), instead


def _using(
    left: Scope, right: Scope, merged: tuple[str, ...], instead: dict[str, str]
) -> tuple[Visible, ...]:
    """The columns after USING: the merged ones, then the rest; the originals by qualifier only."""
    if not merged:
        return left.columns + right.columns
    front = [Visible(m, instead.get(m) or _only(left, m).column) for m in merged]
    rest = [
        replace(v, shown=v.shown and v.name.lower() not in merged)
        for v in left.columns + right.columns
    ]
    kept = [v for v in rest if v.shown or v.qualifier]
    named = {v.name.lower(): v.name for v in left.columns}
    return tuple(replace(f, name=named.get(f.name, f.name)) for f in front) + tuple(kept)


def _merged_names(ctx: Context, join: exp.Join, left: Scope, right: Scope) -> tuple[str, ...]:
    if join.method == "NATURAL":
        theirs = {v.name.lower() for v in right.star()}
        return tuple(dict.fromkeys(v.name.lower() for v in left.star() if v.name.lower() in theirs))
    using = [u.name for u in join.args.get("using") or ()]
    for name in using:
        for scope in (left, right):
            if scope.find((name,)) is None:
                raise scope.unknown((name,), ctx.at(join))
    return tuple(dict.fromkeys(n.lower() for n in using))


def _only(scope: Scope, name: str) -> Visible:
    hit = scope.find((name,))
    if hit is None:
        raise Internal(f"no column {name!r} to merge")
    return hit[0]


def _condition(
    ctx: Context, join: exp.Join, scope: Scope, left: Scope, right: Scope, merged: tuple[str, ...]
) -> tuple[list[Scalar], list[exp.Expr]]:
    pairs = ((_only(left, m).column, _only(right, m).column) for m in merged)
    parts = [Scalar(as_compared(ctx, equal(col(a), col(b)).expr)) for a, b in pairs]
    on = join.args.get("on")
    resolved = split(Resolver(ctx, scope)(on)) if on is not None else []
    later = [e for e in resolved if has_subquery(e)]
    return parts + [Scalar(e) for e in resolved if not has_subquery(e)], later


def _kind(ctx: Context, join: exp.Join) -> Kind:
    match (join.side or "", join.kind or ""):
        case (_, "SEMI"):
            return Kind.SEMI
        case (_, "ANTI"):
            return Kind.ANTI
        case ("LEFT" | "RIGHT", _):
            return Kind.LEFT
        case ("FULL", _):
            return Kind.FULL
        case ("", "" | "INNER" | "CROSS"):
            return Kind.INNER
        case _:
            raise ctx.unsupported(f"{join.side} {join.kind} JOIN", join, "use LEFT, FULL or INNER")
