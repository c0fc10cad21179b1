"""How much work a plan is, in rows that Spark handles: to compare plans, not to tell the time.

scan             each row, more for each column
change           nothing if it is at hand; else each row of its files, and those that changed are
                 sorted by every column
⋈, ⋉ and so on   each row of the large side passes the small one; two large sides are sorted
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
                return meeting(sizes.rows(node.left), sizes.rows(node.right))
            case Restrict():
                return meeting(sizes.rows(node.child), sizes.rows(node.among))
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

    def meeting(one: float, other: float) -> float:
        few, many = sorted((one, other))
        return _PASS * many if few <= small else _SORT * (few + many)

    return sum(map(own, each_once(q)))


def _width(leaf: Scan | Change) -> float:
    return _ROW + _COLUMN * len(leaf.fields)
