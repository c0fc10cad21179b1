"""Random numbers inside compiled loops: xoshiro256++ over a state of four words that its owner keeps.

A state of one's own makes a run repeatable, can be saved, and shares nothing with other loops.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

State = np.ndarray[Any, np.dtype[np.uint64]]


def seeded(seed: int) -> State:
    """A state that a seed determines."""
    return np.random.SeedSequence(seed).generate_state(4, np.uint64).astype(np.uint64)


@njit(cache=True, inline="always")
def bits(state):  # type: ignore[no-untyped-def]
    """64 random bits."""
    total = state[0] + state[3]
    result = ((total << np.uint64(23)) | (total >> np.uint64(41))) + state[0]
    shifted = state[1] << np.uint64(17)
    state[2] ^= state[0]
    state[3] ^= state[1]
    state[1] ^= state[2]
    state[0] ^= state[3]
    state[2] ^= shifted
    state[3] = (state[3] << np.uint64(45)) | (state[3] >> np.uint64(19))
    return result


@njit(cache=True)
def uniform(state):  # type: ignore[no-untyped-def]
    """A number in (0, 1), never either end."""
    return (np.float64(bits(state) >> np.uint64(11)) + 0.5) * (1.0 / 9007199254740992.0)


@njit(cache=True)
def below(state, n):  # type: ignore[no-untyped-def]
    """A whole number in [0, n), each equally likely, for n up to 2^63 - 1; no float is involved."""
    mask = np.uint64(n - 1)
    mask |= mask >> np.uint64(1)
    mask |= mask >> np.uint64(2)
    mask |= mask >> np.uint64(4)
    mask |= mask >> np.uint64(8)
    mask |= mask >> np.uint64(16)
    mask |= mask >> np.uint64(32)
    while True:
        drawn = bits(state) & mask
        if drawn < np.uint64(n):
            return np.int64(drawn)


@njit(cache=True)
def many_below(state, n, count):  # type: ignore[no-untyped-def]
    """Several independent whole numbers in [0, n)."""
    drawn = np.empty(count, dtype=np.int64)
    for i in range(count):
        drawn[i] = below(state, n)
    return drawn


@njit(cache=True)
def some_of(state, n, count):  # type: ignore[no-untyped-def]
    """So many distinct whole numbers in [0, n), every such set equally likely."""
    numbers = np.arange(n)
    for i in range(count):
        j = i + below(state, n - i)
        numbers[i], numbers[j] = numbers[j], numbers[i]
    return numbers[:count]
