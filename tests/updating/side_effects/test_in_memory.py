"""What changes do to a view, found through changed rows only, against the view computed twice."""

from __future__ import annotations

import random

import duckdb
import pytest
from sqlglot import exp

from belvedere.updating.side_effects.in_memory import (
    BaseChanges,
    NewRow,
    Signature,
    shown_held_columns,
    tagged_positions,
    view_effect,
)
from belvedere.updating.side_effects.on_spark import CompleteChanges, JoinEngine, view_effect_by
from belvedere.updating.summary.base_tables import BaseTables
from belvedere.updating.translate.constraints import BaseRow
from tests.updating.cases import Case, Row, random_case

KINDS = [{}, {"project": True}, {"cyclic": True}, {"twice": True, "project": True}, {"keyed": True}]


@pytest.mark.parametrize("seed", range(80))
def test_the_effect_of_base_changes_is_that_of_brute_force(
    seed: int, connection: duckdb.DuckDBPyConnection
) -> None:
    case = random_case(seed, positions=1 + seed % 4, **KINDS[seed % 5])  # type: ignore[arg-type]
    dice = random.Random(seed)
    base = case.base()
    after = {t: list(rows) for t, rows in case.tables.items()}
    gone: dict[str, frozenset[int]] = {}
    new: dict[str, tuple[NewRow, ...]] = {}
    rows: dict[str, list[BaseRow]] = {}
    for table, columns in case.columns.items():
        numbers = range(base.tables[table].size)
        dropped = frozenset(n for n in numbers if dice.random() < 0.25)
        gone[table] = dropped
        lost = {values(base, table, n) for n in dropped}
        after[table] = [r for r in after[table] if held(base, case, table, r) not in lost]
        fresh = [tuple(dice.randrange(4) for _ in columns) for _ in range(dice.randint(0, 2))]
        if case.keys:
            fresh = [(10 + i, *r[1:]) for i, r in enumerate(fresh)]
        fresh = [r for r in dict.fromkeys(fresh) if r not in case.tables[table]]
        new[table] = tuple(new_row(base, case, table, r) for r in fresh)
        after[table] += fresh
        rows[table] = [dict(zip(columns, r, strict=True)) for r in fresh]
    changes = BaseChanges(gone, new)
    before, then = case.view(), case.view(after)
    ways = [view_effect(base, changes)]
    if seed < 6:
        made, asked = CompleteChanges(changes, rows), engine(case, connection)
        ways.append(view_effect_by(asked, base, made, expected=(), most=10_000))
        few = view_effect_by(asked, base, made, expected=(), most=1)
        assert bool(few.added) == bool(then - before)
        assert set(few.added) <= set(ways[0].added)
    for found in ways:
        assert set(found.added) == {signature(base, case, r) for r in then - before}
        assert set(found.removed) == {signature(base, case, r) for r in before - then}


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


def engine(case: Case, connection: duckdb.DuckDBPyConnection) -> JoinEngine:
    """Who has a case's tables, without Spark."""
    for table, rows in case.arrow(case.tables).items():
        connection.register(f"arrow_{table}", rows)
    return JoinEngine(
        lambda t: exp.to_table(f"arrow_{t}"),
        lambda q: connection.execute(q.sql(dialect="duckdb")).fetchall(),
    )


def held(base: BaseTables, case: Case, table: str, row: Row) -> Row:
    at = dict(zip(case.columns[table], row, strict=True))
    return tuple(at[c] for c in base.held[table])


def values(base: BaseTables, table: str, number: int) -> Row:
    row = base.tables[table].row(number)
    return tuple(base.values(table, row).values())  # type: ignore[return-value]


def new_row(base: BaseTables, case: Case, table: str, row: Row) -> NewRow:
    at = dict(zip(case.columns[table], row, strict=True))
    code = tuple(base.domains[table, c].added(at[c]) for c in base.held[table])
    members = frozenset(p for p in base.shape.at(table) if case.selected(p, at))
    return NewRow(code, members)


def signature(base: BaseTables, case: Case, row: Row) -> Signature:
    at = dict(zip((place for _, place in base.shape.column_outputs), row, strict=True))
    codes = []
    for p, c in shown_held_columns(base):
        code = base.domains[base.shape.positions[p].table, c].code(at[p, c])
        assert code is not None
        codes.append(code)
    return (*codes, *(0 for _ in tagged_positions(base)))
