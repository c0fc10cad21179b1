"""One side of a range edge: vertices in the order (key, value), with weights and their running sums.

A row of the left side with value p and one of the right with q of the same key meet when
low <= p - q <= high. Seen from either side, what a value meets is one interval of the other's order.
Running sums wrap around 2^64 where they must; differences of two that fit are exact nevertheless.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from belvedere.kernels.hashes.interning import grown


@njit(cache=True)
def _merge(order, key, value, vids, keys, values):  # type: ignore[no-untyped-def]
    """Two sorted lists as one."""
    n, m = len(order), len(vids)
    merged = np.empty(n + m, dtype=np.int32)
    merged_key = np.empty(n + m, dtype=np.int32)
    merged_value = np.empty(n + m, dtype=value.dtype)
    i, j = 0, 0
    for at in range(n + m):
        ours = j == m or (
            i < n and (key[i] < keys[j] or (key[i] == keys[j] and value[i] <= values[j]))
        )
        if ours:
            merged[at], merged_key[at], merged_value[at] = order[i], key[i], value[i]
            i += 1
        else:
            merged[at], merged_key[at], merged_value[at] = vids[j], keys[j], values[j]
            j += 1
    return merged, merged_key, merged_value


@njit(cache=True, inline="always")
def _before(value, asked, low, high, left, end):  # type: ignore[no-untyped-def]
    """Whether a value of the order lies before the interval that `asked` meets, or its end."""
    if left:  # the order holds q, asked is p: p - q falls as q grows
        return asked - value >= low if end else asked - value > high
    return value - asked <= high if end else value - asked < low


@njit(cache=True)
def _bound(key, value, k, asked, low, high, left, end):  # type: ignore[no-untyped-def]
    """The first place of the order that is not before."""
    i, j = 0, len(key)
    while i < j:
        mid = (i + j) >> 1
        if key[mid] < k or (key[mid] == k and _before(value[mid], asked, low, high, left, end)):
            i = mid + 1
        else:
            j = mid
    return i


@njit(cache=True)
def _spans(key, value, keys, asked, low, high, left):  # type: ignore[no-untyped-def]
    """For each asked value the interval of the order that it meets."""
    begin = np.empty(len(keys), dtype=np.int64)
    end = np.empty(len(keys), dtype=np.int64)
    for i in range(len(keys)):
        begin[i] = _bound(key, value, keys[i], asked[i], low, high, left, False)
        end[i] = max(begin[i], _bound(key, value, keys[i], asked[i], low, high, left, True))
    return begin, end


@njit(cache=True)
def _running(order, weight, sums):  # type: ignore[no-untyped-def]
    total = np.int64(0)
    for i in range(len(order)):
        sums[i] = total
        total += weight[order[i]]
    sums[len(order)] = total


@njit(cache=True)
def _spread(begin, end, changes, order, count):  # type: ignore[no-untyped-def]
    """What the changes of some intervals come to at each living vertex in any of them."""
    if len(begin) == 0:
        return np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int64)
    first, last = begin.min(), end.max()
    steps = np.zeros(max(0, last - first) + 1, dtype=np.int64)
    for i in range(len(begin)):
        steps[begin[i] - first] += changes[i]
        steps[end[i] - first] -= changes[i]
    vids = np.empty(len(steps), dtype=np.int32)
    moved = np.empty(len(steps), dtype=np.int64)
    n, now = 0, np.int64(0)
    for i in range(len(steps) - 1):
        now += steps[i]
        v = order[first + i]
        if now != 0 and count[v] > 0:
            vids[n] = v
            moved[n] = now
            n += 1
    return vids[:n], moved[:n]


@njit(cache=True)
def _find(begin, end, numbers, order, sums):  # type: ignore[no-untyped-def]
    """The vertex of each interval that a number below the interval's sum falls to, and its rest."""
    vids = np.empty(len(begin), dtype=np.int32)
    rest = np.empty(len(begin), dtype=np.int64)
    for n in range(len(begin)):
        base = sums[begin[n]]
        i, j = begin[n], end[n] - 1
        while i < j:
            mid = (i + j) >> 1
            if sums[mid + 1] - base > numbers[n]:
                j = mid
            else:
                i = mid + 1
        vids[n] = order[i]
        rest[n] = numbers[n] - (sums[i] - base)
    return vids, rest


@njit(cache=True)
def _overflows(sums):  # type: ignore[no-untyped-def]
    """Whether the running sums ever pass 2^63."""
    fallen = 0
    for i in range(len(sums) - 1):
        fallen += sums[i + 1] < sums[i]
    return fallen > 0


class Orders:
    """The vertices of one node in the order of one range edge, with their weights towards it."""

    def __init__(self, low: float | int, high: float | int, *, left: bool, kind: str) -> None:
        self.low, self.high = low, high
        self.left = left
        """Whether this is the left side, that of p."""
        self.key_of = np.zeros(64, dtype=np.int32)
        self.value_of = np.zeros(64, dtype=kind)
        self.weight = np.zeros(64, dtype=np.int64)
        self.order = np.empty(0, dtype=np.int32)
        self.key = np.empty(0, dtype=np.int32)
        self.value = np.empty(0, dtype=kind)
        self.sums = np.zeros(1, dtype=np.int64)
        self.stale = False

    def enroll(self, vids: Any, keys: Any, values: Any, vertices: int) -> None:
        """New vertices, of no weight yet, in their order."""
        for name in ("key_of", "value_of", "weight"):
            setattr(self, name, grown(getattr(self, name), vertices))
        self.key_of[vids], self.value_of[vids] = keys, values
        by = np.lexsort((values, keys))
        self.order, self.key, self.value = _merge(
            self.order, self.key, self.value, vids[by], keys[by], values[by]
        )
        self.stale = True

    def apply(self, vids: Any, changes: Any) -> None:
        """Change weights."""
        if len(vids):
            self.weight[vids] += changes
            self.stale = True

    def spans(self, keys: Any, asked: Any) -> tuple[Any, Any]:
        """What each value of the other side meets here."""
        # `left` in the kernels: whether the asked value is that of the left side.
        return _spans(self.key, self.value, keys, asked, self.low, self.high, not self.left)  # type: ignore[no-any-return]

    def totals(self, keys: Any, asked: Any) -> Any:
        """The weight of what each value of the other side meets here."""
        begin, end = self.spans(keys, asked)
        self._settle()
        return self.sums[end] - self.sums[begin]

    def spread(self, keys: Any, asked: Any, changes: Any, count: Any) -> tuple[Any, Any]:
        """The living vertices here that changes of the other side reach, and what reaches each."""
        begin, end = self.spans(keys, asked)
        return _spread(begin, end, changes, self.order, count)  # type: ignore[no-any-return]

    def pick(self, keys: Any, asked: Any, numbers: Any) -> tuple[Any, Any]:
        """The vertex here that each number falls to among those its value meets."""
        begin, end = self.spans(keys, asked)
        self._settle()
        return _find(begin, end, numbers, self.order, self.sums)  # type: ignore[no-any-return]

    def _settle(self) -> None:
        if self.stale:
            if len(self.sums) != len(self.order) + 1:
                self.sums = np.empty(len(self.order) + 1, dtype=np.int64)
            _running(self.order, self.weight, self.sums)
            if _overflows(self.sums):
                raise OverflowError("a weight beyond 64 bits")
            self.stale = False
