"""FROM: relations named, joined and scoped.

RIGHT JOIN is LEFT with its sides swapped: the scope keeps the written order, the plan needs none.
The column USING merges is the left one (the right one of a RIGHT JOIN; coalesce for FULL).

A subquery in ON stands on the side whose columns it reads, which keeps its meaning:

    L ⟕_{p ∧ θ(R)} R    =  L ⟕_p σ_θ(R)      also for ⋉ and ▷
    L ⟕_{p ∧ θ(L)} R    =  L' ⟕_{p ∧ m} R    L' is L with the mark m = θ(L); also for ▷ and FULL
    L ⋉_{p ∧ θ(L)} R    =  σ_θ(L) ⋉_p R

A condition of a derived table on the query around the subquery it stands in is handed on: it acts
in the WHERE of that subquery, σ_c(L) ⟕ R = σ_c(L ⟕ R).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from belvedere.algebra.relations import (
    Empty,
    Field,
    Filter,
    Join,
    JoinKind,
    Output,
    Project,
    Rel,
    Scan,
)
from belvedere.algebra.scalars import Scalar, call, col, equal, every, padded
from belvedere.algebra.walks import nodes
from belvedere.errors import Internal, Invalid
from belvedere.sql.binder.char_columns import as_compared, char_length, has_char
from belvedere.sql.binder.conjuncts import inner_join, split
from belvedere.sql.binder.context import Common, Context, Env, Query, Relation
from belvedere.sql.binder.expressions import Resolver, has_subquery, located
from belvedere.sql.binder.freshen import freshen
from belvedere.sql.binder.scopes import Scope, Visible
from belvedere.sql.binder.subqueries.expressions import Place

Merged = tuple[tuple[Visible, Visible], ...]
"""The columns that USING or NATURAL makes one of, left beside right."""


@dataclass(frozen=True)
class Source:
    """Relations still to be joined, the conjuncts that will join them, and their names.

    `later` are conjuncts of inner joins with a subquery in them: they act as WHERE does.
    """

    relations: tuple[Rel, ...]
    scope: Scope
    parts: tuple[Scalar, ...] = ()
    later: tuple[exp.Expr, ...] = ()

    @property
    def columns(self) -> set[str]:
        """Every plan column of the relations."""
        return {c for r in self.relations for c in r.columns}

    def place(self, ctx: Context, env: Env, conjuncts: Sequence[exp.Expr] = ()) -> Place:
        """One relation that satisfies all conjuncts, and those that read the query around it."""
        plain = [*self.parts, *(Scalar(e) for e in conjuncts if not has_subquery(e))]
        local = [p for p in plain if p.columns <= self.columns]
        scope = Scope(self.scope.columns, env.outer)
        place = Place(ctx, inner_join(self.relations, local), env, scope)
        place.correlated += [p for p in plain if not p.columns <= self.columns]
        for part in [*self.later, *(e for e in conjuncts if has_subquery(e))]:
            place.filter(part)
        return place


def bind_from(ctx: Context, select: exp.Select, env: Env) -> Source:
    """The FROM clause of a SELECT; in Spark a comma binds as tightly as JOIN."""
    start = select.args.get("from_")
    if start is None:
        raise ctx.unsupported(
            "SELECT without FROM", select, "select from a table", reason="NO_FROM"
        )
    if select.args.get("laterals"):
        lateral = select.args["laterals"][0]
        raise ctx.unsupported(
            "LATERAL VIEW", lateral, "store the exploded rows in a table", reason="GENERATOR"
        )
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
            return _query(ctx, node, ctx.bind_query(ctx, node.this, env), (), None)
        case exp.Values():
            raise ctx.unsupported(
                "VALUES in FROM", node, "insert the rows into a table", reason="VALUES"
            )
        case exp.Lateral():
            raise ctx.unsupported(
                "LATERAL", node, "join with a subquery grouped by the key", reason="LATERAL"
            )
        case _:
            name = node.this.name if isinstance(node, exp.Table) else node.key
            if name.lower() == "identifier":
                raise ctx.unsupported(
                    "IDENTIFIER(…)", node, "write the name itself", reason="IDENTIFIER_CLAUSE"
                )
            raise ctx.unsupported(
                f"table function {name}", node, "select from a table", reason="TABLE_FUNCTION"
            )


_FOLLOWS = "read the old version with a query of its own: a view follows its tables"
_REFUSED = (
    ("version", "time travel in FROM", _FOLLOWS, "TIME_TRAVEL"),
    ("when", "time travel in FROM", _FOLLOWS, "TIME_TRAVEL"),
    (
        "sample",
        "TABLESAMPLE",
        "create a sample with CREATE SAMPLE, or filter by pmod(hash(key), 100) < 10",
        "TABLESAMPLE",
    ),
    ("pivots", "PIVOT or UNPIVOT", "write sum(CASE WHEN … THEN … END) per column", "PIVOT"),
    ("laterals", "LATERAL VIEW", "store the exploded rows in a table", "GENERATOR"),
)


def _refuse(ctx: Context, node: exp.Expr) -> None:
    for key, what, hint, code in _REFUSED:
        if node.args.get(key):
            raise ctx.unsupported(what, node, hint, reason=code)


def _table(ctx: Context, node: exp.Table, env: Env) -> Source:
    parts = tuple(p.name for p in node.parts)
    common = env.common.get(parts[0].lower()) if len(parts) == 1 else None
    if common is not None:
        return _query(ctx, node, ctx.bind_query(ctx, common.query, common.env), parts, common)
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


def _query(
    ctx: Context, node: exp.Expr, query: Query, qualifier: tuple[str, ...], common: Common | None
) -> Source:
    """A derived table or common table expression, with what correlates it handed on."""
    query = _closed(ctx, query, node)
    names = [i.name for i in query.items]
    names = _column_aliases(ctx, node, names, common.columns if common else ())
    columns = [c for c in (i.value.column for i in query.items) if c]
    source = _named(ctx, node, query.plan, names, columns, qualifier)
    return replace(source, parts=query.correlated)


def _closed(ctx: Context, query: Query, node: exp.Expr) -> Query:
    """The query projected to its items, and behind them the columns its correlation reads."""
    mine = set(query.plan.columns)
    if any(not i.value.columns <= mine for i in query.items):
        raise ctx.unsupported(
            "an outer column in the SELECT list of a subquery in FROM",
            node,
            "compute with it outside that subquery",
            reason="CORRELATION",
        )
    if query.correlated and query.one_row:
        raise ctx.unsupported(
            "a correlated aggregate in FROM",
            node,
            "aggregate in the SELECT list of the outer subquery itself",
            reason="CORRELATION",
        )
    read = {c for part in query.correlated for c in part.columns}
    return ctx.close(query, tuple(c for c in query.plan.columns if c in read))


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
                reason="COLUMN_COUNT",
            )
        names = renamed or names
    return names


def _join(ctx: Context, left: Source, join: exp.Join, env: Env) -> Source:
    if join.args.get("pivots"):
        _refuse(ctx, join)
    right = _with_joins(ctx, join.this, env)
    kind = _kind(ctx, join)
    scope = Scope(left.scope.columns + right.scope.columns, env.outer)
    merged = _merged(ctx, join, left.scope, right.scope)
    parts, later = _condition(ctx, join, scope, merged)
    if kind is JoinKind.INNER:
        scope = Scope(_using(left.scope, right.scope, merged, {}), env.outer)
        return Source(
            left.relations + right.relations,
            scope,
            left.parts + right.parts + tuple(parts),
            left.later + right.later + tuple(later),
        )
    first, second = (right, left) if join.side == "RIGHT" else (left, right)
    kept, padded = first.place(ctx, env), second.place(ctx, env)
    for conjunct in later:
        side = _side_read(ctx, join, conjunct, kept, padded, scope)
        parts += _with_subquery(side, conjunct, scope, below=_goes_below(side is padded, kind))
    _refuse_outer_columns(ctx, join, kept, padded, parts, kind)
    plan = _outer(kept.plan, padded.plan, kind, parts)
    if kind in (JoinKind.SEMI, JoinKind.ANTI):
        scope = Scope(_keys_first(left.scope, merged))
    else:
        plan, instead = _coalesced(ctx, plan, kind, join.side, merged)
        scope = Scope(_using(left.scope, right.scope, merged, instead))
    return Source((plan,), scope, tuple(kept.correlated))


def _side_read(
    ctx: Context, join: exp.Join, conjunct: exp.Expr, kept: Place, padded: Place, scope: Scope
) -> Place:
    """The one side of a join whose columns a conjunct with a subquery reads."""
    columns = (*kept.plan.columns, *padded.plan.columns)
    trial = Place(ctx, Empty(columns), kept.env, scope)
    read = set(trial.embed(conjunct).columns)
    for node in nodes(trial.plan):
        read |= node.on.columns if isinstance(node, Join) else set()
    read &= set(columns)
    for side in (padded, kept):
        if read <= set(side.plan.columns):
            return side
    raise ctx.unsupported(
        "a subquery in ON that reads both sides of the join",
        join,
        "let the subquery read columns of one side, and compare those with the other side in ON",
        reason="SUBQUERY_IN_ON",
    )


def _goes_below(padded: bool, kind: JoinKind) -> bool:
    """Whether a condition of ON on one side may be a filter below the join."""
    return kind is not JoinKind.FULL if padded else kind is JoinKind.SEMI


def _with_subquery(side: Place, conjunct: exp.Expr, scope: Scope, below: bool) -> list[Scalar]:
    """Apply a conjunct with a subquery to the side it reads; what remains of it in ON."""
    own, side.scope = side.scope, scope
    if below:
        side.filter(conjunct)
        left = []
    else:
        left = [side.embed(conjunct)]
    side.scope = own
    return left


def _refuse_outer_columns(
    ctx: Context, join: exp.Join, kept: Place, padded: Place, parts: list[Scalar], kind: JoinKind
) -> None:
    known = {*kept.plan.columns, *padded.plan.columns}
    outside = bool(padded.correlated) or any(not p.columns <= known for p in parts)
    if outside or (kind is JoinKind.FULL and kept.correlated):
        raise ctx.unsupported(
            "a reference to the enclosing query in ON",
            join,
            "compare with it in the WHERE of the subquery, where that means the same",
            reason="CORRELATION",
        )


def _outer(first: Rel, second: Rel, kind: JoinKind, parts: list[Scalar]) -> Rel:
    if kind is not JoinKind.FULL:
        mine = [p for p in parts if p.columns and p.columns <= set(second.columns)]
        second = Filter(second, every(mine)) if mine else second
        parts = [p for p in parts if p not in mine]
    return Join(first, second, kind, every(parts))


def _coalesced(
    ctx: Context, plan: Rel, kind: JoinKind, side: str, merged: Merged
) -> tuple[Rel, dict[str, str]]:
    """The plan with the columns USING coalesces, and what stands for each left column merged."""
    instead: dict[str, str] = {}
    outputs = [Output(c, col(c)) for c in plan.columns]
    for a, b in merged:
        if kind is JoinKind.FULL:
            instead[a.column] = ctx.names.fresh(a.name)
            both = call("coalesce", col(a.column), col(b.column))
            outputs.append(Output(instead[a.column], both))
        elif side == "RIGHT":
            instead[a.column] = b.column
    return (Project(plan, tuple(outputs)) if kind is JoinKind.FULL and merged else plan), instead


def _using(
    left: Scope, right: Scope, merged: Merged, instead: dict[str, str]
) -> tuple[Visible, ...]:
    """The columns after USING: the merged ones, then the rest; the originals by qualifier only."""
    if not merged:
        return left.columns + right.columns
    front = [Visible(a.name, instead.get(a.column, a.column)) for a, _ in merged]
    rest = [
        replace(v, shown=v.shown and v not in keys)
        for scope, keys in zip((left, right), zip(*merged, strict=True), strict=True)
        for v in scope.columns
    ]
    return (*front, *(v for v in rest if v.shown or v.qualifier))


def _keys_first(left: Scope, merged: Merged) -> tuple[Visible, ...]:
    """The columns of a semi or anti join: as with every join, those of USING come first."""
    keys = [a for a, _ in merged]
    return (*keys, *(v for v in left.columns if v not in keys))


def _merged(ctx: Context, join: exp.Join, left: Scope, right: Scope) -> Merged:
    """The columns of USING or NATURAL; of several with one name the first, as in Spark."""
    theirs = {v.name.lower() for v in right.star()}
    if join.method == "NATURAL":
        names = [v.name for v in left.star() if v.name.lower() in theirs]
    else:
        names = [u.name for u in join.args.get("using") or ()]
    names = list(dict.fromkeys(n.lower() for n in names))
    return tuple((_first(ctx, join, left, n), _first(ctx, join, right, n)) for n in names)


def _first(ctx: Context, join: exp.Join, scope: Scope, name: str) -> Visible:
    found = next((v for v in scope.star() if v.name.lower() == name), None)
    if found is None:
        raise scope.unknown((name,), ctx.at(join))
    return found


def _condition(
    ctx: Context, join: exp.Join, scope: Scope, merged: Merged
) -> tuple[list[Scalar], list[exp.Expr]]:
    pairs = ((col(a.column), col(b.column)) for a, b in merged)
    parts = [Scalar(as_compared(ctx, equal(a, b).expr)) for a, b in pairs]
    on = join.args.get("on")
    resolved = split(Resolver(ctx, scope)(on)) if on is not None else []
    later = [e for e in resolved if has_subquery(e)]
    return parts + [Scalar(e) for e in resolved if not has_subquery(e)], later


def _kind(ctx: Context, join: exp.Join) -> JoinKind:
    match (join.side or "", join.kind or ""):
        case (_, "SEMI"):
            return JoinKind.SEMI
        case (_, "ANTI"):
            return JoinKind.ANTI
        case ("LEFT" | "RIGHT", _):
            return JoinKind.LEFT
        case ("FULL", _):
            return JoinKind.FULL
        case ("", "" | "INNER" | "CROSS"):
            return JoinKind.INNER
        case _:
            raise ctx.unsupported(
                f"{join.side} {join.kind} JOIN", join, "use LEFT, FULL or INNER", reason="JOIN_KIND"
            )
