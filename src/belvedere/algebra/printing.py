"""Printing: a plan as an indented tree a person can read, one node per line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from sqlglot import exp

from belvedere.algebra.relations import (
    Agg,
    Aggregate,
    At,
    Change,
    Distinct,
    Empty,
    Except,
    Field,
    Filter,
    Intersect,
    Join,
    JoinKind,
    Negate,
    Net,
    Order,
    Output,
    Project,
    Rel,
    Restrict,
    Scan,
    Support,
    TopK,
    Union,
    Unsigned,
    Window,
)
from belvedere.algebra.scalars import Scalar
from belvedere.algebra.walks import children


def tree(q: Rel, depth: int = 0) -> str:
    """The plan, children indented under their parents.

    >>> from belvedere.algebra.scalars import col
    >>> log = Scan("log", (Field("v", "v", "int"), Field("b", "bytes", "int")))
    >>> print(tree(Aggregate(log, ("v",), (Agg("n", "count"), Agg("s", "sum", (col("b"),))))))
    Aggregate by v: n = count(*), s = sum(b)
      Scan log: v, b = bytes
    """
    lines = ["  " * depth + line(q)]
    lines += [tree(child, depth + 1) for child in children(q)]
    return "\n".join(lines)


def line(q: Rel) -> str:
    """One node without its children."""
    match q:
        case Scan(table, fields, at):
            when = "" if at is At.NEW else f" at {at.value if isinstance(at, At) else at}"
            return f"Scan {table}{when}: {_listed(map(_field, fields))}"
        case Change(table, fields):
            return f"Change of {table}: {_listed(map(_field, fields))}"
        case Filter(_, predicate):
            return f"Filter {text(predicate)}"
        case Project(_, outputs):
            return f"Project {_listed(map(_output, outputs))}"
        case Join(_, _, kind, on):
            return _join(kind, on)
        case Aggregate(_, keys, aggregates):
            by = f" by {_listed(map(_name, keys))}" if keys else ""
            return f"Aggregate{by}: {_listed(map(_agg, aggregates))}".removesuffix(": ")
        case Window(_, partition, functions):
            by = f" by {_listed(map(_name, partition))}" if partition else " over everything"
            return f"Window{by}: {_listed(map(_output, functions))}"
        case TopK(_, order, limit, offset):
            after = f" after {offset}" if offset else ""
            return f"TopK {limit}{after} by {_listed(map(_order, order))}"
        case Union(_, columns):
            return f"Union: {_listed(map(_name, columns))}"
        case Except(_, _, columns, all_) | Intersect(_, _, columns, all_):
            return f"{type(q).__name__}{' all' if all_ else ''}: {_listed(map(_name, columns))}"
        case Restrict(_, key, _):
            return f"Restrict to keys of {_listed(map(_name, key))}"
        case Empty(columns):
            return f"Empty: {_listed(map(_name, columns))}"
        case Distinct() | Negate() | Support() | Unsigned() | Net():
            return type(q).__name__
        case _:
            assert_never(q)


def text(value: Scalar) -> str:
    """A scalar in Spark's SQL, without quotes around plain names.

    >>> from belvedere.algebra.scalars import col
    >>> text(col("a")), text(col("a b"))
    ('a', '`a b`')
    """

    def plain(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Identifier) and _is_plain(node.name):
            return exp.to_identifier(node.name, quoted=False)
        return node

    return value.expr.transform(plain).sql(dialect="spark", normalize_functions="lower")


def _is_plain(name: str) -> bool:
    return name.isascii() and name.isidentifier()


def _name(name: str) -> str:
    return name if _is_plain(name) else "`" + name.replace("`", "``") + "`"


def _field(f: Field) -> str:
    return _name(f.name) if f.name == f.source else f"{_name(f.name)} = {_name(f.source)}"


def _output(o: Output) -> str:
    return _name(o.name) if o.value.column == o.name else f"{_name(o.name)} = {text(o.value)}"


def _agg(a: Agg) -> str:
    args = ", ".join(text(x) for x in a.args) or "*"
    return f"{_name(a.name)} = {a.function}({'DISTINCT ' if a.distinct else ''}{args})"


def _order(o: Order) -> str:
    direction = " desc" if o.descending else ""
    unusual = o.nulls_first is o.descending
    nulls = f" nulls {'first' if o.nulls_first else 'last'}" if unusual else ""
    return f"{_name(o.column)}{direction}{nulls}"


def _join(kind: JoinKind, on: Scalar) -> str:
    word = f"{kind.value.capitalize()} join"
    return f"{word} on {text(on)}" if on.conjuncts else f"{word} with everything"


def _listed(parts: Iterable[str]) -> str:
    return ", ".join(parts)
