"""The specification: what every relation means, over bags as counters of rows.

Nothing here is clever. A bag maps a row (a tuple, None for NULL) to a count that may be
negative; zeros are never kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, assert_never

from belvedere.algebra.relations import (
    Agg,
    Aggregate,
    At,
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
    Order,
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
from tests.reference.scalars import value
from tests.reference.windows import window_column

Row = tuple[Any, ...]
Bag = Counter[Row]


@dataclass
class Database:
    """Two states of some tables: columns, rows before, rows after."""

    columns: dict[str, tuple[str, ...]]
    old: dict[str, Bag]
    new: dict[str, Bag]
    _memo: dict[int, tuple[Rel, Bag]] = field(default_factory=dict)

    def moving(self, tables: Iterable[str]) -> Database:
        """The same, with only some tables moved."""
        chosen = set(tables)
        new = {t: self.new[t] if t in chosen else self.old[t] for t in self.old}
        return Database(self.columns, self.old, new)

    def bag(self, q: Rel) -> Bag:
        """The rows of a plan with their counts."""
        if id(q) not in self._memo:
            self._memo[id(q)] = (q, net(self._bag(q)))
        return self._memo[id(q)][1]

    def _bag(self, q: Rel) -> Bag:
        match q:
            case Scan():
                return self._fields(q, (self.old if q.at is At.OLD else self.new)[q.table])
            case Change():
                return self._fields(q, minus(self.new[q.table], self.old[q.table]))
            case Filter():
                rows = self.bag(q.child).items()
                names = q.child.columns
                return Counter(
                    {r: m for r, m in rows if value(q.predicate.expr, as_dict(names, r)) is True}
                )
            case Project():
                return self._project(q)
            case Join():
                return self._join(q)
            case Aggregate():
                return self._aggregate(q)
            case Distinct():
                return Counter(dict.fromkeys(positive(self.bag(q.child)), 1))
            case Support():
                return Counter(dict.fromkeys(self.bag(q.child), 1))
            case Unsigned():
                rows = self.bag(q.child)
                assert all(m > 0 for m in rows.values())
                return rows
            case Union():
                total: Bag = Counter()
                for child in q.children:
                    total = plus(total, self.bag(child))
                return total
            case Except() | Intersect():
                return self._set_operation(q)
            case Window():
                return self._window(q)
            case TopK():
                rows = ordered(expanded(self.bag(q.child)), q.child.columns, q.order)
                return Counter(rows[q.offset : q.offset + q.limit])
            case Restrict():
                keys = positive(self.bag(q.among))
                place = [q.child.columns.index(k) for k in q.key]
                rows = self.bag(q.child).items()
                return Counter({r: m for r, m in rows if tuple(r[i] for i in place) in keys})
            case Net():
                return self.bag(q.child)
            case Negate():
                return Counter({r: -m for r, m in self.bag(q.child).items()})
            case Empty():
                return Counter()
            case _:
                assert_never(q)

    def _fields(self, q: Scan | Change, rows: Bag) -> Bag:
        place = [self.columns[q.table].index(f.source) for f in q.fields]
        return mapped(rows, lambda r: tuple(r[i] for i in place))

    def _project(self, q: Project) -> Bag:
        def image(row: Row) -> Row:
            named = as_dict(q.child.columns, row)
            return tuple(value(o.value.expr, named) for o in q.outputs)

        return mapped(self.bag(q.child), image)

    def _join(self, q: Join) -> Bag:
        left, right = self.bag(q.left), self.bag(q.right)
        names = q.left.columns + q.right.columns
        pairs: Bag = Counter()
        matched_left: set[Row] = set()
        matched_right: set[Row] = set()
        for a, m in left.items():
            for b, n in right.items():
                if value(q.on.expr, as_dict(names, a + b)) is True:
                    pairs[a + b] += m * n
                    matched_left.add(a)
                    matched_right.add(b)
        lonely_left = {a: m for a, m in left.items() if a not in matched_left}
        match q.kind:
            case JoinKind.INNER:
                return pairs
            case JoinKind.SEMI:
                return Counter({a: m for a, m in left.items() if a in matched_left})
            case JoinKind.ANTI:
                return Counter(lonely_left)
            case JoinKind.LEFT | JoinKind.FULL:
                for a, m in lonely_left.items():
                    pairs[a + (None,) * len(q.right.columns)] += m
        if q.kind is JoinKind.FULL:
            for b, n in right.items():
                if b not in matched_right:
                    pairs[(None,) * len(q.left.columns) + b] += n
        return pairs

    def _aggregate(self, q: Aggregate) -> Bag:
        names = q.child.columns
        place = [names.index(k) for k in q.keys]
        groups: dict[Row, Bag] = {} if q.keys else {(): Counter()}
        for row, m in self.bag(q.child).items():
            groups.setdefault(tuple(row[i] for i in place), Counter())[row] += m
        return Counter(
            [
                k + tuple(aggregate(a, names, rows) for a in q.aggregates)
                for k, rows in groups.items()
            ]
        )

    def _set_operation(self, q: Except | Intersect) -> Bag:
        left, right = positive(self.bag(q.left)), positive(self.bag(q.right))
        if not q.all:
            left, right = Counter(dict.fromkeys(left, 1)), Counter(dict.fromkeys(right, 1))
        return left - right if isinstance(q, Except) else left & right

    def _window(self, q: Window) -> Bag:
        names = q.child.columns
        place = [names.index(k) for k in q.partition]
        parts: dict[Row, list[Row]] = {}
        for row in expanded(self.bag(q.child)):
            parts.setdefault(tuple(row[i] for i in place), []).append(row)
        out: Bag = Counter()
        for rows in parts.values():
            columns = [window_column(f.value.expr, names, rows) for f in q.functions]
            out.update(row + tuple(c[i] for c in columns) for i, row in enumerate(rows))
        return out


def aggregate(a: Agg, names: tuple[str, ...], rows: Bag) -> Any:
    """The aggregate of a group; of signed rows, what an additive one adds to a stored value."""
    if not a.args:
        return sum(rows.values())
    weighted = [(value(a.args[0].expr, as_dict(names, r)), m) for r, m in rows.items()]
    present = [(v, m) for v, m in weighted if v is not None]
    if a.distinct:
        present = [(v, 1) for v in {v for v, _ in present}]
    match a.function:
        case "count":
            return sum(m for _, m in present)
        case "sum":
            return sum(v * m for v, m in present) if present else None
        case "min":
            return min((v for v, _ in present), default=None)
        case "max":
            return max((v for v, _ in present), default=None)
        case "avg":
            total = sum(m for _, m in present)
            return sum(v * m for v, m in present) / total if total else None
        case _:
            raise TypeError(f"the reference does not know the aggregate {a.function}")


def ordered(rows: list[Row], names: tuple[str, ...], order: tuple[Order, ...]) -> list[Row]:
    """Rows in an order, ties broken by all columns, ascending with NULLs first."""
    result = sorted(rows, key=lambda r: [(v is not None, v if v is not None else 0) for v in r])
    for o in reversed(order):
        i = names.index(o.column)
        absent = [r for r in result if r[i] is None]
        present = sorted(
            (r for r in result if r[i] is not None), key=lambda r: r[i], reverse=o.descending
        )
        result = absent + present if o.nulls_first else present + absent
    return result


def as_dict(names: tuple[str, ...], row: Row) -> dict[str, Any]:
    return dict(zip(names, row, strict=True))


def net(rows: Bag) -> Bag:
    return Counter({r: m for r, m in rows.items() if m})


def positive(rows: Bag) -> Bag:
    if any(m < 0 for m in rows.values()):
        raise ValueError("an operator that counts rows was given negative ones")
    return rows


def expanded(rows: Bag) -> list[Row]:
    return list(positive(rows).elements())


def mapped(rows: Bag, f: Callable[[Row], Row]) -> Bag:
    out: Bag = Counter()
    for row, m in rows.items():
        out[f(row)] += m
    return out


def plus(a: Bag, b: Bag) -> Bag:
    total = Counter(a)
    for row, m in b.items():
        total[row] += m
    return net(total)


def minus(a: Bag, b: Bag) -> Bag:
    return plus(a, Counter({r: -m for r, m in b.items()}))
