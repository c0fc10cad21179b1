"""M: the plan that moves stored rows from one vector to another, and how its rows are written.

    merge          Grouped   γ(Δ child): what each touched group's parts gain
                   Bag       ΔQ, net per row value; new copies are numbered after the stored ones
    replace keys   Grouped   the touched groups K beside γ(child₁|K); a group that is gone has no parts
    rebuild        the core over the new versions

The source of a write has one row per stored row that it may touch, under the stored names. In the
expressions of a `Merge`, `t` is the stored row and `s` the source row. A count that would fall
below zero raises an error: the stored rows are not those of their vector.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from sqlglot import exp

from belvedere.algebra.relations import (
    Aggregate,
    Filter,
    Join,
    JoinKind,
    Keys,
    Output,
    Project,
    Rel,
    Restrict,
    Window,
)
from belvedere.algebra.scalars import Scalar, call, col, every, lit, same
from belvedere.algebra.types import parse
from belvedere.analyses.effort import effort, merging
from belvedere.analyses.origins import origin
from belvedere.analyses.sizes import NOTHING_KNOWN, Sizes, Statistics
from belvedere.analyses.types import Types
from belvedere.execution.change_plan import ChangePlan, optimize_change
from belvedere.execution.strategies import Strategy
from belvedere.rules.delta import Delta
from belvedere.rules.outward import SMALL
from belvedere.rules.restrict import push
from belvedere.sql.merges import MISMATCH, Merge
from belvedere.sql.render import SIGN, Source, render
from belvedere.views.state import (
    COUNT,
    ROW,
    Bag,
    Combine,
    Grouped,
    Part,
    State,
    cast,
    coalesce,
    physical,
)

IN = "__in"

Declared: TypeAlias = Mapping[str, Mapping[str, str]]
"""Of tables, the columns that were declared with CHAR or VARCHAR, and how."""
NOTHING_DECLARED: Declared = {}


def stored_rows_query(
    state: State, source: Source, declared: Declared = NOTHING_DECLARED
) -> exp.Query:
    """The query of all stored rows, for creation and rebuild."""
    names = physical(state)
    outputs = (Output(names[c], _stored_value(state.plan, c, declared)) for c in state.columns)
    plan: Rel = Project(state.plan, tuple(outputs))
    if isinstance(state, Bag):
        plan = _numbered(plan)
    return render(plan, source)


def _stored_value(plan: Rel, column: str, declared: Declared) -> Scalar:
    """A column as STRING if it is VARCHAR(n) of a table, which would refuse longer texts later."""
    place = origin(plan, column)
    if place is None or place.type != "string":
        return col(column)
    was_declared = place.column.lower() in map(str.lower, declared.get(place.table, ()))
    return cast(col(column), "string") if was_declared else col(column)


@dataclass(frozen=True)
class ViewChange:
    """A change of a view's stored rows: the rows to get, and how they are merged."""

    change: ChangePlan
    merge: Merge
    numbered: tuple[str, ...] | None = None
    """Of a bag, its stored columns: new copies of a row are numbered after the stored ones."""

    def query(self, rows: exp.Query, stored: exp.Table) -> exp.Query:
        """The query of the rows to write, from that of the change."""
        if self.numbered is None:
            return rows
        columns = list(self.numbered)
        return _numbers(_stored_copies(rows, stored, columns), columns)

    def write_work(self, stored_rows: float) -> float:
        """The work of Spark, in rows, to write it into so many stored rows.

        MERGE reads twice: once for the files to rewrite, once for the rows. The stored copies of
        a bag's rows are read once more, to number the new ones.
        """
        times = 2 if self.numbered is None else 3
        rows = self.change.sizes.rows(self.change.plan)
        return times * merging(rows, stored_rows, len(self.merge.keys), SMALL)


def plan_change(
    state: State,
    strategy: Strategy,
    moving: Collection[str],
    types: Types,
    statistics: Statistics = NOTHING_KNOWN,
) -> ViewChange:
    """The change of the stored rows by a strategy, when some tables move."""
    if isinstance(state, Bag):
        return merge_bag(state, moving, types, statistics)
    if strategy is Strategy.MERGE:
        return merge_groups(state, moving, types, statistics)
    return replace_groups(state, moving, types, statistics)


def rebuild_work(state: State, statistics: Statistics) -> float:
    """The work of computing all stored rows, in rows."""
    sizes = Sizes(statistics)
    return effort(state.plan, sizes, SMALL) + sizes.rows(state.plan)


def most_selective_key(state: State, types: Types, statistics: Statistics) -> str | None:
    """The stored integer column with the most values, of those that rows are matched by."""
    match state:
        case Grouped():
            child, keys = state.child, state.keys
        case Bag():
            child, keys = state.plan, state.columns
    integers = [k for k in keys if parse(types[k]).is_integer]
    if not integers:
        return None
    sizes = Sizes(statistics)
    return physical(state)[max(integers, key=lambda k: sizes.values(child, k))]


def merge_groups(
    state: Grouped, moving: Collection[str], types: Types, statistics: Statistics
) -> ViewChange:
    """Merge: what each touched group gains, and how that is added to its stored parts."""
    gained = Aggregate(
        Delta(moving, types).of(state.child), state.keys, tuple(p.agg for p in state.parts)
    )
    names = physical(state)
    some = Filter(gained, _any(_gains(p) for p in state.parts))
    plan = Project(some, tuple(Output(names[c], col(c)) for c in state.columns))
    left = _plus(_t(COUNT), _s(COUNT))
    update = {names[p.agg.name]: _combined(p, names[p.agg.name]) for p in state.parts}
    merge = Merge(
        keys=tuple(names[k] for k in state.keys),
        delete_when=_is(left, 0) if state.keys else None,
        update={**update, COUNT: _not_negative(left)},
        insert={**_copied(state, names), COUNT: _not_negative(_s(COUNT))},
        insert_when=_not(_is(_s(COUNT), 0)),
    )
    return ViewChange(optimize_change(ChangePlan(plan, statistics), moving), merge)


def replace_groups(
    state: Grouped, moving: Collection[str], types: Types, statistics: Statistics
) -> ViewChange:
    """Replace keys: the touched groups computed again; those without rows are deleted."""
    names = physical(state)
    changes = Delta(moving, types)
    parts = tuple(p.agg for p in state.parts)
    child = changes.new(state.child)
    if state.keys:
        touched = changes.keys(state.child, state.keys)
        again = Aggregate(push(Restrict(child, state.keys, Keys(touched))), state.keys, parts)
        renamed = {k: f"__k{i}" for i, k in enumerate(state.keys)}
        keys = Project(touched, tuple(Output(renamed[k], col(k)) for k in state.keys))
        on = every(same(col(renamed[k]), col(k)) for k in state.keys)
        plan: Rel = Join(keys, again, JoinKind.LEFT, on)
    else:
        renamed, plan = {}, Aggregate(child, (), parts)
    outputs = tuple(Output(names[c], col(renamed.get(c, c))) for c in state.columns)
    absent = _is_null(_s(COUNT))
    stored = [names[p.agg.name] for p in state.parts]
    merge = Merge(
        keys=tuple(names[k] for k in state.keys),
        delete_when=absent if state.keys else None,
        update={c: _s(c) for c in stored},
        update_when=_not(every(same(_t(c), _s(c)) for c in stored)),
        insert=_copied(state, names),
        insert_when=_not(absent),
    )
    change = ChangePlan(Project(plan, outputs), statistics)
    return ViewChange(optimize_change(change, moving), merge)


def merge_bag(
    state: Bag, moving: Collection[str], types: Types, statistics: Statistics
) -> ViewChange:
    """Merge of a bag: the copies of each row value to insert or delete."""
    names = physical(state)
    change = Delta(moving, types).of(state.plan)
    renamed = Project(change, tuple(Output(names[c], col(c)) for c in state.columns))
    columns = tuple(names[c] for c in state.columns)
    merge = Merge(
        keys=(*columns, ROW),
        delete_when=_not(_s(IN)),
        insert={c: _s(c) for c in (*columns, ROW)},
        insert_when=_s(IN),
    )
    rows = ChangePlan(renamed, statistics, signed=True)
    return ViewChange(optimize_change(rows, moving), merge, columns)


def replacing_columns(merge: Merge, columns: Iterable[str]) -> Merge:
    """A merge in which some columns of a stored row are replaced by those of the source."""
    return replace(merge, update={**(merge.update or {}), **{c: _s(c) for c in columns}})


def _numbered(plan: Rel) -> Rel:
    """Equal rows numbered from 1."""
    by = [col(c).expr for c in plan.columns]
    order = exp.Order(expressions=[exp.Ordered(this=by[0].copy(), nulls_first=True)])
    number = exp.Window(this=exp.RowNumber(), partition_by=by, order=order)
    return Window(plan, plan.columns, (Output(ROW, Scalar(number)),))


def _stored_copies(change: exp.Query, stored: exp.Table, columns: list[str]) -> exp.Select:
    """Each changed row value with its net change and the number of its stored copies."""
    own = [exp.column(c, table="d", quoted=True) for c in columns]
    sign = exp.column(SIGN, table="d")
    some = exp.NEQ(this=exp.Sum(this=sign.copy()), expression=exp.Literal.number(0))
    net = (
        exp.select(*own, exp.alias_(exp.Sum(this=sign), SIGN))
        .from_(change.subquery("d", copy=False), copy=False)
        .group_by(*(c.copy() for c in own), copy=False)
        .having(some, copy=False)
    )
    kept = [exp.column(c, table="n", quoted=True) for c in columns]
    on = exp.and_(
        *(
            exp.NullSafeEQ(this=k.copy(), expression=exp.column(c, table="t", quoted=True))
            for k, c in zip(kept, columns, strict=True)
        )
    )
    copies = exp.alias_(exp.Count(this=exp.column(ROW, table="t")), "__held")
    moved = exp.column(SIGN, table="n")
    return (
        exp.select(*kept, moved, copies)
        .from_(net.subquery("n", copy=False), copy=False)
        .join(exp.alias_(stored, "t", table=True), on=on, join_type="left", copy=False)
        .group_by(*(c.copy() for c in (*kept, moved)), copy=False)
    )


def _numbers(stored_copies: exp.Select, columns: list[str]) -> exp.Select:
    """One row per copy to insert (`__in`) or delete, with its number."""
    have, move = col("__held"), col(SIGN)
    after = _plus(have, move)
    one = lit(1)
    grown = call("sequence", _plus(have, one), _not_negative(after))
    shrunk = call("sequence", _plus(_not_negative(after), one), have)
    up = Scalar(exp.GT(this=move.expr.copy(), expression=lit(0).expr))
    numbers = exp.Case(ifs=[exp.If(this=up.expr.copy(), true=grown.expr)], default=shrunk.expr)
    return exp.select(
        *(col(c).expr for c in columns),
        exp.alias_(up.expr.copy(), IN),
        exp.alias_(exp.Anonymous(this="explode", expressions=[numbers]), ROW),
    ).from_(stored_copies.subquery("h", copy=False), copy=False)


def _combined(part: Part, name: str) -> Scalar:
    """The stored part with its change in."""
    match part.combine:
        case Combine.ADD:
            zero = cast(lit(0), part.type)
            return cast(_plus(coalesce(_t(name), zero), coalesce(_s(name), zero)), part.type)
        case Combine.LEAST:
            return call("least", _t(name), _s(name))
        case Combine.GREATEST:
            return call("greatest", _t(name), _s(name))
        case Combine.NEVER:
            raise AssertionError(f"{part.agg.function} does not add")


def _gains(part: Part) -> Scalar:
    """Whether a group's part changes at all."""
    value = col(part.agg.name)
    if part.combine is not Combine.ADD:
        return _not(_is_null(value))
    zero = exp.NEQ(this=coalesce(value, lit(0)).expr, expression=lit(0).expr)
    return Scalar(zero)


def _copied(state: Grouped, names: dict[str, str]) -> dict[str, Scalar]:
    return {names[c]: _s(names[c]) for c in state.columns}


def _not_negative(count: Scalar) -> Scalar:
    """The count; below zero it raises, for then stored rows and vector disagree."""
    negative = exp.LT(this=exp.Paren(this=count.expr.copy()), expression=lit(0).expr)
    wrong = exp.Anonymous(this="raise_error", expressions=[lit(f"belvedere: {MISMATCH}").expr])
    branch = exp.If(this=negative, true=exp.cast(wrong, "bigint"))
    return Scalar(exp.Case(ifs=[branch], default=count.expr.copy()))


def _t(name: str) -> Scalar:
    return Scalar(exp.column(name, table="t", quoted=True))


def _s(name: str) -> Scalar:
    return Scalar(exp.column(name, table="s", quoted=True))


def _plus(a: Scalar, b: Scalar) -> Scalar:
    return Scalar(exp.Add(this=a.expr.copy(), expression=b.expr.copy()))


def _is(a: Scalar, number: int) -> Scalar:
    return Scalar(exp.EQ(this=a.expr.copy(), expression=lit(number).expr))


def _is_null(a: Scalar) -> Scalar:
    return Scalar(exp.Is(this=a.expr.copy(), expression=exp.null()))


def _not(a: Scalar) -> Scalar:
    return Scalar(exp.Not(this=exp.Paren(this=a.expr.copy())))


def _any(parts: Iterable[Scalar]) -> Scalar:
    return Scalar(exp.or_(*(p.expr for p in parts)))
