"""How often each fragment occurs in each group, and in how many shown groups: F_g and μ of IMP §5.

A pair of a group and a fragment is the word `group · width + fragment`. Pairs that occurred have an
entry each, found by open addressing and linked into a list per group (`heads`, `nexts`). In a batch
the first touch of an entry stamps it and keeps its count from before.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from belvedere.kernels.compiled import compiled
from belvedere.kernels.grouping import Slots, Words

Flags = npt.NDArray[np.bool_]


@compiled
def _scatter(pair: int) -> int:
    h = np.uint64(pair) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((h ^ (h >> np.uint64(32))) >> np.uint64(1))  # type: ignore[return-value]


@compiled
def count_pairs(
    slots: Slots,
    pairs: Words,
    counts: Slots,
    before: Slots,
    stamps: Slots,
    nexts: Slots,
    heads: Slots,
    known: int,
    groups: Words,
    fragments: Words,
    amounts: Words,
    width: int,
    start: int,
    now: int,
    listed: Words,
    listing: int,
) -> Any:
    """Count the pairs of a batch from `start` on, as far as new entries have room.

    A negative fragment is none. Each entry touched is listed once. Returns how many entries are
    known, how many are listed, and the first row that was not counted.
    """
    mask = len(slots) - 1
    for i in range(start, len(groups)):
        if fragments[i] < 0:
            continue
        pair = groups[i] * width + fragments[i]
        at = _scatter(pair) & mask
        while slots[at] >= 0 and pairs[slots[at]] != pair:
            at = (at + 1) & mask
        entry = slots[at]
        if entry < 0:
            if known == len(pairs):
                return known, listing, i
            entry = known
            known += 1
            slots[at] = entry
            pairs[entry] = pair
            counts[entry] = 0
            stamps[entry] = -1
            nexts[entry] = heads[groups[i]]
            heads[groups[i]] = entry
        if stamps[entry] != now:
            stamps[entry] = now
            before[entry] = counts[entry]
            listed[listing] = entry
            listing += 1
        counts[entry] += amounts[i]
    return known, listing, len(groups)


@compiled
def enter_pairs(
    slots: Slots, pairs: Words, nexts: Slots, heads: Slots, known: int, width: int
) -> None:
    """Put the first `known` entries into empty slots and lists."""
    mask = len(slots) - 1
    for entry in range(known):
        at = _scatter(pairs[entry]) & mask
        while slots[at] >= 0:
            at = (at + 1) & mask
        slots[at] = entry
        group = pairs[entry] // width
        nexts[entry] = heads[group]
        heads[group] = entry


@compiled
def merge(
    listed: Words,
    pairs: Words,
    counts: Slots,
    before: Slots,
    was: Flags,
    shown: Flags,
    width: int,
    occurs: Words,
) -> bool:
    """μ for the entries touched, of groups shown before and after; False for a negative count."""
    sound = True
    for i in range(len(listed)):
        entry = listed[i]
        group, fragment = pairs[entry] // width, pairs[entry] % width
        if counts[entry] < 0:
            sound = False
        if was[group] and shown[group]:
            occurs[fragment] += int(counts[entry] > 0) - int(before[entry] > 0)
    return sound


@compiled
def flip(
    groups: Words,
    pairs: Words,
    counts: Slots,
    before: Slots,
    stamps: Slots,
    nexts: Slots,
    heads: Slots,
    now: int,
    shown: Flags,
    width: int,
    occurs: Words,
) -> None:
    """μ for groups that came to be shown, all their fragments, or no longer are, all they had."""
    for i in range(len(groups)):
        group = groups[i]
        entry = heads[group]
        while entry >= 0:
            fragment = pairs[entry] % width
            if shown[group]:
                if counts[entry] > 0:
                    occurs[fragment] += 1
            else:
                had = before[entry] if stamps[entry] == now else counts[entry]
                if had > 0:
                    occurs[fragment] -= 1
            entry = nexts[entry]
