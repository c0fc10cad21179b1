"""How much work a plan is, in rows that Spark handles: to compare plans, not to tell the time.

scan             each row, more for each column
change           nothing if it is at hand; else each row of its files, and those that changed are
                 sorted by every column
⋈, ⋉ and so on   each row of the large side passes the small one; two large sides are sorted
merge            likewise the changed rows and the stored ones, wider with each column of the key
γ, δ, net, rank  each row of the input is put in its group
"""

from __future__ import annotations

from belvedere.algebra.relations import (
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
from belvedere.algebra.walks import each_once
from belvedere.analyses.sizes import Sizes

_ROW, _COLUMN = 0.5, 0.25
_PASS, _GROUP, _SORT = 0.3, 1.0, 3.0
_FEED = 2.0
"""Spark's change feed beside plain rows: measured at 10 % of TPC-H's orders and lineitems."""


def effort(q: Rel, sizes: Sizes, small: float) -> float:
    """The work of a plan, in rows; a side of at most `small` rows is handed to every worker."""

    def own(node: Rel) -> float:
        match node:
            case Scan():
                return sizes.rows(node) * _width(node)
            case Join():
                return _meeting(sizes.rows(node.left), sizes.rows(node.right), small)
            case Restrict():
                return _meeting(sizes.rows(node.child), sizes.rows(node.among), small)
            case Aggregate() | Distinct() | Support() | Unsigned() | Net() | Window() | TopK():
                return _GROUP * sizes.rows(node.child)
            case Except() | Intersect():
                return _SORT * (sizes.rows(node.left) + sizes.rows(node.right))
            case Change():
                passed = sizes.known.passed.get(node.table, 0)
                netted = _SORT * sizes.rows(node) * len(node.fields) if passed else 0
                return _FEED * (passed * _width(node) + netted)
            case Filter() | Project() | Union() | Negate() | Empty():
                return 0

    return sum(map(own, each_once(q)))


def merging(changed: float, stored: float, columns: int, small: float) -> float:
    """The work of finding changed rows among stored ones by a key of so many columns, in rows.

    >>> merging(1e6, 9e6, 2, small=5e5)
    30000000.0
    """
    return _meeting(changed, stored, small) * (_ROW + _COLUMN * columns)


def _meeting(one: float, other: float, small: float) -> float:
    few, many = sorted((one, other))
    return _PASS * many if few <= small else _SORT * (few + many)


def _width(leaf: Scan | Change) -> float:
    return _ROW + _COLUMN * len(leaf.fields)
