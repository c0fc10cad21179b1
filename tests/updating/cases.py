"""Random small views with their tables, and what they mean by brute force."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import product

import pyarrow as pa

from belvedere.joins.equijoin_tree import equijoin_tree
from belvedere.joins.normal_form import JoinBlock
from belvedere.sql.binder.bind import Relation, bind
from belvedere.updating.summary.base_tables import BaseTables, held_columns
from belvedere.updating.summary.loading import load_base
from belvedere.updating.updatable_block import updatable_block

Row = tuple[int | None, ...]
Tables = Mapping[str, list[Row]]


@dataclass(frozen=True)
class Columns:
    """The columns of some tables, all integers."""

    columns: Mapping[str, tuple[str, ...]]

    def resolve(self, name: str) -> Relation:
        return Relation(columns=tuple((c, "int") for c in self.columns[name]), table=name)


@cache
def _updatable_block(query: str, columns: tuple[tuple[str, tuple[str, ...]], ...]) -> JoinBlock:
    return updatable_block(bind(query, Columns(dict(columns))))


@dataclass(frozen=True)
class Case:
    """A view and its tables, all columns integers."""

    query: str
    columns: Mapping[str, tuple[str, ...]]
    tables: Tables
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    root: int = 0

    @cached_property
    def shape(self) -> JoinBlock:
        return _updatable_block(self.query, tuple(self.columns.items()))

    def base(self, tables: Tables | None = None) -> BaseTables:
        shape = self.shape
        tree = equijoin_tree(shape, self.root % len(shape.positions), self.keys)
        return load_base(tree, held_columns(shape, self.keys), self.arrow(tables or self.tables))

    def arrow(self, tables: Tables) -> dict[str, pa.Table]:
        return {
            t: pa.table(
                {
                    c: pa.array([r[i] for r in rows], pa.int32())
                    for i, c in enumerate(self.columns[t])
                }
            )
            for t, rows in tables.items()
        }

    def embeddings(self, tables: Tables | None = None) -> Iterator[tuple[Row, ...]]:
        """A base row for every position such that all conditions hold: the definition."""
        shape = self.shape
        rows = [sorted(set((tables or self.tables)[p.table]), key=str) for p in shape.positions]
        names = [self.columns[p.table] for p in shape.positions]
        for chosen in product(*rows):
            at = [dict(zip(n, r, strict=True)) for n, r in zip(names, chosen, strict=True)]
            if all(self._equal([at[p][c] for p, c in k]) for k in shape.classes) and all(
                self.selected(p, at[p]) for p in range(len(at))
            ):
                yield chosen

    @staticmethod
    def _equal(values: list[int | None]) -> bool:
        return None not in values and len(set(values)) == 1

    def selected(self, p: int, row: Mapping[str, int | None]) -> bool:
        """Selections of these cases are of the form column < 3 or column = column."""
        for part in self.shape.positions[p].selection.conjuncts:
            left, right = row[part.expr.this.name], part.expr.expression
            other = row[right.name] if right.name in row else int(right.name)
            if left is None or other is None:
                return False
            if not (left < other if type(part.expr).__name__ == "LT" else left == other):
                return False
        return True

    def view(self, tables: Tables | None = None) -> set[Row]:
        """The view's rows."""
        return {self.shown(e) for e in self.embeddings(tables)}

    def shown(self, embedding: tuple[Row, ...]) -> Row:
        shape = self.shape
        return tuple(
            embedding[p][self.columns[shape.positions[p].table].index(c)]
            for _, (p, c) in shape.column_outputs
        )


COLUMNS = ("a", "b", "c")


def random_case(
    seed: int,
    *,
    positions: int = 3,
    project: bool = False,
    keyed: bool = False,
    cyclic: bool = False,
    twice: bool = False,
    rows: int = 5,
    values: int = 3,
) -> Case:
    """A random view; with `keyed`, every table has a key that the view shows."""
    dice = random.Random(seed)
    names = [f"t{i}" for i in range(positions)]
    if twice and positions > 1:
        names[-1] = names[0]
    columns = {n: (*(("k",) if keyed else ()), *COLUMNS[: dice.randint(1, 3)]) for n in names}
    joins, joined = [], set()
    for i in range(1, positions):
        j = dice.randrange(i)
        for _ in range(dice.choice([1, 1, 2])):
            left, right = dice.choice(columns[names[i]]), dice.choice(columns[names[j]])
            joins.append(f"x{i}.{left} = x{j}.{right}")
        joined.add((i, j))
    if cyclic:
        joins.append(
            f"x0.{dice.choice(columns[names[0]])} = x{positions - 1}.{dice.choice(columns[names[-1]])}"
        )
    wheres = list(joins)
    if dice.random() < 0.3:
        wheres.append(f"x0.{dice.choice(columns[names[0]])} < {values - 1}")
    every = [(i, c) for i, n in enumerate(names) for c in columns[n]]
    shown = [pair for pair in every if not project or dice.random() < 0.6] or every[:1]
    query = (
        f"SELECT {', '.join(f'x{i}.{c} AS x{i}_{c}' for i, c in shown)} "
        f"FROM {', '.join(f'{n} AS x{i}' for i, n in enumerate(names))}"
        + (f" WHERE {' AND '.join(wheres)}" if wheres else "")
    )
    tables: dict[str, list[Row]] = {}
    for n in dict.fromkeys(names):
        drawn = [
            tuple(None if dice.random() < 0.1 else dice.randrange(values) for _ in columns[n])
            for _ in range(dice.randint(0, rows))
        ]
        if keyed:
            drawn = list({r[0]: r for r in (((i, *r[1:])) for i, r in enumerate(drawn))}.values())
        elif drawn and dice.random() < 0.3:
            drawn.append(drawn[0])
        tables[n] = drawn
    keys = dict.fromkeys(tables, ("k",)) if keyed else {}
    return Case(query, columns, tables, keys, dice.randrange(positions))
