"""Scalars: opaque values that wrap a sqlglot expression over a plan's column names.

There is no second expression language here. Rules ask a scalar for its columns, its conjuncts
and whether it is repeatable, and may substitute columns; only SQL engines look inside.
Columns stand unqualified and quoted: names are unique among the relations a plan joins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from sqlglot import exp

_LOOSE = (exp.Binary, exp.Not, exp.Neg, exp.BitwiseNot, exp.Between, exp.In)


@dataclass(frozen=True)
class Scalar:
    """A value computed from the columns of one row."""

    expr: exp.Expr

    @cached_property
    def columns(self) -> frozenset[str]:
        """The plan columns it reads.

        >>> sorted(call("coalesce", col("a"), col("b")).columns)
        ['a', 'b']
        """
        return frozenset(c.name for c in self.expr.find_all(exp.Column))

    @cached_property
    def conjuncts(self) -> tuple[Scalar, ...]:
        """The parts that AND holds together; TRUE has none.

        >>> [str(c) for c in both(equal(col("a"), col("b")), col("c")).conjuncts]
        ['`a` = `b`', '`c`']
        """
        match self.expr:
            case exp.Paren(this=inner):
                return Scalar(inner).conjuncts
            case exp.And(this=left, expression=right):
                return Scalar(left).conjuncts + Scalar(right).conjuncts
            case exp.Boolean(this=True):
                return ()
            case _:
                return (self,)

    @cached_property
    def column(self) -> str | None:
        """Its name if it is a bare column."""
        return self.expr.name if isinstance(self.expr, exp.Column) else None

    def substitute(self, by: Mapping[str, Scalar]) -> Scalar:
        """Columns replaced by scalars, all at once.

        >>> str(col("a").substitute({"a": col("b")}))
        '`b`'
        """

        def swap(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Column) and node.name in by:
                inner = by[node.name].expr.copy()
                return exp.paren(inner, copy=False) if isinstance(inner, _LOOSE) else inner
            return node

        return Scalar(self.expr.transform(swap)) if self.columns & by.keys() else self

    def rename(self, names: Mapping[str, str]) -> Scalar:
        """Columns renamed, all at once."""
        return self.substitute({old: col(names[old]) for old in self.columns & names.keys()})

    def sql(self, dialect: str = "spark") -> str:
        """Its text in a dialect."""
        return self.expr.sql(dialect=dialect)

    @cached_property
    def _text(self) -> str:
        return self.sql()

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Scalar({self.sql()})"


def col(name: str) -> Scalar:
    """The column of that name."""
    return Scalar(exp.Column(this=exp.to_identifier(name, quoted=True)))


def lit(value: str | int | float | bool | None) -> Scalar:
    """A constant.

    >>> str(lit(None)), str(lit("a'b")), str(lit(True))
    ('NULL', "'a\\\\'b'", 'TRUE')
    """
    return Scalar(exp.convert(value))


def call(function: str, *args: Scalar) -> Scalar:
    """A function applied, in Spark's vocabulary.

    Only functions every dialect writes the same are understood; sqlglot would rewrite others.
    """
    parts = [a.expr.copy() for a in args]
    if function in _UNDERSTOOD:
        return Scalar(exp.func(function, *parts, dialect="spark"))
    return Scalar(exp.Anonymous(this=function, expressions=parts))


_UNDERSTOOD = frozenset(("count", "sum", "avg", "min", "max", "coalesce", "greatest", "least"))


def condition(e: exp.Expr) -> exp.Expr:
    """A copy of a condition that Spark takes for one where it stands alone, in WHERE or ON.

    AND turns NULL and texts into booleans, WHERE does not.

    >>> condition(exp.null()).sql(), condition(equal(col("a"), col("b")).expr).sql()
    ('NULL AND TRUE', '"a" = "b"')
    """
    boolean = isinstance(e.unnest(), exp.Predicate | exp.Connector | exp.Not | exp.Boolean)
    return e.copy() if boolean else exp.and_(e, exp.true())


def equal(a: Scalar, b: Scalar) -> Scalar:
    """`a = b`: NULL when either is."""
    return Scalar(exp.EQ(this=operand(a).expr.copy(), expression=operand(b).expr.copy()))


def same(a: Scalar, b: Scalar) -> Scalar:
    """`a <=> b`: equal, with NULL equal to NULL."""
    return Scalar(exp.NullSafeEQ(this=operand(a).expr.copy(), expression=operand(b).expr.copy()))


def padded(text: Scalar, length: int) -> Scalar:
    """The text with spaces behind it up to so many characters; a longer one as it is.

    >>> str(padded(col("a"), 5))
    "RPAD(`a`, GREATEST(5, LENGTH(`a`)), ' ')"
    """
    # GREATEST leaves NULL out, so that only RPAD sees it. RPAD alone cuts longer texts off.
    longest = call("greatest", lit(length), Scalar(exp.Length(this=text.expr.copy())))
    return Scalar(
        exp.Pad(
            this=text.expr.copy(),
            expression=longest.expr,
            fill_pattern=exp.Literal.string(" "),
            is_left=False,
        )
    )


def padded_length(e: exp.Expr) -> int | None:
    """To how many characters `padded` pads a text; None if something else made the expression.

    >>> padded_length(padded(col("a"), 5).expr), padded_length(col("a").expr)
    (5, None)
    """
    match e:
        case exp.Pad(this=text, expression=exp.Greatest(this=exp.Literal() as least)):
            length = int(least.this) if least.is_int else 0
            return length if e == padded(Scalar(text), length).expr else None
        case _:
            return None


def operand(value: Scalar) -> Scalar:
    """The value, in parentheses where an operator beside it would bind more tightly."""
    return Scalar(exp.paren(value.expr)) if isinstance(value.expr, _LOOSE) else value


def both(*parts: Scalar) -> Scalar:
    """All of them; of none, TRUE."""
    return every(parts)


def every(parts: Iterable[Scalar]) -> Scalar:
    """The conjunction of any number of scalars."""
    exprs = [p.expr.copy() for p in parts]
    return Scalar(exp.and_(*exprs, copy=False)) if exprs else TRUE


TRUE = Scalar(exp.true())
