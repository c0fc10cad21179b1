"""Items: the SELECT list, with stars expanded and names resolved."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from belvedere.algebra.scalars import col
from belvedere.errors import Invalid
from belvedere.sql.binder.context import Context
from belvedere.sql.binder.expressions import Resolver, bare, refuse_hidden, rewrite
from belvedere.sql.binder.naming import did_you_mean
from belvedere.sql.binder.scopes import Scope, Visible


@dataclass(frozen=True)
class Chosen:
    """An item of a SELECT list: the name it shows, its value, and whether the user named it."""

    name: str
    value: exp.Expr
    aliased: bool = False


def choose(ctx: Context, select: exp.Select, scope: Scope) -> list[Chosen]:
    """The items of a SELECT list; an item may use the aliases of those before it."""
    items: list[Chosen] = []
    aliases: dict[str, exp.Expr] = {}
    for node in select.expressions:
        if _is_star(node):
            items += _star(ctx, node, scope)
            continue
        value = Resolver(ctx, scope, dict(aliases))(with_named_windows(ctx, select, _value(node)))
        name = node.alias if isinstance(node, exp.Alias) else shown_name(bare(node))
        items.append(Chosen(name, value, isinstance(node, exp.Alias)))
        if isinstance(node, exp.Alias):
            aliases[name.lower()] = value
    return items


def _value(node: exp.Expr) -> exp.Expr:
    return bare(node.this if isinstance(node, exp.Alias) else node)


def shown_name(node: exp.Expr) -> str:
    """The name of an item without an alias: the column's or field's, else its text."""
    match node:
        case exp.Column():
            return node.name
        case exp.Dot(expression=exp.Identifier() as field):
            return field.name
        case _:
            return node.sql(dialect="spark").lower()


def _is_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Star) or (
        isinstance(node, exp.Column) and isinstance(node.this, exp.Star)
    )


def _star(ctx: Context, node: exp.Expr, scope: Scope) -> list[Chosen]:
    star = node if isinstance(node, exp.Star) else node.this
    qualifier = tuple(p.name for p in node.parts[:-1]) if isinstance(node, exp.Column) else ()
    for key in ("replace", "rename"):
        if star.args.get(key):
            raise ctx.unsupported(f"* {key.upper()}", node, "name the columns", reason="STAR")
    columns = scope.star(qualifier)
    if not columns and scope.find(qualifier or ("*",)) is not None:
        raise ctx.unsupported("a star over a struct", node, "name the fields", reason="STAR")
    if not columns:
        known = [".".join(v.qualifier) for v in scope.columns if v.qualifier]
        written = ".".join(qualifier)
        raise Invalid(
            f"no relation {written!r} ({ctx.at(node)})",
            hint=did_you_mean(written, known),
            reason="UNKNOWN_TABLE",
        )
    dropped = {_dropped(ctx, c, columns, scope) for c in star.args.get("except_") or ()}
    shown = [v for v in columns if v.column not in dropped]
    for v in shown:
        refuse_hidden(v.name, ctx.at(node))
    return [Chosen(v.name, col(v.column).expr) for v in shown]


def _dropped(ctx: Context, node: exp.Expr, columns: tuple[Visible, ...], scope: Scope) -> str:
    """The column that a name in `* EXCEPT (…)` leaves out."""
    parts = tuple(p.name for p in node.parts) if isinstance(node, exp.Column) else (node.name,)
    hit = Scope(columns).find(parts) or scope.find(parts)
    if hit is None or hit[0].column not in {v.column for v in columns}:
        raise scope.unknown(parts, ctx.at(node))
    if hit[1]:
        raise ctx.unsupported(
            "EXCEPT of a field of a struct", node, "name the columns", reason="STAR"
        )
    return hit[0].column


def with_named_windows(ctx: Context, select: exp.Select, node: exp.Expr) -> exp.Expr:
    """OVER w with the definition of w put in."""
    named = {w.this.name.lower(): w for w in select.args.get("windows") or ()}

    def one(n: exp.Expr, within: tuple[str, ...] = ()) -> exp.Expr | None:
        if not isinstance(n, exp.Window) or not n.args.get("alias"):
            return None
        name = n.args["alias"].name
        base, where = named.get(name.lower()), ctx.at(n.args["alias"])
        if base is None:
            raise Invalid(
                f"no window {name!r} ({where})",
                hint=did_you_mean(name, named),
                reason="UNKNOWN_WINDOW",
            )
        if name.lower() in within:
            raise Invalid(
                f"window {name!r} is defined by itself ({where})",
                hint="define one of these windows in parentheses: WINDOW w AS (PARTITION BY …)",
                reason="UNKNOWN_WINDOW",
            )
        base = one(base, (*within, name.lower())) or base
        args = {
            k: _copy(n.args.get(k) or base.args.get(k)) for k in ("partition_by", "order", "spec")
        }
        return exp.Window(this=n.this.copy(), over="OVER", **args)

    return rewrite(node, one) if named or node.find(exp.Window) else node


def _copy(value: object) -> object:
    if isinstance(value, list):
        return [v.copy() for v in value]
    return value.copy() if isinstance(value, exp.Expr) else value
