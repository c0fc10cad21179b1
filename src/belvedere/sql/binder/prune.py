"""Prune: columns that are not read are not carried, and not scanned.

The pruned plan has the needed columns and perhaps more, in the old order. What compares whole
rows (Distinct, INTERSECT, EXCEPT, TopK with its ties, Support) needs every column.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import replace
from typing import assert_never

from belvedere.algebra.relations import (
    Aggregate,
    Change,
    Distinct,
    Empty,
    Except,
    Field,
    Filter,
    Intersect,
    Join,
    Keys,
    Negate,
    Net,
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
from belvedere.algebra.scalars import Scalar, col
from belvedere.algebra.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    TINYINT,
    parse,
)

_NARROW = (BOOLEAN, TINYINT, SMALLINT, INT, DATE, BIGINT, FLOAT, DOUBLE)


def pruned(q: Rel) -> Rel:
    """The plan without the columns that it does not read; its output columns all stay."""
    return _keep(q, frozenset(q.columns))


def _keep(q: Rel, needed: Set[str]) -> Rel:
    match q:
        case Scan() | Change():
            return replace(q, fields=_fields(q.fields, needed))
        case Empty():
            return q
        case Filter():
            return Filter(_keep(q.child, needed | q.predicate.columns), q.predicate)
        case Project():
            outputs = tuple(o for o in q.outputs if o.name in needed) or q.outputs[:1]
            return _project(_keep(q.child, _read(o.value for o in outputs)), outputs)
        case Join():
            read = needed | q.on.columns
            return replace(q, left=_keep(q.left, read), right=_keep(q.right, read))
        case Aggregate():
            return _aggregate(q, needed)
        case Union():
            return _union(q, needed)
        case Window():
            return _window(q, needed)
        case Distinct() | TopK() | Support() | Unsigned() | Net():
            return replace(q, child=_keep(q.child, frozenset(q.columns)))
        case Except() | Intersect():
            left, right = frozenset(q.left.columns), frozenset(q.right.columns)
            return replace(q, left=_keep(q.left, left), right=_keep(q.right, right))
        case Negate():
            return replace(q, child=_keep(q.child, needed))
        case Restrict():
            by = Keys(_keep(q.among, frozenset(q.among.columns)))
            return Restrict(_keep(q.child, needed | set(q.key)), q.key, by)
        case _:
            assert_never(q)


def _project(child: Rel, outputs: tuple[Output, ...]) -> Rel:
    """A projection, unless it changes nothing."""
    same = tuple(o.value.column for o in outputs) == tuple(o.name for o in outputs)
    return (
        child
        if same and child.columns == tuple(o.name for o in outputs)
        else Project(child, outputs)
    )


def _read(scalars: Iterable[Scalar]) -> frozenset[str]:
    return frozenset(c for s in scalars for c in s.columns)


def _fields(fields: tuple[Field, ...], needed: Set[str]) -> tuple[Field, ...]:
    """The needed fields; of none, the narrowest, for rows must still be counted."""
    kept = tuple(f for f in fields if f.name in needed)
    return kept or (min(fields, key=lambda f: _width(f.type)),)


def _width(kind: str) -> int:
    type_ = parse(kind)
    return _NARROW.index(type_) if type_ in _NARROW else len(_NARROW) + bool(type_.parts)


def _aggregate(q: Aggregate, needed: Set[str]) -> Rel:
    kept = tuple(a for a in q.aggregates if a.name in needed)
    if not kept and not q.keys:
        kept = q.aggregates[:1]
    read = _read(x for a in kept for x in a.args) | set(q.keys)
    return Aggregate(_keep(q.child, read), q.keys, kept)


def _union(q: Union, needed: Set[str]) -> Rel:
    positions = [i for i, c in enumerate(q.columns) if c in needed] or [0]
    kept = []
    for child in q.children:
        names = tuple(child.columns[i] for i in positions)
        kept.append(_exactly(_keep(child, frozenset(names)), names))
    return Union(tuple(kept), tuple(q.columns[i] for i in positions))


def _exactly(q: Rel, names: tuple[str, ...]) -> Rel:
    if q.columns == names:
        return q
    return Project(q, tuple(Output(n, col(n)) for n in names))


def _window(q: Window, needed: Set[str]) -> Rel:
    functions = tuple(f for f in q.functions if f.name in needed)
    read = needed | _read(f.value for f in functions) | set(q.partition)
    if not functions:
        return _keep(q.child, needed)
    return Window(_keep(q.child, read), q.partition, functions)
