"""The loops of join samples against plain twins: numbering keys, chains, hashes, skips."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from belvedere.kernels.hashes.hashing import hash_bytes
from belvedere.kernels.hashes.interning import Interner
from belvedere.kernels.join_graph.chains import Chains, RowIndex, first_clash
from belvedere.kernels.join_graph.groups import Groups
from belvedere.kernels.join_graph.segments import Segments
from belvedere.kernels.sampling import skips
from belvedere.kernels.sampling.random_numbers import below, many_below, seeded, some_of
from belvedere.synopses.sample import plain_skips
from tests.chances import by_chance
from tests.kernels.plain_kernels import interned

CODES = st.lists(
    st.one_of(st.integers(0, 9), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=40
)


@settings(max_examples=60)
@given(st.lists(CODES, min_size=1, max_size=4), st.sampled_from([1, 2]))
def test_keys_are_numbered_in_the_order_they_come(batches: list[list[int]], width: int) -> None:
    made, known = Interner(width), dict[tuple[int, ...], int]()
    for batch in batches:
        codes = np.array(batch[: len(batch) // width * width], dtype=np.int64).reshape(-1, width)
        assert made.ids(codes).tolist() == interned(codes, known)
    assert made.size == len(known)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), max_size=60))
def test_rows_of_vertices_are_those_appended_less_those_removed(
    steps: list[tuple[int, int]],
) -> None:
    made, plain = Segments(), {v: set[int]() for v in range(6)}
    made.reserve(6, 100)
    for row, (vertex, act) in enumerate(steps):
        if act == 0 and plain[vertex]:
            gone = min(plain[vertex])
            made.remove(np.array([gone], dtype=np.int32))
            plain[vertex].discard(gone)
        else:
            made.append(np.array([vertex], dtype=np.int32), np.array([row], dtype=np.int32))
            plain[vertex].add(row)
    for vertex, rows in plain.items():
        start = int(made.start[vertex])
        held = made.arena[start : start + int(made.count[vertex])].tolist()
        assert sorted(held) == sorted(rows)
        assert all(made.arena[start + made.slot[r]] == r for r in rows)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=60))
def test_chains_hold_what_is_linked(steps: list[tuple[int, bool]]) -> None:
    made, plain = Chains(), {k: list[int]() for k in range(4)}
    made.reserve(4, 100)
    for row, (key, unlink) in enumerate(steps):
        if unlink and plain[key]:
            made.unlink(np.array([plain[key].pop(len(plain[key]) // 2)], dtype=np.int32))
        else:
            made.link(np.array([row], dtype=np.int32), np.array([key], dtype=np.int32))
            plain[key].insert(0, row)
    for key, rows in plain.items():
        assert made.under(np.array([key], dtype=np.int32)).tolist() == rows


def test_among_equal_rows_the_newest_is_found_and_misses_are_told() -> None:
    index = RowIndex(0)
    hashes = np.array([5, 5, 7, 2**40 + 5], dtype=np.uint64)
    index.add(np.arange(4, dtype=np.int32), hashes, 4)
    found = index.take(np.array([5, 5, 5, 7], dtype=np.uint64))
    assert found.tolist() == [1, 0, -1, 2]
    index.put_back(found[found >= 0])
    assert index.take(np.array([5, 7, 2**40 + 5], dtype=np.uint64)).tolist() == [1, 2, 3]


def test_rows_are_found_as_their_index_grows() -> None:
    index, random = RowIndex(0), np.random.default_rng(1)
    hashes = random.integers(0, 300, 900).astype(np.uint64)
    held: dict[int, list[int]] = {}
    for start in range(0, 900, 45):
        rows = np.arange(start, start + 45, dtype=np.int32)
        index.add(rows, hashes[rows], 900)
        for row in rows.tolist():
            held.setdefault(int(hashes[row]), []).append(row)
        asked = random.integers(0, 300, 20).astype(np.uint64)
        wanted = [held[h].pop() if held.get(h) else -1 for h in asked.tolist()]
        assert index.take(asked).tolist() == wanted
    assert index.size == sum(map(len, held.values())) > len(hashes) // 3


def test_two_rows_of_one_key_clash() -> None:
    owner = np.array([-1, 8, -1], dtype=np.int32)
    assert first_clash(np.array([0, 2, 0], dtype=np.int32), owner) == (0, 2)
    assert first_clash(np.array([0, 1], dtype=np.int32), owner) == (-9, 1)
    assert first_clash(np.array([0, 2], dtype=np.int32), owner) == (-1, -1)
    assert owner.tolist() == [-1, 8, -1]


def test_texts_have_hashes_of_their_own_wherever_they_stand() -> None:
    texts = ["", "a", "b", "ab", "a\0", "12345678", "123456789", "é" * 9]
    one = list(zip(*(w.tolist() for w in hash_bytes(pa.array(texts))), strict=True))
    assert len(set(one)) == len(texts)
    moved = pa.array(["zz", None, *texts]).slice(2)
    assert list(zip(*(w.tolist() for w in hash_bytes(moved)), strict=True)) == one


def p_value(drawn: list[int], mass: list[float]) -> float:
    """Chi-square of draws against masses of 0, 1, 2, …; the last cell is all that is left."""
    counts = Counter(min(d, len(mass)) for d in drawn)
    cells = [*mass, 1 - math.fsum(mass)]
    observed = [counts[i] for i in range(len(cells))]
    return by_chance(observed, [c / math.fsum(cells) * len(drawn) for c in cells])


def mass_without(m: int, results: int, most: int) -> list[float]:
    """m/(J+s+1) · Π (J+i-m)/(J+i), i from 1 to s."""
    found, left = [], 1.0
    for s in range(most):
        found.append(left * m / (results + s + 1))
        left *= (results + s + 1 - m) / (results + s + 1)
    return found


@pytest.mark.parametrize(("m", "results"), [(3, 5), (3, 200), (10, 400)])
def test_skips_without_replacement_have_their_distribution(m: int, results: int) -> None:
    state = seeded(m)
    mass = mass_without(m, results, 2 * results // m)
    assert p_value([int(skips.without(state, m, results)) for _ in range(6000)], mass) > 1e-3
    plain = [plain_skips.skip_without(state, m, results) for _ in range(3000)]
    assert p_value(plain, mass) > 1e-3
    # The mass function as it is printed in the paper, without J, would be caught.
    late = [int(skips.without(state, m, results + results // 3)) for _ in range(6000)]
    assert p_value(late, mass) < 1e-6


def test_skips_with_replacement_and_by_coins_have_their_distribution() -> None:
    state = seeded(5)
    m, results = 4, 50
    ends = [(results / (results + s)) ** m for s in range(40)]
    mass = [a - b for a, b in pairwise(ends)]
    assert p_value([int(skips.replacing(state, m, results)) for _ in range(6000)], mass) > 1e-3
    coins = [0.3 * 0.7**s for s in range(12)]
    drawn = [int(skips.geometric(state, 0.3)) for _ in range(6000)]
    assert p_value(drawn, coins) > 1e-3
    assert abs(np.mean(drawn) - 7 / 3) < 0.15


def test_large_numbers_keep_their_low_bits() -> None:
    state = seeded(6)
    large = [int(skips.whole(state, 3.0e17)) for _ in range(2000)]
    assert 850 < sum(n % 2 for n in large) < 1150
    assert max(large) - min(large) < 64
    drawn = many_below(state, (1 << 62) - 57, 2000)
    assert 850 < sum(int(n) % 2 for n in drawn) < 1150
    assert all(0 <= below(state, 3) < 3 for _ in range(50))


def test_sets_of_numbers_are_equally_likely() -> None:
    state = seeded(7)
    counts = Counter(frozenset(some_of(state, 5, 2).tolist()) for _ in range(5000))
    assert len(counts) == 10
    assert by_chance(list(counts.values())) > 1e-3


def test_groups_have_room_for_their_keys_in_every_array() -> None:
    groups = Groups()
    # Large arrays grow far beyond what is asked for, those of small entries less far.
    for keys in (70_000, 500_000, 1_200_000):
        groups.reserve_keys(keys)
        held = (groups.start, groups.level, groups.length, groups.total, groups.mark)
        assert all(len(array) >= keys for array in held)
