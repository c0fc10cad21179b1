"""A key of every operator's result: columns on which no two rows agree (SVC Def. 2).

    σ, window, top-k   the child's                Π   the child's, if it is passed through
    γ                  the group                  δ   the child's, else the whole row
    ⋈                  both sides' together; one side's alone where the condition equates the
                       other's whole key, so that each row has at most one partner
    ⟕, ⋉, ▷            likewise; of the halves the left side's
    ⟗                  both sides', if in neither all of it can be NULL
    ∪ ALL              the branches' with a tag: a column that is another constant in each
    ∩, −               either side's for ∩, the left side's for −; without ALL else the row

Def. 2 intersects the keys of ∩ and unites those of ∪: the first need not be a key (a result is a
subset of either side, so either side's is), the second is none as soon as both branches have a
row with the same key. A table has the key that was declared for it. A plan without a key is
stored as a bag, whose rows are told apart by all of their columns and the number of the copy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

from sqlglot import exp

from belvedere.algebra.relations import (
    Aggregate,
    Change,
    Distinct,
    Empty,
    Except,
    Filter,
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
from belvedere.algebra.walks import each_once, nodes
from belvedere.analyses.equalities import equalities
from belvedere.analyses.origins import origin

Declared = Callable[[str], tuple[str, ...] | None]
"""The declared key of a table: its columns, none of them ever NULL."""


@dataclass(frozen=True)
class Key:
    """Columns that tell rows apart; `solid` if never all of them are NULL."""

    columns: tuple[str, ...]
    solid: bool = False


def key(q: Rel, declared: Declared) -> Key | None:
    """A key of the plan's result; None if none follows."""
    match q:
        case Scan():
            return _declared(q, declared)
        case Filter() | Restrict() | TopK() | Window():
            return key(q.child, declared)
        case Project():
            return _projected(q, key(q.child, declared))
        case Aggregate():
            return Key(q.keys)
        case Distinct() | Support():
            return key(q.child, declared) or Key(q.columns)
        case Join():
            return _joined(q, key(q.left, declared), key(q.right, declared))
        case Union():
            return _tagged(q, [key(c, declared) for c in q.children])
        case Except():
            return _placed(q, q.left, key(q.left, declared)) or _row(q)
        case Intersect():
            left = _placed(q, q.left, key(q.left, declared))
            return left or _placed(q, q.right, key(q.right, declared)) or _row(q)
        case Empty():
            return Key(())
        case Change() | Negate() | Net() | Unsigned():
            return None
        case _:
            assert_never(q)


def fewest(q: Rel, columns: tuple[str, ...], declared: Declared) -> tuple[str, ...]:
    """Of columns, those that determine the others: a table's key stands for all of its columns.

    Only of tables that are read once, so that a column of one is a column of one row. The fewer
    columns a hash reads, the further down it can be pushed.
    """
    if any(isinstance(n, Union | Except | Intersect) for n in nodes(q)):
        return columns  # a column comes from several tables there
    scans = [n for n in each_once(q) if isinstance(n, Scan)]
    scanned = [s.table for s in nodes(q) if isinstance(s, Scan)]
    same = _equated(q)
    for scan in scans:
        found = _declared(scan, declared)
        if found is None or scanned.count(scan.table) > 1:
            continue
        own = {c: o.column for c in columns if (o := origin(q, c)) and o.table == scan.table}
        names = {f.name: f.source for f in scan.fields}
        stand_in = {k: same.get(k, {k}) & set(columns) for k in found.columns}
        held = [next((c for c in columns if own.get(c) == names[k]), None) for k in found.columns]
        for i, k in enumerate(found.columns):
            held[i] = held[i] or next(iter(sorted(stand_in[k])), None)
        if all(held):
            columns = tuple(c for c in columns if c in held or c not in own)
    return columns


def _equated(q: Rel) -> dict[str, set[str]]:
    """Columns that an inner join equates, each with the others."""
    found: dict[str, set[str]] = {}
    for node in each_once(q):
        if isinstance(node, Join) and node.kind is JoinKind.INNER:
            for a, b in equalities(node):
                both = found.get(a, {a}) | found.get(b, {b})
                for c in both:
                    found[c] = both
    return found


def _row(q: Except | Intersect) -> Key | None:
    return None if q.all else Key(q.columns)


def _declared(q: Scan, declared: Declared) -> Key | None:
    columns = declared(q.table)
    names = {f.source.lower(): f.name for f in q.fields}
    if not columns or any(c.lower() not in names for c in columns):
        return None
    return Key(tuple(names[c.lower()] for c in columns), solid=True)


def _projected(q: Project, inner: Key | None) -> Key | None:
    passed = {o.value.column: o.name for o in reversed(q.outputs) if o.value.column}
    if inner is None or any(c not in passed for c in inner.columns):
        return None
    return Key(tuple(passed[c] for c in inner.columns), inner.solid)


def _joined(q: Join, left: Key | None, right: Key | None) -> Key | None:
    if q.kind in (JoinKind.SEMI, JoinKind.ANTI):
        return left
    if left is None or right is None:
        return None
    if q.kind is JoinKind.FULL:
        both = Key((*left.columns, *right.columns), solid=True)
        return both if left.solid and right.solid else None
    if _at_most_one(q, right.columns):
        return left
    if q.kind is JoinKind.INNER and _at_most_one(q, left.columns):
        return right
    return Key((*left.columns, *right.columns), left.solid)


def _at_most_one(q: Join, columns: tuple[str, ...]) -> bool:
    """Whether the condition equates each of the columns with one of the other side."""
    found = set()
    for part in q.on.conjuncts:
        if isinstance(part.expr, exp.EQ | exp.NullSafeEQ):
            sides = part.expr.this, part.expr.expression
            if all(isinstance(s, exp.Column) for s in sides):
                a, b = (s.name for s in sides)
                if (a in q.left.columns) != (b in q.left.columns):
                    found |= {a, b}
    return set(columns) <= found


def _placed(q: Except | Intersect | Union, side: Rel, inner: Key | None) -> Key | None:
    """A side's key under the operation's own names."""
    if inner is None:
        return None
    return Key(tuple(q.columns[side.columns.index(c)] for c in inner.columns), inner.solid)


def _tagged(q: Union, inner: list[Key | None]) -> Key | None:
    keys = [_placed(q, side, k) for side, k in zip(q.children, inner, strict=True)]
    if len(keys) == 1:
        return keys[0]
    if any(k is None for k in keys):
        return None
    together = tuple(c for c in q.columns if any(k and c in k.columns for k in keys))
    for place, name in enumerate(q.columns):
        tags = [_constant(side, side.columns[place]) for side in q.children]
        alike = len({type(tag) for tag in tags}) == 1
        if alike and None not in tags and len(set(tags)) == len(tags):
            return Key(tuple(dict.fromkeys((*together, name))), solid=True)
    return None


def _constant(q: Rel, column: str) -> int | str | None:
    """The value of a column that is one constant in all rows: a whole number or a text.

    Other constants may be equal though they are written differently, as 1 and 1.0 are.
    """
    match q:
        case Project():
            value = next(o.value for o in q.outputs if o.name == column)
            if value.column:
                return _constant(q.child, value.column)
            return _plain_constant(value.expr)
        case Filter() | Distinct() | TopK():
            return _constant(q.child, column)
        case _:
            return None


def _plain_constant(e: exp.Expr) -> int | str | None:
    if not isinstance(e, exp.Literal):
        return None
    if e.is_string:
        return str(e.this)
    return int(e.this) if e.this.isdigit() else None
