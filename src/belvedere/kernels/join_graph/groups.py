"""One side of an equality edge: the vertices that share a key, with their weights and the key's total.

The vertices of a key lie in a segment of 2^c places of one arena, aligned to its size, so that sums over
blocks of 64, 4096 and 262 144 places of the arena belong to one key each wherever they are needed:
finding the vertex that a number falls to reads at most 64 entries per level.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from belvedere.kernels.hashes.interning import grown

_SIZES = 40


@njit(cache=True, inline="always")
def _bump(at, level, change, weight, one, two, three):  # type: ignore[no-untyped-def]
    weight[at] += change
    if level > 6:
        one[at >> 6] += change
        if level > 12:
            two[at >> 12] += change
            if level > 18:
                three[at >> 18] += change


@njit(cache=True)
def _enroll(vids, keys, begin, groups, place, arena, free, top):  # type: ignore[no-untyped-def]
    """New vertices into the groups of their keys; the place of the first that found no room."""
    start, level, length = groups
    member, weight, one, two, three = arena
    for i in range(begin, len(vids)):
        k = keys[i]
        used = length[k]
        held = level[k]
        if held < 0 or used == (1 << held):
            size = held + 1
            if free[size] >= 0:
                at = free[size]
                free[size] = member[at]
            else:
                at = (top[0] + (1 << size) - 1) >> size << size
                if at + (1 << size) > len(member):
                    return i
                top[0] = at + (1 << size)
            old = start[k]
            for n in range(used):
                v = member[old + n]
                w = weight[old + n]
                _bump(old + n, held, -w, weight, one, two, three)
                member[at + n] = v
                place[v] = at + n
                _bump(at + n, size, w, weight, one, two, three)
            if held >= 0:
                member[old] = free[held]
                free[held] = old
            start[k] = at
            level[k] = size
        member[start[k] + used] = vids[i]
        place[vids[i]] = start[k] + used
        length[k] = used + 1
    return len(vids)


@njit(cache=True)
def _apply(vids, changes, key_of, place, level, weight, one, two, three, total, mark):  # type: ignore[no-untyped-def]
    """Add to vertices' weights; the touched keys and how their totals moved, or a key that overflowed."""
    keys = np.empty(len(vids), dtype=np.int32)
    moved = np.empty(len(vids), dtype=np.int64)
    touched = 0
    for i in range(len(vids)):
        change = changes[i]
        if change == 0:
            continue
        k = key_of[vids[i]]
        _bump(place[vids[i]], level[k], change, weight, one, two, three)
        total[k] += change
        if total[k] < 0:
            return keys[:0], moved[:0], k
        if mark[k] == 0:
            keys[touched] = k
            moved[touched] = change
            touched += 1
            mark[k] = touched
        else:
            moved[mark[k] - 1] += change
    kept = 0
    for n in range(touched):
        mark[keys[n]] = 0
        if moved[n] != 0:
            keys[kept] = keys[n]
            moved[kept] = moved[n]
            kept += 1
    return keys[:kept], moved[:kept], -1


@njit(cache=True)
def _members(keys, moved, start, length, member, count):  # type: ignore[no-untyped-def]
    """The living vertices of some keys, each with how its key's total moved."""
    most = 0
    for k in keys:
        most += length[k]
    vids = np.empty(most, dtype=np.int32)
    of = np.empty(most, dtype=np.int64)
    n = 0
    for i in range(len(keys)):
        k = keys[i]
        for at in range(start[k], start[k] + length[k]):
            if count[member[at]] > 0:
                vids[n] = member[at]
                of[n] = moved[i]
                n += 1
    return vids[:n], of[:n]


@njit(cache=True)
def _pick(keys, numbers, start, level, member, weight, one, two, three):  # type: ignore[no-untyped-def]
    """The vertex that each number below its key's total falls to, and what is left of the number."""
    vids = np.empty(len(keys), dtype=np.int32)
    rest = np.empty(len(keys), dtype=np.int64)
    for i in range(len(keys)):
        k = keys[i]
        at = start[k]
        left = numbers[i]
        if level[k] > 18:
            while left >= three[at >> 18]:
                left -= three[at >> 18]
                at += 1 << 18
        if level[k] > 12:
            while left >= two[at >> 12]:
                left -= two[at >> 12]
                at += 1 << 12
        if level[k] > 6:
            while left >= one[at >> 6]:
                left -= one[at >> 6]
                at += 1 << 6
        while left >= weight[at]:
            left -= weight[at]
            at += 1
        vids[i] = member[at]
        rest[i] = left
    return vids, rest


class Groups:
    """The vertices of one node by their keys on one edge, with their weights towards it."""

    def __init__(self) -> None:
        self.key_of = np.zeros(64, dtype=np.int32)
        self.place = np.zeros(64, dtype=np.int64)
        self.start = np.zeros(64, dtype=np.int64)
        self.level = np.full(64, -1, dtype=np.int8)
        self.length = np.zeros(64, dtype=np.int64)
        self.total = np.zeros(64, dtype=np.int64)
        self.mark = np.zeros(64, dtype=np.int64)
        self.member = np.zeros(64, dtype=np.int32)
        self.weight = np.zeros(64, dtype=np.int64)
        self.one, self.two, self.three = (np.zeros(1, dtype=np.int64) for _ in range(3))
        self.free = np.full(_SIZES, -1, dtype=np.int64)
        self.top = np.zeros(1, dtype=np.int64)

    def reserve_keys(self, keys: int) -> None:
        """Room for so many keys: those that only the other side has are asked for too."""
        # Each by itself: arrays of smaller entries grow less far.
        self.start, self.length = grown(self.start, keys), grown(self.length, keys)
        self.level = grown(self.level, keys, -1)
        self.total, self.mark = grown(self.total, keys), grown(self.mark, keys)

    def enroll(self, vids: Any, keys: Any, vertices: int) -> None:
        """New vertices, of no weight yet, under their keys."""
        self.key_of, self.place = grown(self.key_of, vertices), grown(self.place, vertices)
        self.key_of[vids] = keys
        done = 0
        while True:
            groups = self.start, self.level, self.length
            arena = self.member, self.weight, self.one, self.two, self.three
            done = _enroll(vids, keys, done, groups, self.place, arena, self.free, self.top)
            if done == len(vids):
                return
            self._widen(int(self.top[0]) + 4 * int(self.length[keys[done]]) + len(vids) + 2)

    def _widen(self, needed: int) -> None:
        self.member = grown(self.member, needed)
        self.weight = grown(self.weight, len(self.member))
        self.one = grown(self.one, (len(self.member) >> 6) + 1)
        self.two = grown(self.two, (len(self.member) >> 12) + 1)
        self.three = grown(self.three, (len(self.member) >> 18) + 1)

    def apply(self, vids: Any, changes: Any) -> tuple[Any, Any]:
        """Change weights; the touched keys and how their totals moved."""
        keys, moved, over = _apply(
            vids, changes, self.key_of, self.place, self.level, self.weight,
            self.one, self.two, self.three, self.total, self.mark,
        )  # fmt: skip
        if over >= 0:
            raise OverflowError("a weight beyond 64 bits")
        return keys, moved

    def members(self, keys: Any, moved: Any, count: Any) -> tuple[Any, Any]:
        """The living vertices of some keys, each with how its key moved."""
        return _members(keys, moved, self.start, self.length, self.member, count)  # type: ignore[no-any-return]

    def pick(self, keys: Any, numbers: Any) -> tuple[Any, Any]:
        """The vertex that each number falls to among those of its key, and the number's rest."""
        return _pick(  # type: ignore[no-any-return]
            keys, numbers, self.start, self.level, self.member, self.weight,
            self.one, self.two, self.three,
        )  # fmt: skip
