"""The effect of base changes on a view by SQL joins that begin at the changed rows.

`in_memory.py` enumerates joins in memory and gives up if there are too many. Here an engine that has
the tables (Spark, or DuckDB in tests) joins the few changed rows with the tables, for each position:

    added     = ∪ over positions p   inserted rows at p ⋈ tables after the changes elsewhere
    removed   = ∪ over positions p   deleted rows at p ⋈ tables before the changes elsewhere

Only the first few embeddings are fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlglot import exp

from belvedere.algebra.scalars import col, condition
from belvedere.updating.side_effects.in_memory import (
    BaseChanges,
    Embedding,
    NewRow,
    Signature,
    TableState,
    TooManyJoins,
    ViewEffect,
)
from belvedere.updating.summary.base_tables import BaseTables
from belvedere.updating.summary.domains import denormalize, normalize
from belvedere.updating.translate.constraints import BaseRow

MOST_FETCHED = 1_000
HeldValues = tuple[Any, ...]
"""The values of a row's columns held in memory, as Python values."""


@dataclass(frozen=True)
class JoinEngine:
    """An engine that has the tables: how SQL names a table, and the rows of a query."""

    table: Callable[[str], exp.Table]
    fetch: Callable[[exp.Query], Sequence[Sequence[Any]]]


@dataclass(frozen=True)
class CompleteChanges:
    """Base changes with all columns of the inserted rows, in the order of the changes."""

    changes: BaseChanges
    new: Mapping[str, Sequence[BaseRow]]


def view_effect_by(
    engine: JoinEngine,
    base: BaseTables,
    changes: CompleteChanges,
    expected: Iterable[Signature],
    most: int,
) -> ViewEffect:
    """As `in_memory.view_effect`, by an engine; `TooManyJoins` if the fetched rows do not decide."""
    return _JoinedEffect(engine, base, changes).effect(frozenset(expected), most)


class _JoinedEffect:
    def __init__(self, engine: JoinEngine, base: BaseTables, changes: CompleteChanges) -> None:
        self.engine, self.base, self.made = engine, base, changes
        self.shape, self.tree = base.shape, base.tree
        self.new = {t: [self._held(t, r) for r in rows] for t, rows in changes.new.items()}
        self.gone = {
            t: [self._stored(t, n) for n in sorted(numbers)]
            for t, numbers in changes.changes.gone.items()
        }

    def effect(self, expected: frozenset[Signature], most: int) -> ViewEffect:
        old, new = TableState(self.base, BaseChanges()), TableState(self.base, self.made.changes)
        effect = ViewEffect()
        for embeddings, before, after in ((effect.added, new, old), (effect.removed, old, new)):
            for p in range(len(self.shape.positions)):
                for embedding in self._embeddings(p, before is new, len(expected) + most):
                    signature = before.signature(embedding)
                    if signature in embeddings or after.embedding_of(signature) is not None:
                        continue
                    embeddings[signature] = embedding
                    if len(embeddings.keys() - expected) >= most:
                        effect.complete = False
                        break
        return effect

    def _embeddings(self, p: int, put_in: bool, needed: int) -> list[Embedding]:
        """The first embeddings through changed rows at a position."""
        begin = self._members(p) if put_in else self._leaving(p)
        if not begin:
            return []
        rows = self.engine.fetch(self._query(p, begin, put_in))
        embeddings = [self._numbered(row, put_in) for row in rows]
        signatures = {TableState(self.base, self.made.changes).signature(e) for e in embeddings}
        if len(rows) == MOST_FETCHED and len(signatures) < needed:
            raise TooManyJoins("this update joins too many rows to be checked", reason="TOO_MUCH")
        return embeddings

    def _query(self, p: int, begin: Sequence[HeldValues], put_in: bool) -> exp.Select:
        """Changed rows at a position joined with the rows of the other positions, edge by edge."""
        columns = [
            exp.column(f"c{i}", f"x{q}")
            for q, position in enumerate(self.shape.positions)
            for i in range(len(self.base.held[position.table]))
        ]
        listed = [exp.alias_(column, f"v{i}") for i, column in enumerate(columns)]
        table = self.shape.positions[p].table
        query = exp.select(*listed).distinct().from_(self._listed(table, begin, f"x{p}"))
        for came, q, e in self._outwards(p):
            pairs = zip(self.tree.columns(came, e), self.tree.columns(q, e), strict=True)
            on = [
                exp.EQ(this=self._column(came, a), expression=self._column(q, b)) for a, b in pairs
            ]
            query = query.join(self._rows(q, put_in).subquery(f"x{q}"), on=exp.and_(*on))
        for k in self.tree.dropped:
            first, *others = (self._column(q, c) for q, c in self.shape.classes[k])
            for other in others:
                query = query.where(exp.EQ(this=first.copy(), expression=other))
        return query.limit(MOST_FETCHED)

    def _outwards(self, p: int) -> list[tuple[int, int, int]]:
        """The other positions in join order: the position before each, the position, their edge."""
        steps, reached = [], [p]
        for here in reached:
            for e in self.tree.around[here]:
                q = self.tree.edges[e].across(here)
                if q not in reached:
                    reached.append(q)
                    steps.append((here, q, e))
        return steps

    def _column(self, p: int, column: str) -> exp.Column:
        held = self.base.held[self.shape.positions[p].table]
        return exp.column(f"c{held.index(column)}", f"x{p}")

    def _rows(self, p: int, put_in: bool) -> exp.Query:
        """The rows of a position that satisfy its selection, before the changes or after them."""
        position = self.shape.positions[p]
        held = self.base.held[position.table]
        shown = [exp.alias_(col(c).expr.copy(), f"c{i}") for i, c in enumerate(held)]
        query = exp.select(*shown).from_(self.engine.table(position.table))
        if position.selection.conjuncts:
            query = query.where(condition(position.selection.expr))
        if not put_in:
            return query
        if gone := self.gone.get(position.table):
            query = (
                exp.select("*")
                .from_(query.subquery("t"))
                .where(exp.not_(self._among(position.table, gone)))
            )
        if new := self._members(p):
            return exp.union(
                query, exp.select("*").from_(self._listed(position.table, new, "n")), distinct=False
            )
        return query

    def _among(self, table: str, rows: Sequence[HeldValues]) -> exp.Exists:
        """Whether a row is one of some rows; NULL equals NULL."""
        same = [
            exp.NullSafeEQ(this=exp.column(f"c{i}", "t"), expression=exp.column(f"c{i}", "g"))
            for i in range(len(self.base.held[table]))
        ]
        return exp.Exists(this=exp.select("1").from_(self._listed(table, rows, "g")).where(*same))

    def _listed(self, table: str, rows: Sequence[HeldValues], alias: str) -> exp.Subquery:
        """Rows as constants, each value cast to its type."""
        selects = [
            exp.select(*(self._constant(table, i, v) for i, v in enumerate(row))) for row in rows
        ]
        union: exp.Query = selects[0] if len(selects) == 1 else exp.union(*selects, distinct=False)
        return union.subquery(alias)

    def _constant(self, table: str, i: int, value: Any) -> exp.Expr:
        kind = self.shape.used[table][self.base.held[table][i]]
        text = exp.null() if value is None else exp.convert(value)
        if isinstance(value, bytes):
            text = exp.HexString(this=value.hex())
        elif value is not None and not isinstance(value, (bool, int)):
            text = exp.Literal.string(str(value))
        return exp.alias_(exp.cast(text, exp.DataType.build(kind, dialect="spark")), f"c{i}")

    def _members(self, p: int) -> list[HeldValues]:
        """The inserted rows that satisfy a position's selection."""
        table = self.shape.positions[p].table
        rows: Sequence[NewRow] = self.made.changes.new.get(table, ())
        return [v for r, v in zip(rows, self.new.get(table, ()), strict=True) if p in r.members]

    def _leaving(self, p: int) -> list[HeldValues]:
        """The deleted rows that satisfied a position's selection."""
        table = self.shape.positions[p].table
        numbers = sorted(self.made.changes.gone.get(table, ()))
        return [self._stored(table, n) for n in numbers if self.base.is_present(p, n)]

    def _held(self, table: str, row: BaseRow) -> HeldValues:
        return tuple(row.get(c) for c in self.base.held[table])

    def _stored(self, table: str, number: int) -> HeldValues:
        types = self.shape.used[table]
        values = self.base.values(table, self.base.tables[table].row(number))
        return tuple(denormalize(v, types[c]) for c, v in values.items())

    def _numbered(self, row: Sequence[Any], put_in: bool) -> Embedding:
        """The embedding of a fetched row, which lists the values of all positions."""
        numbers, start = [], 0
        for p, position in enumerate(self.shape.positions):
            width = len(self.base.held[position.table])
            numbers.append(self._number(p, tuple(row[start : start + width]), put_in))
            start += width
        return tuple(numbers)

    def _number(self, p: int, row: HeldValues, put_in: bool) -> int:
        table = self.shape.positions[p].table
        types = [self.shape.used[table][c] for c in self.base.held[table]]
        values = [normalize(v, kind) for v, kind in zip(row, types, strict=True)]
        columns = self.base.held[table]
        codes = [self.base.domains[table, c].code(v) for c, v in zip(columns, values, strict=True)]
        number = None if None in codes else self.base.find(table, tuple(codes))  # type: ignore[arg-type]
        gone = self.made.changes.gone.get(table, frozenset()) if put_in else frozenset()
        if number is not None and number not in gone and self.base.is_present(p, number):
            return number
        for i, new in enumerate(self.new.get(table, ())):
            if [normalize(v, kind) for v, kind in zip(new, types, strict=True)] == values:
                return -1 - i
        if self.base.truncated:
            return self._taken_in(p, values)
        raise TooManyJoins(f"{table!r} was changed meanwhile", reason="CONCURRENT_CHANGE")

    def _taken_in(self, p: int, values: Sequence[int | str | None]) -> int:
        """Add a stored row of a position to the rows in memory; return its number."""
        table = self.shape.positions[p].table
        columns = self.base.held[table]
        pairs = zip(columns, values, strict=True)
        row = np.array([[self.base.domains[table, c].added(v) for c, v in pairs]], dtype=np.int64)
        number = self.base.number_rows(table, row)
        self.base.change_counts(table, number, np.ones(1, np.int64), {p: np.ones(1, dtype=bool)})
        return int(number[0])
