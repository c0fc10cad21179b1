"""The statements that draw a sample on Spark, run by DuckDB in its place."""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from scipy import stats

from belvedere.synopses.on_spark import Drawn, draw
from belvedere.synopses.reservoir import Kind
from synopses.streams import EQUALITY, FILTERED, SELF, Case, Changes


class Work:
    """What `draw` asks of a Spark session, of DuckDB."""

    def __init__(self) -> None:
        self.db = duckdb.connect()
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


def drawn(case: Case, changes: Changes, kind: Kind, seed: int) -> Drawn:
    work = Work()
    tables = {}
    for table, rows in changes.database.items():
        tables[table] = work.register(table, Frame(case.arrow(table, rows)))
    return draw(work, tables, case.plan(collapse=False), kind, seed)  # type: ignore[arg-type]


def ids(found: Drawn) -> list[tuple[int, ...]]:
    return list(zip(*(c.to_pylist() for c in found.arrow().columns), strict=True))


@pytest.mark.parametrize("case", [EQUALITY, SELF, FILTERED], ids=lambda c: c.name)
def test_a_sample_of_everything_is_the_join(case: Case) -> None:
    changes = Changes(case, seed=3)
    for _ in range(14):
        changes.batch(deleting=0.1)
    join = case.join(changes.database)
    found = drawn(case, changes, Kind(rows=5000), 1)
    assert sorted(ids(found)) == sorted(join) != []
    assert found.plan.after or found.join_size == len(join)
    some = drawn(case, changes, Kind(rows=7), 1)
    assert len(set(ids(some))) == 7
    assert set(ids(some)) <= join
    assert drawn(case, changes, Kind(rate=1.0), 1).arrow().num_rows == len(join)


def test_draws_are_uniform() -> None:
    changes = Changes(EQUALITY, seed=3)
    while len(EQUALITY.join(changes.database)) < 20:
        changes.batch(deleting=0.1)
    join = EQUALITY.join(changes.database)
    counts = Counter(ids(drawn(EQUALITY, changes, Kind(rows=3000, replacement=True), 5)))
    assert counts.keys() == join
    assert stats.chisquare(list(counts.values())).pvalue > 1e-3


def test_an_empty_join_has_an_empty_sample() -> None:
    found = drawn(EQUALITY, Changes(EQUALITY, seed=1), Kind(rows=5, replacement=True), 1)
    assert (found.join_size, found.arrow().num_rows) == (0, 0)
