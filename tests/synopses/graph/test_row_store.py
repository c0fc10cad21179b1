"""Rows by number: what is held of them, where it is copied, and that every row is found again."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from belvedere.memory import kinds
from belvedere.synopses.graph import row_store as storing
from belvedere.synopses.graph.batch_buffer import merge_pieces
from belvedere.synopses.graph.row_store import RowStore

TYPES = {"x": "int", "s": "string", "d": "decimal(7,2)", "b": "boolean", "f": "double"}


def rows(first: int, count: int) -> pa.Table:
    numbers = [None if n % 7 == 3 else n for n in range(first, first + count)]
    columns = [
        numbers,
        [n if n is None else f"s{n}" for n in numbers],
        [n if n is None else Decimal(n) / 100 for n in numbers],
        [n if n is None else n % 2 == 0 for n in numbers],
        [n if n is None else n / 3 for n in numbers],
    ]
    return pa.table(
        [pa.array(c, kinds.arrow(k)) for c, k in zip(columns, TYPES.values(), strict=True)],
        list(TYPES),
    )


def addresses(tables: list[pa.Table]) -> list[int]:
    return [t["x"].chunk(0).buffers()[1].address for t in tables]


def test_neighbours_in_memory_are_joined_without_copying() -> None:
    held = rows(0, 60_000)
    found = merge_pieces([held.slice(n, 3000) for n in range(0, 60_000, 3000)])
    assert [t.num_rows for t in found] == [60_000]
    assert addresses(found) == addresses([held])
    assert found[0].equals(held)


def test_crumbs_and_small_parts_of_large_batches_are_copied() -> None:
    held = rows(0, 60_000)
    crumbs = [rows(n, 10) for n in range(0, 100, 10)]
    for parts in ([held.slice(100, 200)], crumbs, [held.slice(5, 20), held.slice(40, 20)]):
        found = merge_pieces(parts)
        assert len(found) == 1
        assert found[0].equals(pa.concat_tables(parts).combine_chunks())
        assert found[0].get_total_buffer_size() < 20_000
        assert addresses(found) != addresses([held])
    assert merge_pieces([]) == []


@pytest.mark.parametrize("chunk", [8, 1 << 19])
@settings(max_examples=12)
@given(steps=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=14))
def test_every_row_is_found_under_its_number(chunk: int, steps: list[tuple[int, int]]) -> None:
    before, storing._CHUNK = storing._CHUNK, chunk
    try:
        store, held, came = RowStore("t", TYPES), dict[int, int](), 0
        for new, gone in steps:
            leaving = sorted(held)[:gone]
            if leaving:
                values = pa.concat_tables([rows(held[n], 1) for n in leaving])
                found = store.find(values)
                store.remove(found)
                for number in found.tolist():
                    del held[number]
            numbers = store.insert(rows(came, new))
            assert not set(numbers.tolist()) & set(held)
            held |= {int(n): came + i for i, n in enumerate(numbers.tolist())}
            came += new
            again = RowStore("t", TYPES)
            again.restore(store.saved())
            for each in (store, again):
                shown = each.take(np.array(sorted(held), dtype=np.int32))
                wanted = [rows(held[n], 1).to_pylist()[0] for n in sorted(held)]
                assert shown.to_pylist() == wanted
    finally:
        storing._CHUNK = before


def test_hashes_tell_rows_apart_wherever_they_stand() -> None:
    store = RowStore("t", TYPES)
    held = rows(0, 500)
    hashes = store.hashes(held)
    # Every seventh row is all NULL.
    assert len(np.unique(hashes)) == sum(n % 7 != 3 for n in range(500)) + 1
    assert (store.hashes(held.slice(13, 100)) == hashes[13:113]).all()
    swapped = held.set_column(0, "x", held["x"].combine_chunks().take(pa.array(range(499, -1, -1))))
    assert (store.hashes(swapped) != hashes).mean() > 0.7
