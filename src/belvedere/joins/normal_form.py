"""SPJ views in normal form: π_A(σ_P(R₁ ⋈ … ⋈ Rₙ)), from the plan that the binder makes of SQL.

A *position* is a relation of the FROM clause: a table listed twice has two. Columns that the view
equates are a *join class*; what it says of one position alone is that position's selection. The
view is a set of rows, whether it says DISTINCT or not: an update through it asks for a row to be
there or not, never for a number of copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
from sqlglot import exp

from belvedere.algebra.relations import Distinct, Filter, Join, Kind, Project, Rel, Scan
from belvedere.algebra.scalars import Scalar, col, every
from belvedere.errors import Unsupported
from belvedere.memory import kinds
from belvedere.memory.declined import Declined
from belvedere.memory.scalars import true
from belvedere.sql.binder.bind import Bound

Place = tuple[int, str]
"""A column of a position: the position's number and the column's name in its table."""


@dataclass(frozen=True)
class Position:
    """A relation of the view: its table, the columns that are used, its selection over them."""

    table: str
    columns: tuple[tuple[str, str], ...]
    selection: Scalar

    @cached_property
    def types(self) -> dict[str, str]:
        """The types of the used columns."""
        return dict(self.columns)


@dataclass(frozen=True)
class Shape:
    """A view in normal form."""

    positions: tuple[Position, ...]
    classes: tuple[tuple[Place, ...], ...]
    """Columns that the view equates, of two or more positions."""
    outputs: tuple[tuple[str, Place], ...]
    """The view's columns and where their values come from."""

    @cached_property
    def class_of(self) -> dict[Place, int]:
        """The join class of each column that is in one."""
        return {place: k for k, members in enumerate(self.classes) for place in members}

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """The tables, each once."""
        return tuple(dict.fromkeys(p.table for p in self.positions))

    @cached_property
    def used(self) -> dict[str, dict[str, str]]:
        """Of each table, the columns that any of its positions uses, with their types."""
        found: dict[str, dict[str, str]] = {t: {} for t in self.tables}
        for position in self.positions:
            found[position.table].update(position.columns)
        return found

    def at(self, table: str) -> list[int]:
        """The positions of a table."""
        return [p for p, position in enumerate(self.positions) if position.table == table]

    @cached_property
    def shown(self) -> dict[Place, str]:
        """The columns whose values a view row tells, and the view's column that does."""
        told = {place: name for name, place in reversed(self.outputs)}
        by_class = {self.class_of[p]: n for p, n in told.items() if p in self.class_of}
        for k, name in by_class.items():
            told.update((place, told.get(place, name)) for place in self.classes[k])
        return told


def normal_form(bound: Bound) -> Shape:
    """The normal form of a view; `Unsupported` with a reason for anything that has none."""
    walk = _Walk()
    columns = walk.relation(bound.plan)
    outputs = tuple((shown, _bare(columns[plan], shown)) for shown, plan in bound.columns)
    groups = _equal_groups(walk.equalities)
    classes, within = [], []
    for group in groups:
        spans = {p for p, _ in group}
        within += [_same_position(group, p) for p in spans]
        if len(spans) > 1:
            classes.append(tuple(sorted(group)))
    selections = [*walk.selections, *(w for some in within for w in some)]
    positions = tuple(
        _position(scan, [s for p, s in selections if p == number])
        for number, scan in enumerate(walk.scans)
    )
    shape = Shape(positions, tuple(sorted(classes)), outputs)
    _check(shape)
    return shape


class _Walk:
    """Gathers positions, equalities and selections of a plan."""

    def __init__(self) -> None:
        self.scans: list[Scan] = []
        self.equalities: list[tuple[Place, Place]] = []
        self.selections: list[tuple[int, Scalar]] = []

    def relation(self, q: Rel) -> dict[str, Scalar | Place]:
        """The columns of a plan: places, or values that are computed."""
        match q:
            case Scan():
                self.scans.append(q)
                number = len(self.scans) - 1
                return {f.name: (number, f.source) for f in q.fields}
            case Distinct():
                return self.relation(q.child)
            case Filter():
                columns = self.relation(q.child)
                self._condition(q.predicate, columns)
                return columns
            case Project():
                columns = self.relation(q.child)
                return {o.name: _value(o.value, columns) for o in q.outputs}
            case Join(kind=Kind.INNER):
                columns = {**self.relation(q.left), **self.relation(q.right)}
                self._condition(q.on, columns)
                return columns
            case _:
                raise _not_spj(type(q).__name__)

    def _condition(self, condition: Scalar, columns: dict[str, Scalar | Place]) -> None:
        for part in condition.conjuncts:
            places = [_bare(columns[c], c) for c in sorted(part.columns)]
            positions = {p for p, _ in places}
            pair = _equated(part)
            if pair is not None:
                one, other = (_bare(columns[c], c) for c in pair)
                self.equalities.append((one, other))
            elif not positions:
                _require_truth(part)
            elif len(positions) == 1:
                named = {c: _bare(columns[c], c)[1] for c in part.columns}
                self.selections.append((positions.pop(), part.rename(named)))
            else:
                raise Unsupported(
                    f"the condition {part} of an updatable view",
                    hint="conditions compare columns of two tables by =, or speak of one table",
                    reason="JOIN_CONDITION",
                )


def _value(scalar: Scalar, columns: dict[str, Scalar | Place]) -> Scalar | Place:
    return columns[scalar.column] if scalar.column is not None else scalar


def _bare(value: Scalar | Place, shown: str) -> Place:
    if isinstance(value, Scalar):
        raise Unsupported(
            f"column {shown!r} of an updatable view is computed: {value}",
            hint="an updatable view shows columns of its tables as they are",
            reason="COMPUTED_COLUMN",
        )
    return value


def _require_truth(part: Scalar) -> None:
    """Refuse a condition without columns, unless it is always true."""
    try:
        holds = true(part, pa.table({"one": [1]}), {})[0].as_py()
    except (Declined, pa.ArrowInvalid) as why:
        raise uncomputed("the view", part, str(why)) from why
    if not holds:
        raise Unsupported(
            f"an updatable view that has no rows: {part} is never true",
            hint="leave the condition out",
            reason="SELECTION",
        )


def uncomputed(table: str, selection: Scalar, why: str) -> Unsupported:
    """The error for a condition that only Spark computes."""
    return Unsupported(
        f"the condition {selection} on {table} in an updatable view is not computed in memory",
        detail=why,
        hint="compare columns with constants of their own types (DATE '2021-01-01'), without functions",
        reason="SELECTION",
    )


def _computed(at: Position) -> None:
    """Refuse a selection that memory does not compute, before there are rows."""
    none = pa.table({c: pa.array([], kinds.arrow(kind)) for c, kind in at.columns})
    for part in at.selection.conjuncts:
        try:
            true(part, none, at.types)
        except (Declined, pa.ArrowInvalid) as why:
            raise uncomputed(repr(at.table), part, str(why)) from why


def _equated(part: Scalar) -> tuple[str, str] | None:
    match part.expr:
        case exp.EQ(this=exp.Column() as one, expression=exp.Column() as other):
            return one.name, other.name
        case _:
            return None


def _not_spj(what: str) -> Unsupported:
    return Unsupported(
        f"an updatable view with {what}",
        hint="an updatable view selects, projects and joins (inner joins) tables",
        reason="NOT_SPJ",
    )


def _equal_groups(pairs: Iterable[tuple[Place, Place]]) -> list[set[Place]]:
    """Sets of columns that equalities connect."""
    groups: list[set[Place]] = []
    for pair in pairs:
        touching = [g for g in groups if g & set(pair)]
        groups = [g for g in groups if not g & set(pair)]
        groups.append(set(pair).union(*touching))
    return groups


def _same_position(group: set[Place], position: int) -> list[tuple[int, Scalar]]:
    """Columns of one position that are equated are a selection."""
    names = sorted(c for p, c in group if p == position)
    return [
        (position, Scalar(exp.EQ(this=col(names[0]).expr, expression=col(other).expr)))
        for other in names[1:]
    ]


def _position(scan: Scan, selections: list[Scalar]) -> Position:
    columns = tuple((f.source, f.type) for f in scan.fields)
    return Position(scan.table, columns, every(selections))


def _check(shape: Shape) -> None:
    for position in shape.positions:
        for column, kind in position.columns:
            if not kinds.is_exact(kind) or kind in ("float", "double"):
                raise Unsupported(
                    f"column {column!r} of {position.table!r} has type {kind}",
                    hint="rows of an updatable view are compared: leave it out",
                    reason="UNCOMPARABLE_TYPE",
                )
        _computed(position)
    for members in shape.classes:
        types = {shape.positions[p].types[c] for p, c in members}
        if len(types) > 1 and not all(map(kinds.is_integer, types)):
            (_, c), (_, d), *_ = members
            raise Unsupported(
                f"{c!r} and {d!r} are joined but have types {' and '.join(sorted(types))}",
                hint="give both columns one type",
                reason="JOIN_TYPES",
            )
    if len(shape.positions) > 1 and len(set(_reached(shape, 0))) < len(shape.positions):
        raise Unsupported(
            "an updatable view that does not join all its tables",
            hint="join every table to another by =",
            reason="CARTESIAN_PRODUCT",
        )


def _reached(shape: Shape, start: int) -> Iterator[int]:
    """The positions that joins connect with one."""
    seen, todo = {start}, [start]
    while todo:
        p = todo.pop()
        yield p
        for members in shape.classes:
            if any(q == p for q, _ in members):
                new = {q for q, _ in members} - seen
                seen |= new
                todo += sorted(new)
