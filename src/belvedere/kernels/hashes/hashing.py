"""Hashes: of the bytes of texts, 128 bits each, and of whole rows, 64 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit


@njit(cache=True, inline="always")
def _mixed(x):  # type: ignore[no-untyped-def]
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(cache=True)
def _hash_spans(offsets, data):  # type: ignore[no-untyped-def]
    n = len(offsets) - 1
    one = np.empty(n, dtype=np.int64)
    two = np.empty(n, dtype=np.int64)
    for i in range(n):
        a = np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(offsets[i + 1] - offsets[i])
        b = np.uint64(0xC2B2AE3D27D4EB4F)
        word, held = np.uint64(0), 0
        for at in range(offsets[i], offsets[i + 1]):
            word |= np.uint64(data[at]) << np.uint64(8 * held)
            held += 1
            if held == 8:
                a = _mixed(a ^ word)
                b = _mixed((b + word) * np.uint64(0x9E3779B97F4A7C15))
                word, held = np.uint64(0), 0
        a = _mixed(a ^ word)
        b = _mixed((b + word) * np.uint64(0x9E3779B97F4A7C15) ^ a)
        one[i] = np.int64(a)
        two[i] = np.int64(b)
    return one, two


def hash_bytes(array: pa.Array) -> tuple[Any, Any]:
    """Two words of hash for each text or byte string; NULL has that of nothing."""
    if not len(array):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    _, where, data = array.buffers()
    offsets = np.frombuffer(where, dtype=np.int64 if wide else np.int32)
    offsets = offsets[array.offset : array.offset + len(array) + 1].astype(np.int64)
    held = np.frombuffer(data, dtype=np.uint8) if data is not None else np.empty(0, dtype=np.uint8)
    return _hash_spans(offsets, held)  # type: ignore[no-any-return]


@njit(cache=True)
def fold(into, words, first, step, count, bitmap, begin):  # type: ignore[no-untyped-def]
    """One more column into the hashes of rows: words in memory as Arrow has them, and its bits of validity.

    Row i has the word at first + i·step, and the bit begin + i; no bitmap: no NULLs.
    """
    for i in range(count):
        valid = np.uint64(1)
        if len(bitmap):
            at = begin + i
            valid = np.uint64((bitmap[at >> 3] >> np.uint8(at & 7)) & np.uint8(1))
        word = np.uint64(words[first + i * step]) if valid else np.uint64(0xC2B2AE3D27D4EB4F)
        into[i] = _mixed((into[i] ^ word) * np.uint64(0x9E3779B97F4A7C15) + valid)
