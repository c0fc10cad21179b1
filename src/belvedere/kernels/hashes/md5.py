"""md5 of many short texts at once, as hexadecimal digits (RFC 1321).

Texts lie one after the other in bytes, text i from offsets[i] to offsets[i + 1], as Arrow keeps
them; the digits come out the same way, 32 for each. Each step is done for some thousand texts at
a time, which numpy does as fast as a compiled loop, and there is nothing to compile. `plain` is
what it means.
"""

from __future__ import annotations

import hashlib
import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

_SINES = np.array([int(abs(math.sin(i + 1)) * 2**32) for i in range(64)], np.uint32)
_TURNS = np.array([7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21], np.uint32)
_START = np.array([0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476], np.uint32)
_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
_AT_ONCE = 8192


def plain(data: bytes, offsets: NDArray[np.int64]) -> bytes:
    """The digits of each text, in plain Python.

    >>> plain(b"a", np.array([0, 1]))
    b'0cc175b9c0f1b6a831c399e269772661'
    """
    texts = (data[a:b] for a, b in pairwise(offsets))
    return b"".join(hashlib.md5(t, usedforsecurity=False).hexdigest().encode() for t in texts)


def digests(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.uint8]:
    """The digits of each text, 32 bytes of ASCII for each."""
    starts, sizes = offsets[:-1], np.diff(offsets)
    blocks = (sizes + 8) // 64 + 1
    found = np.empty((len(starts), 32), np.uint8)
    for count in np.unique(blocks):
        places = np.flatnonzero(blocks == count)
        for at in range(0, len(places), _AT_ONCE):
            own = places[at : at + _AT_ONCE]
            found[own] = _digits(_padded(data, starts[own], sizes[own], int(count)))
    return found.reshape(-1)


def _padded(
    data: NDArray[np.uint8], starts: NDArray[np.int64], sizes: NDArray[np.int64], blocks: int
) -> NDArray[np.uint32]:
    """Each text, a one, zeros, and its length in bits, as words of 32 bits; a column is a text."""
    rows = np.zeros((len(starts), 64 * blocks), np.uint8)
    place = np.arange(64 * blocks)
    inside = place[None, :] < sizes[:, None]
    rows[inside] = data[(starts[:, None] + place[None, :])[inside]]
    rows[np.arange(len(starts)), sizes] = 0x80
    rows[:, -8:] = (8 * sizes).astype("<u8")[:, None].view(np.uint8)
    return np.ascontiguousarray(rows.view("<u4").T).astype(np.uint32)


def _digits(words: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """The digits of texts in words."""
    state = np.repeat(_START[:, None], words.shape[1], axis=1)
    for block in range(0, len(words), 16):
        state += _mixed(state, words[block : block + 16])
    digest = np.ascontiguousarray(state.T).astype("<u4").view(np.uint8)
    found = np.empty((words.shape[1], 32), np.uint8)
    found[:, 0::2], found[:, 1::2] = _DIGITS[digest >> 4], _DIGITS[digest & 15]
    return found


def _mixed(state: NDArray[np.uint32], words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """What one block of sixteen words adds to the state."""
    a, b, c, d = state
    for i in range(64):
        match i // 16:
            case 0:
                f, at = d ^ (b & (c ^ d)), i
            case 1:
                f, at = c ^ (d & (b ^ c)), (5 * i + 1) % 16
            case 2:
                f, at = b ^ c ^ d, (3 * i + 5) % 16
            case _:
                f, at = c ^ (b | ~d), (7 * i) % 16
        f = f + a
        f += words[at]
        f += _SINES[i]
        by = _TURNS[i // 16 * 4 + i % 4]
        a, d, c, b = d, c, b, b + ((f << by) | (f >> (np.uint32(32) - by)))
    return np.stack([a, b, c, d])
