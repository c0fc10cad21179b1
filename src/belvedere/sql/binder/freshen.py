"""Freshen: a plan used inside another gets column names of its own."""

from __future__ import annotations

from dataclasses import replace
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
from belvedere.algebra.walks import nodes
from belvedere.sql.binder.naming import Namer


def freshen(q: Rel, names: Namer) -> Rel:
    """The same plan with every column renamed to one no other has."""
    new: dict[str, str] = {}
    for node in nodes(q):
        for column in node.columns:
            if column not in new:
                new[column] = names.fresh(column)
    return rename(q, new)


def rename(q: Rel, names: dict[str, str]) -> Rel:
    """The same plan with its columns renamed throughout, all at once."""
    return _Renaming(names).turn(q)


class _Renaming:
    def __init__(self, names: dict[str, str]) -> None:
        self._names = names
        self._done: dict[int, Rel] = {}

    def turn(self, q: Rel) -> Rel:
        if id(q) not in self._done:
            self._done[id(q)] = self._turn(q)
        return self._done[id(q)]

    def _turn(self, q: Rel) -> Rel:
        match q:
            case Scan() | Change():
                fields = tuple(replace(f, name=self._name(f.name)) for f in q.fields)
                return replace(q, fields=fields)
            case Filter():
                return Filter(self.turn(q.child), q.predicate.rename(self._names))
            case Project():
                return Project(self.turn(q.child), self._outputs(q.outputs))
            case Join():
                left, right = self.turn(q.left), self.turn(q.right)
                return Join(left, right, q.kind, q.on.rename(self._names))
            case Aggregate():
                aggregates = tuple(self._aggregate(a) for a in q.aggregates)
                return Aggregate(self.turn(q.child), self._all(q.keys), aggregates)
            case Distinct() | Negate() | Support() | Unsigned() | Net():
                return replace(q, child=self.turn(q.child))
            case Union():
                return Union(tuple(self.turn(c) for c in q.children), self._all(q.columns))
            case Except() | Intersect():
                left, right = self.turn(q.left), self.turn(q.right)
                return type(q)(left, right, self._all(q.columns), q.all)
            case Window():
                functions = self._outputs(q.functions)
                return Window(self.turn(q.child), self._all(q.partition), functions)
            case TopK():
                order = tuple(replace(o, column=self._name(o.column)) for o in q.order)
                return TopK(self.turn(q.child), order, q.limit, q.offset)
            case Restrict():
                return Restrict(self.turn(q.child), self._all(q.key), Keys(self.turn(q.among)))
            case Empty():
                return Empty(self._all(q.columns))
            case _:
                assert_never(q)

    def _name(self, name: str) -> str:
        return self._names.get(name, name)

    def _all(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self._name(n) for n in names)

    def _outputs(self, outputs: tuple[Output, ...]) -> tuple[Output, ...]:
        return tuple(Output(self._name(o.name), o.value.rename(self._names)) for o in outputs)

    def _aggregate(self, a: Agg) -> Agg:
        args = tuple(x.rename(self._names) for x in a.args)
        return replace(a, name=self._name(a.name), args=args)
