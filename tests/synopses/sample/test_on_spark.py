"""The statements that draw a sample on Spark, run by DuckDB in its place."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from belvedere.synopses.sample.on_spark import (
    SparkSample,
    _shares,
    delta_terms,
    draw,
    draw_inserted,
)
from belvedere.synopses.sample.reservoir import SampleKind
from tests.chances import by_chance
from tests.synopses.streams import EQUALITY, FILTERED, SELF, Case, Changes


class Workspace:
    """What `draw` asks of a Spark session, of DuckDB."""

    def __init__(self) -> None:
        self.db = duckdb.connect(config={"threads": 1})
        self.db.execute("CREATE MACRO shiftright(a, b) AS a >> b")
        self.spark = self
        self.number = 0

    def query(self, sql: str) -> Any:
        words = sql.replace("`", '"').replace("* EXCEPT (", "* EXCLUDE (")
        # Places of several partitions, as Spark numbers them.
        words = words.replace(
            "monotonically_increasing_id()",
            "(row_number() OVER () % 3 << 33) + row_number() OVER ()",
        )
        found = self.db.execute(words.replace("LEFT SEMI JOIN", "SEMI JOIN")).to_arrow_table()
        return Frame(found)

    def keep(self, frame: Any) -> Any:
        return frame

    def createDataFrame(self, table: pa.Table) -> Any:
        return Frame(table)

    def register(self, label: str, frame: Any) -> str:
        self.number += 1
        self.db.register(f"{label}_{self.number}", frame.table)
        return f"{label}_{self.number}"


class Frame:
    """Rows."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def toArrow(self) -> pa.Table:
        return self.table

    def collect(self) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in self.table.to_pylist()]


def drawn(case: Case, changes: Changes, kind: SampleKind, seed: int) -> SparkSample:
    work = Workspace()
    tables = {}
    for table, rows in changes.database.items():
        tables[table] = work.register(table, Frame(case.arrow(table, rows)))
    return draw(work, tables, case.plan(collapse=False), kind, seed)  # type: ignore[arg-type]


def ids(found: SparkSample) -> list[tuple[int, ...]]:
    return list(zip(*(c.to_pylist() for c in found.arrow().columns), strict=True))


@pytest.mark.parametrize("case", [EQUALITY, SELF, FILTERED], ids=lambda c: c.name)
def test_a_sample_of_everything_is_the_join(case: Case) -> None:
    changes = Changes(case, seed=3)
    for _ in range(14):
        changes.batch(deleting=0.1)
    join = case.join(changes.database)
    found = drawn(case, changes, SampleKind(rows=5000), 1)
    assert sorted(ids(found)) == sorted(join) != []
    assert found.plan.sample_filters or found.join_size == len(join)
    some = drawn(case, changes, SampleKind(rows=7), 1)
    assert len(set(ids(some))) == 7
    assert set(ids(some)) <= join
    assert drawn(case, changes, SampleKind(rate=1.0), 1).arrow().num_rows == len(join)


def test_draws_are_uniform() -> None:
    changes = Changes(EQUALITY, seed=3)
    while len(EQUALITY.join(changes.database)) < 20:
        changes.batch(deleting=0.1)
    join = EQUALITY.join(changes.database)
    counts = Counter(ids(drawn(EQUALITY, changes, SampleKind(rows=3000, replacement=True), 5)))
    assert counts.keys() == join
    assert by_chance(list(counts.values())) > 1e-3


def grown(
    case: Case, kind: SampleKind, seed: int, batches: list[tuple[str, list[Any]]]
) -> SparkSample:
    """A sample drawn first of what one half of some batches brought, then from what the other half did."""
    work, half = Workspace(), len(batches) // 2
    plan, database = case.plan(collapse=False), {t: list[Any]() for t in case.schemas}
    for table, rows in batches[:half]:
        database[table] += rows
    old = {t: work.register(t, Frame(case.arrow(t, rows))) for t, rows in database.items()}
    found = draw(work, old, plan, kind, seed)  # type: ignore[arg-type]
    came: dict[str, Any] = {}
    for table, rows in batches[half:]:
        came[table] = [*came.get(table, []), *rows]
    new = {t: work.register(t, Frame(case.arrow(t, database[t] + came[t]))) for t in came}
    views = {t: work.register(t, Frame(case.arrow(t, rows))) for t, rows in came.items()}
    path = delta_terms([p.table for p in plan.block.positions], old, new, views)
    again = draw_inserted(work, found, path, np.random.default_rng([seed, 1]))  # type: ignore[arg-type]
    assert again is not None
    return again


def inserts(case: Case, most: int) -> tuple[list[tuple[str, list[Any]]], Changes]:
    changes, batches = Changes(case, seed=3), []
    while len(case.join(changes.database)) < most:
        table, _, rows = changes.batch(deleting=0)
        batches.append((table, rows))
    return batches, changes


@pytest.mark.parametrize("case", [SELF, FILTERED], ids=lambda c: c.name)
def test_a_sample_of_everything_stays_the_join_when_rows_come(case: Case) -> None:
    batches, changes = inserts(case, 40)
    join = case.join(changes.database)
    found = grown(case, SampleKind(rows=5000), 1, batches)
    assert sorted(ids(found)) == sorted(join)
    assert found.plan.sample_filters or found.join_size == len(join)


def test_what_rows_that_come_bring_is_as_likely_as_the_rest() -> None:
    batches, changes = inserts(EQUALITY, 30)
    counts = Counter(ids(grown(EQUALITY, SampleKind(rows=3000, replacement=True), 5, batches)))
    assert counts.keys() == EQUALITY.join(changes.database)
    assert by_chance(list(counts.values())) > 1e-3


def test_of_old_and_new_results_a_sample_has_as_many_as_chance_has_it() -> None:
    random, sizes = np.random.default_rng(1), [60, 25, 15]
    found = [_shares(sizes, 20, SampleKind(rows=20), random) for _ in range(1500)]
    assert {sum(f) for f in found} == {20}
    of_new = Counter(f[1] for f in found)
    mass = {k: math.comb(25, k) * math.comb(75, 20 - k) / math.comb(100, 20) for k in range(2, 9)}
    observed = [of_new[k] for k in mass]
    rest = 1500 - sum(observed)
    wanted = [1500 * p for p in mass.values()]
    assert by_chance([*observed, rest], [*wanted, 1500 - sum(wanted)]) > 1e-3
    # By sizes alone, as with replacement, the counts spread wider: the test would tell.
    wide = [
        _shares(sizes, 20, SampleKind(rows=20, replacement=True), random)[1] for _ in range(1500)
    ]
    counts = Counter(wide)
    observed = [counts[k] for k in mass]
    p = by_chance([*observed, 1500 - sum(observed)], [*wanted, 1500 - sum(wanted)])
    assert p < 1e-6
    assert _shares([10**30, 0], 5, SampleKind(rows=5), random) == [5, 0]
    assert _shares([0, 3], 0, SampleKind(rows=5), random) == [0, 3]
    assert _shares([0, 0], 0, SampleKind(rows=5, replacement=True), random) == [0, 0]


def test_an_empty_join_has_an_empty_sample() -> None:
    found = drawn(EQUALITY, Changes(EQUALITY, seed=1), SampleKind(rows=5, replacement=True), 1)
    assert (found.join_size, found.arrow().num_rows) == (0, 0)
