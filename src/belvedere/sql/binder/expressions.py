"""Expressions: names in a scalar expression resolved to plan columns, and calls checked.

Subqueries inside stay as they are, for `subqueries` to turn into joins; aggregates and windows
too, for `grouping` and `windows`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from belvedere.algebra.scalars import col
from belvedere.algebra.types import VARIANT, ArrayType, MapType, OtherType, StructType, parse
from belvedere.errors import Invalid, Unsupported
from belvedere.sql.binder.builtins import SPARK_FUNCTIONS
from belvedere.sql.binder.char_columns import COMPARING, as_compared, refuse_comparing
from belvedere.sql.binder.context import Context
from belvedere.sql.binder.functions import (
    AGGREGATES,
    BARE_WORDS,
    GENERATORS,
    NOT_REPEATABLE,
    REFUSED_AGGREGATES,
    TIME_WINDOWS,
    UNIT_FIRST,
)
from belvedere.sql.binder.naming import function_name
from belvedere.sql.binder.scopes import Scope


def is_subquery(node: exp.Expr) -> bool:
    """Whether a node is a subquery in an expression: scalar, EXISTS or IN (SELECT …)."""
    if isinstance(node, exp.In):
        return node.args.get("query") is not None
    return isinstance(node, exp.Subquery | exp.Exists | exp.Query)


def has_subquery(node: exp.Expr) -> bool:
    """Whether a subquery stands anywhere in an expression."""
    return any(is_subquery(n) for n in node.walk())


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node is a call of an aggregate function."""
    return isinstance(node, exp.Func) and function_name(node) in AGGREGATES


def has_aggregate(node: exp.Expr) -> bool:
    """Whether an expression aggregates rows itself, beyond windows and subqueries."""
    if is_subquery(node):
        return isinstance(node, exp.In) and has_aggregate(node.this)
    if isinstance(node, exp.Window):
        inside = _children(_windowed_call(node))
        rest = [c for c in _children(node) if c is not node.this]
        return any(has_aggregate(c) for c in inside + rest)
    return is_aggregate(node) or any(has_aggregate(c) for c in _children(node))


def _windowed_call(node: exp.Window) -> exp.Expr:
    """The call that a window function is, without FILTER and IGNORE NULLS around it."""
    call: exp.Expr = node.this
    while isinstance(call, exp.IgnoreNulls | exp.RespectNulls):
        call = call.this
    if not isinstance(call, exp.Filter):
        return call
    return exp.Tuple(
        expressions=[*(c.copy() for c in _children(call.this)), call.expression.copy()]
    )


def bare(node: exp.Expr) -> exp.Expr:
    """An expression without the parentheses around it."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def rewrite(node: exp.Expr, f: Callable[[exp.Expr], exp.Expr | None]) -> exp.Expr:
    """A copy in which `f` replaces the topmost nodes for which it returns an expression."""
    answer = f(node)
    if answer is None and isinstance(node, exp.DataType | exp.Identifier | exp.Literal):
        answer = node.copy()
    return over_children(node, f) if answer is None else answer


def over_children(node: exp.Expr, f: Callable[[exp.Expr], exp.Expr | None]) -> exp.Expr:
    """A copy of a node whose children are rewritten."""
    args: dict[str, Any] = {}
    for key, value in node.args.items():
        if isinstance(value, exp.Expr):
            args[key] = _fit(rewrite(value, f), value)
        elif isinstance(value, list):
            args[key] = [_fit(rewrite(v, f), v) if isinstance(v, exp.Expr) else v for v in value]
        else:
            args[key] = value
    new = type(node)(**args)
    new.meta.update(node.meta)
    return new


def _fit(new: exp.Expr, old: exp.Expr) -> exp.Expr:
    """The value in parentheses, where it replaces an atom."""
    loose = isinstance(new, exp.Binary | exp.Not | exp.Neg | exp.Between | exp.In)
    atom = isinstance(old, exp.Column | exp.Dot | exp.Subquery | exp.Exists)
    return exp.paren(new, copy=False) if loose and atom else new


def _children(node: exp.Expr) -> list[exp.Expr]:
    return list(node.iter_expressions())


@dataclass(frozen=True)
class Resolver:
    """Turns written names into plan columns within one scope."""

    ctx: Context
    scope: Scope
    aliases: Mapping[str, exp.Expr] = field(default_factory=dict)
    aliases_first: bool = False

    def __call__(self, node: exp.Expr) -> exp.Expr:
        """The expression over plan columns."""
        return rewrite(node, self._one)

    def _one(self, node: exp.Expr) -> exp.Expr | None:
        match node:
            case exp.In() if is_subquery(node):
                return exp.In(this=self(node.this), query=node.args["query"].copy())
            case _ if self.ctx.declared and isinstance(node, COMPARING):
                return as_compared(self.ctx, over_children(node, self._one))
            case exp.Any() | exp.All() if node.find(exp.Query):
                raise self.ctx.unsupported(
                    "a comparison with ANY or ALL of a subquery",
                    node,
                    "write IN or [NOT] EXISTS, or compare with min or max",
                    reason="QUANTIFIED",
                )
            case exp.Subquery() | exp.Exists() | exp.Query():
                return node.copy()
            case exp.Column(this=exp.Star()) | exp.Star():
                raise self.ctx.unsupported(
                    "a star inside an expression", node, "name the columns", reason="STAR"
                )
            case exp.Column():
                return self._column(node, _parts(node))
            case exp.Dot() if (dotted := _dotted(node)) is not None:
                return self._column(node, dotted)
            case exp.Count(this=exp.Star()):
                return exp.Count(this=exp.Star())
            case exp.Placeholder() | exp.Parameter():
                where = self.ctx.at(node, node.name)
                raise Invalid(
                    f"a parameter in a view ({where})",
                    hint="write the value instead",
                    reason="PARAMETER",
                )
            case exp.Func():
                return self._call(node)
            case _:
                return None

    def _call(self, node: exp.Func) -> exp.Expr | None:
        check_call(self.ctx, node)
        name = function_name(node)
        if not isinstance(node, exp.Anonymous):
            return None
        if name not in SPARK_FUNCTIONS:
            self.ctx.note(f"{name}() is not one of Spark's own; it is taken to be repeatable")
        args: list[exp.Expr] = list(node.expressions)
        if name in UNIT_FIRST and len(args) == 3 and isinstance(args[0], exp.Column):
            args[0] = exp.var(args[0].name.upper())
        new = exp.Anonymous(this=name, expressions=[self(a) for a in args])
        new.meta.update(node.meta)
        refuse_comparing(self.ctx, new)
        return new

    def _column(self, node: exp.Expr, parts: tuple[str, ...]) -> exp.Expr:
        alias = self.aliases.get(parts[0].lower())
        if alias is not None and self.aliases_first:
            return _fields(alias.copy(), parts[1:])
        if (found := self._find(self.scope, parts, node)) is not None:
            return found
        if alias is not None:
            return _fields(alias.copy(), parts[1:])
        outer = self.scope.outer
        while outer is not None:
            if (found := self._find(outer, parts, node)) is not None:
                return found
            outer = outer.outer
        if "_metadata" in {p.lower() for p in parts[:2]}:
            raise Unsupported(
                f"the hidden column _metadata cannot be kept up to date ({self.ctx.at(node)})",
                detail="it depends on how rows lie in files, so the view would not equal its definition",
                hint="leave it out, or read it from the table",
                reason="NOT_REPEATABLE",
            )
        if len(parts) == 1 and parts[0].lower() in BARE_WORDS:
            raise not_repeatable(self.ctx, node, parts[0].lower())
        raise self.scope.unknown(parts, self.ctx.at(node))

    def _find(self, scope: Scope, parts: tuple[str, ...], node: exp.Expr) -> exp.Expr | None:
        try:
            hit = scope.find(parts)
        except Invalid as ambiguous:
            raise located(ambiguous, self.ctx.at(node)) from None
        if hit is None or (hit[1] and not self._may_have_fields(hit[0].column)):
            return None
        visible, fields = hit
        refuse_hidden(visible.name, self.ctx.at(node))
        new = col(visible.column).expr
        new.meta.update(next((n.meta for n in node.walk() if n.meta), {}))
        return _fields(new, fields)

    def _may_have_fields(self, column: str) -> bool:
        known = self.ctx.types.get(column)
        type_ = VARIANT if known is None else parse(known)
        return type_ == VARIANT or isinstance(type_, StructType | ArrayType | MapType | OtherType)


def located(error: Invalid, where: str) -> Invalid:
    """An error with its place in the text."""
    message = f"{error.message} ({where})"
    return Invalid(message, detail=error.detail, hint=error.hint, reason=error.reason)


def check_call(ctx: Context, node: exp.Expr) -> None:
    """Refuse a call whose value is not a function of the rows."""
    name = function_name(node)
    if name in NOT_REPEATABLE and not _is_repeatable_call(name, node.expressions):
        raise not_repeatable(ctx, node, name)
    if name == "identifier" and isinstance(node, exp.Anonymous):
        raise ctx.unsupported(
            "IDENTIFIER(…)", node, "write the name itself", reason="IDENTIFIER_CLAUSE"
        )
    if name in GENERATORS:
        raise ctx.unsupported(
            f"{name}(), which makes several rows of one,",
            node,
            "store the exploded rows in a table",
            reason="GENERATOR",
        )
    if name in TIME_WINDOWS and node.expressions:
        raise _window_over_time(ctx, node, name)
    if name in REFUSED_AGGREGATES and not _in_window(node):
        why, hint = REFUSED_AGGREGATES[name]
        raise ctx.unsupported(f"{name}()", node, hint, reason="NOT_REPEATABLE", detail=why)


def _is_repeatable_call(name: str, args: Sequence[exp.Expr]) -> bool:
    """Whether a call of a function that may give another value each time gives one value."""
    match name, args:
        case "unix_timestamp", [_, *_]:
            return True
        case "aes_encrypt", [_, _, exp.Literal() as mode] | [_, _, exp.Literal() as mode, _]:
            return bool(mode.name.upper() == "ECB")
        case "aes_encrypt", [_, _, _, _, vector, *_]:
            return _is_some_constant(vector)
        case _:
            return False


def _is_some_constant(node: exp.Expr) -> bool:
    """Whether a value is written out and not empty, perhaps in hexadecimal or as a cast."""
    match bare(node):
        case exp.Cast(this=inner):
            return _is_some_constant(inner)
        case exp.Anonymous(this=function, expressions=[inner, *_]):
            return str(function).lower() in ("unhex", "to_binary") and _is_some_constant(inner)
        case exp.Literal() | exp.HexString() as constant:
            return bool(constant.name)
        case _:
            return False


def refuse_time_windows(ctx: Context, select: exp.Select) -> None:
    """Refuse a query block that groups by windows over time, before their names are resolved."""
    for node in select.walk(prune=lambda n: n is not select and isinstance(n, exp.Query)):
        if isinstance(node, exp.Func) and function_name(node) in TIME_WINDOWS and node.expressions:
            raise _window_over_time(ctx, node, function_name(node))


def _window_over_time(ctx: Context, node: exp.Expr, name: str) -> Unsupported:
    return ctx.unsupported(
        f"{name}() over time",
        node,
        "group by date_trunc('hour', t), or by floor(unix_timestamp(t) / 300) for five minutes",
        reason="WINDOW_OVER_TIME",
    )


def not_repeatable(ctx: Context, node: exp.Expr, name: str) -> Unsupported:
    """The error for a value that would differ when computed again."""
    shown = {"currentdate": "current_date", "currenttimestamp": "current_timestamp"}.get(name, name)
    why = NOT_REPEATABLE.get(name, "it depends on when it is evaluated")
    return Unsupported(
        f"{shown}() cannot be kept up to date ({ctx.at(node, shown)})",
        detail=f"{why}, so the view would not equal its definition",
        hint="apply it when reading the view, or store the value in a table",
        reason="NOT_REPEATABLE",
    )


def refuse_hidden(name: str, where: str) -> None:
    """Refuse a user's column whose name is reserved for hidden columns."""
    if name.startswith("__"):
        raise Unsupported(
            f"column {name!r} starts with '__' ({where})",
            detail="such names are kept for the hidden columns of stored views",
            hint="rename the column, or leave it out",
            reason="RESERVED_NAME",
        )


def _in_window(node: exp.Expr) -> bool:
    parent = node.parent
    while isinstance(parent, exp.IgnoreNulls | exp.RespectNulls | exp.Filter | exp.WithinGroup):
        parent = parent.parent
    return isinstance(parent, exp.Window)


def _parts(node: exp.Column) -> tuple[str, ...]:
    return tuple(p.name for p in node.parts)


def _dotted(node: exp.Dot) -> tuple[str, ...] | None:
    if not isinstance(node.expression, exp.Identifier):
        return None
    match node.this:
        case exp.Column() if not isinstance(node.this.this, exp.Star):
            return (*_parts(node.this), node.expression.name)
        case exp.Dot():
            inner = _dotted(node.this)
            return None if inner is None else (*inner, node.expression.name)
        case _:
            return None


def _fields(value: exp.Expr, fields: tuple[str, ...]) -> exp.Expr:
    for name in fields:
        base = exp.paren(value, copy=False) if isinstance(value, exp.Binary) else value
        base = value if isinstance(value, exp.Dot) else base
        value = exp.Dot(this=base, expression=exp.to_identifier(name, quoted=True))
    return value
