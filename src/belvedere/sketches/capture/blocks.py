"""Sketch blocks: the queries whose sketches the engine in memory maintains, and their parts.

    block = τ? π* (σ | π)* γ? over branches;   branch = σ, π, ⋈ of accesses;   core = ∪ of branches

Each branch becomes a *feed*: a plan with a row for each row of the core, of what the engine reads: the
values of the group's key, the arguments of the aggregates and, for each access of a partitioned table,
the value that the table is partitioned by. A top-k of rows is one of groups of equal keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from belvedere.algebra.relations import (
    Agg,
    Aggregate,
    Distinct,
    Field,
    Filter,
    Join,
    JoinKind,
    Order,
    Output,
    Project,
    Rel,
    Scan,
    TopK,
    Union,
)
from belvedere.algebra.scalars import Scalar, col, lit
from belvedere.errors import Internal, Unsupported
from belvedere.joins.normal_form import Acceptance, JoinBlock, join_block
from belvedere.joins.partitions import Partition

FUNCTIONS = ("count", "sum", "avg", "min", "max")


@dataclass(frozen=True)
class GroupAggregate:
    """An aggregate of the groups: its function and the number of its argument; None for count(*)."""

    name: str
    function: str
    argument: int | None


@dataclass(frozen=True)
class SketchFeed:
    """The rows of a branch as the engine reads them, and the partition of each of its cuts."""

    plan: Rel
    cuts: tuple[int, ...]


@dataclass(frozen=True)
class SketchBlock:
    """The parts of a query."""

    feeds: tuple[SketchFeed, ...]
    keys: tuple[str, ...]
    """The names of the groups' key columns in `having` and `order`."""
    arguments: int
    measures: tuple[GroupAggregate, ...]
    having: tuple[Scalar, ...]
    order: tuple[Order, ...]
    limit: int | None
    """LIMIT plus OFFSET; None without a LIMIT."""
    of_rows: bool
    """Whether the answer is of rows rather than of groups."""


def feed_block(feed: Rel) -> JoinBlock:
    """The normal form of a feed's plan: it selects, projects and joins."""
    return join_block(feed, (), Acceptance(_not_a_feed))


def _not_a_feed(operator: Rel) -> Internal:
    return Internal(f"a feed with {type(operator).__name__}")


def key_name(place: int) -> str:
    """A feed's name of a column of the group's key."""
    return f"k{place}"


def argument_name(place: int) -> str:
    """A feed's name of an argument of aggregates."""
    return f"a{place}"


def cut_name(place: int) -> str:
    """A feed's name of a value that a table is partitioned by."""
    return f"c{place}"


def sketch_block(q: Rel, partitions: Sequence[Partition]) -> SketchBlock:
    """The parts of a query; `Unsupported` if the engine does not maintain a sketch of it."""
    above, inner = _split(q)
    if isinstance(inner, Aggregate):
        # Aggregates that are only shown do not decide which groups are in the answer.
        needed = {c for h in above.having for c in h.columns} | {o.column for o in above.order}
        used = [a for a in inner.aggregates if a.name in needed]
        arguments = tuple(dict.fromkeys(a.args[0] for a in used if a.args))
        measures = tuple(_measure(a, arguments) for a in used)
        core, keys = inner.child, inner.keys
    else:
        arguments, measures, core = (), (), inner
        keys = tuple(dict.fromkeys(o.column for o in above.order))
    values = (*(col(k) for k in keys), *arguments)
    feeds = (_feed(b, values, len(keys), partitions) for b in _branches(core))
    # Rows without fragments matter only if they have an order, or count in a group.
    return SketchBlock(
        tuple(f for f in feeds if f.cuts or keys or isinstance(inner, Aggregate)),
        keys,
        len(arguments),
        measures,
        above.having,
        above.order,
        above.limit,
        of_rows=not isinstance(inner, Aggregate),
    )


@dataclass(frozen=True)
class _Above:
    """The operators above the groups, or the rows, in terms of their columns."""

    having: tuple[Scalar, ...] = ()
    order: tuple[Order, ...] = ()
    limit: int | None = None


def _split(q: Rel) -> tuple[_Above, Rel]:
    """The operators above the aggregate, or above the rows if there is none, and the plan below."""
    top = q
    while isinstance(top, Project):
        top = top.child
    if not isinstance(top, TopK):
        return _conditions(q)
    above, inner = _conditions(top.child)
    order = tuple(_through(top.child, o) for o in top.order)
    return replace(above, order=order, limit=top.offset + top.limit), inner


def _conditions(q: Rel) -> tuple[_Above, Rel]:
    """The conditions above an aggregate in terms of its own columns; for rows none, and the whole plan."""
    conditions: list[Scalar] = []
    node = q
    while isinstance(node, Filter | Project):
        if isinstance(node, Project):
            outputs = {o.name: o.value for o in node.outputs}
            conditions = [c.substitute(outputs) for c in conditions]
        else:
            conditions += node.predicate.conjuncts
        node = node.child
    return (_Above(tuple(conditions)), node) if isinstance(node, Aggregate) else (_Above(), q)


def _through(q: Rel, order: Order) -> Order:
    """A sort key in terms of the columns of the aggregate below; for rows the key itself."""
    if not isinstance(_base(q), Aggregate):
        return order
    value, node = col(order.column), q
    while isinstance(node, Filter | Project):
        if isinstance(node, Project):
            value = value.substitute({o.name: o.value for o in node.outputs})
        node = node.child
    if value.column is None:
        raise _declined(f"ORDER BY {value}, which is computed from aggregates")
    return replace(order, column=value.column)


def _base(q: Rel) -> Rel:
    node = q
    while isinstance(node, Filter | Project):
        node = node.child
    return node


def _measure(a: Agg, arguments: tuple[Scalar, ...]) -> GroupAggregate:
    if a.function not in FUNCTIONS or a.distinct or len(a.args) > 1:
        words = f"{a.function}(DISTINCT …)" if a.distinct else a.function
        raise _declined(f"the aggregate {words}")
    return GroupAggregate(a.name, a.function, arguments.index(a.args[0]) if a.args else None)


def _branches(q: Rel) -> list[Rel]:
    """The branches of a core's unions."""
    match q:
        case Union():
            return [b for c in q.children for b in _branches(_named(c, q.columns))]
        case Filter() | Project():
            return [replace(q, child=b) for b in _branches(q.child)]
        case _:
            return [q]


def _named(q: Rel, columns: tuple[str, ...]) -> Rel:
    pairs = zip(columns, q.columns, strict=True)
    return Project(q, tuple(Output(new, col(old)) for new, old in pairs))


def _feed(
    q: Rel, values: Sequence[Scalar], keys: int, partitions: Sequence[Partition]
) -> SketchFeed:
    carried, cuts = _carry(q, {p.table: i for i, p in enumerate(partitions)}, partitions)
    outputs = [Output(key_name(i), v) for i, v in enumerate(values[:keys])]
    outputs += [Output(argument_name(i), v) for i, v in enumerate(values[keys:])]
    outputs += [Output(cut_name(i), col(name)) for i, (name, _) in enumerate(cuts)]
    if not outputs:
        outputs = [Output("one", lit(1))]
    return SketchFeed(Project(carried, tuple(outputs)), tuple(partition for _, partition in cuts))


def _carry(
    q: Rel, which: Mapping[str, int], partitions: Sequence[Partition], start: int = 0
) -> tuple[Rel, list[tuple[str, int]]]:
    """The plan with the columns that its tables are partitioned by, under additional names."""
    match q:
        case Scan() if q.table in which:
            partition, name = partitions[which[q.table]], f"__cut_{start}"
            field = Field(name, partition.column, partition.kind)
            return replace(q, fields=(*q.fields, field)), [(name, which[q.table])]
        case Scan():
            return q, []
        case Filter():
            child, cuts = _carry(q.child, which, partitions, start)
            return replace(q, child=child), cuts
        case Project():
            child, cuts = _carry(q.child, which, partitions, start)
            outputs = (*q.outputs, *(Output(n, col(n)) for n, _ in cuts))
            return replace(q, child=child, outputs=outputs), cuts
        case Join(kind=JoinKind.INNER):
            left, lefts = _carry(q.left, which, partitions, start)
            right, rights = _carry(q.right, which, partitions, start + len(lefts))
            return replace(q, left=left, right=right), [*lefts, *rights]
        case Union():
            raise _declined("a UNION inside a join")
        case Distinct():
            raise _declined("DISTINCT")
        case Join():
            raise _declined(f"a {q.kind.value} join")
        case Aggregate():
            raise _declined("an aggregate of aggregates")
        case _:
            raise _declined(f"a {type(q).__name__.lower()}")


def _declined(what: str) -> Unsupported:
    return Unsupported(
        f"{what} is not kept in memory",
        hint="the sketch is captured anew at each refresh",
        reason="SKETCH_NOT_KEPT",
    )
