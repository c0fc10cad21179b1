"""Lists with counts and rows by key, compiled, against their plain twins."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from belvedere.kernels.lists import Lists
from belvedere.kernels.postings import Postings
from tests.kernels.plain_kernels import PlainLists, rows_with

often = settings(max_examples=40)
WIDTH, MEMBERS = 4, 6
batch = st.dictionaries(
    st.tuples(st.integers(0, WIDTH - 1), st.integers(0, MEMBERS - 1)),
    st.integers(-3, 3).filter(bool),
    max_size=12,
)


def _columns(entries: dict[tuple[int, int], int]) -> list[np.ndarray]:
    found = [(k, m, n) for (k, m), n in sorted(entries.items())]
    return [np.array([f[i] for f in found], dtype=np.int64) for i in range(3)]


@often
@given(batch, st.lists(batch, max_size=6))
def test_lists_hold_what_was_added(
    first: dict[tuple[int, int], int], later: list[dict[tuple[int, int], int]]
) -> None:
    made, plain = Lists(WIDTH, *_columns(first)), PlainLists(first)
    for changes in later:
        made.add(*_columns(changes))
        for (key, member), delta in changes.items():
            plain.add(key, member, delta)
    for key in (*range(WIDTH), None, -1):
        found = list(zip(*(a.tolist() for a in made.at(key)), strict=True))
        assert found == ([] if key is None else plain.at(key))
    keys, members, counts = made.entries()
    entries = zip(keys.tolist(), members.tolist(), counts.tolist(), strict=True)
    assert {(k, m): n for k, m, n in entries} == plain.counts
    assert len(made) == len(plain.counts)
    weights = [1.5, 2.0, 0.25, 8.0, 3.0, 7.0]
    up = made.up(np.array(weights[:WIDTH]), MEMBERS).tolist()
    assert up == plain.up(weights[:WIDTH], MEMBERS)
    assert made.down(np.array(weights), WIDTH).tolist() == plain.down(weights, WIDTH)


@often
@given(
    st.lists(st.integers(-1, 5), max_size=12),
    st.lists(st.lists(st.integers(-1, 9), max_size=4), max_size=4),
)
def test_rows_are_found_by_their_keys(first: list[int], later: list[list[int]]) -> None:
    made, keys = Postings(np.array(first, dtype=np.int64), 6), list(first)
    for some in later:
        rows = np.arange(len(keys), len(keys) + len(some))
        made.add(rows, np.array(some, dtype=np.int64), 10)
        keys += some
    for key in range(-1, 11):
        assert sorted(made.rows(key)) == rows_with(keys, key)
    asked = np.array([9, 3, -1, 20], dtype=np.int64)
    rows, of = made.under(asked)
    found = sorted(zip(of.tolist(), rows.tolist(), strict=True))
    assert found == [(i, r) for i, k in enumerate(asked.tolist()) for r in rows_with(keys, k)]
