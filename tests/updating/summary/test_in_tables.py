"""A summary in tables is the one in memory: when new, after changes, and in what it estimates."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import belvedere as bv
from belvedere.derivations.registry import the_saves
from belvedere.errors import Invalid
from belvedere.lake.records.saved_state import Saves
from belvedere.updating.kind import UpdatableViews
from belvedere.updating.reading import read_version
from belvedere.updating.request.view_rows import ViewRow
from belvedere.updating.side_effects.summary_check import estimate_by_summary, existing_segments
from belvedere.updating.state import UpdatableState
from belvedere.updating.summary.filter import UpdateFilter, build_filter
from belvedere.updating.summary.in_tables import parts
from belvedere.updating.summary.in_tables.build import held_column_names
from belvedere.updating.summary.in_tables.creation import UNFINISHED
from tests.updating.summary.by_sql import Numbers, arrays_in_words, in_words, rows_of

pytestmark = pytest.mark.spark

QUERY = """SELECT c.id AS customer, c.city, o.id AS orders, o.customer AS by, o.land, o.day, i.line
FROM customer c JOIN orders o ON o.customer = c.id AND o.land = c.land
JOIN item i ON i.orders = o.id WHERE o.day > 2"""
CREATE = f"CREATE UPDATABLE VIEW v CANDIDATES {{}} LOOKUPS IN TABLES WITH SUMMARY AS {QUERY}"
TABLES = {
    "customer": "id BIGINT, city BIGINT, land STRING",
    "orders": "id BIGINT, customer BIGINT, land STRING, day INT",
    "item": "line INT, orders BIGINT",
}
KEYED = ("customer", "item")
"""Of orders rows may be there twice, and what joins may be NULL."""


@pytest.fixture
def lake(tmp_path: Path, spark: object) -> Iterator[bv.Lake]:
    assert spark is not None
    with bv.connect(tmp_path / "lake") as found:
        dice = random.Random(7)
        for table, columns in TABLES.items():
            feed = "USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
            found.sql(f"CREATE TABLE {table} ({columns}) {feed}")
            rows = [drawn(table, number, dice) for number in range(12)]
            found.sql(f"INSERT INTO {table} VALUES {', '.join(rows)}")
        for table in KEYED:
            found.declare_key(table, [TABLES[table].split()[0]])
        yield found


def drawn(table: str, number: int, dice: random.Random) -> str:
    """A row: half of what it refers to is there."""
    near = [str(dice.randrange(8)) for _ in range(3)]
    land = dice.choice(["'a'", "'b'", "NULL"])
    return {
        "customer": f"({number}, {near[0]}, {land})",
        "orders": f"({near[0]}, {dice.choice([near[1], 'NULL'])}, {land}, {near[2]})",
        "item": f"({number}, {near[0]})",
    }[table]


def held_of(lake: bv.Lake) -> UpdatableState:
    kind = next(k for k in lake._kinds if k.word == "UPDATABLE VIEW")
    held: UpdatableState = kind.state("v")  # type: ignore[attr-defined]
    return held


def in_memory(lake: bv.Lake, held: UpdatableState) -> tuple[UpdateFilter, Numbers]:
    """The filter of the same rows from the same root with the same candidates, and their numbers."""
    rows = {
        t: read_version(
            lake._door, lake._door.table(t), held.vector[t].version, list(held.shape.used[t])
        )
        for t in held.shape.tables
    }
    made = build_filter(held.shape, rows, held.keys, root=held.tree.root, share=0)
    own = {p: candidates(lake, made, p) for p in range(len(held.shape.positions))}
    made.candidates = rows_of(made.base, own)
    made.summarize()
    return made, own


def candidates(lake: bv.Lake, made: UpdateFilter, p: int) -> dict[int, int]:
    """The rows of a position that are candidates, with their numbers; of those that are there."""
    if f"v_summary_k_{p}" not in {t["tableName"] for t in lake.sql("SHOW TABLES").collect()}:
        return {}
    base, table = made.base, made.shape.positions[p].table
    rows = {
        tuple(base.values(table, base.tables[table].row(n)).values()): n
        for n in range(base.tables[table].size)
    }
    columns = held_column_names(base.held[table])
    found = lake.sql(f"SELECT * FROM v_summary_k_{p}").collect()
    numbers = {tuple(row[c] for c in columns): row["own"] for row in found}
    return {rows[values]: own for values, own in numbers.items() if values in rows}


def asked(dice: random.Random) -> dict[str, Any]:
    """A view row that may be asked for."""
    customer = dice.randrange(10)
    return {
        "customer": customer,
        "city": dice.randrange(8),
        "orders": dice.randrange(10),
        "by": customer,
        "land": dice.choice("ab"),
        "day": dice.randrange(3, 8),
        "line": dice.randrange(14),
    }


def estimates(lake: bv.Lake, held: UpdatableState, made: UpdateFilter, dice: random.Random) -> int:
    """Random insertions are estimated alike; how many of them have side effects."""
    declared = 0
    for _ in range(12):
        row = asked(dice)
        segments = made.segments(row)
        assert held.tabled is not None
        there = existing_segments(lake._door, held, ViewRow(row))
        assert there == [segment.number is not None for segment in segments]
        if all(there):
            continue
        # Many of these rows have a key that another row has: what FAST says is not the estimate.
        found = estimate_by_summary(held, held.tabled, ViewRow(row), there)
        told = made.estimate(segments)
        assert found.rows == pytest.approx(told.rows)
        declared += found.declares()
    return declared


def agrees(lake: bv.Lake) -> UpdatableState:
    """The view, once its summary is what the rows in memory make of it."""
    held = held_of(lake)
    assert held.tabled is not None
    made, own = in_memory(lake, held)
    found = in_words(held.tree, held.tabled.built)
    assert any(own.values())
    assert found == arrays_in_words(made.base, made.graph, made.summary, own)
    return held


def test_a_summary_in_tables_is_kept_from_changes_and_estimates_as_one_in_memory(
    lake: bv.Lake,
) -> None:
    lake.sql(CREATE.format("30 PERCENT"))
    dice, declared = random.Random(3), 0
    assert "as is the summary" in str(lake.explain("v"))
    for number in range(2):
        held = agrees(lake)
        declared += estimates(lake, held, in_memory(lake, held)[0], dice)
        for table in TABLES:
            lake.sql(f"INSERT INTO {table} VALUES {drawn(table, 20 + number, dice)}")
        lake.sql(f"DELETE FROM orders WHERE id = {dice.randrange(8)}")
        lake.sql(f"UPDATE customer SET city = city + 1 WHERE id % 5 = {number}")
        if number == 0:
            before = dict(held.vector)
            lake.advance("v", "orders")
            after = agrees(lake).vector
            assert {t for t in TABLES if after[t] != before[t]} == {"orders"}
        assert lake.refresh("v").strategy == "merge"
    assert declared > 0
    lake.sql("DROP UPDATABLE VIEW v")
    assert not lake.sql("SHOW MATERIALIZED VIEWS").collect()


def killed_while_made(lake: bv.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A creation that ends without taking back what it made, as if it had been killed."""
    with monkeypatch.context() as patch:
        patch.setattr(parts, "drop_parts", lambda *_: None)
        patch.setattr(Saves, "drop", lambda *_: None)
        with pytest.raises(Invalid, match="v_summary_k_1"):
            lake.sql(CREATE.format(2))
    assert lake.sql("SHOW MATERIALIZED VIEWS").collect()
    assert the_saves(lake._door).names(UNFINISHED) == ["v"]


def test_a_summary_is_there_whole_or_not_at_all(
    lake: bv.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.sql("CREATE TABLE v_summary_k_1 (id INT) USING delta")
    with pytest.raises(Invalid, match="v_summary_k_1"):
        lake.sql(CREATE.format(2))
    assert not lake.sql("SHOW MATERIALIZED VIEWS").collect()
    assert not lake.sql("SHOW TABLES LIKE 'v_summary_k_0'").collect()
    killed_while_made(lake, monkeypatch)
    UpdatableViews(lake._door)  # as the next connection does
    assert not lake.sql("SHOW MATERIALIZED VIEWS").collect()
    assert not lake.sql("SHOW TABLES LIKE 'v_summary_k_0'").collect()
    assert lake.sql("SHOW TABLES LIKE 'v_summary_k_1'").collect()
    assert not the_saves(lake._door).names(UNFINISHED)
    killed_while_made(lake, monkeypatch)
    lake.sql("DROP TABLE v_summary_k_1")
    lake.sql(CREATE.format(2))
    agrees(lake)
    assert [status.name for status in lake.status()] == ["v"]
    lake.sql("DROP MATERIALIZED VIEW v_summary_l_0")
    assert lake.refresh("v").reason == "PART_GONE"
    agrees(lake)
