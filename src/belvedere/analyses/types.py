"""The type of every column of a plan, as the engine itself would say."""

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
    known: dict[str, str] = {}
    for child in children(q):
        known |= types(child, ask)
    match q:
        case Scan() | Change():
            known |= {f.name: f.type for f in q.fields}
        case Project():
            _learn(known, {o.name: o.value for o in q.outputs}, ask)
        case Aggregate():
            _learn(known, {a.name: a.call for a in q.aggregates}, ask)
            _learn(known, {argument(a): a.args[0] for a in q.aggregates if a.args}, ask)
        case Window():
            _learn(known, {f.name: f.value for f in q.functions}, ask)
        case Union() | Except() | Intersect():
            sides = zip(q.columns, *(c.columns for c in children(q)), strict=True)
            _learn(known, {name: _widest(parts) for name, *parts in sides}, ask)
        case Filter() | Join() | Distinct() | TopK() | Restrict() | Empty():
            pass
        case Negate() | Net() | Support() | Unsigned():
            pass
        case _:
            assert_never(q)
    return known


def argument(a: Agg) -> str:
    """Under which name the type of an aggregate's first argument is known."""
    return f"{a.name}()"


def _widest(parts: list[str]) -> Scalar:
    return col(parts[0]) if len(set(parts)) == 1 else call("coalesce", *(col(p) for p in parts))


def _learn(known: dict[str, str], outputs: Mapping[str, Scalar], ask: Ask) -> None:
    """Adds the types of new columns, asking only about those that are computed."""
    new = {}
    for name, value in outputs.items():
        if value.column in known:
            new[name] = known[value.column]
    computed = {n: v for n, v in outputs.items() if n not in new}
    if computed:
        read = {c for v in computed.values() for c in v.columns}
        texts = {n: v.sql() for n, v in computed.items()}
        new |= ask(texts, {c: known[c] for c in sorted(read)})
    known |= new
