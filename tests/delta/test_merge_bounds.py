"""A merge that leaves files closed writes what one that reads them all does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import sqlglot
from deltalake import DeltaTable, write_deltalake

from belvedere.algebra.scalars import Scalar
from belvedere.delta import merge_bounds as reaching
from belvedere.delta.merge_bounds import reach
from belvedere.delta.small_writes import merge_rows
from belvedere.delta.stamps import Position, Stamp
from belvedere.lake.tables.table import Table
from belvedere.sql.merges import Merge
from tests.local_tables import table_in

SHAPE = pa.schema([("k", pa.int64()), ("g", pa.string()), ("n", pa.int64())])
STAMP = Stamp("view-1", 1, {"log": Position("an id", 0)})


def sql(text: str) -> Scalar:
    return Scalar(sqlglot.parse_one(text, dialect="spark"))


ADDED = Merge(
    keys=("k", "g"),
    delete_when=sql("t.n + s.n = 0"),
    update={"n": sql("t.n + s.n")},
    insert={c: sql(f"s.{c}") for c in ("k", "g", "n")},
    insert_when=sql("s.n <> 0"),
)


def stored(root: Path, *files: list[tuple[int | None, str | None, int]]) -> Table:
    for rows in files:
        write_deltalake(root, rows_of(rows), mode="append")
    return table_in(root)


def rows_of(rows: list[tuple[int | None, str | None, int]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip("kgn", r, strict=True)) for r in rows], schema=SHAPE)


def found(root: Path) -> dict[tuple[int | None, str | None], int]:
    rows = DeltaTable(root).to_pyarrow_table().to_pylist()
    assert len({(r["k"], r["g"]) for r in rows}) == len(rows)
    return {(r["k"], r["g"]): r["n"] for r in rows}


def check(root: Path, seed: int) -> None:
    """A random merge against the same sums in a dictionary."""
    draw = np.random.default_rng(seed)

    def key() -> tuple[int | None, str | None]:
        k, g = draw.integers(-3, 12), draw.integers(3)
        return (None if k == 11 and seed % 2 else int(k)), (None if g == 2 else "ab"[g])

    before = {key(): int(draw.integers(1, 4)) for _ in range(12)}
    change = {key(): int(draw.integers(-1, 4)) for _ in range(draw.integers(1, 6))}
    change = {k: n if n >= 0 or k in before else -n for k, n in change.items()}
    listed = [(*k, n) for k, n in sorted(before.items(), key=str)]
    table = stored(root, listed[:4], listed[4:8], listed[8:])
    merge_rows(table, rows_of([(*k, n) for k, n in change.items()]), ADDED, STAMP)
    after = {k: before.get(k, 0) + change.get(k, 0) for k in {**before, **change}}
    assert found(root) == {k: n for k, n in after.items() if n}


@pytest.mark.parametrize("large", [0, 10**9])
@pytest.mark.parametrize("seed", range(20))
def test_rows_merge_as_if_every_file_were_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, large: int
) -> None:
    monkeypatch.setattr(reaching, "LARGE", large)
    check(tmp_path, seed)


def test_bounds_that_forget_null_are_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reaching, "_tells", lambda _t, column, key: key == "k" and len(column) > 0)

    def check_all() -> None:
        for seed in range(20):
            check(tmp_path / str(seed), seed)

    with pytest.raises(AssertionError):
        check_all()


def test_new_keys_open_no_file_and_old_ones_those_with_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reaching, "LARGE", 1)
    table = stored(tmp_path, [(1, "a", 1), (3, "a", 1)], [(5, "a", 1), (7, "a", 1)])
    assert reach(table, rows_of([(2, "a", 1), (6, "b", 1)]), ADDED) == "FALSE"
    assert reach(table, rows_of([(2, "a", 1), (5, "b", 1)]), ADDED) == 't."k" >= 2 AND t."k" <= 5'
    merge_rows(table, rows_of([(2, "a", 1), (6, "b", 1)]), ADDED, STAMP)
    merge_rows(table_in(tmp_path), rows_of([(5, "a", 2), (7, "a", 2)]), ADDED, STAMP)
    newer, older = (h["operationMetrics"] for h in DeltaTable(tmp_path).history(2))
    assert (older["num_target_files_scanned"], older["num_target_rows_inserted"]) == (0, 2)
    assert (newer["num_target_files_removed"], newer["num_target_rows_updated"]) == (1, 2)


def test_nothing_is_known_of_null_of_text_and_of_numbers_too_great(tmp_path: Path) -> None:
    table = stored(tmp_path, [(1, "a", 1)])
    assert reach(table, rows_of([(None, "a", 1), (2, "a", 1)]), ADDED) == ""
    assert reach(table, rows_of([(2**62 + 1, "a", 1)]), ADDED) == ""
    assert reach(table, rows_of([]), ADDED) == ""
    by_text = Merge(keys=("g",), insert=ADDED.insert)
    assert reach(table, rows_of([(1, "a", 1)]), by_text) == ""


def test_a_table_that_went_on_is_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reaching, "LARGE", 1)
    table = stored(tmp_path, [(1, "a", 1)])
    stored(tmp_path, [(4, "a", 1)])
    assert reach(table, rows_of([(4, "a", 1)]), ADDED) == 't."k" >= 4 AND t."k" <= 4'
