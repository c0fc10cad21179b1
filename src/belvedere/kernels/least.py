"""The least values of each group, at most so many: bounded buffers (IMP §9.4.3).

A buffer holds, in order, every value of its group up to its bound, each with its count; a buffer
that is complete holds all. A value beyond the bound of one that is not is never admitted: others
may have been left out before it. So the first value of a buffer is its group's least, and a buffer
that ran dry knows that it does not know.
"""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from belvedere.kernels.compiled import compiled
from belvedere.kernels.grouping import Slots, Words
from belvedere.kernels.pairs import Flags

Tables = npt.NDArray[Any]


@compiled
def hold(
    groups: Words,
    words: Words,
    amounts: Words,
    values: Words,
    counts: Words,
    sizes: Slots,
    complete: Flags,
    bounds: Words,
) -> bool:
    """Take net amounts of values in and out; False if one that must be there is not.

    A pair of a group and a value stands in the batch once.
    """
    room = values.shape[1]
    for i in range(len(groups)):
        group, word, amount = groups[i], words[i], amounts[i]
        if not complete[group] and word > bounds[group]:
            continue
        size, at = sizes[group], 0
        while at < size and values[group, at] < word:
            at += 1
        if at < size and values[group, at] == word:
            counts[group, at] += amount
            if counts[group, at] < 0:
                return False
            if counts[group, at] == 0:
                for j in range(at, size - 1):
                    values[group, j] = values[group, j + 1]
                    counts[group, j] = counts[group, j + 1]
                sizes[group] = size - 1
            continue
        if amount < 0:
            return False
        if size == room:
            complete[group] = False
            if at == room:
                bounds[group] = values[group, room - 1]
                continue
            bounds[group] = values[group, room - 2] if at < room - 1 else word
            size -= 1
        for j in range(size, at, -1):
            values[group, j] = values[group, j - 1]
            counts[group, j] = counts[group, j - 1]
        values[group, at], counts[group, at] = word, amount
        sizes[group] = size + 1
    return True
