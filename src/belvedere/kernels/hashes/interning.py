"""Dense numbers for distinct keys: a key is a row of 64-bit codes, its number is its turn of arrival.

Keys of one code that lie close together are looked up by place; others by hashing.
"""

from __future__ import annotations

import math
import mmap
from typing import Any

import numpy as np
from numba import njit

Codes = np.ndarray[Any, np.dtype[np.int64]]
Ids = np.ndarray[Any, np.dtype[np.int32]]

_PIECE = 1 << 16
_LARGE, _FAR, _FARTHEST = 1 << 19, 1 << 24, 1 << 30
"""Bytes: from where on arrays grow far, how far at least, and by how much at most."""
_CLOSE = 1 << 16
"""A span of codes that is always worth a place each."""
_FILL = 4
"""Places per key up to which looking up by place is worth its memory."""


@njit(cache=True, inline="always")
def _mixed(x):  # type: ignore[no-untyped-def]
    x ^= x >> np.uint64(32)
    x *= np.uint64(0xD6E8FEB86659FD93)
    x ^= x >> np.uint64(32)
    x *= np.uint64(0xD6E8FEB86659FD93)
    return x ^ (x >> np.uint64(32))


@njit(cache=True)
def _by_hash(codes, keys, table, size, ids):  # type: ignore[no-untyped-def]
    n, width = codes.shape
    mask = np.uint64(len(table) - 1)
    for i in range(n):
        h = np.uint64(0)
        for c in range(width):
            h = _mixed(h ^ np.uint64(codes[i, c]))
        at = h & mask
        while True:
            found = table[at]
            if found < 0:
                table[at] = size
                for c in range(width):
                    keys[size, c] = codes[i, c]
                ids[i] = size
                size += 1
                break
            same = True
            for c in range(width):
                same &= keys[found, c] == codes[i, c]
            if same:
                ids[i] = found
                break
            at = (at + np.uint64(1)) & mask
    return size


@njit(cache=True)
def _rehash(keys, size, table):  # type: ignore[no-untyped-def]
    mask = np.uint64(len(table) - 1)
    for k in range(size):
        h = np.uint64(0)
        for c in range(keys.shape[1]):
            h = _mixed(h ^ np.uint64(keys[k, c]))
        at = h & mask
        while table[at] >= 0:
            at = (at + np.uint64(1)) & mask
        table[at] = k


@njit(cache=True)
def _by_place(codes, base, places, keys, size, ids):  # type: ignore[no-untyped-def]
    for i in range(len(codes)):
        at = codes[i, 0] - base
        found = places[at]
        if found < 0:
            found = size
            places[at] = found
            keys[size, 0] = codes[i, 0]
            size += 1
        ids[i] = found
    return size


def _zeros(shape: tuple[int, ...], dtype: Any) -> Any:
    """Zeros that become memory a page at a time as they are written to; numpy asks for pages of 2 MB."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    held = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(held, dtype).reshape(shape)


def grown(array: Any, size: int, fill: int = 0) -> Any:
    """The array with room for so many entries, at least doubled when it must grow.

    Zeros are no memory until they are written to: large arrays of them grow far, to be copied rarely.
    """
    if size <= len(array):
        return array
    wanted = max(size, 2 * len(array))
    each = array.itemsize * math.prod(array.shape[1:])
    if not fill and array.nbytes >= _LARGE:
        wanted = max(wanted, min(max(8 * array.nbytes, _FAR), array.nbytes + _FARTHEST) // each)
    large = not fill and wanted * each >= _LARGE
    larger = (_zeros if large else np.zeros)((wanted, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    if fill:
        larger[len(array) :] = fill
    return larger


class Interner:
    """Numbers for keys of so many codes."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.size = 0
        self.keys = np.empty((64, width), dtype=np.int64)
        self.table = np.full(128, -1, dtype=np.int32)
        self.places = np.empty(0, dtype=np.int32)
        self.base = 0
        self.by_place = width == 1

    def ids(self, codes: Codes) -> Ids:
        """The number of each row's key; new keys get the next numbers."""
        ids = np.empty(len(codes), dtype=np.int32)
        for start in range(0, len(codes), _PIECE):
            piece = codes[start : start + _PIECE]
            self._number(piece, ids[start : start + _PIECE])
        return ids

    def _number(self, codes: Codes, ids: Ids) -> None:
        self.keys = grown(self.keys, self.size + len(codes))
        if self.by_place and self._placed(codes):
            self.size = _by_place(codes, self.base, self.places, self.keys, self.size, ids)
            return
        if 2 * (self.size + len(codes)) > len(self.table):
            wanted = 1 << (4 * (self.size + len(codes))).bit_length()
            self.table = np.full(wanted, -1, dtype=np.int32)
            _rehash(self.keys, self.size, self.table)
        self.size = _by_hash(codes, self.keys, self.table, self.size, ids)

    def _placed(self, codes: Codes) -> bool:
        """Whether there is a place for every code; if that would waste memory, hash from now on."""
        if not len(codes):
            return True
        low, high = int(codes.min()), int(codes.max())
        end = self.base + len(self.places)
        if len(self.places) and low >= self.base and high < end:
            return True
        if len(self.places):
            low, high = min(low, self.base), max(high, end - 1)
        if high - low >= max(_CLOSE, _FILL * (self.size + len(codes))):
            self.by_place = False
            self.places = np.empty(0, dtype=np.int32)
            self.table = np.full(1 << (4 * (self.size + 1)).bit_length(), -1, dtype=np.int32)
            _rehash(self.keys, self.size, self.table)
            return False
        self._widen(low, high)
        return True

    def _widen(self, low: int, high: int) -> None:
        span = high - low + 1
        # Room beyond the end, where growing keys will arrive.
        places = np.full(span + span // 2 + 16, -1, dtype=np.int32)
        if len(self.places):
            at = self.base - low
            keep = self.places[: len(places) - at]
            places[at : at + len(keep)] = keep
        self.base, self.places = low, places
