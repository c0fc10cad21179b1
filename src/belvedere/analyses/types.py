"""The type of every column of a plan, as the engine itself gives it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import assert_never

from belvedere.algebra.relations import (
    Agg,
    Aggregate,
    Change,
    Distinct,
    Empty,
    Except,
    Filter,
    Intersect,
    Join,
    Negate,
    Net,
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
from belvedere.algebra.scalars import Scalar, call, col
from belvedere.algebra.walks import children

Types = Mapping[str, str]

Ask = Callable[[Mapping[str, str], Types], Types]
"""The types of named expressions (SQL text) over columns of given types."""


def types(q: Rel, ask: Ask) -> dict[str, str]:
    """Column name -> type, for every column anywhere in a definition."""
    kinds: dict[str, str] = {}
    for child in children(q):
        kinds |= types(child, ask)
    match q:
        case Scan() | Change():
            kinds |= {f.name: f.type for f in q.fields}
        case Project():
            _learn(kinds, {o.name: o.value for o in q.outputs}, ask)
        case Aggregate():
            _learn(kinds, {a.name: a.call for a in q.aggregates}, ask)
            _learn(kinds, {argument(a): a.args[0] for a in q.aggregates if a.args}, ask)
        case Window():
            _learn(kinds, {f.name: f.value for f in q.functions}, ask)
        case Union() | Except() | Intersect():
            sides = zip(q.columns, *(c.columns for c in children(q)), strict=True)
            _learn(kinds, {name: _widest(parts) for name, *parts in sides}, ask)
        case Filter() | Join() | Distinct() | TopK() | Restrict() | Empty():
            pass
        case Negate() | Net() | Support() | Unsigned():
            pass
        case _:
            assert_never(q)
    return kinds


def argument(a: Agg) -> str:
    """The name under which `types` gives the type of an aggregate's first argument."""
    return f"{a.name}()"


def _widest(parts: list[str]) -> Scalar:
    return col(parts[0]) if len(set(parts)) == 1 else call("coalesce", *(col(p) for p in parts))


def _learn(kinds: dict[str, str], outputs: Mapping[str, Scalar], ask: Ask) -> None:
    """Add the types of new columns; the engine is asked only about computed ones."""
    new = {}
    for name, value in outputs.items():
        if value.column in kinds:
            new[name] = kinds[value.column]
    computed = {n: v for n, v in outputs.items() if n not in new}
    if computed:
        read = {c for v in computed.values() for c in v.columns}
        texts = {n: v.sql() for n, v in computed.items()}
        new |= ask(texts, {c: kinds[c] for c in sorted(read)})
    kinds |= new
