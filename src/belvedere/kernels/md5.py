"""md5 of many short texts at once, as hexadecimal digits (RFC 1321).

Texts lie one after the other in bytes, text i from offsets[i] to offsets[i + 1], as Arrow keeps
them; the digits come out the same way, 32 for each. `plain` is what it means.
"""

from __future__ import annotations

import hashlib
import math
from itertools import pairwise

import numpy as np
from numba import njit
from numpy.typing import NDArray

_SINES = np.array([int(abs(math.sin(i + 1)) * 2**32) for i in range(64)], np.uint32)
_TURNS = np.array([7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21], np.uint32)
_START = np.array([0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476], np.uint32)
_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)


def plain(data: bytes, offsets: NDArray[np.int64]) -> bytes:
    """The digits of each text, in plain Python.

    >>> plain(b"a", np.array([0, 1]))
    b'0cc175b9c0f1b6a831c399e269772661'
    """
    texts = (data[a:b] for a, b in pairwise(offsets))
    return b"".join(hashlib.md5(t, usedforsecurity=False).hexdigest().encode() for t in texts)


@njit(cache=True)
def _mixed(state, words):  # type: ignore[no-untyped-def]
    """One block of sixteen words, mixed into the state."""
    a, b, c, d = state[0], state[1], state[2], state[3]
    for i in range(64):
        if i < 16:
            f, at = (b & c) | (~b & d), i
        elif i < 32:
            f, at = (d & b) | (~d & c), (5 * i + 1) % 16
        elif i < 48:
            f, at = b ^ c ^ d, (3 * i + 5) % 16
        else:
            f, at = c ^ (b | ~d), (7 * i) % 16
        turned = np.uint32(f + a + _SINES[i] + words[at])
        by = _TURNS[i // 16 * 4 + i % 4]
        a, d, c = d, c, b
        left = np.uint32(turned << by)
        b = np.uint32(b + (left | np.uint32(turned >> np.uint32(np.uint32(32) - by))))
    state[0] = np.uint32(state[0] + a)
    state[1] = np.uint32(state[1] + b)
    state[2] = np.uint32(state[2] + c)
    state[3] = np.uint32(state[3] + d)


@njit(cache=True)
def digests(data, offsets):  # type: ignore[no-untyped-def]
    """The digits of each text."""
    count = len(offsets) - 1
    found = np.empty(32 * count, np.uint8)
    state, words = np.empty(4, np.uint32), np.empty(16, np.uint32)
    for t in range(count):
        start, size = offsets[t], offsets[t + 1] - offsets[t]
        state[:] = _START
        # The text, a one, zeros, and its length in bits at the end of the last block.
        for block in range((size + 8) // 64 + 1):
            words[:] = 0
            for i in range(min(64, size - 64 * block)):
                byte = np.uint32(data[start + 64 * block + i])
                words[i // 4] |= np.uint32(byte << np.uint32(8 * (i % 4)))
            end = size - 64 * block
            if 0 <= end < 64:
                words[end // 4] |= np.uint32(np.uint32(0x80) << np.uint32(8 * (end % 4)))
            if end < 56:
                words[14] = np.uint32((size * 8) & 0xFFFFFFFF)
                words[15] = np.uint32((size * 8) >> 32)
            _mixed(state, words)
        for i in range(16):
            byte = (state[i // 4] >> np.uint32(8 * (i % 4))) & np.uint32(0xFF)
            found[32 * t + 2 * i] = _DIGITS[byte >> np.uint32(4)]
            found[32 * t + 2 * i + 1] = _DIGITS[byte & np.uint32(15)]
    return found
