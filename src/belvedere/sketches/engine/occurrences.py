"""Occurrences of fragments in groups, and in shown groups.

    F_g[f]  the number of rows of group g in fragment f     (IMP §5.6)
    μ[f]    the number of shown groups that have f          (IMP §5.1)

The sketch is the fragments with μ > 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from belvedere.joins.value_words import Flags
from belvedere.kernels.grouping import Slots, Words
from belvedere.kernels.pairs import count_pairs, enter_pairs, flip, merge

Arrays = dict[str, npt.NDArray[Any]]


class Occurrences:
    """The pairs of groups and fragments that occur, with their counts."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.known = 0
        self.occurs: Words = np.zeros(width, dtype=np.int64)
        self._now = 0
        self._listed: list[Words] = []
        self._heads: Slots = np.full(16, -1, dtype=np.int32)
        self._reserve(64)

    def _reserve(self, room: int) -> None:
        """Make room for so many pairs."""

        def wider(old: npt.NDArray[Any] | None, kind: Any) -> npt.NDArray[Any]:
            new = np.zeros(room, dtype=kind)
            if old is not None:
                new[: self.known] = old[: self.known]
            return new

        held = self.__dict__
        self._pairs: Words = wider(held.get("_pairs"), np.int64)
        self._counts: Slots = wider(held.get("_counts"), np.int32)
        self._before: Slots = wider(held.get("_before"), np.int32)
        self._stamps: Slots = wider(held.get("_stamps"), np.int32)
        self._nexts: Slots = np.full(room, -1, dtype=np.int32)
        self._slots: Slots = np.full(1 << (2 * room).bit_length(), -1, dtype=np.int32)
        self._heads[:] = -1
        enter_pairs(self._slots, self._pairs, self._nexts, self._heads, self.known, self.width)

    def count(self, groups: Words, fragments: Words, amounts: Words, group_count: int) -> None:
        """Count rows of groups in fragments; a negative number is no fragment."""
        if group_count > len(self._heads):
            heads = np.full(2 * group_count, -1, dtype=np.int32)
            heads[: len(self._heads)] = self._heads
            self._heads = heads
        listed = np.empty(len(groups), dtype=np.int64)
        listing = done = 0
        while True:
            self.known, listing, done = count_pairs(
                self._slots,
                self._pairs,
                self._counts,
                self._before,
                self._stamps,
                self._nexts,
                self._heads,
                self.known,
                groups,
                fragments,
                amounts,
                self.width,
                done,
                self._now,
                listed,
                listing,
            )
            if done == len(groups):
                break
            self._reserve(2 * len(self._pairs))
        self._listed.append(listed[:listing])

    def show(self, was: Flags, shown: Flags, changed: Words) -> bool:
        """End the batch with the groups that are shown now; False if a count is negative."""
        sound = True
        for listed in self._listed:
            sound &= merge(
                listed,
                self._pairs,
                self._counts,
                self._before,
                was,
                shown,
                self.width,
                self.occurs,
            )
        flip(
            changed,
            self._pairs,
            self._counts,
            self._before,
            self._stamps,
            self._nexts,
            self._heads,
            self._now,
            shown,
            self.width,
            self.occurs,
        )
        self._listed = []
        self._now += 1
        return sound and not (self.occurs < 0).any()

    @property
    def bytes(self) -> int:
        """The memory of the state, about."""
        held = (self._pairs, self._counts, self._before, self._stamps, self._nexts, self._slots)
        return sum(a.nbytes for a in (*held, self._heads, self.occurs))

    def save(self) -> Arrays:
        """The pairs that occur, and μ."""
        some = np.flatnonzero(self._counts[: self.known])
        return {"pairs": self._pairs[some], "counts": self._counts[some], "occurs": self.occurs}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]], group_count: int) -> None:
        """Load saved arrays."""
        count = len(arrays["pairs"])
        self.known, self._now = 0, 0
        self._heads = np.full(max(16, 2 * group_count), -1, dtype=np.int32)
        self._reserve(max(64, 2 * count))
        self._pairs[:count], self._counts[:count] = arrays["pairs"], arrays["counts"]
        self._stamps[:count] = -1
        self.occurs = arrays["occurs"].copy()
        self.known = count
        enter_pairs(self._slots, self._pairs, self._nexts, self._heads, count, self.width)
