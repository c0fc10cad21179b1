"""Groups by number: rows with the same key get the same number, new keys the next ones.

A key is a row of machine words. Numbers are found by open addressing: `slots` holds numbers, or -1,
at the places that the hashes of their keys say, or behind; it is never more than half full.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from belvedere.kernels.compiled import compiled

Words: TypeAlias = npt.NDArray[np.int64]
Slots: TypeAlias = npt.NDArray[np.int32]
Doubles: TypeAlias = npt.NDArray[np.float64]


@compiled
def _hash(words: Words) -> int:
    h = np.uint64(1469598103934665603)
    for word in words:
        h = (h ^ np.uint64(word)) * np.uint64(0x9E3779B97F4A7C15)
        h ^= h >> np.uint64(29)
    return np.int64(h >> np.uint64(1))  # type: ignore[return-value]


@compiled
def place(slots: Slots, keys: Words, known: int, batch: Words, start: int, out: Words) -> Any:
    """Number the rows of a batch from `start` on, as far as new keys have room.

    Returns how many keys are known then, and the first row that was not numbered.
    """
    mask = len(slots) - 1
    width = keys.shape[1]
    for i in range(start, batch.shape[0]):
        at = _hash(batch[i]) & mask
        while True:
            found = slots[at]
            if found < 0:
                if known == keys.shape[0]:
                    return known, i
                keys[known] = batch[i]
                slots[at] = known
                out[i] = known
                known += 1
                break
            same = True
            for j in range(width):
                if keys[found, j] != batch[i, j]:
                    same = False
                    break
            if same:
                out[i] = found
                break
            at = (at + 1) & mask
    return known, batch.shape[0]


@compiled
def enter(slots: Slots, keys: Words, known: int) -> None:
    """Put the first `known` keys, all different, into empty slots."""
    mask = len(slots) - 1
    for number in range(known):
        at = _hash(keys[number]) & mask
        while slots[at] >= 0:
            at = (at + 1) & mask
        slots[at] = number


@compiled
def touch(groups: Words, stamps: Slots, now: int, out: Words) -> int:
    """List each group of a batch once; `now` stamps those that were listed."""
    count = 0
    for i in range(len(groups)):
        group = groups[i]
        if stamps[group] != now:
            stamps[group] = now
            out[count] = group
            count += 1
    return count


@compiled
def add(groups: Words, amounts: Words, totals: Words) -> bool:
    """Add amounts to their groups' totals; False if one would pass the ends of a word."""
    for i in range(len(groups)):
        before, amount = totals[groups[i]], amounts[i]
        after = before + amount
        if ((before ^ after) & (amount ^ after)) < 0:
            return False
        totals[groups[i]] = after
    return True


@compiled
def add_doubles(
    groups: Words, amounts: Doubles, sizes: Doubles, totals: Doubles, spent: Doubles
) -> None:
    """Add amounts to their groups' totals, and their sizes to what rounding was spent on."""
    for i in range(len(groups)):
        totals[groups[i]] += amounts[i]
        spent[groups[i]] += sizes[i]
