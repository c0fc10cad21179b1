"""Bloom filters of machine words: whether a word may be among those that were added.

A filter has 2ⁿ bits; each word sets four of them. Words that were never added are mostly told so,
those that were always pass. Nothing is taken out: who deletes many builds anew.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from belvedere.kernels.compiled import compiled
from belvedere.kernels.grouping import Words

Bits = npt.NDArray[np.uint64]
_TIMES = 4


@compiled
def _spread(word: int, turn: int) -> int:
    h = (np.uint64(word) + np.uint64(turn) * np.uint64(0x9E3779B97F4A7C15)) * np.uint64(
        0xBF58476D1CE4E5B9
    )
    h ^= h >> np.uint64(31)
    h *= np.uint64(0x94D049BB133111EB)
    return np.int64((h ^ (h >> np.uint64(29))) >> np.uint64(1))  # type: ignore[return-value]


@compiled
def add_words(bits: Bits, words: Words) -> None:
    """Add words."""
    mask = len(bits) * 64 - 1
    for i in range(len(words)):
        for turn in range(_TIMES):
            at = _spread(words[i], turn) & mask
            bits[at >> 6] |= np.uint64(1) << np.uint64(at & 63)


@compiled
def may_have(bits: Bits, words: Words, out: npt.NDArray[np.bool_]) -> None:
    """Which words may have been added."""
    mask = len(bits) * 64 - 1
    for i in range(len(words)):
        out[i] = True
        for turn in range(_TIMES):
            at = _spread(words[i], turn) & mask
            if not bits[at >> 6] & (np.uint64(1) << np.uint64(at & 63)):
                out[i] = False
                break
