"""η: the plan of a sample, which keeps a row if the hash of its key is below a bound.

    η(Q) = push(Restrict(Q, key, hash)), and where that stops a filter stands

The law is that of `rules/restrict.py`: the same rows as η applied last (SVC Theorem 1). `Stop`
says where a filter came to stand, and what kept it from going lower.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from sqlglot import exp

from belvedere.algebra.hashing import bound, hashed
from belvedere.algebra.relations import (
    Aggregate,
    Change,
    Distinct,
    Empty,
    Except,
    Filter,
    Hash,
    Intersect,
    Join,
    JoinKind,
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
from belvedere.algebra.scalars import Scalar, lit
from belvedere.algebra.walks import bottom_up, each_once, tables
from belvedere.analyses.types import Types
from belvedere.rules.restrict import push


@dataclass(frozen=True)
class Stop:
    """Where η stands: on which columns, above what, and why not lower."""

    key: tuple[str, ...]
    above: str
    why: str
    at_table: bool

    def __str__(self) -> str:
        where = f"η({', '.join(self.key)}) at {self.above}"
        return where if self.at_table else f"{where}: {self.why}"


@dataclass(frozen=True)
class Sampled:
    """A sampled plan, where η went, and the tables that are read whole."""

    plan: Rel
    stops: tuple[Stop, ...]
    whole: tuple[str, ...]


def sample(q: Rel, key: tuple[str, ...], by: Hash, types: Types) -> Sampled:
    """η(Q), pushed as low as it goes."""
    pushed = push(Restrict(q, key, by))
    stops: list[Stop] = []
    reduced: set[int] = set()
    for node in each_once(pushed):
        if isinstance(node, Restrict) and isinstance(node.by, Hash):
            stops.append(_stop(node.child, node.key))
            reduced |= {id(n) for n in each_once(node.child)} if stops[-1].at_table else set()
    whole = [n.table for n in each_once(pushed) if isinstance(n, Scan) and id(n) not in reduced]
    return Sampled(_settled(pushed, types), tuple(stops), tuple(dict.fromkeys(whole)))


def placed(*plans: Rel) -> tuple[tuple[Stop, ...], tuple[str, ...]]:
    """Where η stands in plans that were sampled, and the tables that are read whole."""
    stops, hashed, whole = list[Stop](), set[int](), list[str]()
    for node in (n for plan in plans for n in each_once(plan)):
        if isinstance(node, Filter) and is_hash(node.predicate):
            key = dict.fromkeys(c.name for c in node.predicate.expr.find_all(exp.Column))
            stops.append(_stop(node.child, tuple(key)))
            hashed.add(id(node.child))
        elif isinstance(node, Scan) and id(node) not in hashed:
            whole.append(node.table)
    return tuple(dict.fromkeys(stops)), tuple(dict.fromkeys(whole))


def is_hash(predicate: Scalar) -> bool:
    """Whether a condition is η."""
    match predicate.expr:
        case exp.LT(this=exp.Anonymous(this="md5", expressions=[exp.Anonymous(this="concat")])):
            return True
        case _:
            return False


def predicate(key: tuple[str, ...], by: Hash, types: Mapping[str, str]) -> Scalar:
    """η as a condition on rows."""
    below = lit(bound(by.ratio))
    return Scalar(exp.LT(this=hashed(key, by.seed, types).expr, expression=below.expr))


def _settled(q: Rel, types: Types) -> Rel:
    """The restrictions by a hash as filters; shared subplans stay shared."""

    def settle(node: Rel) -> Rel:
        if isinstance(node, Restrict) and isinstance(node.by, Hash):
            return Filter(node.child, predicate(node.key, node.by, types))
        return node

    return bottom_up(q, settle)


def _stop(child: Rel, key: tuple[str, ...]) -> Stop:
    at_table = isinstance(child, Scan | Change)
    what = child.table if isinstance(child, Scan | Change) else type(child).__name__.lower()
    below = "" if at_table else f" of {', '.join(tables(child))}"
    return Stop(key, what + below, _why(child, key), at_table)


def _why(child: Rel, key: tuple[str, ...]) -> str:
    """What keeps η above an operator."""
    listed = ", ".join(key)
    match child:
        case Scan() | Change() | Empty():
            return ""
        case Project(outputs=outputs):
            computed = [o.name for o in outputs if o.name in key and not o.value.column]
            return f"{', '.join(computed) or listed} is computed, not passed through"
        case Aggregate(keys=group):
            missing = [k for k in key if k not in group]
            return f"{', '.join(missing)} is not a column of the inner groups"
        case Window(partition=part):
            missing = [k for k in key if k not in part]
            return f"{', '.join(missing)} is not a column of the window's partition"
        case Join(kind=JoinKind.FULL):
            return "a full outer join pads either side"
        case Join():
            return f"{listed} has columns of both sides, which nothing equates"
        case TopK():
            return "rows of a top-k depend on all others"
        case Filter() | Distinct() | Union() | Except() | Intersect() | Restrict():
            return "nothing"
        case Negate() | Net() | Support() | Unsigned():
            return "signs"
        case _:
            assert_never(child)
