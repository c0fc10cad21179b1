"""Walks: how every function over plans reaches children, rebuilds nodes and finds tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import assert_never

from belvedere.algebra.relations import (
    Aggregate,
    At,
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


def children(q: Rel) -> tuple[Rel, ...]:
    """The relations a node is made of, in order; of a Restrict, the keys' last."""
    match q:
        case Scan() | Change() | Empty():
            return ()
        case Filter() | Project() | Aggregate() | Distinct() | Window() | TopK():
            return (q.child,)
        case Negate() | Net() | Support() | Unsigned():
            return (q.child,)
        case Join() | Except() | Intersect():
            return (q.left, q.right)
        case Union():
            return q.children
        case Restrict(by=Keys(rel)):
            return (q.child, rel)
        case Restrict():
            return (q.child,)
        case _:
            assert_never(q)


def with_children(q: Rel, new: Sequence[Rel]) -> Rel:
    """The same node over other children, in the order `children` gives."""
    match q:
        case Scan() | Change() | Empty():
            return q
        case Filter() | Project() | Aggregate() | Distinct() | Window() | TopK():
            return replace(q, child=new[0])
        case Negate() | Net() | Support() | Unsigned():
            return replace(q, child=new[0])
        case Join() | Except() | Intersect():
            return replace(q, left=new[0], right=new[1])
        case Union():
            return replace(q, children=tuple(new))
        case Restrict(by=Keys()):
            return replace(q, child=new[0], by=Keys(new[1]))
        case Restrict():
            return replace(q, child=new[0])
        case _:
            assert_never(q)


def bottom_up(q: Rel, f: Callable[[Rel], Rel]) -> Rel:
    """`f` applied to every node, children first; shared subplans stay shared."""
    done: dict[int, Rel] = {}

    def go(node: Rel) -> Rel:
        if id(node) not in done:
            old = children(node)
            new = [go(child) for child in old]
            same = all(a is b for a, b in zip(old, new, strict=True))
            done[id(node)] = f(node if same else with_children(node, new))
        return done[id(node)]

    return go(q)


def nodes(q: Rel) -> Iterator[Rel]:
    """Every node, parents first."""
    yield q
    for child in children(q):
        yield from nodes(child)


def each_once(q: Rel) -> list[Rel]:
    """Every node, one that several share only once; each after all that it is a part of."""
    seen: set[int] = set()
    order: list[Rel] = []

    def visit(node: Rel) -> None:
        if id(node) not in seen:
            seen.add(id(node))
            for child in children(node):
                visit(child)
            order.append(node)

    visit(q)
    return order[::-1]


def tables(q: Rel) -> tuple[str, ...]:
    """The tables a plan reads, in order of first mention."""
    return tuple(dict.fromkeys(n.table for n in nodes(q) if isinstance(n, Scan | Change)))


def at(q: Rel, state: At) -> Rel:
    """The plan with every table read in one state."""

    def turn(node: Rel) -> Rel:
        if isinstance(node, Scan) and isinstance(node.at, At) and node.at is not state:
            return replace(node, at=state)
        return node

    return bottom_up(q, turn)
