"""Backward: a few rows of the old state from the new one, so that a table is read once.

    B1  K(R₀) = K(R₁) − K(ΔR)    where K(R₁) is needed as well; K(R₁) if R does not move

Rows are told apart by SQL's equality, so B1 is for types whose equal values are the same to the
bit: not for floating point.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

from belvedere.algebra.relations import (
    At,
    Change,
    Field,
    Negate,
    Rel,
    Restrict,
    Scan,
    Union,
    Unsigned,
)
from belvedere.algebra.walks import bottom_up, each_once, tables
from belvedere.analyses.sizes import Sizes
from belvedere.rules.outward import SMALL

LARGE = 500_000
"""Rows of a table above which it is worth a detour to read them once."""

_EXACT = re.compile(
    r"boolean|tinyint|smallint|int|bigint|decimal\(\d+,\d+\)|string|date|timestamp|timestamp_ntz"
)


def backward(q: Rel, moving: Collection[str], sizes: Sizes) -> Rel:
    """The plan with B1 applied to few rows of large tables; shared subplans stay shared."""
    new = [n for n in each_once(q) if _of(n, At.NEW)]

    def turn(node: Rel) -> Rel:
        if not isinstance(node, Restrict) or not _of(node, At.OLD):
            return node
        if sizes.rows(node) > SMALL or sizes.rows(node.child) <= LARGE:
            return node
        newer = next((n for n in new if _same_but_newer(node, n)), None)
        if newer is None:
            return node
        return _back(node, newer) if set(tables(node.child)) & set(moving) else newer

    return bottom_up(q, turn) if new else q


def _of(q: Rel, state: At) -> bool:
    scan = q.child if isinstance(q, Restrict) else None
    return isinstance(scan, Scan) and scan.at is state and all(map(_exact, scan.fields))


def _exact(field: Field) -> bool:
    return _EXACT.fullmatch(field.type) is not None


def _same_but_newer(old: Restrict, new: Rel) -> bool:
    assert isinstance(old.child, Scan)
    return replace(old, child=replace(old.child, at=At.NEW)) == new


# B1
def _back(old: Restrict, new: Rel) -> Rel:
    assert isinstance(old.child, Scan)
    change = replace(old, child=Change(old.child.table, old.child.fields))
    return Unsigned(Union((new, Negate(change)), old.columns))
