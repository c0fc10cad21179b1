"""Algebra -> SQL: a plan as one sqlglot query, for any dialect.

A signed relation has a column `__m` of signs: +1 or -1, larger counts stand as repeated rows,
as they do in an unsigned one. (A product of signs is a sign, and the sum of a signed decimal
needs no multiplication, which Spark would round.) Filters, projections and joins gather in one
SELECT as long as that is sound; a subplan used several times becomes a common table expression.
Where sizes are known, a join says which of its sides is small enough to be handed to every
worker: Spark knows nothing of a change, and takes the result of a join for a product.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import assert_never

from sqlglot import exp

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
from belvedere.algebra.scalars import Scalar, condition, every, same
from belvedere.algebra.walks import children, each_once
from belvedere.errors import Internal

SIGN = "__m"

Source = Callable[[Scan | Change], exp.Table]
"""What stands in FROM for a leaf; of a Change, a table that also has the column `__m`."""


Small = Callable[[Rel], float | None]
"""The rows of a plan that is small; None of one that is not, or may not be."""


def nothing_is_small(_: Rel) -> None:
    """No relation is small: the sizes are unknown."""


def render(q: Rel, source: Source, small: Small = nothing_is_small) -> exp.Query:
    """The query of a plan: its columns in order, and `__m` last if it is signed."""
    renderer = _Renderer(source, small, _shared(q))
    query = renderer.query(q)
    for name, inner in renderer.common.items():
        query = query.with_(name, as_=inner, copy=False)
    return query


def is_signed(q: Rel) -> bool:
    """Whether multiplicities of a plan can be negative."""
    match q:
        case Change() | Negate() | Net():
            return True
        case Filter() | Project():
            return is_signed(q.child)
        case Restrict():
            return is_signed(q.child)
        case Join():
            return is_signed(q.left) or is_signed(q.right)
        case Union():
            return any(is_signed(c) for c in q.children)
        case Scan() | Support() | Unsigned() | Empty() | Aggregate():
            return False
        case Distinct() | Except() | Intersect() | Window() | TopK():
            return False
        case _:
            assert_never(q)


@dataclass(frozen=True)
class _Block:
    """A SELECT to which filters, projections and joins can be added."""

    items: tuple[exp.Expr, ...]
    columns: dict[str, exp.Expr]
    where: tuple[exp.Expr, ...] = ()
    sign: exp.Expr | None = None
    small: tuple[str, ...] = ()
    """The sources to hand to every worker."""

    @property
    def bare(self) -> bool:
        """One source, unfiltered, only renamed: can stand in a FROM as it is."""
        return (
            len(self.items) == 1
            and not self.where
            and all(isinstance(e, exp.Column) for e in self.columns.values())
        )

    def put(self, scalar: Scalar) -> exp.Expr:
        """The scalar over this block's sources."""
        return scalar.substitute({n: Scalar(e) for n, e in self.columns.items()}).expr.copy()

    def select(self, names: Iterable[str], *, sign: bool) -> exp.Select:
        outputs: list[exp.Expr] = [exp.alias_(self.columns[n], n, quoted=True) for n in names]
        if sign:
            outputs.append(exp.alias_(self.sign or exp.Literal.number(1), SIGN, quoted=True))
        return self.over(outputs)

    def over(self, outputs: list[exp.Expr]) -> exp.Select:
        query = exp.select(*outputs, copy=False).from_(self.items[0], copy=False)
        for item in self.items[1:]:
            query = query.join(item, copy=False)
        if self.small:
            names = [exp.column(name) for name in self.small]
            hint = exp.Anonymous(this="BROADCAST", expressions=names)
            query.set("hint", exp.Hint(expressions=[hint]))
        if len(self.where) == 1:
            return query.where(condition(self.where[0]), copy=False)
        return query.where(*self.where, copy=False) if self.where else query


@dataclass
class _Renderer:
    source: Source
    small: Small
    shared: set[int]
    common: dict[str, exp.Query] = field(default_factory=dict)
    _names: dict[int, str] = field(default_factory=dict)
    _count: int = 0

    def query(self, q: Rel) -> exp.Query:
        """A plan as a query of its own."""
        match q:
            case Union():
                return self._union(q)
            case Except() | Intersect():
                return self._set_operation(q)
            case Aggregate():
                return self._aggregate(q)
            case Distinct():
                block = self._unsigned(q.child)
                return block.select(q.columns, sign=False).distinct(copy=False)
            case Support() | Net():
                return self._counted(q)
            case Unsigned():
                return self._repeated(q)
            case Window():
                return self._window(q)
            case TopK():
                return self._top(q)
            case Empty():
                nulls = [exp.alias_(exp.null(), n, quoted=True) for n in q.columns]
                return exp.select(*nulls).where(exp.false())
            case Scan() | Change() | Filter() | Project() | Join() | Restrict() | Negate():
                return self.block(q).select(q.columns, sign=is_signed(q))
            case _:
                assert_never(q)

    def block(self, q: Rel) -> _Block:
        """A plan as a SELECT that can take more."""
        if id(q) in self.shared:
            return self._reference(q)
        match q:
            case Scan() | Change():
                return self._leaf(q)
            case Filter():
                block = self.block(q.child)
                return replace(block, where=(*block.where, block.put(q.predicate)))
            case Project():
                return self._project(q)
            case Join():
                return self._join(q)
            case Restrict():
                return self._restrict(q)
            case Negate():
                block = self.block(q.child)
                return replace(block, sign=_times(block.sign, exp.Literal.number(-1)))
            case _:
                return self._as_source(self.query(q), q)

    def _leaf(self, q: Scan | Change) -> _Block:
        alias = self._alias("t")
        table = exp.alias_(self.source(q), alias, table=True)
        columns: dict[str, exp.Expr] = {
            f.name: exp.column(f.source, table=alias, quoted=True) for f in q.fields
        }
        sign = exp.column(SIGN, table=alias) if isinstance(q, Change) else None
        return _Block((table,), columns, sign=sign)

    def _reference(self, q: Rel) -> _Block:
        if id(q) not in self._names:
            self.shared.discard(id(q))
            inner = self.query(q)
            self.shared.add(id(q))
            self._names[id(q)] = name = self._alias("shared")
            self.common[name] = inner
        alias = self._alias("q")
        table = exp.alias_(exp.to_table(self._names[id(q)]), alias, table=True)
        return _Block((table,), *self._outputs(q, alias))

    def _as_source(self, query: exp.Query, q: Rel) -> _Block:
        alias = self._alias("q")
        return _Block((query.subquery(alias, copy=False),), *self._outputs(q, alias))

    def _outputs(
        self, q: Rel, alias: str
    ) -> tuple[dict[str, exp.Expr], tuple[exp.Expr, ...], exp.Expr | None]:
        columns: dict[str, exp.Expr] = {
            n: exp.column(n, table=alias, quoted=True) for n in q.columns
        }
        return columns, (), exp.column(SIGN, table=alias) if is_signed(q) else None

    def _closed(self, q: Rel, block: _Block) -> _Block:
        return self._as_source(block.select(q.columns, sign=is_signed(q)), q)

    def _unsigned(self, q: Rel) -> _Block:
        block = self.block(q)
        if block.sign is not None:
            raise Internal("an operator that counts rows was given signed ones")
        return block

    def _grouped(self, q: Rel, keys: Iterable[str]) -> _Block:
        """A block whose keys are plain columns: a literal in GROUP BY would be a position."""
        block = self.block(q)
        plain = all(isinstance(block.columns[k], exp.Column) for k in keys)
        return block if plain else self._closed(q, block)

    def _project(self, q: Project) -> _Block:
        block = self.block(q.child)
        uses = Counter(c for o in q.outputs for c in o.value.columns)
        if any(uses[n] > 1 and not _cheap(e) for n, e in block.columns.items()):
            block = self._closed(q.child, block)
        return replace(block, columns={o.name: block.put(o.value) for o in q.outputs})

    def _join(self, q: Join) -> _Block:
        left, right = self.block(q.left), self.block(q.right)
        inner = q.kind is JoinKind.INNER
        if q.kind is JoinKind.FULL and not left.bare:
            left = self._closed(q.left, left)
        mergeable = len(right.items) == 1 and inner
        if not (right.bare or mergeable):
            right = self._closed(q.right, right)
        match self._handed_out(q):
            case "left":
                if len(left.items) > 1:
                    left = self._closed(q.left, left)
                left = _handing_out(left, left)
            case "right":
                left = _handing_out(left, right)
        joined = replace(left, columns={**left.columns, **right.columns})
        item = _join_item(right.items[0], q.kind, joined.put(q.on))
        if q.kind in (JoinKind.SEMI, JoinKind.ANTI):
            return replace(left, items=(*left.items, item))
        where = left.where + (right.where if inner else ())
        sign = _times(left.sign, right.sign)
        return replace(joined, items=(*left.items, item), where=where, sign=sign)

    def _handed_out(self, q: Join) -> str:
        """The side of a join that is broadcast, as far as the kind of join allows it."""
        left = self.small(q.left) if q.kind is JoinKind.INNER else None
        right = self.small(q.right) if q.kind is not JoinKind.FULL else None
        if left is not None and (right is None or left < right):
            return "left"
        return "" if right is None else "right"

    def _restrict(self, q: Restrict) -> _Block:
        left, keys = self.block(q.child), self._unsigned(q.among)
        if not keys.bare:
            keys = self._closed(q.among, keys)
        if self.small(q.among) is not None:
            left = _handing_out(left, keys)
        pairs = zip(q.key, q.among.columns, strict=True)
        on = every(same(Scalar(left.columns[a]), Scalar(keys.columns[b])) for a, b in pairs)
        return replace(left, items=(*left.items, _join_item(keys.items[0], JoinKind.SEMI, on.expr)))

    def _union(self, q: Union) -> exp.Query:
        signed = is_signed(q)
        parts: list[exp.Query] = []
        for child in q.children:
            block = self.block(child)
            names = dict(zip(q.columns, child.columns, strict=True))
            columns = {new: block.columns[old] for new, old in names.items()}
            parts.append(replace(block, columns=columns).select(q.columns, sign=signed))
        query = parts[0]
        for part in parts[1:]:
            query = exp.union(query, part, distinct=False, copy=False)
        return query

    def _set_operation(self, q: Except | Intersect) -> exp.Query:
        combine = exp.except_ if isinstance(q, Except) else exp.intersect
        left, right = self._unsigned(q.left), self._unsigned(q.right)
        names = zip(q.columns, q.left.columns, strict=True)
        left = replace(left, columns={new: left.columns[old] for new, old in names})
        return combine(
            left.select(q.columns, sign=False),
            right.select(q.right.columns, sign=False),
            distinct=not q.all,
            copy=False,
        )

    def _aggregate(self, q: Aggregate) -> exp.Query:
        block = self._grouped(q.child, q.keys)
        outputs = [exp.alias_(block.columns[k], k, quoted=True) for k in q.keys]
        outputs += [
            exp.alias_(_aggregate_call(a, block), a.name, quoted=True) for a in q.aggregates
        ]
        query = block.over(outputs)
        return _group_by(query, [block.columns[k] for k in q.keys])

    def _counted(self, q: Support | Net) -> exp.Query:
        """Rows with the sum of their signs; in a subquery, for Spark loses track of HAVING's sums."""
        block = self._grouped(q.child, q.columns)
        if block.sign is None:
            return block.select(q.columns, sign=isinstance(q, Net)).distinct(copy=False)
        query = block.select(q.columns, sign=False)
        total = exp.alias_(exp.Sum(this=block.sign.copy()), SIGN, quoted=True)
        sums = _group_by(query.select(total, copy=False), [block.columns[c] for c in q.columns])
        outer = self._as_source(sums, q)
        count = exp.column(SIGN, table=outer.items[0].alias)
        some = exp.NEQ(this=count.copy(), expression=exp.Literal.number(0))
        outer = replace(outer, where=(some,), sign=count)
        return outer.select(q.columns, sign=isinstance(q, Net))

    def _repeated(self, q: Unsigned) -> exp.Query:
        """Rows as often as the sum of their signs says."""
        if not is_signed(q.child):
            return self.block(q.child).select(q.columns, sign=False)
        counted = self._as_source(self._counted(Net(q.child)), q)
        count = exp.column(SIGN, table=counted.items[0].alias)
        one = exp.Literal.number(1)
        times = exp.Anonymous(this="sequence", expressions=[one, count])
        each = exp.alias_(exp.Anonymous(this="explode", expressions=[times]), "__each")
        rows = counted.select(q.columns, sign=False).select(each, copy=False)
        return self._as_source(rows, q).select(q.columns, sign=False)

    def _window(self, q: Window) -> exp.Query:
        block = self._unsigned(q.child)
        outputs = [exp.alias_(block.columns[c], c, quoted=True) for c in q.child.columns]
        outputs += [exp.alias_(block.put(f.value), f.name, quoted=True) for f in q.functions]
        return block.over(outputs)

    def _top(self, q: TopK) -> exp.Query:
        block = self._closed(q.child, self._unsigned(q.child))
        query = block.select(q.columns, sign=False)
        explicit = [(o.column, o.descending, o.nulls_first) for o in q.order]
        rest = [c for c in q.columns if c not in {o.column for o in q.order}]
        for column, descending, nulls_first in explicit + [(c, False, True) for c in rest]:
            key = block.columns[column].copy()
            query = query.order_by(
                exp.Ordered(this=key, desc=descending, nulls_first=nulls_first), copy=False
            )
        query = query.limit(q.limit, copy=False)
        return query.offset(q.offset, copy=False) if q.offset else query

    def _alias(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"


def _shared(q: Rel) -> set[int]:
    """Identities of the subplans to name: those on more than one path that are not leaves."""
    every = each_once(q)
    met = Counter(id(child) for node in every for child in children(node))
    return {id(n) for n in every if met[id(n)] > 1 and not isinstance(n, Scan | Change | Empty)}


_JOINS: dict[JoinKind, dict[str, str]] = {
    JoinKind.INNER: {"kind": "INNER"},
    JoinKind.LEFT: {"side": "LEFT"},
    JoinKind.FULL: {"side": "FULL"},
    JoinKind.SEMI: {"side": "LEFT", "kind": "SEMI"},
    JoinKind.ANTI: {"side": "LEFT", "kind": "ANTI"},
}


def _join_item(item: exp.Expr, kind: JoinKind, on: exp.Expr) -> exp.Join:
    if kind is JoinKind.INNER and isinstance(on, exp.Boolean):
        return exp.Join(this=item, kind="CROSS")
    return exp.Join(this=item, on=condition(on), **_JOINS[kind])


def _handing_out(block: _Block, other: _Block) -> _Block:
    """The block with the first source of another, or of itself, broadcast."""
    return replace(block, small=(*block.small, other.items[0].alias))


def _times(a: exp.Expr | None, b: exp.Expr | None) -> exp.Expr | None:
    if a is None or b is None:
        return a if b is None else b
    return exp.Paren(this=exp.Mul(this=a.copy(), expression=b.copy()))


def _cheap(e: exp.Expr) -> bool:
    return isinstance(e, exp.Column | exp.Literal | exp.Boolean | exp.Null)


def _group_by(query: exp.Select, keys: list[exp.Expr]) -> exp.Select:
    return query.group_by(*(k.copy() for k in keys), copy=False) if keys else query


def _aggregate_call(a: Agg, block: _Block) -> exp.Expr:
    if block.sign is not None:
        return _signed_call(a, block, block.sign)
    return block.put(a.call)


def _signed_call(a: Agg, block: _Block, sign: exp.Expr) -> exp.Expr:
    """An additive aggregate of signed rows: what it adds to the stored one."""
    zero = exp.Literal.number(0)
    if a.function == "count" and not a.distinct:
        counted: exp.Expr = sign.copy()
        for arg in a.args:
            present = exp.Not(this=exp.Is(this=block.put(arg), expression=exp.null()))
            counted = exp.Case(ifs=[exp.If(this=present, true=counted)])
        return exp.Coalesce(this=exp.Sum(this=counted), expressions=[zero])
    value = block.put(a.args[0])
    if a.function == "sum" and not a.distinct:
        negative = exp.LT(this=sign.copy(), expression=zero)
        minus = exp.Neg(this=exp.Paren(this=value.copy()))
        return exp.Sum(this=exp.Case(ifs=[exp.If(this=negative, true=minus)], default=value))
    if a.function in ("min", "max"):
        return exp.func(a.function, value, dialect="spark")
    raise Internal(f"{a.function} of signed rows is not additive")
