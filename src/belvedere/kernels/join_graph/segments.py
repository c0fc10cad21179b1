"""The rows of each vertex, in segments of one arena: append, take out by swapping, read by number.

A segment holds 2^c rows; a vertex that outgrows its segment moves to one twice as large, and the old
one is kept for others of its size; long ones move to one four times as large, whose end is no memory until
it is written to. `vertex` and `slot` say for each row where it is: the vertex plus one, or 0 for nowhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from belvedere.kernels.hashes.interning import grown

_SIZES = 40
_LONG = 10


@njit(cache=True)
def _append(vids, rows, begin, start, level, count, arena, free, top, vertex, slot):  # type: ignore[no-untyped-def]
    """Append from a place on; the place of the first row that found no room."""
    for i in range(begin, len(rows)):
        v = vids[i]
        used = count[v]
        held = level[v]
        if held < 0 or used == (1 << held):
            size = held + 1 if held < _LONG else held + 2
            if free[size] >= 0:
                at = free[size]
                free[size] = arena[at]
            else:
                at = top[0]
                if at + (1 << size) > len(arena):
                    return i
                top[0] = at + (1 << size)
            old = start[v]
            for k in range(used):
                arena[at + k] = arena[old + k]
            if held >= 0:
                arena[old] = free[held]
                free[held] = old
            start[v] = at
            level[v] = size
        arena[start[v] + used] = rows[i]
        slot[rows[i]] = used
        vertex[rows[i]] = v + 1
        count[v] = used + 1
    return len(rows)


@njit(cache=True)
def _remove(rows, start, count, arena, vertex, slot):  # type: ignore[no-untyped-def]
    for i in range(len(rows)):
        row = rows[i]
        v = vertex[row] - 1
        last = arena[start[v] + count[v] - 1]
        arena[start[v] + slot[row]] = last
        slot[last] = slot[row]
        count[v] -= 1
        vertex[row] = 0


class Segments:
    """The rows of a node's vertices."""

    def __init__(self) -> None:
        self.start = np.zeros(64, dtype=np.int64)
        self.level = np.full(64, -1, dtype=np.int8)
        self.count = np.zeros(64, dtype=np.int64)
        self.arena = np.zeros(256, dtype=np.int32)
        self.free = np.full(_SIZES, -1, dtype=np.int64)
        self.top = np.zeros(1, dtype=np.int64)
        self.vertex = np.zeros(64, dtype=np.int32)
        self.slot = np.zeros(64, dtype=np.int32)

    def reserve(self, vertices: int, rows: int) -> None:
        """Room for so many vertices and row numbers."""
        self.start = grown(self.start, vertices)
        self.level = grown(self.level, vertices, -1)
        self.count = grown(self.count, vertices)
        self.vertex = grown(self.vertex, rows)
        self.slot = grown(self.slot, rows)

    def append(self, vids: Any, rows: Any) -> None:
        """Rows into the lists of their vertices."""
        done = 0
        while True:
            done = _append(
                vids, rows, done, self.start, self.level, self.count, self.arena,
                self.free, self.top, self.vertex, self.slot,
            )  # fmt: skip
            if done == len(rows):
                return
            needed = int(self.top[0]) + 4 * int(self.count[vids[done]]) + len(rows)
            self.arena = grown(self.arena, needed)

    def remove(self, rows: Any) -> None:
        """Rows out of the lists they are in."""
        _remove(rows, self.start, self.count, self.arena, self.vertex, self.slot)
