"""Columns of CHAR(n): read and compared as Spark reads and compares them.

A writer stores the text it is given; Spark alone pads it to n characters, when it reads. Its type
is STRING from there on, but a column that has such values untouched is compared in a way of its own:

    ch op 'text'     the shorter side is padded to the length of the longer
    ch IN ('a', 'b') all sides are padded to the length of the longest; not with NULL among them
    ch op other      likewise if both columns are CHAR; else they are compared as texts
    anything else    as texts
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from belvedere.algebra.scalars import Scalar, padded
from belvedere.algebra.types import CharType, OtherType, parse

if TYPE_CHECKING:
    from belvedere.sql.binder.context import Context

_COMPARISONS = (
    exp.EQ,
    exp.NEQ,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
)
COMPARING = (*_COMPARISONS, exp.In, exp.Case)
"""Expressions in which values of CHAR are compared as such; not so BETWEEN and NULLIF."""


def char_length(declared: str) -> int | None:
    """To how many characters Spark pads the values of a column; None if it is not CHAR itself.

    >>> char_length("char(5)"), char_length("varchar(5)"), char_length("array<char(5)>")
    (5, None, None)
    """
    type_ = parse(declared)
    return type_.length if isinstance(type_, CharType) else None


def has_char(declared: str) -> bool:
    """Whether Spark pads values of a column, or parts of them.

    >>> has_char("struct<a:char(5)>"), has_char("varchar(5)")
    (True, False)
    """
    return any(
        isinstance(type_, CharType) or (isinstance(type_, OtherType) and "char(" in type_.text)
        for type_ in parse(declared).nested
    )


def as_compared(ctx: Context, node: exp.Expr) -> exp.Expr:
    """A comparison over plan columns, as Spark makes it of those that are CHAR."""
    match node:
        case exp.In() if node.expressions:
            this, *others = _alike(ctx, node, [node.this, *node.expressions])
            return exp.In(this=this, expressions=others)
        case exp.Case() if node.this:
            return _searched(ctx, node)
        case _ if isinstance(node, _COMPARISONS):
            one, other = _alike(ctx, node, [node.this, node.expression])
            return type(node)(this=one, expression=other)
        case _:
            return node


def refuse_comparing(ctx: Context, call: exp.Anonymous) -> None:
    """Refuse functions that compare a column of CHAR in Spark's own way."""
    name, args = str(call.this).lower(), call.expressions
    compares = name == "equal_null" or (name == "decode" and len(args) > 2)
    if compares and any(_declared(ctx, e) for e in args):
        raise ctx.unsupported(
            f"{name}() of a column of CHAR",
            call,
            "write <=>, or CASE WHEN … = …",
            reason="CHAR_COMPARISON",
        )


def _searched(ctx: Context, node: exp.Case) -> exp.Expr:
    """CASE x WHEN y … as CASE WHEN x = y …, where x or y is CHAR."""
    compared = [node.this, *(branch.this for branch in node.args["ifs"])]
    if not any(_declared(ctx, e) for e in compared):
        return node
    branches = []
    for branch in node.args["ifs"]:
        one, other = _alike(ctx, node, [node.this, branch.this])
        equal = exp.EQ(this=_operand(one), expression=_operand(other))
        branches.append(exp.If(this=equal, true=branch.args["true"].copy()))
    default = node.args.get("default")
    return exp.Case(ifs=branches, default=default.copy() if default else None)


def _alike(ctx: Context, node: exp.Expr, sides: list[exp.Expr]) -> list[exp.Expr]:
    """The sides of a comparison, padded to one length if Spark pads them."""
    first = next((e for e in sides if _declared(ctx, e)), None)
    if first is None:
        return sides
    others = [e for e in sides if e is not first]
    if all(_declared(ctx, e) for e in others):
        return _columns_alike(ctx, node, sides)
    if isinstance(node, exp.In) and first is not node.this:
        return sides
    if char_length(_declared(ctx, first)) is None or any(e.find(exp.Column) for e in others):
        return sides
    for e in others:
        _refuse_computed(ctx, node, e)
    # NULL has another type: Spark casts the whole list for it, and then sees no column any more.
    if not all(map(_is_text, map(_bare, others))):
        return sides
    return _padded_to(ctx, sides, _longest(ctx, sides))


def _columns_alike(ctx: Context, node: exp.Expr, sides: list[exp.Expr]) -> list[exp.Expr]:
    declared = {_declared(ctx, e) for e in sides}
    if len(declared) == 1:
        return sides
    if any(char_length(kind) is None for kind in declared):
        raise ctx.unsupported(
            "a comparison of nested values with CHAR of other lengths",
            node,
            "compare their parts",
            reason="CHAR_COMPARISON",
        )
    return _padded_to(ctx, sides, _longest(ctx, sides))


def _refuse_computed(ctx: Context, node: exp.Expr, e: exp.Expr) -> None:
    """Spark pads whatever constant it can compute; here its text must stand there."""
    plain = exp.Literal | exp.Boolean | exp.Null | exp.Neg | exp.Subquery | exp.Query | exp.Interval
    inner = _bare(e)
    other_type = isinstance(inner, exp.Cast) and not inner.to.is_type(*exp.DataType.TEXT_TYPES)
    if not (isinstance(inner, plain) or other_type or inner.find(exp.Query)):
        raise ctx.unsupported(
            "a comparison of a column of CHAR with a constant that is computed",
            node,
            "write the text itself, or CAST(… AS STRING) around the column",
            reason="CHAR_COMPARISON",
        )


def _padded_to(ctx: Context, sides: list[exp.Expr], length: int) -> list[exp.Expr]:
    return [_padded(ctx, e, length) for e in sides]


def _padded(ctx: Context, e: exp.Expr, length: int) -> exp.Expr:
    if _is_text(_bare(e)):
        return exp.Literal.string(_bare(e).this.ljust(length))
    if (char_length(_declared(ctx, e)) or length) < length:
        return padded(Scalar(e), length).expr
    return e


def _longest(ctx: Context, sides: list[exp.Expr]) -> int:
    texts = (len(_bare(e).this) for e in sides if _is_text(_bare(e)))
    lengths = (char_length(_declared(ctx, e)) or 0 for e in sides)
    return max(*texts, *lengths, 0)


def _declared(ctx: Context, e: exp.Expr) -> str:
    """What a column that has values of CHAR was declared with; nothing for other expressions."""
    inner = _bare(e)
    return ctx.declared.get(inner.name, "") if isinstance(inner, exp.Column) else ""


def _is_text(e: exp.Expr) -> bool:
    return isinstance(e, exp.Literal) and e.is_string


def _bare(e: exp.Expr) -> exp.Expr:
    while isinstance(e, exp.Paren):
        e = e.this
    return e


def _operand(e: exp.Expr) -> exp.Expr:
    return exp.paren(e) if isinstance(e, exp.Binary | exp.Not | exp.Between | exp.In) else e.copy()
