"""The normal form of select-project-join queries: π(σ(R₁ ⋈ … ⋈ Rₙ)), from the binder's plan.

A *position* is one occurrence of a table in FROM: a table listed twice has two positions. Subqueries
and views of the same operators dissolve into their positions. Each conjunct of WHERE and ON belongs
to one position, joins several positions, or is on no column:

    one position      R.x > 3, R.x = R.y                 the position's own conjuncts
    Equality          R.x = S.y, R.x + 1 = S.y           two positions, a scalar of each
    RangeCondition    R.x < S.y, abs(R.x - 2 * S.y) < 5  two positions, a column of each
    OtherCondition    R.x + S.y < T.z, R.x <> S.y        anything else
    constant          1 = 1

A caller says which operators it accepts and what it raises for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from sqlglot import exp

from belvedere.algebra.relations import Distinct, Field, Filter, Join, JoinKind, Project, Rel, Scan
from belvedere.algebra.scalars import Scalar, col, every
from belvedere.joins.linear import LinearRange, linear_range
from belvedere.sql.binder.expressions import bare

ColumnRef: TypeAlias = tuple[int, str]
"""A column of a position: the position's number and the column's name in its table."""


@dataclass(frozen=True)
class TableOccurrence:
    """A table at a position: the columns that the query reads, and the conjuncts on them alone."""

    table: str
    fields: tuple[Field, ...]
    conjuncts: tuple[Scalar, ...] = ()
    """Conditions on this position alone, over the plan's names."""

    @cached_property
    def names(self) -> frozenset[str]:
        """The plan's names of the columns."""
        return frozenset(f.name for f in self.fields)

    @cached_property
    def filter(self) -> Scalar | None:
        """The conjuncts as one condition over the plan's names; None if there are none."""
        return every(self.conjuncts) if self.conjuncts else None

    @cached_property
    def selection(self) -> Scalar:
        """The conjuncts as one condition over the table's own names."""
        sources = {f.name: f.source for f in self.fields}
        return every(c.rename(sources) for c in self.conjuncts)

    @cached_property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """The columns by the table's own names, with their types."""
        return tuple((f.source, f.type) for f in self.fields)

    @cached_property
    def types(self) -> dict[str, str]:
        """The type of each column, by the table's own name."""
        return dict(self.columns)


@dataclass(frozen=True)
class Equality:
    """A scalar of one position equals a scalar of another."""

    scalar: Scalar
    positions: tuple[int, int]
    """In ascending order."""
    sides: tuple[Scalar, Scalar]
    """The compared scalars, in the order of the positions."""


@dataclass(frozen=True)
class RangeCondition:
    """A linear combination of a column of one position and one of another lies within bounds."""

    scalar: Scalar
    positions: tuple[int, int]
    range: LinearRange


@dataclass(frozen=True)
class OtherCondition:
    """A condition on several positions that is neither an equality nor a range."""

    scalar: Scalar
    positions: tuple[int, ...]


JoinCondition: TypeAlias = Equality | RangeCondition | OtherCondition


@dataclass(frozen=True)
class JoinBlock:
    """A select-project-join query in normal form."""

    positions: tuple[TableOccurrence, ...]
    conditions: tuple[JoinCondition, ...]
    """The conditions on several positions, as they are written from left to right."""
    constants: tuple[Scalar, ...]
    """The conditions on no column."""
    outputs: tuple[tuple[str, Scalar], ...]
    """The names that the query shows, and their values over the plan's names."""

    @cached_property
    def types(self) -> dict[str, str]:
        """The type of each column, by the plan's name, in Spark's words."""
        return {f.name: f.type for p in self.positions for f in p.fields}

    @cached_property
    def refs(self) -> dict[str, ColumnRef]:
        """The position and the table's own name of each column, by the plan's name."""
        return {f.name: (p, f.source) for p, at in enumerate(self.positions) for f in at.fields}

    def positions_of(self, scalar: Scalar) -> list[int]:
        """The positions whose columns a scalar reads, in ascending order."""
        return sorted({self.refs[c][0] for c in scalar.columns})

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """The tables, each once."""
        return tuple(dict.fromkeys(p.table for p in self.positions))

    @cached_property
    def used(self) -> dict[str, dict[str, str]]:
        """For each table the columns that any of its positions reads, with their types."""
        columns: dict[str, dict[str, str]] = {t: {} for t in self.tables}
        for position in self.positions:
            columns[position.table].update(position.columns)
        return columns

    def at(self, table: str) -> list[int]:
        """The positions of a table."""
        return [p for p, position in enumerate(self.positions) if position.table == table]

    @cached_property
    def column_outputs(self) -> tuple[tuple[str, ColumnRef], ...]:
        """The outputs that are columns as they are, and which columns."""
        return tuple((name, self.refs[s.column]) for name, s in self.outputs if s.column)

    @cached_property
    def equal_columns(self) -> tuple[frozenset[ColumnRef], ...]:
        """Sets of columns that equalities connect, each of two columns or more."""
        own = (c for position in self.positions for c in position.conjuncts)
        pairs = map(equated_columns, (*own, *(c.scalar for c in self.conditions)))
        refs = [(self.refs[p[0]], self.refs[p[1]]) for p in pairs if p is not None]
        return tuple(frozenset(g) for g in _connected(refs) if len(g) > 1)

    @cached_property
    def classes(self) -> tuple[tuple[ColumnRef, ...], ...]:
        """The join classes: columns of two positions or more that the query equates."""
        several = (c for c in self.equal_columns if len({p for p, _ in c}) > 1)
        return tuple(sorted(tuple(sorted(c)) for c in several))

    @cached_property
    def class_of(self) -> dict[ColumnRef, int]:
        """The join class of each column that is in one."""
        return {ref: k for k, members in enumerate(self.classes) for ref in members}

    @cached_property
    def output_of(self) -> dict[ColumnRef, str]:
        """For each column whose value a result row shows, itself or an equal one, the output that shows it."""
        names = {ref: name for name, ref in reversed(self.column_outputs)}
        by_class = {self.class_of[ref]: n for ref, n in names.items() if ref in self.class_of}
        for k, name in by_class.items():
            names.update((ref, names.get(ref, name)) for ref in self.classes[k])
        return names


@dataclass(frozen=True)
class Acceptance:
    """Which operators a caller accepts in a block, and the errors that it raises for the others."""

    refusal: Callable[[Rel], Exception]
    """The error for an operator."""
    distinct: bool = False
    """Whether DISTINCT is accepted, and ignored."""
    computed: Callable[[str, Scalar], Exception] | None = None
    """The error for a computed column in a condition or an output; None if it is accepted."""


def join_block(plan: Rel, columns: Iterable[tuple[str, str]], acceptance: Acceptance) -> JoinBlock:
    """The normal form of a plan; `columns` are the names to show and the plan's columns for them."""
    walk = _Walk(acceptance)
    values = walk.values_of(plan)
    own: list[list[Scalar]] = [[] for _ in walk.scans]
    conditions: list[JoinCondition] = []
    constants: list[Scalar] = []
    owner = {f.name: p for p, scan in enumerate(walk.scans) for f in scan.fields}
    for conjunct in walk.conjuncts:
        positions = tuple(sorted({owner[c] for c in conjunct.columns}))
        if not positions:
            constants.append(conjunct)
        elif len(positions) == 1:
            own[positions[0]].append(conjunct)
        else:
            conditions.append(_join_condition(conjunct, positions, owner))
    return JoinBlock(
        tuple(
            TableOccurrence(s.table, s.fields, tuple(c))
            for s, c in zip(walk.scans, own, strict=True)
        ),
        tuple(conditions),
        tuple(constants),
        tuple((name, walk.accepted(name, values[column])) for name, column in columns),
    )


class _Walk:
    """Collects the scans and conjuncts of a plan, from left to right."""

    def __init__(self, acceptance: Acceptance) -> None:
        self.acceptance = acceptance
        self.scans: list[Scan] = []
        self.conjuncts: list[Scalar] = []

    def values_of(self, q: Rel) -> dict[str, Scalar]:
        """The columns of a plan as scalars over the columns of its scans."""
        match q:
            case Scan():
                self.scans.append(q)
                return {c: col(c) for c in q.columns}
            case Distinct() if self.acceptance.distinct:
                return self.values_of(q.child)
            case Filter():
                values = self.values_of(q.child)
                self._add(q.predicate, values)
                return values
            case Project():
                values = self.values_of(q.child)
                return {o.name: _over(o.value, values) for o in q.outputs}
            case Join(kind=JoinKind.INNER):
                values = {**self.values_of(q.left), **self.values_of(q.right)}
                self._add(q.on, values)
                return values
            case _:
                raise self.acceptance.refusal(q)

    def _add(self, condition: Scalar, values: Mapping[str, Scalar]) -> None:
        for conjunct in condition.conjuncts:
            for column in sorted(conjunct.columns):
                self.accepted(column, values[column])
            self.conjuncts.append(_over(conjunct, values))

    def accepted(self, name: str, value: Scalar) -> Scalar:
        """A column's value; the caller's error if it is computed and that is not accepted."""
        if value.column is None and self.acceptance.computed is not None:
            raise self.acceptance.computed(name, value)
        return value


def _over(scalar: Scalar, values: Mapping[str, Scalar]) -> Scalar:
    """A scalar with its columns replaced; the scalar itself where they stand for themselves."""
    return scalar.substitute({c: values[c] for c in scalar.columns if values[c].column != c})


def _join_condition(
    conjunct: Scalar, positions: tuple[int, ...], owner: Mapping[str, int]
) -> JoinCondition:
    """The class of a condition on several positions."""
    if len(positions) > 2:
        return OtherCondition(conjunct, positions)
    pair = positions[0], positions[1]
    if isinstance(conjunct.expr, exp.EQ):
        sides = [Scalar(bare(s)) for s in (conjunct.expr.this, conjunct.expr.expression)]
        owners = [{owner[c] for c in s.columns} for s in sides]
        if owners == [{pair[1]}, {pair[0]}]:
            sides.reverse()
        elif owners != [{pair[0]}, {pair[1]}]:
            return OtherCondition(conjunct, pair)
        return Equality(conjunct, pair, (sides[0], sides[1]))
    bounds = linear_range(conjunct.expr)
    if bounds is None or {owner[bounds.x], owner[bounds.y]} != set(pair):
        return OtherCondition(conjunct, pair)
    return RangeCondition(conjunct, pair, bounds)


def equated_columns(conjunct: Scalar) -> tuple[str, str] | None:
    """The two columns, by the plan's names, that a conjunct equates."""
    if not isinstance(conjunct.expr, exp.EQ):
        return None
    sides = bare(conjunct.expr.this), bare(conjunct.expr.expression)
    if not all(isinstance(s, exp.Column) for s in sides):
        return None
    return sides[0].name, sides[1].name


def _connected(pairs: Iterable[tuple[ColumnRef, ColumnRef]]) -> list[set[ColumnRef]]:
    """The sets of columns that pairs connect."""
    groups: list[set[ColumnRef]] = []
    for pair in pairs:
        touching = [g for g in groups if g & set(pair)]
        groups = [g for g in groups if not g & set(pair)]
        groups.append(set(pair).union(*touching))
    return groups
