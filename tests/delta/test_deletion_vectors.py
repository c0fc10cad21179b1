"""Deletion vectors say which rows they delete, whatever their containers."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from belvedere.delta.deletion_vectors import decode
from belvedere.errors import Internal

LISTS, RUNS = "lists", "runs"


def encoded(numbers: set[int], how: str) -> bytes:
    """The bitmap of some numbers, written as plainly as the format allows."""
    uppers = sorted({n >> 32 for n in numbers})
    parts = [struct.pack("<iq", 1681511377, len(uppers))]
    for upper in uppers:
        lower = {n & 0xFFFFFFFF for n in numbers if n >> 32 == upper}
        parts += [struct.pack("<i", upper), encoded_32(lower, how)]
    return b"".join(parts)


def encoded_32(numbers: set[int], how: str) -> bytes:
    keys = sorted({n >> 16 for n in numbers})
    groups = [sorted(n & 0xFFFF for n in numbers if n >> 16 == k) for k in keys]
    bodies = [runs(g) if how == RUNS else lists(g) for g in groups]
    heads = b"".join(struct.pack("<HH", k, len(g) - 1) for k, g in zip(keys, groups, strict=True))
    offsets = struct.pack(f"<{len(keys)}I", *[0] * len(keys))
    if how == RUNS:
        flags = np.packbits(np.ones(len(keys), dtype=bool), bitorder="little").tobytes()
        start = struct.pack("<I", 12347 | (len(keys) - 1) << 16) + flags
        return start + heads + (offsets if len(keys) >= 4 else b"") + b"".join(bodies)
    return struct.pack("<II", 12346, len(keys)) + heads + offsets + b"".join(bodies)


def lists(numbers: list[int]) -> bytes:
    if len(numbers) <= 4096:
        return struct.pack(f"<{len(numbers)}H", *numbers)
    bits = np.zeros(65536, dtype=bool)
    bits[numbers] = True
    return np.packbits(bits, bitorder="little").tobytes()


def runs(numbers: list[int]) -> bytes:
    found: list[list[int]] = []
    for n in numbers:
        if found and found[-1][0] + found[-1][1] + 1 == n:
            found[-1][1] += 1
        else:
            found.append([n, 0])
    return struct.pack("<H", len(found)) + b"".join(struct.pack("<HH", *run) for run in found)


spread = st.sets(st.integers(0, 1 << 35), max_size=20)
dense = st.tuples(st.integers(0, 1 << 20), st.integers(1, 9000)).map(
    lambda run: set(range(run[0], run[0] + run[1]))
)


@given(spread, dense, st.sampled_from([LISTS, RUNS]))
def test_a_vector_holds_what_was_put_in(some: set[int], others: set[int], how: str) -> None:
    numbers = some | others
    assert decode(encoded(numbers, how)).tolist() == sorted(numbers)


def test_an_empty_vector_deletes_nothing() -> None:
    assert decode(encoded(set(), LISTS)).tolist() == []


def test_another_format_is_refused() -> None:
    with pytest.raises(Internal, match="unknown format"):
        decode(struct.pack("<iq", 1, 0))
